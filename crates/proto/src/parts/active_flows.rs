//! Number of flows that send, by intervals.

use byway_units::{Duration, Time};
use byway_wire::SequenceNumber;
use byway_wire::messages::GroupActivity;

use super::cohorts::participation_of;
use crate::limits::ACTIVITY_INTERVAL;

/// Returns the number of the interval that contains a time.
pub(crate) fn interval_of(now: Time) -> u64 {
    now.as_nanos() / ACTIVITY_INTERVAL.as_nanos()
}

/// Latest interval in which a flow was counted as one that sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CountedInterval {
    /// End of the interval; [`Time::START`] before the first one.
    until: Time,
    /// Arrival time of the flow's first packet in the interval.
    began: Time,
    /// Low bits of that packet's sequence number.
    first_low: u32,
}

impl CountedInterval {
    /// Interval of a flow that was not counted yet.
    pub(crate) const NONE: Self = Self { until: Time::START, began: Time::START, first_low: 0 };

    /// True if the flow was counted in the interval that contains this time.
    #[inline]
    pub(crate) fn contains(&self, now: Time) -> bool {
        now < self.until
    }

    /// True if the flow was counted in an interval, or in the one before.
    pub(crate) fn is_recent(&self, interval: u64) -> bool {
        self.until > Time::START && interval_of(self.until) >= interval
    }

    /// Begins an interval with a packet. Returns the flow's participation in batches since the
    /// first packet of the interval before: packets wait for `wait` at most.
    pub(crate) fn begin(&mut self, sequence: SequenceNumber, wait: Duration, now: Time) -> u32 {
        let until = Time::START + ACTIVITY_INTERVAL * (interval_of(now) + 1);
        let began = Self { until, began: now, first_low: sequence.low() };
        let before = core::mem::replace(self, began);
        let packets = sequence.low().wrapping_sub(before.first_low);
        // A packet that arrived late may have a lower number.
        let is_counted = before.until > Time::START && packets <= u32::MAX / 2;
        if is_counted { participation_of(packets, now.saturating_since(before.began), wait) } else { 0 }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::cohorts::PARTICIPATION_UNIT;

    fn at(millis: u64) -> Time {
        Time::START + Duration::from_millis(millis)
    }

    #[test]
    fn a_flow_is_counted_once_in_each_interval_with_the_packets_since() {
        let (mut counted, wait) = (CountedInterval::NONE, Duration::from_millis(50));
        let mut begin = |number, millis| {
            let is_known = counted.contains(at(millis));
            let participation = counted.begin(SequenceNumber::new(number), wait, at(millis));
            (is_known, participation, [0, 1, 2].map(|interval| counted.is_recent(interval)))
        };
        assert_eq!(begin(7, 500), (false, 0, [true, true, false]));
        // 15 packets in 1.5 s, of which a half arrives in 50 ms.
        assert_eq!(begin(22, 2_000), (false, PARTICIPATION_UNIT / 2, [true, true, true]));
        assert_eq!(begin(22, 3_999), (true, 0, [true, true, true]));
        assert_eq!(begin(21, 4_000).1, 0, "an earlier packet");
        assert!(!CountedInterval::NONE.is_recent(0));
    }
}
