//! Requested ranges of sequence numbers that are not repairable yet, of any length.
//!
//! A NACK of a few bytes may name thousands of sequence numbers. If the relay has no repair packets
//! for them, the range costs one list entry, with which the relay compares arriving repair packets.
//! The list also reveals repeated NACKs, whose sequence numbers the relay does not examine again.

use alloc::collections::VecDeque;

use byway_units::{Duration, Time};
use byway_wire::SequenceNumber;

use crate::limits::{NACKED_NUMBERS_MIN, NACKED_RANGES_ALWAYS, NACKED_RANGES_MAX};

/// Range of sequence numbers that one NACK requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NackedRange {
    pub(crate) first: SequenceNumber,
    pub(crate) last: SequenceNumber,
    /// Time after which a repair is useless.
    pub(crate) deadline: Time,
    /// True if the receiver has received a later packet. A timeout alone proves no loss.
    pub(crate) certain: bool,
    /// Time of the NACK.
    pub(crate) nacked_at: Time,
    /// Number of its packets that moved to [`MissingPackets`](super::missing::MissingPackets), or
    /// that arrived as forwarded copies.
    pub(crate) accepted: u64,
}

impl NackedRange {
    const fn contains(&self, sequence: SequenceNumber) -> bool {
        self.first.number() <= sequence.number() && sequence.number() <= self.last.number()
    }

    /// Returns the number of sequence numbers in the range.
    pub(crate) const fn count(&self) -> u64 {
        self.last.number() - self.first.number() + 1
    }

    /// Returns the number of packets in the range that are not repairable yet.
    pub(crate) const fn waiting(&self) -> u64 {
        self.count().saturating_sub(self.accepted)
    }
}

/// Ranges of one flow that NACKs requested and that have packets not repairable yet, in the order
/// of their first NACK. A repeated NACK updates its range in place.
#[derive(Debug, Default)]
pub(crate) struct NackedRanges {
    ranges: VecDeque<NackedRange>,
    /// Number of the latest ACK, which ended an open range. Receivers repeat it.
    acknowledged: Option<SequenceNumber>,
}

impl NackedRanges {
    /// True if a NACK within the last round trip requested this whole range, with at least the same
    /// certainty. Its repairs may still be in flight.
    pub(crate) fn nacked_recently(&self, range: &NackedRange, round_trip: Duration) -> bool {
        self.ranges.iter().any(|known| {
            known.first <= range.first
                && range.last <= known.last
                && (known.certain || !range.certain)
                && range.nacked_at < known.nacked_at + round_trip
        })
    }

    /// Adds a range, unless it is short and all of its packets are under repair. If the list is
    /// full, it displaces the oldest range, and returns how many packets that one still awaited.
    pub(crate) fn add(&mut self, range: NackedRange) -> u64 {
        if range.waiting() == 0 && range.count() < NACKED_NUMBERS_MIN {
            return 0;
        }
        if let Some(known) =
            self.ranges.iter_mut().find(|known| known.first == range.first && known.last == range.last)
        {
            *known = NackedRange { certain: known.certain || range.certain, ..range };
            return 0;
        }
        let oldest = if self.ranges.len() == NACKED_RANGES_MAX { self.ranges.pop_front() } else { None };
        self.ranges.push_back(range);
        oldest.map_or(0, |oldest| oldest.waiting())
    }

    /// Removes and returns all ranges.
    pub(crate) fn drain(&mut self) -> VecDeque<NackedRange> {
        core::mem::take(&mut self.ranges)
    }

    /// Returns a requested range that contains this packet and has not expired.
    pub(crate) fn covering(&self, sequence: SequenceNumber, now: Time) -> Option<&NackedRange> {
        self.ranges.iter().find(|range| range.contains(sequence) && range.deadline > now)
    }

    /// Counts a packet as accepted in each range that contains it, because it is now repairable.
    /// Returns the latest deadline, and `true` if any range is certain; `None` without such a
    /// range.
    pub(crate) fn accept(&mut self, sequence: SequenceNumber, now: Time) -> Option<(Time, bool)> {
        let mut accepted = None;
        for range in self.ranges.iter_mut().filter(|range| range.contains(sequence) && range.deadline > now) {
            range.accepted += 1;
            let (until, certain) = accepted.unwrap_or((range.deadline, range.certain));
            accepted = Some((until.max(range.deadline), certain || range.certain));
        }
        accepted
    }

    /// Marks ranges from `first` to before `end` as certainly lost, because the receiver has
    /// received a later packet.
    pub(crate) fn confirm_lost(&mut self, first: SequenceNumber, end: SequenceNumber) {
        for range in self.ranges.iter_mut().filter(|range| range.first >= first && range.last < end) {
            range.certain = true;
        }
    }

    /// Records an ACK's number. Returns false if it is that of the latest ACK.
    pub(crate) fn acknowledge(&mut self, from: SequenceNumber) -> bool {
        self.acknowledged.replace(from) != Some(from)
    }

    /// Removes the sequence numbers from this one on from all ranges, because the receiver has
    /// these packets.
    pub(crate) fn truncate(&mut self, from: SequenceNumber) {
        self.ranges.retain_mut(|range| {
            if range.last >= from {
                range.last = SequenceNumber::new(from.number().saturating_sub(1));
                range.accepted =
                    range.accepted.min(range.last.number().saturating_sub(range.first.number()) + 1);
            }
            range.first < from
        });
    }

