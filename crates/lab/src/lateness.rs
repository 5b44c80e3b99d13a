//! How late an emulator was: a machine that is too busy falsifies every delay, and has to be found out.

use byway_units::Duration;
use serde::{Deserialize, Serialize};

/// Upper ends of the histogram, in microseconds: powers of two up to half a second.
const EDGES: usize = 20;

/// Above this, repair times are blurred by more than a tenth of the least access round trip, and a reader is told.
pub const WARNING_P99_US: u64 = 1_000;

/// Above this, the emulator adds more than the jitter of the links does, and the run counts for nothing.
pub const VOID_P99_US: u64 = 5_000;

/// How late packets left the emulator.
#[derive(Clone, Debug, Default)]
pub struct Lateness {
    counts: [u64; EDGES],
    max_us: u64,
}

impl Lateness {
    /// Counts a packet that was this late.
    pub fn note(&mut self, late: Duration) {
        let micros = late.as_micros();
        let edge = (u64::BITS - micros.leading_zeros()) as usize;
        self.counts[edge.min(EDGES - 1)] += 1;
        self.max_us = self.max_us.max(micros);
    }

    /// What was counted.
    #[must_use]
    pub fn summary(&self) -> LatenessSummary {
        let quantile = |share| self.quantile(share);
        LatenessSummary {
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            p999_us: quantile(0.999),
            max_us: self.max_us,
            packets: self.counts.iter().sum(),
            counts_below_power_of_two_us: self.counts.to_vec(),
        }
    }

    /// The upper end of the bucket in which this share of the packets is reached.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a share of a count of packets, rounded up"
    )]
    fn quantile(&self, share: f64) -> u64 {
        let total: u64 = self.counts.iter().sum();
        let rank = (total as f64 * share).ceil() as u64;
        let mut seen = 0;
        for (edge, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return (1 << edge).min(self.max_us);
            }
        }
        self.max_us
    }
}

/// How late packets left the emulator, in microseconds: quantiles are upper bounds, to a factor of two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatenessSummary {
    /// What half of them did not exceed.
    pub p50_us: u64,
    /// What 99 of 100 did not exceed.
    pub p99_us: u64,
    /// What 999 of 1,000 did not exceed.
    pub p999_us: u64,
    /// The worst.
    pub max_us: u64,
    /// How many there were.
    pub packets: u64,
    /// The n-th counts the packets that were less than 2^n microseconds late and not less than half of that.
    pub counts_below_power_of_two_us: Vec<u64>,
}

impl LatenessSummary {
    /// Whether the run counts for nothing.
    #[must_use]
    pub const fn is_void(&self) -> bool {
        self.p99_us > VOID_P99_US
    }

    /// Whether a reader is told.
    #[must_use]
    pub const fn is_worth_a_warning(&self) -> bool {
        self.p99_us > WARNING_P99_US
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_upper_bounds_to_a_factor_of_two() {
        let mut lateness = Lateness::default();
        assert_eq!(lateness.summary().p99_us, 0);
        for micros in 1..=1_000 {
            lateness.note(Duration::from_micros(micros));
        }
        let summary = lateness.summary();
        assert_eq!((summary.p50_us, summary.p99_us, summary.max_us), (512, 1_000, 1_000));
        assert!(!summary.is_worth_a_warning());
    }

    #[test]
    fn a_busy_machine_is_found_out() {
        let mut lateness = Lateness::default();
        (0..980).for_each(|_| lateness.note(Duration::from_micros(10)));
        (0..20).for_each(|_| lateness.note(Duration::from_millis(3)));
        assert!(lateness.summary().is_worth_a_warning() && !lateness.summary().is_void());
        (0..20).for_each(|_| lateness.note(Duration::MAX));
        assert!(lateness.summary().is_void());
    }
}
