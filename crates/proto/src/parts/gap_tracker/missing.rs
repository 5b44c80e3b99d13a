//! Missing sequence numbers, stored as ranges that share the same NACK state.

use alloc::collections::VecDeque;

use arrayvec::ArrayVec;
use byway_units::{Duration, Time};

use super::NumberRange;
use crate::limits::{MISSING_MAX, RANGES_MAX};

/// Largest number of doublings of the time between NACKs.
const DOUBLINGS_MAX: u8 = 8;

/// Range of missing sequence numbers with the same detection time and the same NACKs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gap {
    first: u64,
    end: u64,
    noticed: Time,
    /// Time of the next NACK; `Time::MAX` if none follows.
    due: Time,
    nacks: u8,
    /// True if no NACK may request it.
    is_excluded: bool,
}

impl Gap {
    pub(super) const fn new(first: u64, end: u64, noticed: Time) -> Self {
        Self { first, end, noticed, due: Time::MAX, nacks: 0, is_excluded: false }
    }

    pub(super) const fn due_at(self, due: Time) -> Self {
        Self { due, ..self }
    }

    /// Marks a gap as requested once, by an open-ended NACK that covers it; the second NACK is due
    /// at `due`.
    pub(super) const fn nacked(self, due: Time) -> Self {
        Self { due, nacks: 1, ..self }
    }

    const fn count(&self) -> u64 {
        self.end - self.first
    }
}

/// All gaps of a flow by sequence number, with at most [`MISSING_MAX`] sequence numbers.
#[derive(Clone, Debug)]
pub(super) struct MissingRanges {
    gaps: VecDeque<Gap>,
    count: usize,
    /// Lower bound on the times of the next NACKs of all gaps.
    soonest: Time,
    /// Sequence number below which gaps count as losses at once, because packets far enough above
    /// have arrived.
    ripe_below: u64,
}

impl MissingRanges {
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

    /// Returns the detection time of a sequence number; `None` if it is not missing.
    pub(super) fn noticed(&self, number: u64) -> Option<Time> {
        self.find(number).map(|index| self.gaps[index].noticed)
    }

    /// True if a sequence number is missing, and a NACK has requested it.
    pub(super) fn was_nacked(&self, number: u64) -> bool {
        self.find(number).is_some_and(|index| self.gaps[index].nacks > 0)
    }

    /// Adds a gap above all others. If there are too many missing sequence numbers, the lowest are
    /// forgotten; returns their number.
    pub(super) fn add(&mut self, gap: Gap) -> u64 {
        if gap.count() == 0 {
            return 0;
        }
        let newest = Gap { first: gap.first.max(gap.end.saturating_sub(MISSING_MAX as u64)), ..gap };
        let mut forgotten = gap.count() - newest.count();
        let capacity = MISSING_MAX - usize_of(newest.count());
        while self.count > capacity {
            let excess = self.count - capacity;
            forgotten += self.trim_front(excess as u64);
        }
        self.count += usize_of(newest.count());
        self.soonest = self.soonest.min(newest.due);
        self.gaps.push_back(newest);
        forgotten
    }

    /// Removes a sequence number that has arrived; returns true if it was missing. Its gap shrinks
    /// or splits.
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

    /// Removes all sequence numbers below `oldest`, and returns their number.
    pub(super) fn forget_below(&mut self, oldest: u64) -> u64 {
        let mut forgotten = 0;
        while let Some(front) = self.gaps.front().filter(|front| front.first < oldest) {
            forgotten += self.trim_front(oldest - front.first);
        }
        forgotten
    }

    /// Makes the first NACK due for gaps that are `packets` or more below the highest sequence
    /// number.
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
        if gap.end <= self.ripe_below && gap.nacks == 0 && !gap.is_excluded {
            gap.due = gap.due.min(now);
            self.soonest = self.soonest.min(now);
        }
    }

    /// Returns the ranges for a NACK now, as many as fit, and counts it. They are due again after
    /// `again`, and then after twice as long each time, up to `nacks_max` NACKs.
    pub(super) fn pop_due(
        &mut self,
        nacks_max: u8,
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
                let later = again.as_nanos().saturating_mul(1 << gap.nacks.min(DOUBLINGS_MAX));
                gap.nacks = gap.nacks.saturating_add(1);
                gap.due = if gap.nacks < nacks_max {
                    now.saturating_add(Duration::from_nanos(later))
                } else {
                    Time::MAX
                };
            }
            self.soonest = self.soonest.min(gap.due);
        }
        ranges
    }

    /// Excludes the gaps whose first NACK is due from all NACKs, and returns the number of their
    /// sequence numbers.
    pub(super) fn exclude_due(&mut self, now: Time) -> u64 {
        let mut excluded = 0;
        if self.soonest > now {
            return excluded;
        }
        self.soonest = Time::MAX;
        for gap in &mut self.gaps {
            if gap.due <= now && gap.nacks == 0 {
                (gap.due, gap.is_excluded) = (Time::MAX, true);
                excluded += gap.count();
            }
            self.soonest = self.soonest.min(gap.due);
        }
        excluded
    }

    /// True if a sequence number is missing, and a NACK may request it.
    pub(super) fn is_wanted(&self, number: u64) -> bool {
        self.find(number).is_some_and(|index| !self.gaps[index].is_excluded)
    }

    /// Removes and returns the lowest gap, if it was detected before `noticed`.
    pub(super) fn pop_noticed_before(&mut self, noticed: Time) -> Option<NumberRange> {
        self.gaps.front().filter(|gap| gap.noticed < noticed)?;
        let gap = self.gaps.pop_front()?;
        self.count -= usize_of(gap.count());
        Some(NumberRange { first: gap.first, length: length_of(&gap) })
    }

    /// Removes up to `count` sequence numbers from the lowest gap, and returns their number.
    fn trim_front(&mut self, count: u64) -> u64 {
        let Some(front) = self.gaps.front_mut() else {
            return 0;
        };
        let removed = count.min(front.count());
        front.first += removed;
        if front.count() == 0 {
            self.gaps.pop_front();
        }
        self.count -= usize_of(removed);
        removed
    }

    fn find(&self, number: u64) -> Option<usize> {
        let index = self.gaps.partition_point(|gap| gap.end <= number);
        self.gaps.get(index).filter(|gap| gap.first <= number).map(|_| index)
    }
}

/// Adds a gap to the ranges of a NACK; returns false if they are full.
fn append(ranges: &mut ArrayVec<NumberRange, RANGES_MAX>, gap: &Gap) -> bool {
    if let Some(last) = ranges.last_mut().filter(|last| last.end() == gap.first) {
        last.length += length_of(gap);
        return true;
    }
    ranges.try_push(NumberRange { first: gap.first, length: length_of(gap) }).is_ok()
}

/// Returns the length of a gap as 32 bits; [`MISSING_MAX`] bounds it.
fn length_of(gap: &Gap) -> u32 {
    u32::try_from(gap.count()).unwrap_or(u32::MAX)
}

fn usize_of(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
