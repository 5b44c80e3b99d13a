//! Which numbers are missing, as ranges of equal fate.

use alloc::collections::VecDeque;

use arrayvec::ArrayVec;
use byway_units::{Duration, Time};

use super::NumberRange;
use crate::limits::{MISSING_MAX, RANGES_MAX};

/// How often the time doubles after which is asked again.
const DOUBLINGS_MAX: u8 = 8;

/// Numbers that were noticed to be missing together, and asked for together since.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gap {
    first: u64,
    end: u64,
    noticed: Time,
    /// When to ask; `Time::MAX`: no more.
    due: Time,
    asked: u8,
    /// Whether it is asked for never.
    is_left: bool,
}

impl Gap {
    pub(super) const fn new(first: u64, end: u64, noticed: Time) -> Self {
        Self { first, end, noticed, due: Time::MAX, asked: 0, is_left: false }
    }

    pub(super) const fn due_at(self, due: Time) -> Self {
        Self { due, ..self }
    }

    /// An open-ended request covers it: that was the first, and at `due` follows the second.
    pub(super) const fn asked(self, due: Time) -> Self {
        Self { due, asked: 1, ..self }
    }

    const fn count(&self) -> u64 {
        self.end - self.first
    }
}

/// All gaps of a flow, in order; at most [`MISSING_MAX`] numbers.
#[derive(Clone, Debug)]
pub(super) struct Missing {
    gaps: VecDeque<Gap>,
    count: usize,
    /// No gap is due before.
    soonest: Time,
    /// What lies below is no mere reordering any more.
    ripe_below: u64,
}

impl Missing {
    pub(super) const fn new() -> Self {
        Self { gaps: VecDeque::new(), count: 0, soonest: Time::MAX, ripe_below: 0 }
    }

    pub(super) const fn count(&self) -> usize {
        self.count
    }

    pub(super) fn gaps(&self) -> usize {
        self.gaps.len()
    }

    pub(super) const fn deadline(&self) -> Option<Time> {
        if self.soonest.as_nanos() == u64::MAX { None } else { Some(self.soonest) }
    }

    pub(super) fn contains(&self, number: u64) -> bool {
        self.find(number).is_some()
    }

    /// Returns the time at which a number was passed over that is missing still.
    pub(super) fn noticed(&self, number: u64) -> Option<Time> {
        self.find(number).map(|index| self.gaps[index].noticed)
    }

    /// Whether a number is missing, and was asked for.
    pub(super) fn was_asked(&self, number: u64) -> bool {
        self.find(number).is_some_and(|index| self.gaps[index].asked > 0)
    }

    /// Adds a gap beyond all others; how many numbers are forgotten for it.
    pub(super) fn add(&mut self, gap: Gap) -> u64 {
        if gap.count() == 0 {
            return 0;
        }
        let newest = Gap { first: gap.first.max(gap.end.saturating_sub(MISSING_MAX as u64)), ..gap };
        let mut forgotten = gap.count() - newest.count();
        let room = MISSING_MAX - usize_of(newest.count());
        while self.count > room {
            let excess = self.count - room;
            forgotten += self.trim_front(excess as u64);
        }
        self.count += usize_of(newest.count());
        self.soonest = self.soonest.min(newest.due);
        self.gaps.push_back(newest);
        forgotten
    }

    /// Takes a number out; whether it was in.
    pub(super) fn remove(&mut self, number: u64, now: Time) -> bool {
        let Some(index) = self.find(number) else {
            return false;
        };
        let gap = self.gaps[index];
        self.count -= 1;
        match (gap.first == number, gap.end == number + 1) {
            (true, true) => {
                self.gaps.remove(index);
            }
            (true, false) => self.gaps[index].first += 1,
            (false, is_last) => {
                self.gaps[index].end = number;
                self.ripen_one(index, now);
                if !is_last {
                    self.gaps.insert(index + 1, Gap { first: number + 1, ..gap });
                }
            }
        }
        true
    }

    /// Forgets all numbers below `oldest`; how many.
    pub(super) fn forget_below(&mut self, oldest: u64) -> u64 {
        let mut forgotten = 0;
        while let Some(front) = self.gaps.front().filter(|front| front.first < oldest) {
            forgotten += self.trim_front(oldest - front.first);
        }
        forgotten
    }

