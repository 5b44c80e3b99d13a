//! Number of flows that send, by intervals.

use byway_wire::messages::GroupActivity;

/// Flows of one tenant in a coding group that sent copies in an interval, and in the one before.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ActiveFlows {
    /// Number of the interval, since the start of time.
    interval: u64,
    current: GroupActivity,
    before: GroupActivity,
}

impl ActiveFlows {
    /// Counts a flow of service coding (`is_coded`) or caching in an interval.
    pub(crate) const fn count(&mut self, is_coded: bool, interval: u64) {
        self.advance(interval);
        let GroupActivity { coded, cached } = &mut self.current;
        let count = if is_coded { coded } else { cached };
        *count = count.saturating_add(1);
    }

    /// Returns the larger counts of an interval so far, and of the one before.
    pub(crate) fn activity(mut self, interval: u64) -> GroupActivity {
        self.advance(interval);
        GroupActivity {
            coded: self.current.coded.max(self.before.coded),
            cached: self.current.cached.max(self.before.cached),
        }
    }

    const fn advance(&mut self, interval: u64) {
        if interval > self.interval {
            let is_next = interval == self.interval + 1;
            self.before = if is_next { self.current } else { GroupActivity { coded: 0, cached: 0 } };
            (self.current, self.interval) = (GroupActivity { coded: 0, cached: 0 }, interval);
        }
    }
}
