//! Consolidation of several reports of one link into one.

use byway_units::{Bytes, Duration, Time};

use crate::limits::{ENTRY_LIFETIME, INTERVAL_MAX};
use crate::link_state::LinkState;

/// Reports of one link since the last entry (section 6.2 of the paper).
///
/// Intervals and sent bytes add up; backlog, rate and delay are those of the newest report. Without
/// a report, the consolidated state has no news.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkMerge {
    /// Newest state.
    state: LinkState,
    /// Time at which the link measured it, on the clock of this node.
    measured_at: Time,
    interval: Duration,
    sent: Bytes,
    /// Backlog of the newest state with news.
    backlog: Bytes,
}

impl LinkMerge {
    /// Begins with a first report, received at `now`.
    pub(crate) fn new(state: &LinkState, now: Time) -> Self {
        let measured_at = now.saturating_sub(state.age());
        let mut merge = Self {
            state: *state,
            measured_at,
            interval: Duration::ZERO,
            sent: Bytes::ZERO,
            backlog: Bytes::ZERO,
        };
        merge.add(state, now);
        merge
    }

    /// Adds a report of the same link, received at `now`.
    pub(crate) fn add(&mut self, state: &LinkState, now: Time) {
        let entry = state.entry();
        let measured_at = now.saturating_sub(state.age());
        let is_newest = measured_at >= self.measured_at;
        if !entry.has_news() {
            // A report without news may have another rate, but never makes a link younger.
            if is_newest {
                self.state = *state;
            }
            return;
        }
        if is_newest {
            (self.state, self.measured_at, self.backlog) = (*state, measured_at, entry.backlog());
        }
        let interval = self.interval.saturating_add(entry.interval());
        if interval > INTERVAL_MAX {
            // Nobody has read the table for long: the mean of the last interval is enough.
            (self.interval, self.sent) = (entry.interval(), entry.sent());
        } else {
            (self.interval, self.sent) = (interval, self.sent.saturating_add(entry.sent()));
        }
    }

    /// Returns the consolidated state, and begins anew.
    pub(crate) fn flush(&mut self, now: Time) -> LinkState {
        let backlog = if self.interval.is_zero() { Bytes::ZERO } else { self.backlog };
        let entry = self.state.entry().with_measurements(self.interval, self.sent, backlog);
        (self.interval, self.sent) = (Duration::ZERO, Bytes::ZERO);
        self.state.with_entry(entry, now.saturating_since(self.measured_at))
    }

    /// True if the newest measurement is older than any entry of a table.
    pub(crate) fn is_silent(&self, now: Time) -> bool {
        now.saturating_since(self.measured_at) >= ENTRY_LIFETIME
    }
}

#[cfg(test)]
mod tests {
    use byway_units::Rate;

    use super::*;
    use crate::test_values::{link, millis, state};

    const START: Time = Time::from_nanos(10_000_000_000);

    /// Returns a report of a link at 5 Mbit/s, whose age is in ms.
    fn report(interval: f64, sent: f64, backlog: f64, age: u64) -> LinkState {
        report_at(625_000.0, interval, sent, backlog, age)
    }

    fn report_at(rate: f64, interval: f64, sent: f64, backlog: f64, age: u64) -> LinkState {
        state(link(1, 1), [interval, sent, backlog, rate, 0.01]).older_by(millis(age))
    }

    #[test]
    fn intervals_and_bytes_add_up_and_the_newest_backlog_counts() {
        let mut merge = LinkMerge::new(&report(0.05, 30_000.0, 3_000.0, 5), START);
        merge.add(&report(0.1, 10_000.0, 1_500.0, 5), START + millis(20));
        let state = merge.flush(START + millis(30));
        let entry = state.entry();
        assert_eq!((entry.interval(), entry.sent()), (millis(150), Bytes::new(40_000)));
        assert_eq!((entry.backlog(), state.age()), (Bytes::new(1_500), millis(15)));
    }

