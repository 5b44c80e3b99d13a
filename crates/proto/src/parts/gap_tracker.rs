//! Which packets of a flow are missing, and when to ask for them.

mod missing;
mod received;

use arrayvec::ArrayVec;
use byway_units::{Duration, Time};

use crate::limits::RANGES_MAX;
use missing::{Gap, Missing};
use received::Received;

/// What a packet is to its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The one after the highest so far.
    Next,
    /// Beyond that: what lies between is missing.
    Ahead,
    /// Below the highest, and here for the first time.
    Filling,
    /// Here before.
    Duplicate,
    /// So far below the highest that nobody knows any more.
    TooOld,
}

impl Arrival {
    /// Whether the packet may be delivered: it was not before.
    #[must_use]
    pub const fn is_new(self) -> bool {
        matches!(self, Self::Next | Self::Ahead | Self::Filling)
    }
}

/// Sequence numbers from `first` on, `length` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberRange {
    /// The lowest.
    pub first: u64,
    /// How many; never 0.
    pub length: u32,
}

impl NumberRange {
    /// One more than the highest.
    #[must_use]
    pub const fn end(self) -> u64 {
        self.first + self.length as u64
    }
}

/// When a gap counts as a loss, and how often to ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// A number is asked for once one so much higher has arrived: 1 asks at once, 3 is usual (as in RFC 9002).
    pub packets: u64,
    /// Or once so much time has passed since the gap was noticed.
    pub time: Duration,
    /// How often a number is asked for; a relay repairs each packet at most three times.
    pub asks_max: u8,
}

/// Numbers by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GapCounters {
    /// Passed over by a higher one.
    pub missed: u64,
    /// Of these, arrived later.
    pub filled: u64,
    /// Of these, given up by the caller.
    pub given_up: u64,
    /// Of these, forgotten, as too many others were missing or they were too old.
    pub forgotten: u64,
    /// Arrived again.
    pub duplicate: u64,
    /// Arrived too late to know.
    pub too_old: u64,
}

/// A receiver's account of one flow: what has arrived, what is missing, what was asked for.
///
/// A flow whose packets arrive in order costs two numbers: memory is allocated at the first gap. Whatever
/// happens, at most [`MISSING_MAX`](crate::limits::MISSING_MAX) numbers are held to be missing, and
/// duplicates are told apart within [`NUMBER_WINDOW`](crate::limits::NUMBER_WINDOW) numbers.
#[derive(Clone, Debug)]
pub struct GapTracker {
    patience: Patience,
    received: Received,
    missing: Missing,
    open: Option<Open>,
    counters: GapCounters,
}

/// An open-ended request.
#[derive(Clone, Copy, Debug)]
struct Open {
    from: u64,
    again: Duration,
}

impl GapTracker {
    /// A flow of which no packet has arrived.
    #[must_use]
    pub const fn new(patience: Patience) -> Self {
        Self {
            patience,
            received: Received::new(),
            missing: Missing::new(),
            open: None,
            counters: GapCounters {
                missed: 0,
                filled: 0,
                given_up: 0,
                forgotten: 0,
                duplicate: 0,
                too_old: 0,
            },
        }
    }

    /// A flow that begins with number 0, of which no packet has arrived.
    #[must_use]
    pub fn begun(patience: Patience) -> Self {
        Self { received: Received::from_zero(), ..Self::new(patience) }
    }

    /// A flow that goes on after this number; what came before is neither missing nor new.
    #[must_use]
    pub fn resumed(patience: Patience, highest: u64) -> Self {
        Self { received: Received::up_to(highest), ..Self::new(patience) }
    }

    /// Whether a packet with this number would be new.
    #[must_use]
    pub fn is_new(&self, number: u64) -> bool {
        self.received.lacks(number)
    }

    /// Gaps that are noticed from now on have other patience.
    pub const fn set_patience(&mut self, patience: Patience) {
        self.patience = patience;
    }

    /// The highest number that has arrived.
    #[must_use]
    pub const fn highest(&self) -> Option<u64> {
        self.received.highest()
    }

    /// A packet arrived, on whatever way.
    pub fn arrived(&mut self, number: u64, now: Time) -> Arrival {
        let end = self.received.end();
        let arrival = self.received.note(number);
        match arrival {
            Arrival::Next => self.advance(now),
            Arrival::Ahead => {
                self.miss(end, number, now);
                self.advance(now);
            }
            Arrival::Filling => self.counters.filled += u64::from(self.missing.remove(number, now)),
            Arrival::Duplicate => self.counters.duplicate += 1,
            Arrival::TooOld => self.counters.too_old += 1,
        }
        arrival
    }

