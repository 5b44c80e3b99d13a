//! Loss detection of a flow: missing packets, and the times of their NACKs.

mod received;

use arrayvec::ArrayVec;
use byway_units::{Duration, Time};

pub use super::missing_ranges::NumberRange;
use super::missing_ranges::{Gap, MissingRanges};
use super::retry::{Backoff, RetryPolicy, RetryTimer};
use crate::limits::{MISSING_MAX, RANGES_MAX};
use received::ReceivedWindow;

/// Position of a packet's sequence number relative to those received before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArrivalOrder {
    /// One above the highest received so far.
    Next,
    /// At least two above the highest: the sequence numbers in between are missing.
    Ahead,
    /// Below the highest, and received for the first time: a late packet or a repair.
    Filling,
    /// Received before, on this or another path.
    Duplicate,
    /// Too far below the highest to be remembered: the packet may be a duplicate.
    TooOld,
}

impl ArrivalOrder {
    /// True if the packet is not a duplicate, and may be delivered.
    #[must_use]
    pub const fn is_new(self) -> bool {
        matches!(self, Self::Next | Self::Ahead | Self::Filling)
    }
}

/// Thresholds from which on a missing packet counts as lost, and the number of its NACKs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NackTimers {
    /// Distance to a received packet with a higher sequence number at which a missing packet counts
    /// as lost: 1 for the next packet, usually 3 (as in RFC 9002).
    pub packets: u64,
    /// Time after the detection of a gap from which on its packets count as lost.
    pub time: Duration,
    /// Largest number of NACKs for one sequence number; a relay repairs each packet at most three
    /// times.
    pub nacks_max: u8,
}

impl NackTimers {
    /// Returns the schedule of NACKs for one sequence number.
    const fn retry_policy(&self) -> RetryPolicy {
        RetryPolicy { requests_max: self.nacks_max, backoff: Backoff::Doubling }
    }
}

/// Sequence numbers and packets of a flow by their result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GapCounters {
    /// Sequence numbers that were missing when a higher one arrived.
    pub missed: u64,
    /// Missing sequence numbers whose packets arrived later, on any path.
    pub filled: u64,
    /// Missing sequence numbers that the caller gave up by their age.
    pub expired: u64,
    /// Missing sequence numbers that are not tracked any more, because too many others were missing
    /// or they fell below the window.
    pub forgotten: u64,
    /// Packets that had arrived before.
    pub duplicate: u64,
    /// Packets that arrived below the window; they may be duplicates.
    pub too_old: u64,
}

/// Receive state of one flow: received packets, missing packets and NACKs.
///
/// A flow whose packets arrive in order needs no allocated memory; the first gap allocates it. At
/// most [`MISSING_MAX`] sequence numbers are stored as missing. Duplicates are recognised within
/// [`NUMBER_WINDOW`](crate::limits::NUMBER_WINDOW) sequence numbers.
#[derive(Clone, Debug)]
pub struct GapTracker {
    timers: NackTimers,
    received: ReceivedWindow,
    missing: MissingRanges<MISSING_MAX>,
    open_ended: Option<OpenEndedRequest>,
    counters: GapCounters,
}

/// An open-ended NACK in force: its first sequence number, and the time from a gap's detection to
/// its next NACK.
#[derive(Clone, Copy, Debug)]
struct OpenEndedRequest {
    from: u64,
    again: Duration,
}

impl GapTracker {
    /// Creates the state of a flow whose first sequence number is unknown.
    #[must_use]
    pub const fn new(timers: NackTimers) -> Self {
        Self {
            timers,
            received: ReceivedWindow::new(),
            missing: MissingRanges::new(),
            open_ended: None,
            counters: GapCounters {
                missed: 0,
                filled: 0,
                expired: 0,
                forgotten: 0,
                duplicate: 0,
                too_old: 0,
            },
        }
    }

    /// Creates the state of a flow that begins with sequence number 0, before its first packet
    /// arrives.
    #[must_use]
    pub fn from_zero(timers: NackTimers) -> Self {
        Self { received: ReceivedWindow::from_zero(), ..Self::new(timers) }
    }

