//! Ranges of numbers that a receiver asked for and that cannot be repaired yet, whatever their length.
//!
//! A NACK of a few bytes may name thousands of numbers. Those of which the relay knows nothing cost it one entry in a list: they are
//! compared with what comes. The same list tells which numbers were asked for a moment ago, and are not looked at again.

use alloc::collections::VecDeque;

use byway_units::{Duration, Time};
use byway_wire::SequenceNumber;

use crate::limits::{NACKED_NUMBERS_MIN, NACKED_RANGES_ALWAYS, NACKED_RANGES_MAX};

/// Numbers that were asked for together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NackedRange {
    pub(crate) first: SequenceNumber,
    pub(crate) last: SequenceNumber,
    /// After this a repair is of no use.
    pub(crate) until: Time,
    /// Whether the receiver saw a later packet; a timer alone proves nothing.
    pub(crate) certain: bool,
    /// When it was asked for.
    pub(crate) asked: Time,
    /// How many of its numbers are worked on one by one, or were delivered unasked.
    pub(crate) taken: u64,
}

impl NackedRange {
    const fn contains(&self, sequence: SequenceNumber) -> bool {
        self.first.number() <= sequence.number() && sequence.number() <= self.last.number()
    }

    /// How many numbers there are.
    pub(crate) const fn count(&self) -> u64 {
        self.last.number() - self.first.number() + 1
    }

    /// How many of its numbers nothing is known of.
    pub(crate) const fn waiting(&self) -> u64 {
        self.count().saturating_sub(self.taken)
    }
}

/// The ranges of one flow, those that were asked for first in front.
#[derive(Debug, Default)]
pub(crate) struct NackedRanges(VecDeque<NackedRange>);

impl NackedRanges {
    /// Whether all these numbers were asked for less than a round trip ago, with as much certainty: whatever could be
    /// done was done, and its outcome is on its way.
    pub(crate) fn asked_lately(&self, range: &NackedRange, round_trip: Duration) -> bool {
        self.0.iter().any(|known| {
            known.first <= range.first
                && range.last <= known.last
                && (known.certain || !range.certain)
                && range.asked < known.asked + round_trip
        })
    }

    /// Adds a range, unless it is short and all of it is worked on; how many numbers are forgotten for it.
    pub(crate) fn add(&mut self, range: NackedRange) -> u64 {
        if range.waiting() == 0 && range.count() < NACKED_NUMBERS_MIN {
            return 0;
        }
        if let Some(known) =
            self.0.iter_mut().find(|known| known.first == range.first && known.last == range.last)
        {
            *known = NackedRange { certain: known.certain || range.certain, ..range };
            return 0;
        }
        let oldest = if self.0.len() == NACKED_RANGES_MAX { self.0.pop_front() } else { None };
        self.0.push_back(range);
        oldest.map_or(0, |oldest| oldest.waiting())
    }

    /// The range that waits for this number, if any does.
    pub(crate) fn covering(&self, sequence: SequenceNumber, now: Time) -> Option<&NackedRange> {
        self.0.iter().find(|range| range.contains(sequence) && range.until > now)
    }

    /// Takes a number out of the ranges that wait for it: something is known of it now. The most that was asked.
    pub(crate) fn take(&mut self, sequence: SequenceNumber, now: Time) -> Option<(Time, bool)> {
        let mut taken = None;
        for range in self.0.iter_mut().filter(|range| range.contains(sequence) && range.until > now) {
            range.taken += 1;
            let (until, certain) = taken.unwrap_or((range.until, range.certain));
            taken = Some((until.max(range.until), certain || range.certain));
        }
        taken
    }

    /// The receiver saw a later packet than these, from the first to before the end.
    pub(crate) fn make_certain(&mut self, first: SequenceNumber, end: SequenceNumber) {
        for range in self.0.iter_mut().filter(|range| range.first >= first && range.last < end) {
            range.certain = true;
        }
    }