    /// Everything from this number on has been asked for by an open-ended request, until it is
    /// [closed](Self::close): gaps noticed from there on are asked for only after `again`.
    pub const fn open(&mut self, from: u64, again: Duration) {
        self.open = Some(Open { from, again });
    }

    /// The open-ended request is over.
    pub const fn close(&mut self) {
        self.open = None;
    }

    /// When [`due`](Self::due) has something to ask for; perhaps later than this, never earlier.
    #[must_use]
    pub const fn deadline(&self) -> Option<Time> {
        self.missing.deadline()
    }

    /// The numbers to ask for now, lowest first; they come again after `again`, if they may, and then twice as late each
    /// time: a repair may have to come a long way first. Call until there are none: only so many ranges fit in one request.
    pub fn due(&mut self, again: Duration, now: Time) -> ArrayVec<NumberRange, RANGES_MAX> {
        self.missing.ask(self.patience.asks_max, again, now)
    }

    /// Leaves the numbers missing that are due for the first time: they are never asked for. How many.
    pub fn leave_due(&mut self, now: Time) -> u64 {
        self.missing.leave_due(now)
    }

    /// Whether this number is missing, and was not [left](Self::leave_due) so.
    #[must_use]
    pub fn is_wanted(&self, number: u64) -> bool {
        self.missing.is_wanted(number)
    }

    /// Gives up some numbers that were noticed to be missing before `noticed`, lowest first. Call until there are
    /// none.
    pub fn give_up(&mut self, noticed: Time) -> Option<NumberRange> {
        let range = self.missing.pop_noticed_before(noticed)?;
        self.counters.given_up += u64::from(range.length);
        Some(range)
    }

    /// Whether this number is missing: passed over, not here, not given up.
    #[must_use]
    pub fn is_missing(&self, number: u64) -> bool {
        self.missing.contains(number)
    }

    /// Whether this number is missing, and was asked for.
    #[must_use]
    pub fn was_asked(&self, number: u64) -> bool {
        self.missing.was_asked(number)
    }

    /// Returns the time at which a number was passed over that is missing still.
    #[must_use]
    pub fn noticed(&self, number: u64) -> Option<Time> {
        self.missing.noticed(number)
    }

    /// How many numbers are missing.
    #[must_use]
    pub const fn missing(&self) -> usize {
        self.missing.count()
    }

    /// In how many gaps they are: what it takes to look for those that are due.
    #[must_use]
    pub fn gaps(&self) -> usize {
        self.missing.gaps()
    }

    /// What became of the numbers so far.
    #[must_use]
    pub const fn counters(&self) -> &GapCounters {
        &self.counters
    }

    /// The highest number has grown.
    fn advance(&mut self, now: Time) {
        if self.missing.count() == 0 {
            return;
        }
        self.counters.forgotten += self.missing.forget_below(self.received.oldest());
        self.missing.ripen(self.received.end() - 1, self.patience.packets, now);
    }