    /// Creates the state of a flow that resumes after sequence number `highest`. That and lower
    /// ones count as received.
    #[must_use]
    pub fn up_to(timers: NackTimers, highest: u64) -> Self {
        Self { received: ReceivedWindow::up_to(highest), ..Self::new(timers) }
    }

    /// True if a packet with this sequence number is certainly no duplicate.
    #[must_use]
    pub fn is_new(&self, number: u64) -> bool {
        self.received.is_new(number)
    }

    /// Sets the timers of gaps that are detected from now on; older gaps keep theirs.
    pub const fn set_timers(&mut self, timers: NackTimers) {
        self.timers = timers;
    }

    /// Returns the highest sequence number received; `None` before the first packet.
    #[must_use]
    pub const fn highest(&self) -> Option<u64> {
        self.received.highest()
    }

    /// Records a packet of any path, and returns its order. Sequence numbers that it skips become
    /// missing; its own is missing no more.
    pub fn on_packet(&mut self, number: u64, now: Time) -> ArrivalOrder {
        let end = self.received.end();
        let arrival = self.received.insert(number);
        match arrival {
            ArrivalOrder::Next if self.missing.count() == 0 => {}
            ArrivalOrder::Next => self.advance(now),
            ArrivalOrder::Ahead => {
                self.miss(end, number, now);
                self.advance(now);
            }
            ArrivalOrder::Filling => self.counters.filled += u64::from(self.missing.remove(number, now)),
            ArrivalOrder::Duplicate => self.counters.duplicate += 1,
            ArrivalOrder::TooOld => self.counters.too_old += 1,
        }
        arrival
    }

    /// Records that an open-ended NACK was sent for all sequence numbers from `from` on, until
    /// [`end_open_ended`](Self::end_open_ended). It counts as the first NACK of gaps detected from
    /// there on, and the next follows after `again`.
    pub const fn begin_open_ended(&mut self, from: u64, again: Duration) {
        self.open_ended = Some(OpenEndedRequest { from, again });
    }

    /// Records that the open-ended NACK is over: new gaps need NACKs of their own again.
    pub const fn end_open_ended(&mut self) {
        self.open_ended = None;
    }

    /// Returns a time before which [`due`](Self::due) returns no ranges; `None` if no NACK is
    /// planned.
    #[must_use]
    pub const fn deadline(&self) -> Option<Time> {
        self.missing.deadline()
    }

    /// Returns the ranges of sequence numbers for a NACK now, lowest first, and records that they
    /// are requested. They are due again after `again`, and then after twice as long each time.
    /// Call until it returns none, because a NACK has a limited number of ranges.
    pub fn due(&mut self, again: Duration, now: Time) -> ArrayVec<NumberRange, RANGES_MAX> {
        self.missing.pop_due(self.timers.retry_policy(), again, now)
    }

    /// Excludes the gap detected `now` from all NACKs, unless an open-ended NACK covers it: its
    /// sequence numbers stay missing. Returns its range.
    pub fn exclude_latest(&mut self, now: Time) -> Option<NumberRange> {
        self.missing.exclude_latest(now)
    }

    /// True if this sequence number is missing and may be requested: it is not
    /// [excluded](Self::exclude_latest).
    #[must_use]
    pub fn is_wanted(&self, number: u64) -> bool {
        self.missing.is_wanted(number)
    }

    /// Gives up the lowest gap if it was detected before `noticed`, and returns its range. Call
    /// until it returns `None`.
    pub fn expire(&mut self, noticed: Time) -> Option<NumberRange> {
        let range = self.missing.pop_noticed_before(noticed)?;
        self.counters.expired += u64::from(range.length);
        Some(range)
    }

    /// True if this sequence number is missing: skipped by a higher one, not received since, and
    /// not given up.
    #[must_use]
    pub fn is_missing(&self, number: u64) -> bool {
        self.missing.contains(number)
    }

    /// True if this sequence number is missing, and a NACK has requested it.
    #[must_use]
    pub fn was_nacked(&self, number: u64) -> bool {
        self.missing.was_requested(number)
    }