    /// Removes ranges past their deadline. Returns the number of their packets that never became
    /// repairable.
    pub(crate) fn expire(&mut self, now: Time) -> u64 {
        let mut unrepairable = 0;
        self.ranges.retain(|range| {
            let keep = range.deadline > now;
            unrepairable += if keep { 0 } else { range.waiting() };
            keep
        });
        if self.ranges.is_empty() {
            self.ranges = VecDeque::new();
        }
        unrepairable
    }

    /// Returns the earliest deadline of a range.
    pub(crate) fn next_expiry(&self) -> Option<Time> {
        self.ranges.iter().map(|range| range.deadline).min()
    }

    /// Returns the number of requested packets, in all ranges, that are not repairable yet.
    pub(crate) fn waiting(&self) -> usize {
        usize::try_from(self.ranges.iter().map(NackedRange::waiting).sum::<u64>()).unwrap_or(usize::MAX)
    }

    /// Returns the memory use of the ranges, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        (self.ranges.capacity() * size_of::<NackedRange>()) as u64
    }

    /// True if another range would need more memory than every flow may have.
    pub(crate) fn is_full(&self) -> bool {
        self.ranges.len() >= self.ranges.capacity().max(NACKED_RANGES_ALWAYS)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::START + Duration::from_millis(millis)
    }

    fn range(first: u64, last: u64, nacked_at: u64) -> NackedRange {
        let (first, last) = (SequenceNumber::new(first), SequenceNumber::new(last));
        NackedRange {
            first,
            last,
            deadline: at(nacked_at + 200),
            certain: true,
            nacked_at: at(nacked_at),
            accepted: 0,
        }
    }

    const ROUND_TRIP: Duration = Duration::from_millis(50);

    #[test]
    fn what_was_asked_for_within_a_round_trip_is_known() {
        let mut ranges = NackedRanges::default();
        ranges.add(NackedRange { certain: false, ..range(10, 90, 0) });
        let timed = |first, last, nacked_at| NackedRange { certain: false, ..range(first, last, nacked_at) };
        assert!(ranges.nacked_recently(&timed(10, 90, 49), ROUND_TRIP));
        assert!(ranges.nacked_recently(&timed(20, 30, 0), ROUND_TRIP));
        assert!(!ranges.nacked_recently(&timed(10, 91, 0), ROUND_TRIP));
        assert!(!ranges.nacked_recently(&timed(9, 90, 0), ROUND_TRIP));
        assert!(!ranges.nacked_recently(&timed(10, 90, 50), ROUND_TRIP));
        assert!(!ranges.nacked_recently(&range(10, 90, 10), ROUND_TRIP), "it is certain by now");
    }

    #[test]
    fn numbers_are_waited_for_until_they_are_taken_or_of_no_use() {
        let mut ranges = NackedRanges::default();
        assert_eq!(ranges.add(range(10, 12, 0)), 0);
        assert_eq!(ranges.accept(SequenceNumber::new(9), at(0)), None);
        assert_eq!(ranges.accept(SequenceNumber::new(11), at(0)), Some((at(200), true)));
        assert_eq!((ranges.waiting(), ranges.next_expiry()), (2, Some(at(200))));
        assert_eq!(ranges.accept(SequenceNumber::new(12), at(200)), None);
        assert_eq!(ranges.expire(at(199)), 0);
        assert_eq!(ranges.expire(at(200)), 2);
        assert!(ranges.is_empty());
    }

    #[test]
    fn the_oldest_of_too_many_gives_way() {
        let mut ranges = NackedRanges::default();
        for nth in 0..NACKED_RANGES_MAX as u64 {
            assert_eq!(ranges.add(range(10 * nth, 10 * nth + 4, nth)), 0);
        }
        assert_eq!(ranges.add(range(5_000, 5_001, 99)), 5);
        assert_eq!(ranges.add(range(5_000, 5_001, 99)), 0, "the same again is no other");
        assert!(ranges.covering(SequenceNumber::new(3), at(100)).is_none());
        assert!(ranges.covering(SequenceNumber::new(13), at(100)).is_some());
    }

    #[test]
    fn what_the_receiver_has_is_waited_for_no_more() {
        let mut ranges = NackedRanges::default();
        ranges.add(range(10, 19, 0));
        ranges.add(range(30, 39, 0));
        ranges.truncate(SequenceNumber::new(15));
        assert_eq!(ranges.waiting(), 5);
        ranges.truncate(SequenceNumber::new(10));
        assert!(ranges.is_empty());
    }

    #[test]
    fn a_short_range_that_is_worked_on_is_not_kept_and_a_long_one_is() {
        let mut ranges = NackedRanges::default();
        ranges.add(NackedRange { accepted: 5, ..range(10, 14, 0) });
        assert!(ranges.is_empty());
        ranges.add(NackedRange { accepted: NACKED_NUMBERS_MIN, ..range(10, 9 + NACKED_NUMBERS_MIN, 0) });
        assert!(!ranges.is_empty() && ranges.waiting() == 0);
    }
}