    /// Forgets the numbers from this one on: the receiver has them.
    pub(crate) fn cut(&mut self, from: SequenceNumber) {
        self.0.retain_mut(|range| {
            if range.last >= from {
                range.last = SequenceNumber::new(from.number().saturating_sub(1));
                range.taken = range.taken.min(range.last.number().saturating_sub(range.first.number()) + 1);
            }
            range.first < from
        });
    }

    /// Forgets what can be of no use any more; how many numbers nothing was ever known of.
    pub(crate) fn expire(&mut self, now: Time) -> u64 {
        let mut waited = 0;
        self.0.retain(|range| {
            let keep = range.until > now;
            waited += if keep { 0 } else { range.waiting() };
            keep
        });
        if self.0.is_empty() {
            self.0 = VecDeque::new();
        }
        waited
    }

    /// When the next range can be of no use any more.
    pub(crate) fn next_expiry(&self) -> Option<Time> {
        self.0.iter().map(|range| range.until).min()
    }

    /// How many numbers are waited for.
    pub(crate) fn waiting(&self) -> usize {
        usize::try_from(self.0.iter().map(NackedRange::waiting).sum::<u64>()).unwrap_or(usize::MAX)
    }

    /// How much memory they take, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        (self.0.capacity() * size_of::<NackedRange>()) as u64
    }

    /// Whether another range would take more memory than every flow may have.
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() >= self.0.capacity().max(NACKED_RANGES_ALWAYS)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::START + Duration::from_millis(millis)
    }

    fn range(first: u64, last: u64, asked: u64) -> NackedRange {
        let (first, last) = (SequenceNumber::new(first), SequenceNumber::new(last));
        NackedRange { first, last, until: at(asked + 200), certain: true, asked: at(asked), taken: 0 }
    }

    const ROUND_TRIP: Duration = Duration::from_millis(50);

    #[test]
    fn what_was_asked_for_within_a_round_trip_is_known() {
        let mut ranges = NackedRanges::default();
        ranges.add(NackedRange { certain: false, ..range(10, 90, 0) });
        let timed = |first, last, asked| NackedRange { certain: false, ..range(first, last, asked) };
        assert!(ranges.asked_lately(&timed(10, 90, 49), ROUND_TRIP));
        assert!(ranges.asked_lately(&timed(20, 30, 0), ROUND_TRIP));
        assert!(!ranges.asked_lately(&timed(10, 91, 0), ROUND_TRIP));
        assert!(!ranges.asked_lately(&timed(9, 90, 0), ROUND_TRIP));
        assert!(!ranges.asked_lately(&timed(10, 90, 50), ROUND_TRIP));
        assert!(!ranges.asked_lately(&range(10, 90, 10), ROUND_TRIP), "it is certain by now");
    }

    #[test]
    fn numbers_are_waited_for_until_they_are_taken_or_of_no_use() {
        let mut ranges = NackedRanges::default();
        assert_eq!(ranges.add(range(10, 12, 0)), 0);
        assert_eq!(ranges.take(SequenceNumber::new(9), at(0)), None);
        assert_eq!(ranges.take(SequenceNumber::new(11), at(0)), Some((at(200), true)));
        assert_eq!((ranges.waiting(), ranges.next_expiry()), (2, Some(at(200))));
        assert_eq!(ranges.take(SequenceNumber::new(12), at(200)), None);
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
        ranges.cut(SequenceNumber::new(15));
        assert_eq!(ranges.waiting(), 5);
        ranges.cut(SequenceNumber::new(10));
        assert!(ranges.is_empty());
    }

    #[test]
    fn a_short_range_that_is_worked_on_is_not_kept_and_a_long_one_is() {
        let mut ranges = NackedRanges::default();
        ranges.add(NackedRange { taken: 5, ..range(10, 14, 0) });
        assert!(ranges.is_empty());
        ranges.add(NackedRange { taken: NACKED_NUMBERS_MIN, ..range(10, 9 + NACKED_NUMBERS_MIN, 0) });
        assert!(!ranges.is_empty() && ranges.waiting() == 0);
    }
}