    /// Returns the time at which a missing sequence number was detected; `None` if it is not
    /// missing.
    #[must_use]
    pub fn noticed(&self, number: u64) -> Option<Time> {
        self.missing.noticed(number)
    }

    /// Returns the number of missing sequence numbers.
    #[must_use]
    pub const fn missing(&self) -> usize {
        self.missing.count()
    }

    /// Returns the number of gaps, which determines the cost of a search for due ones.
    #[must_use]
    pub fn gaps(&self) -> usize {
        self.missing.gaps()
    }

    /// Returns the counts of sequence numbers and packets by their result.
    #[must_use]
    pub const fn counters(&self) -> &GapCounters {
        &self.counters
    }

    /// Handles a new highest sequence number: forgets gaps below the window, and makes gaps due
    /// that are now far enough below it.
    fn advance(&mut self, now: Time) {
        self.counters.forgotten += self.missing.forget_below(self.received.oldest());
        self.missing.ripen(self.received.end() - 1, self.timers.packets, now);
    }

    /// Records the sequence numbers from `first` to before `end` as missing. Those that an
    /// open-ended NACK covers count as requested once.
    fn miss(&mut self, first: u64, end: u64, now: Time) {
        self.counters.missed += end - first;
        let not_requested_end = self.open_ended.map_or(end, |open| open.from.clamp(first, end));
        let due = now.saturating_add(self.timers.time);
        let gap = Gap::new(first, not_requested_end, now, RetryTimer::new(due));
        self.counters.forgotten += self.missing.add(gap);
        if let Some(open) = self.open_ended {
            let again_at = now.saturating_add(open.again);
            let retry = RetryTimer::requested_once(self.timers.retry_policy(), again_at);
            self.counters.forgotten += self.missing.add(Gap::new(not_requested_end, end, now, retry));
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::collections::BTreeMap;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    const TIMERS: NackTimers = NackTimers { packets: 3, time: Duration::from_millis(8), nacks_max: 2 };
    const AGAIN: Duration = Duration::from_millis(50);

    fn at(millis: u64) -> Time {
        Time::START + Duration::from_millis(millis)
    }

    fn tracker(numbers: impl IntoIterator<Item = u64>) -> GapTracker {
        let mut tracker = GapTracker::new(TIMERS);
        for number in numbers {
            tracker.on_packet(number, at(0));
        }
        tracker
    }

    fn range(first: u64, length: u32) -> NumberRange {
        NumberRange { first, length }
    }

    #[test]
    fn a_gap_is_asked_for_once_three_packets_came_after_it() {
        let mut tracker = tracker([0, 2, 3]);
        assert_eq!(tracker.due(AGAIN, at(0)).as_slice(), []);
        assert_eq!(tracker.on_packet(4, at(0)), ArrivalOrder::Next);
        assert_eq!(tracker.due(AGAIN, at(0)).as_slice(), [range(1, 1)]);
        assert_eq!(tracker.due(AGAIN, at(0)).as_slice(), []);
    }

    #[test]
    fn a_gap_is_asked_for_once_its_time_is_over() {
        let mut tracker = tracker([0, 2]);
        assert_eq!(tracker.deadline(), Some(at(8)));
        assert_eq!(tracker.due(AGAIN, at(7)).as_slice(), []);
        assert_eq!(tracker.due(AGAIN, at(8)).as_slice(), [range(1, 1)]);
        assert_eq!(tracker.deadline(), Some(at(58)));
        assert_eq!(tracker.due(AGAIN, at(58)).as_slice(), [range(1, 1)]);
        assert_eq!(tracker.deadline(), None, "no more than twice");
    }

    #[test]
    fn reordered_packets_are_not_asked_for() {
        let mut tracker = tracker([0, 3, 2, 1, 4, 5, 6]);
        assert_eq!(tracker.due(AGAIN, at(100)).as_slice(), []);
        assert_eq!((tracker.missing(), tracker.counters().filled), (0, 2));
    }

    #[test]
    fn neighbours_are_asked_for_as_one_range() {
        let mut tracker = tracker([0, 5, 7, 10, 11, 12, 13]);
        tracker.on_packet(3, at(0));
        assert_eq!(
            tracker.due(AGAIN, at(8)).as_slice(),
            [range(1, 2), range(4, 1), range(6, 1), range(8, 2)]
        );
    }

    #[test]
    fn what_an_open_ended_request_covers_is_asked_for_only_again() {
        let mut tracker = tracker([0, 1]);
        tracker.begin_open_ended(2, AGAIN);
        tracker.on_packet(10, at(20));
        tracker.end_open_ended();
        assert_eq!(tracker.due(AGAIN, at(69)).as_slice(), []);
        assert_eq!(tracker.due(AGAIN, at(70)).as_slice(), [range(2, 8)]);
        assert_eq!(tracker.due(AGAIN, at(1_000)).as_slice(), []);
    }

    #[test]
    fn an_open_ended_request_from_the_middle_of_a_gap_covers_the_rest_of_it() {
        let mut tracker = tracker([0, 1]);
        tracker.begin_open_ended(5, AGAIN);
        tracker.on_packet(10, at(0));
        assert_eq!(tracker.due(AGAIN, at(8)).as_slice(), [range(2, 3)]);
        assert_eq!(tracker.due(AGAIN, at(50)).as_slice(), [range(5, 5)]);
    }

    #[test]
    fn more_ranges_than_fit_are_asked_for_in_turn() {
        let mut tracker = tracker((0..80).map(|number| 2 * number));
        assert_eq!(tracker.due(AGAIN, at(8)).len(), RANGES_MAX);
        assert_eq!(tracker.deadline(), Some(at(0)));
        assert_eq!(tracker.due(AGAIN, at(8)).len(), RANGES_MAX);
        assert_eq!(tracker.due(AGAIN, at(8)).first(), Some(&range(129, 1)));
        assert_eq!(tracker.due(AGAIN, at(8)).len(), 0);
    }

    #[test]
    fn of_a_long_outage_the_newest_are_held_to_be_missing() {
        let mut tracker = tracker([0, 5_001]);
        assert_eq!((tracker.missing(), tracker.counters().missed), (MISSING_MAX, 5_000));
        assert_eq!(tracker.counters().forgotten, 5_000 - MISSING_MAX as u64);
        assert!(tracker.is_missing(5_000) && !tracker.is_missing(1));
        assert_eq!(tracker.on_packet(1, at(1)), ArrivalOrder::Filling, "what is forgotten is no duplicate");
        assert_eq!(tracker.counters().filled, 0);
    }

    #[test]
    fn what_leaves_the_window_is_forgotten() {
        let mut tracker = tracker((0..10).chain(11..8_202));
        assert!(tracker.is_missing(10));
        tracker.on_packet(8_202, at(1));
        assert!(!tracker.is_missing(10));
        assert_eq!((tracker.missing(), tracker.counters().forgotten), (0, 1));
    }

    #[test]
    fn old_gaps_are_given_up_and_then_nothing_is_missing() {
        let mut tracker = tracker([0, 3, 5]);
        tracker.on_packet(7, at(9));
        let given_up: Vec<_> = core::iter::from_fn(|| tracker.expire(at(9))).collect();
        assert_eq!(given_up, [range(1, 2), range(4, 1)]);
        assert_eq!((tracker.missing(), tracker.counters().expired), (1, 3));
    }

    /// A reference tracker: a record for each missing sequence number.
    #[derive(Default)]
    struct NaiveTracker {
        missing: BTreeMap<u64, Record>,
        end: Option<u64>,
        open: Option<(u64, Duration)>,
        events: u64,
    }

    #[derive(Clone, Copy, Debug)]
    struct Record {
        noticed: Time,
        due: Time,
        requested: u8,
        /// Equal for sequence numbers that were detected together and have the same number of
        /// initial NACKs.
        event: u64,
    }

    impl NaiveTracker {
        fn on_packet(&mut self, number: u64, now: Time) {
            let end = self.end.unwrap_or(number);
            for missed in end..number {
                let open = self.open.filter(|(from, _)| missed >= *from);
                let (wait, requested) = open.map_or((TIMERS.time, 0), |(_, again)| (again, 1));
                let event = 2 * self.events + u64::from(requested);
                self.missing.insert(missed, Record { noticed: now, due: now + wait, requested, event });
            }
            self.events += 1;
            self.missing.remove(&number);
            self.end = Some(end.max(number + 1));
            let highest = end.max(number + 1) - 1;
            while self.missing.len() > MISSING_MAX {
                self.missing.pop_first();
            }
            self.missing.retain(|missing, _| missing + 8_192 > highest);
            self.ripen(highest, now);
        }

        /// A sequence number is due when the last one of its gap is.
        fn ripen(&mut self, highest: u64, now: Time) {
            let (mut after, mut last) = (None, 0);
            for (number, record) in self.missing.iter_mut().rev() {
                if after != Some((number + 1, record.event)) {
                    last = *number;
                }
                after = Some((*number, record.event));
                if record.requested == 0 && highest >= last + TIMERS.packets {
                    record.due = record.due.min(now);
                }
            }
        }

        fn due(&mut self, now: Time) -> Vec<u64> {
            let mut numbers = Vec::new();
            for (number, record) in &mut self.missing {
                if record.due <= now {
                    numbers.push(*number);
                    record.requested += 1;
                    record.due = if record.requested < TIMERS.nacks_max { now + AGAIN } else { Time::MAX };
                }
            }
            numbers
        }

        fn expire(&mut self, noticed: Time) -> Vec<u64> {
            let old: Vec<_> = self
                .missing
                .iter()
                .filter(|(_, record)| record.noticed < noticed)
                .map(|(number, _)| *number)
                .collect();
            self.missing.retain(|_, record| record.noticed >= noticed);
            old
        }
    }

    fn numbers(ranges: impl IntoIterator<Item = NumberRange>) -> Vec<u64> {
        ranges.into_iter().flat_map(|range| range.first..range.end()).collect()
    }

    fn all_due(tracker: &mut GapTracker, now: Time) -> Vec<u64> {
        let mut all = Vec::new();
        loop {
            let due = tracker.due(AGAIN, now);
            if due.is_empty() {
                return all;
            }
            all.extend(numbers(due));
        }
    }

    proptest! {
        #[test]
        fn the_tracker_does_as_a_list_of_all_missing_numbers(
            steps in proptest::collection::vec((0_u8..20, 0_u64..3_000, 0_u64..6), 0..300),
        ) {
            let (mut tracker, mut naive) = (GapTracker::new(TIMERS), NaiveTracker::default());
            let (mut highest, mut now) = (0_u64, at(0));
            for (kind, by, millis) in steps {
                now += Duration::from_millis(millis);
                let number = match kind {
                    0..10 => highest + 1,
                    10..13 => highest + 1 + by % 5,
                    13..16 => highest.saturating_sub(by % 40),
                    16 => highest + by,
                    _ => u64::MAX,
                };
                match kind {
                    17 => prop_assert_eq!(all_due(&mut tracker, now), naive.due(now)),
                    18 => {
                        let old = now.saturating_sub(Duration::from_millis(60));
                        let given_up = core::iter::from_fn(|| tracker.expire(old));
                        prop_assert_eq!(numbers(given_up), naive.expire(old));
                    }
                    19 if by % 2 == 0 => {
                        tracker.begin_open_ended(highest + 1 + by % 3, AGAIN);
                        naive.open = Some((highest + 1 + by % 3, AGAIN));
                    }
                    19 => {
                        tracker.end_open_ended();
                        naive.open = None;
                    }
                    _ => {
                        if tracker.on_packet(number, now).is_new() {
                            naive.on_packet(number, now);
                        }
                        highest = highest.max(number);
                    }
                }
                prop_assert_eq!(tracker.missing(), naive.missing.len());
                prop_assert!(naive.missing.keys().all(|number| tracker.is_missing(*number)));
                let soonest = naive.missing.values().map(|record| record.due).min().filter(|due| *due < Time::MAX);
                prop_assert!(soonest.is_none_or(|soonest| tracker.deadline() <= Some(soonest)));
            }
        }
    }
}