    /// The numbers from `first` to before `end` were passed over.
    fn miss(&mut self, first: u64, end: u64, now: Time) {
        self.counters.missed += end - first;
        let unasked_end = self.open.map_or(end, |open| open.from.clamp(first, end));
        let due = now.saturating_add(self.patience.time);
        self.counters.forgotten += self.missing.add(Gap::new(first, unasked_end, now).due_at(due));
        if let Some(open) = self.open {
            let due = if self.patience.asks_max > 1 { now.saturating_add(open.again) } else { Time::MAX };
            self.counters.forgotten += self.missing.add(Gap::new(unasked_end, end, now).asked(due));
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
    use crate::limits::MISSING_MAX;

    const PATIENCE: Patience = Patience { packets: 3, time: Duration::from_millis(8), asks_max: 2 };
    const AGAIN: Duration = Duration::from_millis(50);

    fn at(millis: u64) -> Time {
        Time::START + Duration::from_millis(millis)
    }

    fn tracker(numbers: impl IntoIterator<Item = u64>) -> GapTracker {
        let mut tracker = GapTracker::new(PATIENCE);
        for number in numbers {
            tracker.arrived(number, at(0));
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
        assert_eq!(tracker.arrived(4, at(0)), Arrival::Next);
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
        tracker.arrived(3, at(0));
        assert_eq!(
            tracker.due(AGAIN, at(8)).as_slice(),
            [range(1, 2), range(4, 1), range(6, 1), range(8, 2)]
        );
    }

    #[test]
    fn what_an_open_ended_request_covers_is_asked_for_only_again() {
        let mut tracker = tracker([0, 1]);
        tracker.open(2, AGAIN);
        tracker.arrived(10, at(20));
        tracker.close();
        assert_eq!(tracker.due(AGAIN, at(69)).as_slice(), []);
        assert_eq!(tracker.due(AGAIN, at(70)).as_slice(), [range(2, 8)]);
        assert_eq!(tracker.due(AGAIN, at(1_000)).as_slice(), []);
    }

    #[test]
    fn an_open_ended_request_from_the_middle_of_a_gap_covers_the_rest_of_it() {
        let mut tracker = tracker([0, 1]);
        tracker.open(5, AGAIN);
        tracker.arrived(10, at(0));
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
        assert_eq!(tracker.arrived(1, at(1)), Arrival::Filling, "what is forgotten is no duplicate");
        assert_eq!(tracker.counters().filled, 0);
    }

    #[test]
    fn what_leaves_the_window_is_forgotten() {
        let mut tracker = tracker((0..10).chain(11..8_202));
        assert!(tracker.is_missing(10));
        tracker.arrived(8_202, at(1));
        assert!(!tracker.is_missing(10));
        assert_eq!((tracker.missing(), tracker.counters().forgotten), (0, 1));
    }

    #[test]
    fn old_gaps_are_given_up_and_then_nothing_is_missing() {
        let mut tracker = tracker([0, 3, 5]);
        tracker.arrived(7, at(9));
        let given_up: Vec<_> = core::iter::from_fn(|| tracker.give_up(at(9))).collect();
        assert_eq!(given_up, [range(1, 2), range(4, 1)]);
        assert_eq!((tracker.missing(), tracker.counters().given_up), (1, 3));
    }

    /// The naive way: a record for each missing number.
    #[derive(Default)]
    struct Naive {
        missing: BTreeMap<u64, Record>,
        end: Option<u64>,
        open: Option<(u64, Duration)>,
        events: u64,
    }

    #[derive(Clone, Copy, Debug)]
    struct Record {
        noticed: Time,
        due: Time,
        asked: u8,
        /// Equal for numbers that were passed over at once and share the beginning of their fate.
        event: u64,
    }

    impl Naive {
        fn arrived(&mut self, number: u64, now: Time) {
            let end = self.end.unwrap_or(number);
            for missed in end..number {
                let open = self.open.filter(|(from, _)| missed >= *from);
                let (wait, asked) = open.map_or((PATIENCE.time, 0), |(_, again)| (again, 1));
                let event = 2 * self.events + u64::from(asked);
                self.missing.insert(missed, Record { noticed: now, due: now + wait, asked, event });
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

        /// A number ripens when the last of its row does.
        fn ripen(&mut self, highest: u64, now: Time) {
            let (mut after, mut last) = (None, 0);
            for (number, record) in self.missing.iter_mut().rev() {
                if after != Some((number + 1, record.event)) {
                    last = *number;
                }
                after = Some((*number, record.event));
                if record.asked == 0 && highest >= last + PATIENCE.packets {
                    record.due = record.due.min(now);
                }
            }
        }

        fn due(&mut self, now: Time) -> Vec<u64> {
            let mut numbers = Vec::new();
            for (number, record) in &mut self.missing {
                if record.due <= now {
                    numbers.push(*number);
                    record.asked += 1;
                    record.due = if record.asked < PATIENCE.asks_max { now + AGAIN } else { Time::MAX };
                }
            }
            numbers
        }

        fn give_up(&mut self, noticed: Time) -> Vec<u64> {
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
            let (mut tracker, mut naive) = (GapTracker::new(PATIENCE), Naive::default());
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
                        let given_up = core::iter::from_fn(|| tracker.give_up(old));
                        prop_assert_eq!(numbers(given_up), naive.give_up(old));
                    }
                    19 if by % 2 == 0 => {
                        tracker.open(highest + 1 + by % 3, AGAIN);
                        naive.open = Some((highest + 1 + by % 3, AGAIN));
                    }
                    19 => {
                        tracker.close();
                        naive.open = None;
                    }
                    _ => {
                        if tracker.arrived(number, now).is_new() {
                            naive.arrived(number, now);
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
