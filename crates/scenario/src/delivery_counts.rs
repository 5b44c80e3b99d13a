//! Counts of packets by their outcome, and histograms of times.

use byway_units::Duration;
use serde::Serialize;

/// Median and high percentiles of a distribution, each a value that occurred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Quantiles {
    /// Median value.
    pub p50: f64,
    /// 95th percentile of the values.
    pub p95: f64,
    /// 99th percentile of the values.
    pub p99: f64,
}

/// Numbers of packets lost on the direct path and delivered in time, by kind of repair.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RepairCounts {
    /// Packets restored from repair packets of their own flow.
    pub in_stream: u64,
    /// Packets restored with packets that receivers of other flows returned.
    pub cooperative: u64,
    /// Packets sent again from a relay's cache.
    pub cache: u64,
    /// Packets that relays forwarded without a request.
    pub forward: u64,
    /// Packets that their senders sent again, after a request or a silence.
    pub resent: u64,
}

/// Counts of the outcomes of all packets of the flows of one name.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeliveryCounts {
    pub(crate) sent: u64,
    pub(crate) lost: u64,
    pub(crate) repaired: u64,
    pub(crate) repaired_within_rtt: u64,
    pub(crate) late: u64,
    pub(crate) missing: u64,
    pub(crate) in_flight: u64,
    pub(crate) delivered: u64,
    pub(crate) duplicates: u64,
    pub(crate) by: RepairCounts,
    pub(crate) repair_times: TimeHistogram,
    pub(crate) delays: TimeHistogram,
}

impl DeliveryCounts {
    /// Returns the memory of the histograms, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.repair_times.memory_bytes() + self.delays.memory_bytes()
    }
}

/// Histogram of times in steps of 10 us up to 10 s.
#[derive(Clone, Debug, Default)]
pub(crate) struct TimeHistogram {
    counts: Vec<u32>,
    total: u64,
}

/// Length of a histogram step, in nanoseconds.
const STEP_NANOS: u64 = 10_000;

/// Most steps of a histogram; longer times count in the last one.
const STEPS_MAX: usize = 1_000_000;

impl TimeHistogram {
    pub(crate) fn push(&mut self, time: Duration) {
        let step = usize::try_from(time.as_nanos().div_ceil(STEP_NANOS)).unwrap_or(STEPS_MAX).min(STEPS_MAX);
        if self.counts.len() <= step {
            self.counts.resize(step + 1, 0);
        }
        self.counts[step] = self.counts[step].saturating_add(1);
        self.total += 1;
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.counts.len() * size_of::<u32>()
    }

    /// Returns a percentile of the times, in milliseconds and rounded up to a step; `None` without
    /// times.
    fn percentile(&self, percent: u64) -> Option<f64> {
        let rank = (self.total * percent).div_ceil(100).max(1);
        let mut below = 0;
        for (step, count) in (0_u32..).zip(&self.counts) {
            below += u64::from(*count);
            if below >= rank {
                return Some(f64::from(step) / 100.0);
            }
        }
        None
    }

    pub(crate) fn quantiles(&self) -> Option<Quantiles> {
        Some(Quantiles { p50: self.percentile(50)?, p95: self.percentile(95)?, p99: self.percentile(99)? })
    }
}

/// Returns a number of packets for computations.
#[allow(clippy::cast_precision_loss, reason = "packets of a day are far below 2^53")]
pub(crate) const fn number(count: u64) -> f64 {
    count as f64
}

/// Returns the share of a part in a whole, unless the whole is zero.
pub(crate) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| number(part) / number(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rounded_up_to_a_step() {
        let mut times = TimeHistogram::default();
        assert_eq!(times.quantiles(), None);
        times.push(Duration::from_micros(15));
        times.push(Duration::from_secs(60));
        assert!(times.memory_bytes() >= 4_000_000, "a table of all steps: {}", times.memory_bytes());
        assert_eq!(times.quantiles(), Some(Quantiles { p50: 0.02, p95: 10_000.0, p99: 10_000.0 }));
    }
}
