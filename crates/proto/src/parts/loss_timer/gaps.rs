//! Distribution of a flow's silences between packets.

use byway_units::Duration;

/// Histogram of a flow's recent silences by length, in steps of 14 to 25 %, from 1 ms to 4 s.
///
/// Counts are halved from time to time, so about the last two hundred silences decide.
#[derive(Clone, Debug)]
pub(super) struct Gaps {
    counts: [u16; BUCKETS],
    total: u16,
}

/// Number of buckets: four for each doubling from 2^10 to 2^22 microseconds, one below, one above.
const BUCKETS: usize = 4 * 12 + 2;

/// End of the first bucket: shorter silences do not affect any timeout.
const FIRST_MICROS: u64 = 1 << 10;

/// Total at which counts are halved: twice the inverse of the rarest frequency that matters.
const TOTAL_MAX: u16 = 256;

/// One outlier in this number of silences is ignored: applications pause, and machines are busy.
const OUTLIER_OF: u16 = 64;

/// Largest number of outliers, because frames would count as outliers otherwise.
const OUTLIERS_MAX: u16 = 3;

impl Gaps {
    pub(super) const fn new() -> Self {
        Self { counts: [0; BUCKETS], total: 0 }
    }

    pub(super) fn add(&mut self, gap: Duration) {
        self.counts[bucket(gap)] += 1;
        self.total += 1;
        if self.total >= TOTAL_MAX {
            self.halve();
        }
    }

    /// Returns the part of a silence above the begin of its step.
    pub(super) fn above_step(gap: Duration) -> Duration {
        gap.saturating_sub(begin(bucket(gap)))
    }

    /// Returns the number of silences in the histogram, after halvings.
    pub(super) const fn total(&self) -> u16 {
        self.total
    }

    /// Removes silences that are longer than this by at least a bucket.
    pub(super) fn forget_above(&mut self, gap: Duration) {
        self.counts[bucket(gap) + 1..].fill(0);
        self.total = self.counts.iter().sum();
    }

    fn halve(&mut self) {
        for count in &mut self.counts {
            *count /= 2;
        }
        self.total = self.counts.iter().sum();
    }

    /// Returns a length that three in four silences reach; zero before the first silence.
    pub(super) fn at_least_in_three_of_four(&self) -> Duration {
        let mut shorter = u32::from(self.total) / 4;
        for (bucket, count) in self.counts.iter().enumerate() {
            match shorter.checked_sub(u32::from(*count)) {
                Some(rest) => shorter = rest,
                None => return begin(bucket),
            }
        }
        Duration::ZERO
    }

    /// Returns a length that no more than one in `part` of the silences exceed; `None` before the
    /// first silence.
    ///
    /// If more silences exceed `bound`, returns a length that hardly more silences exceed than
    /// `bound`: a longer timeout would not help.
    pub(super) fn exceeded_by_one_in(&self, part: u32, bound: Duration) -> Option<Duration> {
        let outliers = u32::from((self.total / OUTLIER_OF).min(OUTLIERS_MAX));
        let beyond: u32 = self.counts[bucket(bound) + 1..].iter().copied().map(u32::from).sum();
        let mut may_exceed = (u32::from(self.total) / part).max(outliers).max(beyond + beyond / 4);
        for (bucket, count) in self.counts.iter().enumerate().rev() {
            match may_exceed.checked_sub(u32::from(*count)) {
                Some(rest) => may_exceed = rest,
                None => return Some(end(bucket)),
            }
        }
        None
    }
}

/// Returns the lower bound of a bucket.
fn begin(bucket: usize) -> Duration {
    bucket.checked_sub(1).map_or(Duration::ZERO, end)
}

/// Returns the bucket of a silence: its doublings, and the two bits after the leading one.
fn bucket(gap: Duration) -> usize {
    let micros = gap.as_micros();
    if micros < FIRST_MICROS {
        return 0;
    }
    let doublings = micros.ilog2() - FIRST_MICROS.ilog2();
    let quarter = (micros >> (micros.ilog2() - 2)) & 0b11;
    (1 + 4 * doublings as usize + usize::try_from(quarter).unwrap_or(0)).min(BUCKETS - 1)
}

