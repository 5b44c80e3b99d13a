//! Averages of the links of a path, as a sender keeps them.

use alloc::vec::Vec;

use byway_units::{Duration, Time};

use crate::convert::{bytes_per_second, float};
use crate::limits::{
    AVERAGE_TIME, ENTRY_LIFETIME, MISSED_UPDATES, SAMPLE_INTERVAL, STATE_AGE_MAX, UPDATE_GAP,
};
use crate::link_state::{LinkId, LinkState};

/// Backlogs of which the least one is what certainly waits.
const RECENT: usize = 4;

/// Averages of one link, in bytes and seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkAverage {
    pub(crate) link: LinkId,
    /// Average bytes per second of all interactive flows (λ̄, Equation 1).
    pub(crate) throughput: f64,
    /// Average backlog of all interactive flows (q̄, Equation 2).
    pub(crate) backlog: f64,
    /// Newest shown rate (R), in bytes per second.
    pub(crate) rate: f64,
    /// Newest propagation delay (d).
    pub(crate) delay: f64,
    /// Target backlog of each flow (S).
    pub(crate) target: f64,
    /// Age and interval of the newest state: with the delay to the link, it is the time until the
    /// sender sees its effect on the link (τ).
    pub(crate) feedback: f64,
    /// Newest backlogs.
    recent: [f64; RECENT],
    /// Time that the averages are about: their time constant, or less after an outage.
    memory: f64,
    freshness: Freshness,
}

impl LinkAverage {
    /// Creates averages that are about `memory` seconds of zeros.
    fn new(state: &LinkState, memory: f64) -> Self {
        Self {
            link: state.link(),
            throughput: 0.0,
            backlog: 0.0,
            rate: 0.0,
            delay: 0.0,
            target: 0.0,
            feedback: 0.0,
            recent: [0.0; RECENT],
            memory,
            freshness: Freshness::new(),
        }
    }

    /// Updates the averages by Equations 1 and 2, unless the state has no news. If averages may
    /// begin anew, they do so after a second without news.
    fn update(&mut self, state: &LinkState, begins_anew: bool, now: Time) {
        let entry = state.entry();
        self.rate = bytes_per_second(entry.shown());
        self.delay = entry.delay().as_secs_f64();
        self.target = float(state.target().count());
        if !entry.has_news() {
            return;
        }
        let interval = entry.interval().as_secs_f64();
        if begins_anew && self.freshness.is_older_than(AVERAGE_TIME, now) {
            // After an outage, the averages are those of another time.
            self.memory = 0.0;
        }
        self.memory = (self.memory + interval).min(AVERAGE_TIME.as_secs_f64());
        let alpha = interval.min(self.memory) / self.memory;
        let backlog = float(entry.backlog().count());
        self.throughput += alpha * (float(entry.sent().count()) / interval - self.throughput);
        self.backlog += alpha * (backlog - self.backlog);
        self.feedback = state.age().as_secs_f64() + interval;
        self.recent.rotate_right(1);
        self.recent[0] = backlog;
        self.freshness.update(state, now);
    }

    /// Returns the time for which packets wait at the link by the average, or by the newest state
    /// if that is more.
    fn wait_max(&self) -> f64 {
        self.backlog.max(self.recent[0]) / self.rate
    }

    /// Returns the time for which packets wait at the link at least, by its newest states.
    fn wait_min(&self) -> f64 {
        self.recent.iter().fold(self.backlog, |least, backlog| least.min(*backlog)) / self.rate
    }
}

/// Freshness of a link's state: when news came, and how often they come.
#[derive(Clone, Copy, Debug)]
struct Freshness {
    news_at: Option<Time>,
    /// Age of the news at that time.
    age: Duration,
    /// Average time between news.
    gap: Duration,
}

impl Freshness {
    const fn new() -> Self {
        Self { news_at: None, age: Duration::ZERO, gap: UPDATE_GAP }
    }

    fn update(&mut self, state: &LinkState, now: Time) {
        let gap = self.news_at.map_or(Duration::ZERO, |at| now.saturating_since(at));
        // News that come together are one update. After a long silence, the gap is not one.
        if !gap.is_zero() {
            let gap = gap.min(self.gap * MISSED_UPDATES).min(ENTRY_LIFETIME);
            self.gap = (self.gap * 7 + gap) / 8;
        }
        self.gap = self.gap.max(state.entry().interval().min(SAMPLE_INTERVAL));
        (self.news_at, self.age) = (Some(now), state.age());
    }

