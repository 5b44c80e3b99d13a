//! Losses of the direct path that relays cover, by the packets that arrive on both paths: all of a
//! flow's packets, or the samples of the direct path while relays alone forward it.

use byway_wire::SequenceNumber;

use crate::policy::samples_direct_path;

const WORDS: usize = 4;

/// Latest packets of which the direct path's copy is awaited: 256 ms at 1,000 packets a second.
const AWAITED_MAX: u64 = WORDS as u64 * 64;

/// Packets by which the direct path's copy may be overtaken by later ones before it counts as lost.
const OVERTAKEN_MAX: u64 = 16;

/// Packets that relays delivered first, and whose copy on the direct path is awaited.
///
/// A copy counts as lost once later packets have arrived on the direct path. Of an outage, the
/// latest [`AWAITED_MAX`] losses are counted when it ends. Copies that are further behind than that
/// count neither way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AwaitedCopies {
    /// One bit for each number from `settled` on, at that number modulo [`AWAITED_MAX`].
    awaited: [u64; WORDS],
    /// First number whose copy may still arrive.
    settled: u64,
    /// First number of which a copy is awaited; [`u64::MAX`] until the sender uses both paths.
    first: u64,
}

impl AwaitedCopies {
    /// Returns the state of a flow whose sender does not use both paths yet. The first packet on
    /// the direct path that is no sample of it shows that the sender does.
    pub(super) fn suspended() -> Self {
        Self { first: u64::MAX, ..Self::default() }
    }

    /// Records a packet that relays delivered first. Returns the number of copies that count as
    /// lost now.
    pub(super) fn on_forwarded(&mut self, number: u64) -> u64 {
        if number < self.first {
            return 0;
        }
        if number < self.settled {
            return 1;
        }
        self.settle(number.saturating_sub(AWAITED_MAX - 1));
        let (word, bit) = position(number);
        self.awaited[word] |= bit;
        0
    }

    /// Records the arrival of a packet on the direct path, first or second. Returns the number of
    /// earlier copies that count as lost now.
    pub(super) fn on_direct(&mut self, number: u64) -> u64 {
        if self.first == u64::MAX && !samples_direct_path(SequenceNumber::new(number)) {
            (self.first, self.settled) = (number, number);
        }
        if number < self.first {
            return 0;
        }
        if number >= self.settled && number - self.settled < AWAITED_MAX {
            let (word, bit) = position(number);
            self.awaited[word] &= !bit;
        }
        self.settle(number.saturating_sub(OVERTAKEN_MAX))
    }

    /// Returns true if the copy of this packet is awaited, or would show that the sender uses both
    /// paths.
    pub(super) const fn awaits(&self, number: u64) -> bool {
        if self.first == u64::MAX {
            return true;
        }
        let (word, bit) = position(number);
        number >= self.settled && number - self.settled < AWAITED_MAX && self.awaited[word] & bit != 0
    }

    /// Awaits no copies below `from` any more; returns how many were awaited.
    fn settle(&mut self, from: u64) -> u64 {
        let mut lost = 0;
        for number in self.settled..from.min(self.settled.saturating_add(AWAITED_MAX)) {
            let (word, bit) = position(number);
            lost += u64::from(self.awaited[word] & bit != 0);
            self.awaited[word] &= !bit;
        }
        self.settled = self.settled.max(from);
        lost
    }
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
        assert!((200..=AWAITED_MAX).contains(&counted), "{counted}");
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
        assert_eq!((copies.on_forwarded(99), copies.on_forwarded(50)), (0, 1));
        assert_eq!(copies.on_direct(99 + OVERTAKEN_MAX + 1), 1);
    }

    proptest! {
        /// A set of numbers is the oracle, for arrivals in any order.
        #[test]
        fn it_counts_as_a_set_would(arrivals in vec((any::<bool>(), 0_u64..2_000), 0..500)) {
            let mut copies = AwaitedCopies::default();
            let (mut awaited, mut settled) = (BTreeSet::new(), 0);
            for (is_direct, number) in arrivals {
                let (counted, from) = if is_direct {
                    awaited.remove(&number);
                    (copies.on_direct(number), number.saturating_sub(OVERTAKEN_MAX))
                } else {
                    let is_settled = number < settled;
                    if !is_settled {
                        awaited.insert(number);
                    }
                    let counted = copies.on_forwarded(number);
                    prop_assert!(!is_settled || counted == 1);
                    // Copies that are too far behind do not count.
                    let from = if is_settled { 0 } else { number.saturating_sub(AWAITED_MAX - 1) };
                    awaited = awaited.split_off(&settled.max(from));
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