    #[test]
    fn reports_out_of_order_do_not_replace_a_newer_backlog() {
        let mut merge = LinkMerge::new(&report(0.05, 30_000.0, 3_000.0, 5), START);
        merge.add(&report(0.05, 10_000.0, 1_500.0, 60), START + millis(1));
        let state = merge.flush(START + millis(1));
        assert_eq!(state.entry().backlog(), Bytes::new(3_000));
        assert_eq!((state.entry().sent(), state.age()), (Bytes::new(40_000), millis(6)));
    }

    #[test]
    fn an_older_report_after_an_entry_leaves_the_newest_backlog() {
        let mut merge = LinkMerge::new(&report(0.05, 30_000.0, 3_000.0, 5), START);
        merge.flush(START);
        merge.add(&report(0.05, 10_000.0, 1_500.0, 80), START + millis(50));
        let state = merge.flush(START + millis(50));
        assert_eq!((state.entry().sent(), state.entry().backlog()), (Bytes::new(10_000), Bytes::new(3_000)));
        assert_eq!(state.age(), millis(55));
    }

    #[test]
    fn without_a_report_there_is_no_news_and_age_goes_on() {
        let mut merge = LinkMerge::new(&report(0.05, 30_000.0, 3_000.0, 5), START);
        merge.flush(START);
        let state = merge.flush(START + millis(50));
        assert!(!state.entry().has_news());
        assert_eq!((state.entry().sent(), state.entry().backlog()), (Bytes::ZERO, Bytes::ZERO));
        assert_eq!(state.entry().shown(), Rate::from_megabits_per_second(5));
        assert_eq!(state.age(), millis(55));
        assert!(!merge.is_silent(START + millis(4_994)) && merge.is_silent(START + millis(4_995)));
    }

    #[test]
    fn a_report_without_news_keeps_no_link_alive() {
        let mut merge = LinkMerge::new(&report(0.05, 30_000.0, 3_000.0, 0), START);
        merge.add(&report(0.0, 0.0, 0.0, 0), START + millis(10));
        let state = merge.flush(START + millis(10));
        assert_eq!((state.entry().backlog(), state.age()), (Bytes::new(3_000), millis(10)));
        for second in 1..10 {
            merge.add(&report(0.0, 0.0, 0.0, 0), START + Duration::from_secs(second));
        }
        assert!(merge.is_silent(START + Duration::from_secs(9)));
    }

    #[test]
    fn an_older_report_without_news_changes_nothing() {
        let mut merge = LinkMerge::new(&report(0.05, 30_000.0, 3_000.0, 5), START);
        merge.flush(START);
        let slow = |age| report_at(125_000.0, 0.0, 0.0, 0.0, age);
        merge.add(&slow(60), START + millis(50));
        assert_eq!(merge.flush(START + millis(50)).entry().shown(), Rate::from_megabits_per_second(5));
        merge.add(&slow(55), START + millis(50));
        assert_eq!(merge.flush(START + millis(50)).entry().shown(), Rate::from_megabits_per_second(1));
    }

    #[test]
    fn sums_are_cut_to_what_the_newest_rate_allows() {
        let fast = report_at(125_000_000.0, 0.05, 500_000_000.0, f64::from(100 << 20), 0);
        let mut merge = LinkMerge::new(&fast, START);
        merge.add(&report_at(1_000.0, 0.0, 0.0, 0.0, 0), START);
        let merged = *merge.flush(START).entry();
        // A hundred times 8 kbit/s in 50 ms, and the buffer of a slow link.
        assert_eq!((merged.sent(), merged.backlog()), (Bytes::new(5_000), Bytes::new(16 << 20)));
    }

    #[test]
    fn a_clock_that_goes_backwards_and_unread_reports_are_harmless() {
        let mut merge = LinkMerge::new(&report(10.0, 30_000.0, 3_000.0, 5), START);
        merge.add(&report(0.05, 1_000.0, 1_500.0, 0), Time::START);
        let entry = *merge.flush(Time::START).entry();
        assert_eq!((entry.interval(), entry.sent()), (millis(50), Bytes::new(1_000)));
        assert_eq!(entry.backlog(), Bytes::new(3_000), "the later one is newer");
    }
}
