//! Missing sequence numbers of a flow, stored as ranges that share the state of their requests.

use alloc::collections::VecDeque;

use arrayvec::ArrayVec;
use byway_units::{Duration, Time};

use super::retry::{RetryPolicy, RetryTimer};
use crate::limits::RANGES_MAX;

/// Range of consecutive sequence numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberRange {
    /// Lowest sequence number in the range.
    pub first: u64,
    /// Number of sequence numbers in the range; never 0.
    pub length: u32,
}

impl NumberRange {
    /// Returns the sequence number after the last one of the range.
    #[must_use]
    pub const fn end(self) -> u64 {
        self.first + self.length as u64
    }
}

/// Range of missing sequence numbers with the same detection time and the same requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gap {
    first: u64,
    end: u64,
    noticed: Time,
    /// Times of its requests; cancelled if it may not be requested.
    retry: RetryTimer,
}

impl Gap {
    pub(crate) const fn new(first: u64, end: u64, noticed: Time, retry: RetryTimer) -> Self {
        Self { first, end, noticed, retry }
    }

    const fn count(&self) -> u64 {
        self.end - self.first
    }
}

/// All gaps of a flow by sequence number, with at most `CAPACITY` missing sequence numbers.
#[derive(Clone, Debug)]
pub(crate) struct MissingRanges<const CAPACITY: usize> {
    gaps: VecDeque<Gap>,
    count: usize,
    /// Lower bound on the times of the next requests for all gaps.
    soonest: Time,
    /// Sequence number below which gaps count as losses at once, because packets far enough above
    /// have arrived.
    ripe_below: u64,
}

impl<const CAPACITY: usize> MissingRanges<CAPACITY> {
    pub(crate) const fn new() -> Self {
        Self { gaps: VecDeque::new(), count: 0, soonest: Time::MAX, ripe_below: 0 }
    }

    /// Returns the allocated memory of the gaps, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        (self.gaps.capacity() * size_of::<Gap>()) as u64
    }

    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn gaps(&self) -> usize {
        self.gaps.len()
    }

    pub(crate) const fn deadline(&self) -> Option<Time> {
        if self.soonest.as_nanos() == u64::MAX { None } else { Some(self.soonest) }
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        self.find(number).is_some()
    }

    /// Returns the detection time of a sequence number; `None` if it is not missing.
    pub(crate) fn noticed(&self, number: u64) -> Option<Time> {
        self.find(number).map(|index| self.gaps[index].noticed)
    }

    /// True if a sequence number is missing, and was requested.
    pub(crate) fn was_requested(&self, number: u64) -> bool {
        self.find(number).is_some_and(|index| self.gaps[index].retry.requests() > 0)
    }

    /// Adds a gap above all others. If there are too many missing sequence numbers, the lowest are
    /// forgotten; returns their number.
    pub(crate) fn add(&mut self, gap: Gap) -> u64 {
        if gap.count() == 0 {
            return 0;
        }
        let newest = Gap { first: gap.first.max(gap.end.saturating_sub(CAPACITY as u64)), ..gap };
        let mut forgotten = gap.count() - newest.count();
        let capacity = CAPACITY - usize_of(newest.count());
        while self.count > capacity {
            let excess = self.count - capacity;
            forgotten += self.trim_front(excess as u64);
        }
        self.count += usize_of(newest.count());
        self.soonest = self.soonest.min(newest.retry.due());
        self.gaps.push_back(newest);
        forgotten
    }

    /// Removes a sequence number that has arrived; returns true if it was missing. Its gap shrinks
    /// or splits.
    pub(crate) fn remove(&mut self, number: u64, now: Time) -> bool {
        let Some(index) = self.find(number) else {
            return false;
        };
        let gap = self.gaps[index];
        self.count -= 1;
        match (gap.first == number, gap.end == number + 1) {
            (true, true) => {
                self.gaps.remove(index);
                if self.gaps.is_empty() {
                    self.soonest = Time::MAX;
                }
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
    pub(crate) fn forget_below(&mut self, oldest: u64) -> u64 {
        let mut forgotten = 0;
        while let Some(front) = self.gaps.front().filter(|front| front.first < oldest) {
            forgotten += self.trim_front(oldest - front.first);
        }
        forgotten
    }

    /// Makes the first request due for gaps that are `packets` or more below the highest sequence
    /// number.
    pub(crate) fn ripen(&mut self, highest: u64, packets: u64, now: Time) {
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
        if gap.end <= self.ripe_below && gap.retry.requests() == 0 {
            gap.retry.hasten_first(now);
            self.soonest = self.soonest.min(gap.retry.due());
        }
    }

    /// Returns the ranges to request now, as many as fit into a message, and records the request.
    /// Each is due again by the policy, with `interval` between the first two requests.
    pub(crate) fn pop_due(
        &mut self,
        policy: RetryPolicy,
        interval: Duration,
        now: Time,
    ) -> ArrayVec<NumberRange, RANGES_MAX> {
        let mut ranges = ArrayVec::new();
        if self.soonest > now {
            return ranges;
        }
        self.soonest = Time::MAX;
        for gap in &mut self.gaps {
            if gap.retry.is_due(now) && append(&mut ranges, gap) {
                gap.retry.on_request(policy, interval, now);
            }
            self.soonest = self.soonest.min(gap.retry.due());
        }
        ranges
    }

    /// Excludes the gap detected `now` from all requests, unless it was requested before. Returns
    /// its range.
    pub(crate) fn exclude_latest(&mut self, now: Time) -> Option<NumberRange> {
        // An open-ended request may cover the end of the missing numbers: a gap of its own.
        let latest = self.gaps.iter_mut().rev().take(2).take_while(|gap| gap.noticed == now);
        let gap = latest.filter(|gap| gap.retry.requests() == 0 && !gap.retry.is_cancelled()).last()?;
        gap.retry.cancel();
        Some(NumberRange { first: gap.first, length: length_of(gap) })
    }

    /// True if a sequence number is missing, and may be requested.
    pub(crate) fn is_wanted(&self, number: u64) -> bool {
        self.find(number).is_some_and(|index| !self.gaps[index].retry.is_cancelled())
    }

    /// Removes and returns the lowest gap, if it was detected before `noticed`.
    pub(crate) fn pop_noticed_before(&mut self, noticed: Time) -> Option<NumberRange> {
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

/// Adds a gap to the ranges of a request; returns false if they are full.
fn append(ranges: &mut ArrayVec<NumberRange, RANGES_MAX>, gap: &Gap) -> bool {
    if let Some(last) = ranges.last_mut().filter(|last| last.end() == gap.first) {
        last.length += length_of(gap);
        return true;
    }
    ranges.try_push(NumberRange { first: gap.first, length: length_of(gap) }).is_ok()
}

/// Returns the length of a gap as 32 bits; the capacity bounds it.
fn length_of(gap: &Gap) -> u32 {
    u32::try_from(gap.count()).unwrap_or(u32::MAX)
}

fn usize_of(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
