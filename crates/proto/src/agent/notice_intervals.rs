//! Intervals of a receiver's notices of silence to a sender that retransmits.

use byway_units::Duration;

use crate::limits::{RESENDING_NOTICE_INTERVAL, RESENDING_NOTICE_INTERVAL_MAX, SILENCE_MARGIN};

/// Intervals of notices to a sender that retransmits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoticeIntervals {
    /// Time from the expected arrival of the first lost packet to the first notice.
    pub(super) first: Duration,
    /// Time from a notice to the next one.
    pub(super) repeat: Duration,
}

impl NoticeIntervals {
    /// Returns the longest intervals with which packets are in time that wait for the next notice,
    /// by half round trips. A quarter of the time that is left is for variations of delays.
    ///
    /// If that is less than the shortest interval between notices, the first one waits half of the
    /// time that is left. A burst of losses of a fast flow ends sooner.
    pub(super) fn within(latency_budget: Duration, round_trip: Duration) -> Self {
        let repair = round_trip * 3 / 2 + round_trip / 8 + SILENCE_MARGIN;
        let left = latency_budget.saturating_sub(repair);
        let repeat = (left * 3 / 4).clamp(RESENDING_NOTICE_INTERVAL, RESENDING_NOTICE_INTERVAL_MAX);
        let first = if repeat > RESENDING_NOTICE_INTERVAL { repeat } else { left / 2 };
        Self { first, repeat }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn notices_wait_as_long_as_the_budget_allows() {
        // A repair takes 162 ms and a margin of 10 ms.
        for (budget, first, repeat) in [(172, 0, 40), (200, 14, 40), (252, 60, 60), (500, 120, 120)] {
            let intervals = NoticeIntervals::within(ms(budget), ms(100));
            let about = |time: Duration| (time.as_micros() + 500) / 1_000;
            let rounded = (about(intervals.first).abs_diff(first), about(intervals.repeat).abs_diff(repeat));
            assert!(rounded.0 <= 1 && rounded.1 <= 1, "{budget}: {intervals:?}");
        }
    }
}