    /// True if there were news, but not for so long.
    fn is_older_than(&self, period: Duration, now: Time) -> bool {
        self.news_at.is_some_and(|at| now.saturating_since(at) >= period)
    }

    /// True if there are no news, if four updates are missing, or if the news are too old.
    fn is_missing(&self, now: Time) -> bool {
        self.news_at.is_none_or(|at| {
            let since = now.saturating_since(at);
            since >= self.gap * MISSED_UPDATES || since.saturating_add(self.age) >= STATE_AGE_MAX
        })
    }
}

/// Averages of all links of one direction, in the order that packets pass them.
#[derive(Clone, Debug)]
pub(crate) struct PathAverages {
    links: Vec<LinkAverage>,
    begins_anew: bool,
}

impl PathAverages {
    /// Creates the averages of a path without links.
    ///
    /// If averages may begin anew, new ones are means of what comes, until that is a second. A flow
    /// that begins without history then settles as one with history. Otherwise, they begin at zero
    /// (section 4.1 of the paper).
    pub(crate) const fn new(begins_anew: bool) -> Self {
        Self { links: Vec::new(), begins_anew }
    }

    /// Updates all links. Averages of links that stay go on if the path changes.
    pub(crate) fn update(&mut self, states: &[LinkState], now: Time) {
        let is_same = |(average, state): (&LinkAverage, &LinkState)| average.link == state.link();
        if self.links.len() != states.len() || !self.links.iter().zip(states).all(is_same) {
            self.change_links(states);
        }
        for (average, state) in self.links.iter_mut().zip(states) {
            average.update(state, self.begins_anew, now);
        }
    }

    fn change_links(&mut self, states: &[LinkState]) {
        let before = core::mem::take(&mut self.links);
        let memory = if self.begins_anew { 0.0 } else { AVERAGE_TIME.as_secs_f64() };
        let average_of = |state: &LinkState| {
            let known = before.iter().find(|average| average.link == state.link());
            known.copied().unwrap_or_else(|| LinkAverage::new(state, memory))
        };
        self.links = states.iter().map(average_of).collect();
    }

    /// Returns the links, in the order that packets pass them.
    pub(crate) fn links(&self) -> &[LinkAverage] {
        &self.links
    }

    /// Returns the delay of the direction without queues, in seconds.
    pub(crate) fn base_delay(&self) -> f64 {
        self.links.iter().map(|link| link.delay).sum()
    }

    /// Returns the time for which packets wait in the direction, at most and in seconds.
    pub(crate) fn wait_max(&self) -> f64 {
        self.links.iter().map(LinkAverage::wait_max).sum()
    }

    /// Returns the time for which packets wait in the direction, at least and in seconds.
    pub(crate) fn wait_min(&self) -> f64 {
        self.links.iter().map(LinkAverage::wait_min).sum()
    }

