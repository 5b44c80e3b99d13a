//! Percentiles of delays, in little memory.

use byway_units::Duration;

/// Histogram of delays with eight buckets for each doubling. A percentile is accurate to 1/8, or to
/// 64 us if that is more. Delays above 16 s count as 16 s.
///
/// It takes 260 bytes, whatever the samples. When a bucket reaches 65,535, all counts are halved,
/// which preserves their proportions.
#[derive(Clone, Debug)]
pub struct DelayHistogram {
    counts: [u16; BUCKETS],
    max_micros: u32,
}

/// Resolution: shorter than the delays that a machine's timers and queues add.
const UNIT_MICROS: u32 = 64;

/// Buckets for each doubling: the step of 1/8 is less than the variation of delays from one second
/// to the next.
const BUCKETS_PER_OCTAVE: u32 = 1 << OCTAVE_BITS;
const OCTAVE_BITS: u32 = 3;

/// Number of buckets: up to 16.7 s, beyond every latency budget.
const BUCKETS: usize = 128;

impl Default for DelayHistogram {
    fn default() -> Self {
        Self { counts: [0; BUCKETS], max_micros: 0 }
    }
}

impl DelayHistogram {
    /// Adds a delay; above 16 s, it counts as 16 s.
    pub fn add(&mut self, delay: Duration) {
        let micros = u32::try_from(delay.as_micros()).unwrap_or(u32::MAX);
        self.max_micros = self.max_micros.max(micros);
        let bucket = bucket_of(micros / UNIT_MICROS);
        self.counts[bucket] += 1;
        if self.counts[bucket] == u16::MAX {
            // Rounded up, because rare delays would vanish otherwise.
            self.counts.iter_mut().for_each(|count| *count = count.div_ceil(2));
        }
    }

    /// Returns the `percent`th percentile of the added delays (0 to 100); zero if there are none.
    #[must_use]
    pub fn percentile(&self, percent: u8) -> Duration {
        let counts = self.counts.iter().map(|count| u64::from(*count));
        let rank = (counts.clone().sum::<u64>() * u64::from(percent)).div_ceil(100).max(1);
        let mut seen = 0;
        let bucket = counts.map(|count| {
            seen += count;
            seen
        });
        let bucket = bucket.take_while(|seen| *seen < rank).count();
        let end = u64::from(UNIT_MICROS) * end_of(bucket);
        Duration::from_micros(end.min(self.max_micros.into()))
    }

    /// Removes all delays from the histogram.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Returns the index of the bucket for a delay in units of 64 us.
fn bucket_of(units: u32) -> usize {
    let octave = units.max(1).ilog2();
    let bucket = match octave.checked_sub(OCTAVE_BITS) {
        None => units,
        Some(shift) => BUCKETS_PER_OCTAVE * shift + (units >> shift),
    };
    (bucket as usize).min(BUCKETS - 1)
}

/// Returns the upper bound of a bucket, exclusive, in units of 64 us.
fn end_of(bucket: usize) -> u64 {
    let per_octave = u64::from(BUCKETS_PER_OCTAVE);
    let next = bucket as u64 + 1;
    if next < 2 * per_octave {
        return next;
    }
    let shift = next / per_octave - 1;
    (per_octave + next % per_octave) << shift
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn histogram(micros: &[u64]) -> DelayHistogram {
        let mut histogram = DelayHistogram::default();
        for micros in micros {
            histogram.add(Duration::from_micros(*micros));
        }
        histogram
    }

    /// The percentile by sorting.
    fn sorted(micros: &[u64], percent: u8) -> u64 {
        let mut micros = Vec::from(micros);
        micros.sort_unstable();
        micros[(micros.len() * usize::from(percent)).div_ceil(100).max(1) - 1]
    }

    #[test]
    fn buckets_follow_one_another_and_each_delay_is_below_the_end_of_its_own() {
        let mut last = 0;
        for units in 0..300_000_u32 {
            let bucket = bucket_of(units);
            assert!(bucket == last || bucket == last + 1, "{units}");
            last = bucket;
            if bucket < BUCKETS - 1 {
                assert!(u64::from(units) < end_of(bucket), "{units}");
                assert!(bucket == 0 || u64::from(units) >= end_of(bucket - 1), "{units}");
            }
        }
        assert_eq!(last, BUCKETS - 1);
    }

    #[test]
    fn without_delays_all_percentiles_are_zero() {
        assert_eq!(DelayHistogram::default().percentile(99), Duration::ZERO);
        assert_eq!(histogram(&[0; 5]).percentile(99), Duration::ZERO);
    }

    #[test]
    fn what_it_takes_is_what_it_says() {
        assert_eq!(size_of::<DelayHistogram>(), 260);
    }

    #[test]
    fn a_million_delays_have_the_percentiles_of_a_hundred() {
        let mut histogram = DelayHistogram::default();
        for nth in 0..1_000_000_u64 {
            histogram.add(Duration::from_millis(if nth % 100 < 97 { 10 } else { 80 }));
        }
        let reported = [50, 95, 99].map(|percent| histogram.percentile(percent).as_millis());
        assert!(reported[0] <= 11 && reported[1] <= 11 && reported[2] == 80, "{reported:?}");
    }

    #[test]
    fn what_was_counted_is_forgotten() {
        let mut histogram = histogram(&[5_000; 10]);
        histogram.clear();
        histogram.add(Duration::from_micros(100));
        assert_eq!(histogram.percentile(99), Duration::from_micros(100));
    }

    proptest! {
        #[test]
        fn percentiles_are_those_of_the_sorted_delays_but_for_an_eighth(
            micros in proptest::collection::vec(
                prop_oneof![0..2_000_u64, 0..100_000_u64, 0..16_000_000_u64], 1..300,
            ),
            percent in 1_u8..=100,
        ) {
            let reported = histogram(&micros).percentile(percent).as_micros();
            let exact = sorted(&micros, percent);
            prop_assert!(reported >= exact, "{} < {}", reported, exact);
            prop_assert!(reported <= exact + exact / 8 + u64::from(UNIT_MICROS), "{} > {}", reported, exact);
        }
    }
}
