//! Losses of the direct path that relays cover, by the packets that arrive on both paths.
//!
//! These are all packets of a flow, or samples of the direct path while relays alone forward it.

use byway_wire::SequenceNumber;

use crate::policy::samples_direct_path;

const WORDS: usize = 4;

/// Latest packets of which the direct path's copy is awaited: 256 ms at 1,000 packets a second.
const AWAITED_MAX: u64 = WORDS as u64 * 64;

/// Packets by which the direct path's copy may be overtaken by later ones before it counts as lost.
/// These are four samples while relays alone forward the flow, because fewer may be reordered. With
/// both paths, a loss thus counts 1.3 s later at 50 packets a second.
const OVERTAKEN_MAX: u64 = 64;

/// Numbers by which a packet may be behind the first one whose copy may still arrive. What seems
/// further behind is ahead of it.
const BEHIND_MAX: u32 = 0xFFFF;

/// Packets that relays delivered first, and whose copy on the direct path is awaited.
///
/// A copy counts as lost once later packets have arrived on the direct path. Copies that are
/// further behind than [`AWAITED_MAX`] count neither way, unless nothing at all arrives on the
/// direct path. Of an outage, the first losses are thus not counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct AwaitedCopies {
    /// One bit for each number from `settled` on, at that number modulo [`AWAITED_MAX`].
    awaited: [u64; WORDS],
    /// Low 32 bits of the first number whose copy may still arrive.
    settled: u32,
    /// Numbers before `settled` whose copies count, and one more; saturates. Zero until the sender
    /// uses both paths.
    counted: u16,
    /// Numbers that `settled` has passed since the latest arrival on the direct path; saturates.
    silent: u16,
}

impl Default for AwaitedCopies {
    /// Returns the state of a flow whose sender uses both paths.
    fn default() -> Self {
        Self { awaited: [0; WORDS], settled: 0, counted: u16::MAX, silent: 0 }
    }
}

impl AwaitedCopies {
    /// Returns the state of a flow whose sender does not use both paths yet. The first packet on
    /// the direct path that is no sample of it shows that the sender does.
    pub(super) fn suspended() -> Self {
        Self { counted: 0, ..Self::default() }
    }

    /// Records a packet that relays delivered first. Returns the number of copies that count as
    /// lost now.
    pub(super) fn on_forwarded(&mut self, number: u64) -> u64 {
        if self.counted == 0 {
            return 0;
        }
        if let Err(behind) = self.ahead(number) {
            return u64::from(behind < u32::from(self.counted));
        }
        let before = self.settled;
        let evicted = self.settle(number.saturating_sub(AWAITED_MAX - 1));
        let passed = self.settled.wrapping_sub(before);
        // Further ahead is no progress without the direct path, but a gap on both paths.
        if u64::from(passed) <= AWAITED_MAX {
            self.silent = self.silent.saturating_add(saturated(passed));
        }
        let (word, bit) = position(number);
        self.awaited[word] |= bit;
        if u64::from(self.silent) >= AWAITED_MAX { evicted } else { 0 }
    }

    /// Records the arrival of a packet on the direct path, first or second. Returns the number of
    /// earlier copies that count as lost now.
    pub(super) fn on_direct(&mut self, number: u64) -> u64 {
        if self.counted == 0 {
            if samples_direct_path(SequenceNumber::new(number)) {
                return 0;
            }
            (self.settled, self.counted) = (low(number), 1);
        }
        self.silent = 0;
        if self.is_in_reach(number) {
            let (word, bit) = position(number);
            self.awaited[word] &= !bit;
        }
        self.settle(number.saturating_sub(OVERTAKEN_MAX))
    }

    /// Returns true if the copy of this packet is awaited, or would show that the sender uses both
    /// paths.
    pub(super) fn awaits(&self, number: u64) -> bool {
        let (word, bit) = position(number);
        self.counted == 0 || (self.is_in_reach(number) && self.awaited[word] & bit != 0)
    }

    /// Returns true if this number has a bit in `awaited`.
    fn is_in_reach(&self, number: u64) -> bool {
        self.ahead(number).is_ok_and(|ahead| u64::from(ahead) < AWAITED_MAX)
    }