    /// True if the state of a link is missing or too old.
    pub(crate) fn is_missing(&self, now: Time) -> bool {
        self.links.is_empty() || self.links.iter().any(|link| link.freshness.is_missing(now))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use byway_units::{Bytes, Rate};

    use super::*;
    use crate::entry::LinkEntry;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn at(number: u64) -> Time {
        Time::START + millis(number)
    }

    fn state(position: u32, interval: u64, sent: u64, backlog: u64) -> LinkState {
        let entry = LinkEntry::new(
            millis(interval),
            Bytes::new(sent),
            Bytes::new(backlog),
            Rate::from_megabits_per_second(8),
            millis(10),
        );
        LinkState::new(LinkId::unnamed(position), entry.expect("a usual entry"), millis(20))
            .expect("a usual age")
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9 * b.abs().max(1.0)
    }

    #[test]
    fn averages_move_by_the_interval_and_replace_all_after_a_second() {
        let mut path = PathAverages::new(false);
        path.update(&[state(0, 50, 10_000, 3_000)], at(50));
        assert!(close(path.links()[0].throughput, 10_000.0) && close(path.links()[0].backlog, 150.0));
        path.update(&[state(0, 2_000, 10_000, 3_000)], at(2_050));
        assert!(close(path.links()[0].throughput, 5_000.0) && close(path.links()[0].backlog, 3_000.0));
        assert!(close(path.links()[0].feedback, 2.02));
    }

    #[test]
    fn averages_begin_anew_after_a_second_without_news() {
        let mut path = PathAverages::new(true);
        path.update(&[state(0, 1_000, 10_000, 3_000)], at(0));
        path.update(&[state(0, 50, 1_000, 0)], at(999));
        assert!(close(path.links()[0].backlog, 2_850.0));
        for (number, expected) in [500.0, 1_000.0, 1_500.0].into_iter().enumerate() {
            let number = number as u64;
            path.update(&[state(0, 50, 1_000, 500 + 1_000 * number)], at(1_999 + 50 * number));
            assert!(close(path.links()[0].backlog, expected) && close(path.links()[0].throughput, 20_000.0));
        }
    }

    #[test]
    fn a_state_without_news_changes_rate_and_delay_only() {
        let mut path = PathAverages::new(false);
        path.update(&[state(0, 1_000, 10_000, 3_000)], at(50));
        let entry = LinkEntry::without_news(Rate::from_megabits_per_second(16), millis(7)).expect("usual");
        let state = LinkState::new(LinkId::unnamed(0), entry, Duration::ZERO).expect("young");
        path.update(&[state], at(100));
        let link = path.links()[0];
        assert!(close(link.rate, 2_000_000.0) && close(path.base_delay(), 0.007));
        assert!(close(link.backlog, 3_000.0) && close(link.feedback, 1.02));
    }

    #[test]
    fn averages_of_links_that_stay_go_on() {
        let mut path = PathAverages::new(false);
        path.update(&[state(0, 1_000, 1_000, 1_000), state(1, 1_000, 2_000, 2_000)], at(0));
        path.update(&[state(1, 50, 2_000, 2_000), state(2, 50, 1_000, 1_000)], at(50));
        assert!(close(path.links()[0].backlog, 2_000.0) && close(path.links()[1].backlog, 50.0));
    }

    #[test]
    fn waits_are_those_of_the_newest_states() {
        let mut path = PathAverages::new(false);
        for (number, backlog) in [4_000, 4_000, 1_000, 2_000, 9_000].into_iter().enumerate() {
            path.update(&[state(0, 1_000, 0, backlog)], at(number as u64 * 50));
        }
        assert!(close(path.wait_max(), 0.009) && close(path.wait_min(), 0.001));
    }

    #[test]
    fn four_missed_updates_are_missing_and_news_in_one_batch_are_one_update() {
        let mut path = PathAverages::new(false);
        assert!(path.is_missing(at(0)));
        for _ in 0..40 {
            path.update(&[state(0, 50, 0, 0)], at(1_000));
        }
        assert!(!path.is_missing(at(1_999)) && path.is_missing(at(2_000)), "a poll may be slow at first");
        for number in 1..60 {
            path.update(&[state(0, 50, 0, 0)], at(1_000 + 50 * number));
        }
        let last = 1_000 + 50 * 59;
        assert!(!path.is_missing(at(last + 199)) && path.is_missing(at(last + 206)));
        // A silence of ten seconds is no gap between updates.
        path.update(&[state(0, 50, 0, 0)], at(last + 10_000));
        assert!(!path.is_missing(at(last + 10_250)) && path.is_missing(at(last + 10_300)));
    }

    #[test]
    fn one_silent_link_and_old_state_are_missing() {
        let mut path = PathAverages::new(false);
        path.update(&[state(0, 50, 0, 0), state(1, 50, 0, 0)], at(0));
        for number in 1..40 {
            let silent =
                LinkEntry::without_news(Rate::from_megabits_per_second(8), millis(10)).expect("usual");
            let silent = LinkState::new(LinkId::unnamed(1), silent, millis(20)).expect("young");
            path.update(&[state(0, 50, 0, 0), silent], at(50 * number));
        }
        assert!(path.is_missing(at(1_950)));
        let mut path = PathAverages::new(false);
        path.update(&[state(0, 50, 0, 0).older_by(millis(1_900))], at(0));
        assert!(!path.is_missing(at(79)) && path.is_missing(at(80)));
    }
}
