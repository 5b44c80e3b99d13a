//! Lateness of an emulator: a machine that is too busy falsifies every delay and must be detected.

use byway_units::Duration;
use serde::{Deserialize, Serialize};

/// Number of buckets of the histogram. Their upper bounds in microseconds are powers of two, up to
/// half a second.
const EDGES: usize = 20;

/// Largest 99th percentile of lateness without a warning, in microseconds. Above it, the error of
/// repair times exceeds a tenth of the least round trip of an access link.
pub const WARNING_P99_US: u64 = 1_000;

/// Largest 99th percentile of lateness in a valid run, in microseconds. Above it, the emulator adds
/// more delay than the links' jitter.
pub const VOID_P99_US: u64 = 5_000;

/// Histogram of the lateness of packets at the emulator's exit.
#[derive(Clone, Debug, Default)]
pub struct TimerLateness {
    counts: [u64; EDGES],
    max_us: u64,
}

impl TimerLateness {
    /// Counts a packet that was delivered this late.
    pub fn note(&mut self, late: Duration) {
        let micros = late.as_micros();
        let edge = (u64::BITS - micros.leading_zeros()) as usize;
        self.counts[edge.min(EDGES - 1)] += 1;
        self.max_us = self.max_us.max(micros);
    }

    /// Returns the quantiles and the histogram of the packets counted so far.
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

    /// Returns the upper bound in microseconds of the bucket with this quantile.
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

/// Lateness of packets at the emulator's exit, in microseconds. Quantiles are upper bounds, to a
/// factor of two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatenessSummary {
    /// Median in microseconds.
    pub p50_us: u64,
    /// 99th percentile in microseconds.
    pub p99_us: u64,
    /// 99.9th percentile in microseconds.
    pub p999_us: u64,
    /// Greatest lateness in microseconds.
    pub max_us: u64,
    /// Number of packets counted.
    pub packets: u64,
    /// Histogram: entry n counts packets with a lateness below 2^n microseconds, and of at least
    /// half of that.
    pub counts_below_power_of_two_us: Vec<u64>,
}

impl LatenessSummary {
    /// True if the emulator was so late that the run does not count.
    #[must_use]
    pub const fn is_void(&self) -> bool {
        self.p99_us > VOID_P99_US
    }

    /// True if the emulator was so late that reports must warn their readers.
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
        let mut lateness = TimerLateness::default();
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
        let mut lateness = TimerLateness::default();
        (0..980).for_each(|_| lateness.note(Duration::from_micros(10)));
        (0..20).for_each(|_| lateness.note(Duration::from_millis(3)));
        assert!(lateness.summary().is_worth_a_warning() && !lateness.summary().is_void());
        (0..20).for_each(|_| lateness.note(Duration::MAX));
        assert!(lateness.summary().is_void());
    }
}