    /// Returns by how much a number is ahead of `settled`, or, as an error, behind it.
    const fn ahead(&self, number: u64) -> Result<u32, u32> {
        let low = low(number);
        match self.settled.wrapping_sub(low) {
            behind @ 1..=BEHIND_MAX => Err(behind),
            _ => Ok(low.wrapping_sub(self.settled)),
        }
    }

    /// Awaits no copies below `from` any more; returns how many were awaited.
    fn settle(&mut self, from: u64) -> u64 {
        let Ok(passed) = self.ahead(from) else {
            return 0;
        };
        let (first, mut lost) = (u64::from(self.settled), 0);
        for number in first..first + u64::from(passed).min(AWAITED_MAX) {
            let (word, bit) = position(number);
            lost += u64::from(self.awaited[word] & bit != 0);
            self.awaited[word] &= !bit;
        }
        self.settled = low(from);
        self.counted = self.counted.saturating_add(saturated(passed));
        lost
    }
}

fn saturated(count: u32) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}

#[allow(clippy::cast_possible_truncation, reason = "the low 32 bits tell near numbers apart")]
const fn low(number: u64) -> u32 {
    number as u32
}

#[allow(clippy::cast_possible_truncation, reason = "it is below the number of words")]
const fn position(number: u64) -> (usize, u64) {
    ((number % AWAITED_MAX / 64) as usize, 1 << (number % 64))
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec::Vec;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Arrivals of packets from `first` on, when relays are `ahead` packets faster than the direct
    /// path, which loses `lost`. Returns the number of losses that were counted.
    fn count(first: u64, end: u64, ahead: u64, lost: &[u64]) -> u64 {
        let mut copies = AwaitedCopies::default();
        let mut counted = 0;
        for number in first..end {
            counted += copies.on_forwarded(number);
            if let Some(direct) = number.checked_sub(ahead).filter(|direct| *direct >= first)
                && !lost.contains(&direct)
            {
                counted += copies.on_direct(direct);
            }
        }
        counted
    }

    #[test]
    fn copies_that_arrive_later_are_no_losses() {
        for ahead in [0, 1, 10, 200, 300] {
            assert_eq!(count(0, 2_000, ahead, &[]), 0, "{ahead}");
            assert_eq!(count(1 << 40, (1 << 40) + 2_000, ahead, &[]), 0, "{ahead}");
        }
    }

    #[test]
    fn losses_are_counted_once() {
        assert_eq!(count(0, 2_000, 10, &[100, 101, 500]), 3);
        let outage: Vec<_> = (300..1_300).collect();
        let counted = count(0, 2_000, 10, &outage);
        assert!((700..1_000).contains(&counted), "{counted}");
    }

    #[test]
    fn losses_of_a_dead_direct_path_count_after_the_first_255_packets() {
        let dead: Vec<_> = (0..4_000).collect();
        // The latest 256 are still awaited.
        assert_eq!(count(0, 4_000, 10, &dead), 4_000 - 255 - 256);
    }

    #[test]
    fn numbers_may_have_more_than_32_bits_and_begin_anywhere() {
        for first in [1 << 31, (1 << 32) - 66_000, (1 << 40) + (3 << 30)] {
            assert_eq!(count(first, first + 70_000, 10, &[first + 500, first + 66_500]), 2, "{first}");
        }
    }

    #[test]
    fn after_relays_alone_the_first_packet_that_is_no_sample_begins_the_count() {
        let mut copies = AwaitedCopies::suspended();
        let mut counted = 0;
        for number in 100..400 {
            counted += copies.on_forwarded(number);
            // Until number 200, only samples use the direct path. Relays are ten packets ahead.
            let direct = number - 10;
            assert!(direct > 200 || copies.awaits(direct), "it may be the first one");
            if (samples_direct_path(SequenceNumber::new(direct)) || direct >= 200) && direct != 250 {
                counted += copies.on_direct(direct);
            }
        }
        assert_eq!(counted, 1, "number 250");
    }

    #[test]
    fn a_packet_that_relays_deliver_long_after_later_ones_is_lost() {
        let mut copies = AwaitedCopies::default();
        assert_eq!(copies.on_direct(100), 0);
        assert_eq!((copies.on_forwarded(99), copies.on_forwarded(30)), (0, 1));
        assert_eq!(copies.on_direct(99 + OVERTAKEN_MAX + 1), 1);
    }

    #[test]
    fn a_copy_that_numbers_up_to_64_higher_overtake_is_no_loss() {
        for (higher, lost) in [(64, 0), (65, 1)] {
            let mut copies = AwaitedCopies::default();
            assert_eq!((copies.on_forwarded(10), copies.on_direct(10 + higher)), (0, lost), "{higher}");
            assert_eq!(copies.awaits(10), lost == 0, "{higher}");
        }
        let mut copies = AwaitedCopies::default();
        let overtaken = [copies.on_forwarded(10), copies.on_direct(74), copies.on_direct(10)];
        assert_eq!((overtaken, copies.on_direct(75)), ([0; 3], 0), "it arrived in time");
    }

    #[test]
    fn four_later_samples_may_overtake_one_and_the_fifth_shows_that_it_is_lost() {
        let mut copies = AwaitedCopies::default();
        assert_eq!(copies.on_forwarded(16), 0);
        assert_eq!([32, 48, 64, 80, 96].map(|sample| copies.on_direct(sample)), [0, 0, 0, 0, 1]);
    }

    #[test]
    fn packets_before_the_first_one_that_shows_both_paths_are_no_losses() {
        let mut copies = AwaitedCopies::suspended();
        // The first number to count is 200.
        assert_eq!([200, 300].map(|number| copies.on_direct(number)), [0, 0]);
        assert_eq!([198, 199, 201].map(|number| copies.on_forwarded(number)), [0, 0, 1]);
    }

    #[test]
    fn a_number_far_behind_counts_up_to_65_534_and_is_ahead_from_65_536_on() {
        for (behind, lost, is_ahead) in [(65_534, 1, false), (65_535, 0, false), (65_536, 0, true)] {
            let mut copies = AwaitedCopies::default();
            assert_eq!(copies.on_direct(200_064), 0);
            let number = 200_000 - behind;
            assert_eq!(copies.on_forwarded(number), lost, "{behind}");
            assert_eq!(copies.awaits(number), is_ahead, "{behind}");
        }
    }

    #[test]
    fn a_gap_on_both_paths_is_no_loss() {
        let mut copies = AwaitedCopies::default();
        assert_eq!((0..10).map(|number| copies.on_forwarded(number)).sum::<u64>(), 0);
        assert_eq!(copies.on_forwarded(10_000), 0);
    }

    #[test]
    fn leaps_of_the_numbers_cost_little_and_count_the_awaited_copies_only() {
        let mut copies = AwaitedCopies::default();
        let leap = |number: u64| copies.on_forwarded(number << 30) + copies.on_direct((number << 30) + 1_000);
        assert_eq!((1..=200).map(leap).sum::<u64>(), 200);
    }

    proptest! {
        /// A set of numbers is the oracle, for arrivals in any order.
        #[test]
        fn it_counts_as_a_set_would(arrivals in vec((any::<bool>(), 0_u64..2_000), 0..500)) {
            let mut copies = AwaitedCopies::default();
            let (mut awaited, mut settled, mut silent) = (BTreeSet::new(), 0, 0);
            for (is_direct, number) in arrivals {
                let (counted, from) = if is_direct {
                    silent = 0;
                    awaited.remove(&number);
                    (copies.on_direct(number), number.saturating_sub(OVERTAKEN_MAX))
                } else {
                    let is_settled = number < settled;
                    if !is_settled {
                        awaited.insert(number);
                    }
                    let counted = copies.on_forwarded(number);
                    prop_assert!(!is_settled || counted == 1);
                    let from = if is_settled { 0 } else { number.saturating_sub(AWAITED_MAX - 1) };
                    let passed = from.saturating_sub(settled);
                    silent += if passed <= AWAITED_MAX { passed } else { 0 };
                    // Copies that are too far behind count only if the direct path is silent.
                    if silent < AWAITED_MAX {
                        awaited = awaited.split_off(&settled.max(from));
                    }
                    (counted - u64::from(is_settled), from)
                };
                settled = settled.max(from);
                prop_assert!(awaited.iter().all(|number| copies.awaits(*number) || *number < settled));
                let kept = awaited.split_off(&settled);
                prop_assert_eq!(counted, awaited.len() as u64);
                awaited = kept;
            }
        }
    }
}