/// Returns the upper bound of a bucket. The last one, for all longer silences, gets the bound of
/// its index.
fn end(bucket: usize) -> Duration {
    let Some(index) = bucket.checked_sub(1) else {
        return Duration::from_micros(FIRST_MICROS);
    };
    let (doublings, quarter) = (index / 4, index as u64 % 4);
    Duration::from_micros((FIRST_MICROS << doublings) / 4 * (5 + quarter))
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    const NO_BOUND: Duration = Duration::from_secs(100);

    fn gaps(lengths: impl IntoIterator<Item = u64>) -> Gaps {
        let mut gaps = Gaps::new();
        lengths.into_iter().for_each(|micros| gaps.add(Duration::from_micros(micros)));
        gaps
    }

    #[test]
    fn nothing_is_known_before_the_first_silence() {
        assert_eq!(Gaps::new().exceeded_by_one_in(10, NO_BOUND), None);
    }

    #[test]
    fn three_in_four_silences_reach_the_lower_bound_of_their_bucket() {
        assert_eq!(Gaps::new().at_least_in_three_of_four(), Duration::ZERO);
        let paced = gaps([20_000; 40]).at_least_in_three_of_four().as_micros();
        assert!((16_000..=20_000).contains(&paced), "{paced}");
        // Frames of two packets: either may be lost.
        let frames = gaps([0, 40_000].into_iter().cycle().take(40));
        assert_eq!(frames.at_least_in_three_of_four(), Duration::ZERO);
        let mostly = gaps([20_000; 40].into_iter().chain([500; 10])).at_least_in_three_of_four();
        assert_eq!(mostly.as_micros(), paced);
    }

    #[test]
    fn longer_silences_are_forgotten_when_asked_to() {
        let mut gaps = gaps([7_000; 40].into_iter().chain([100_000; 20]));
        gaps.forget_above(Duration::from_millis(7));
        assert_eq!(gaps.total(), 40);
        assert!(gaps.exceeded_by_one_in(128, NO_BOUND) < Some(Duration::from_millis(10)));
    }

    #[test]
    fn silences_of_a_bucket_lie_between_its_end_and_that_before() {
        for micros in (0..100_000).chain((1..40).map(|step| step * 100_000)) {
            let bucket = bucket(Duration::from_micros(micros));
            assert!(micros < end(bucket).as_micros(), "{micros}");
            assert!(bucket == 0 || micros >= end(bucket - 1).as_micros(), "{micros}");
        }
        assert_eq!(bucket(Duration::MAX), BUCKETS - 1);
    }

    #[test]
    fn buckets_grow_by_a_quarter_at_most() {
        for bucket in 1..BUCKETS {
            let (end, before) = (end(bucket).as_micros(), end(bucket - 1).as_micros());
            assert!(8 * end >= 9 * before && 4 * end <= 5 * before);
        }
    }

    #[test]
    fn one_silence_in_64_that_stands_out_is_not_learned_from() {
        let regular = gaps([10_000; 63]).exceeded_by_one_in(512, NO_BOUND);
        let with_pause = |count| gaps([10_000; 63].into_iter().chain(std::vec![900_000; count]));
        assert_eq!(with_pause(1).exceeded_by_one_in(512, NO_BOUND), regular);
        assert_ne!(with_pause(2).exceeded_by_one_in(512, NO_BOUND), regular);
    }

    #[test]
    fn what_was_learned_long_ago_is_forgotten() {
        let mut gaps = gaps([100_000; 1_000]);
        (0..8_000).for_each(|_| gaps.add(Duration::from_millis(10)));
        assert!(gaps.exceeded_by_one_in(512, NO_BOUND) < Some(Duration::from_millis(13)));
    }

    #[test]
    fn where_waiting_does_not_help_the_wait_is_short() {
        // Windows 100 ms apart, then pauses of a second.
        let gaps = gaps((0..1_000).map(|number| match number % 36 {
            0 => 1_000_000,
            1 | 2 => 100_000,
            _ => 200,
        }));
        let wait = gaps.exceeded_by_one_in(512, Duration::from_millis(200));
        assert!(wait > Some(Duration::from_millis(100)) && wait < Some(Duration::from_millis(125)));
        assert!(gaps.exceeded_by_one_in(512, NO_BOUND) > Some(Duration::from_secs(1)));
    }

    proptest! {
        #[test]
        fn no_more_silences_exceed_the_answer_than_may(
            lengths in proptest::collection::vec(0_u64..6_000_000, 1..usize::from(TOTAL_MAX)),
            part in 2_u32..600,
        ) {
            let answer = gaps(lengths.iter().copied()).exceeded_by_one_in(part, NO_BOUND);
            let mut sorted: Vec<_> = lengths.clone();
            sorted.sort_unstable();
            let outliers = (lengths.len() / usize::from(OUTLIER_OF)).min(usize::from(OUTLIERS_MAX));
            let may_exceed = (lengths.len() / part as usize).max(outliers);
            let exact = sorted.get(sorted.len() - 1 - may_exceed.min(sorted.len() - 1));
            if let Some(exact) = exact.filter(|_| may_exceed < lengths.len()) {
                // End of the bucket with the exact answer.
                prop_assert_eq!(answer, Some(end(bucket(Duration::from_micros(*exact)))));
            }
        }
    }
}