    /// What lies `packets` or more below the highest number is due.
    pub(super) fn ripen(&mut self, highest: u64, packets: u64, now: Time) {
        let ripe_before = self.ripe_below;
        self.ripe_below = (highest + 1).saturating_sub(packets).max(ripe_before);
        for index in (0..self.gaps.len()).rev() {
            if self.gaps[index].end <= ripe_before {
                break;
            }
            self.ripen_one(index, now);
        }
    }

    fn ripen_one(&mut self, index: usize, now: Time) {
        let gap = &mut self.gaps[index];
        if gap.end <= self.ripe_below && gap.asked == 0 && !gap.is_left {
            gap.due = gap.due.min(now);
            self.soonest = self.soonest.min(now);
        }
    }

    /// The ranges that are due, which are next due after `again`, if ever, and then twice as late each time.
    pub(super) fn ask(
        &mut self,
        asks_max: u8,
        again: Duration,
        now: Time,
    ) -> ArrayVec<NumberRange, RANGES_MAX> {
        let mut ranges = ArrayVec::new();
        if self.soonest > now {
            return ranges;
        }
        self.soonest = Time::MAX;
        for gap in &mut self.gaps {
            if gap.due <= now && append(&mut ranges, gap) {
                let later = again.as_nanos().saturating_mul(1 << gap.asked.min(DOUBLINGS_MAX));
                gap.asked = gap.asked.saturating_add(1);
                gap.due = if gap.asked < asks_max {
                    now.saturating_add(Duration::from_nanos(later))
                } else {
                    Time::MAX
                };
            }
            self.soonest = self.soonest.min(gap.due);
        }
        ranges
    }

    /// Has what is due for the first time never be asked for; how many numbers.
    pub(super) fn leave_due(&mut self, now: Time) -> u64 {
        let mut left = 0;
        if self.soonest > now {
            return left;
        }
        self.soonest = Time::MAX;
        for gap in &mut self.gaps {
            if gap.due <= now && gap.asked == 0 {
                (gap.due, gap.is_left) = (Time::MAX, true);
                left += gap.count();
            }
            self.soonest = self.soonest.min(gap.due);
        }
        left
    }

    /// Whether a number is missing, and may be asked for.
    pub(super) fn is_wanted(&self, number: u64) -> bool {
        self.find(number).is_some_and(|index| !self.gaps[index].is_left)
    }

    /// Takes out the lowest range, if it was noticed before this.
    pub(super) fn pop_noticed_before(&mut self, noticed: Time) -> Option<NumberRange> {
        self.gaps.front().filter(|gap| gap.noticed < noticed)?;
        let gap = self.gaps.pop_front()?;
        self.count -= usize_of(gap.count());
        Some(NumberRange { first: gap.first, length: length_of(&gap) })
    }

    /// Takes up to `count` numbers out of the first gap; how many.
    fn trim_front(&mut self, count: u64) -> u64 {
        let Some(front) = self.gaps.front_mut() else {
            return 0;
        };
        let taken = count.min(front.count());
        front.first += taken;
        if front.count() == 0 {
            self.gaps.pop_front();
        }
        self.count -= usize_of(taken);
        taken
    }

    fn find(&self, number: u64) -> Option<usize> {
        let index = self.gaps.partition_point(|gap| gap.end <= number);
        self.gaps.get(index).filter(|gap| gap.first <= number).map(|_| index)
    }
}

/// Adds a gap to what is asked for; whether there was room.
fn append(ranges: &mut ArrayVec<NumberRange, RANGES_MAX>, gap: &Gap) -> bool {
    if let Some(last) = ranges.last_mut().filter(|last| last.end() == gap.first) {
        last.length += length_of(gap);
        return true;
    }
    ranges.try_push(NumberRange { first: gap.first, length: length_of(gap) }).is_ok()
}

/// Gaps hold no more numbers than are missing at most.
fn length_of(gap: &Gap) -> u32 {
    u32::try_from(gap.count()).unwrap_or(u32::MAX)
}

fn usize_of(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
