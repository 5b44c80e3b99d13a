//! Averages of the links of a path, as a sender keeps them.

use alloc::vec::Vec;

use byway_units::{Duration, Time};

use crate::convert::{bytes_per_second, float};
use crate::limits::{
    AVERAGE_BACKLOG_RATIO_MAX, AVERAGE_TIME, ENTRY_LIFETIME, MISSED_UPDATES, SAMPLE_INTERVAL, STATE_AGE_MAX,
    UPDATE_GAP,
};
use crate::link_state::{LinkId, LinkState};
use crate::rules::Corrections;

/// Backlogs of which the least one is what certainly waits.
const RECENT: usize = 4;

/// Bytes of a full packet, whose time is in the delay of links that store and forward.
const FULL_PACKET: f64 = 1_500.0;

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

    /// Updates the averages by Equations 1 and 2, unless the state has no news. Corrected averages
    /// begin anew after a second without news, and leave a backlog that is no more.
    fn update(&mut self, state: &LinkState, corrections: Corrections, now: Time) {
        let entry = state.entry();
        self.rate = bytes_per_second(entry.shown());
        self.delay = entry.delay().as_secs_f64();
        self.target = float(state.target().count());
        if !entry.has_news() {
            return;
        }
        let interval = entry.interval().as_secs_f64();
        let corrects = corrections == Corrections::All;
        if corrects && self.freshness.is_older_than(AVERAGE_TIME, now) {
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
        if corrects {
            let largest = self.recent.iter().fold(0.0, |largest: f64, backlog| largest.max(*backlog));
            self.backlog = self.backlog.min(AVERAGE_BACKLOG_RATIO_MAX * (largest + self.target));
        }
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
    corrections: Corrections,
}

impl PathAverages {
    /// Creates the averages of a path without links.
    ///
    /// Corrected averages are means of what arrives, until that is a second. A flow that begins
    /// without history then settles as one with history. Others begin at zero (section 4.1 of the
    /// paper).
    pub(crate) const fn new(corrections: Corrections) -> Self {
        Self { links: Vec::new(), corrections }
    }

    /// Updates all links. Averages of links that stay go on if the path changes.
    pub(crate) fn update(&mut self, states: &[LinkState], now: Time) {
        let is_same = |(average, state): (&LinkAverage, &LinkState)| average.link == state.link();
        if self.links.len() != states.len() || !self.links.iter().zip(states).all(is_same) {
            self.change_links(states);
        }
        for (average, state) in self.links.iter_mut().zip(states) {
            average.update(state, self.corrections, now);
        }
    }

    fn change_links(&mut self, states: &[LinkState]) {
        let before = core::mem::take(&mut self.links);
        let memory = match self.corrections {
            Corrections::All => 0.0,
            Corrections::None => AVERAGE_TIME.as_secs_f64(),
        };
        let average_of = |state: &LinkState| {
            let known = before.iter().find(|average| average.link == state.link());
            known.copied().unwrap_or_else(|| LinkAverage::new(state, memory))
        };
        self.links = states.iter().map(average_of).collect();
    }

    /// Drops backlogs of links without state, because nobody knows what waits there. Delays stay.
    pub(crate) fn drop_missing_backlogs(&mut self, now: Time) {
        for link in self.links.iter_mut().filter(|link| link.freshness.is_missing(now)) {
            (link.backlog, link.recent, link.memory) = (0.0, [0.0; RECENT], 0.0);
        }
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

    /// Returns the part of the delay that may be the time of full packets, in seconds: delays of
    /// links that store and forward have it, and small packets are faster.
    pub(crate) fn packet_times(&self) -> f64 {
        self.links.iter().map(|link| (FULL_PACKET / link.rate).min(link.delay)).sum()
    }

    /// Returns the longest time until the sender sees its effect on a link, in seconds.
    pub(crate) fn feedback_max(&self) -> f64 {
        self.links.iter().fold(0.0, |longest, link| link.feedback.max(longest))
    }

    /// True if the state of a link is missing or too old.
    pub(crate) fn is_missing(&self, now: Time) -> bool {
        self.links.is_empty() || self.links.iter().any(|link| link.freshness.is_missing(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_values::{BUSY, at, is_close, millis};

    /// Returns the state of a link at 8 Mbit/s that is 20 ms old.
    fn state(position: u32, interval: f64, sent: f64, backlog: f64) -> LinkState {
        let numbers = [interval, sent, backlog, 1_000_000.0, 0.01];
        crate::test_values::state(LinkId::unnamed(position), numbers).older_by(millis(20))
    }

    fn new_averages() -> PathAverages {
        PathAverages::new(Corrections::None)
    }

    #[test]
    fn averages_move_by_the_interval_and_replace_all_after_a_second() {
        let mut path = new_averages();
        path.update(&[state(0, 0.05, 10_000.0, 3_000.0)], at(50));
        assert!(is_close(path.links()[0].throughput, 10_000.0) && is_close(path.links()[0].backlog, 150.0));
        path.update(&[state(0, 2.0, 10_000.0, 3_000.0)], at(2_050));
        assert!(is_close(path.links()[0].throughput, 5_000.0) && is_close(path.links()[0].backlog, 3_000.0));
        assert!(is_close(path.links()[0].feedback, 2.02) && is_close(path.feedback_max(), 2.02));
    }

    #[test]
    fn averages_begin_anew_after_a_second_without_news() {
        let mut path = PathAverages::new(Corrections::All);
        path.update(&[state(0, 1.0, 10_000.0, 3_000.0)], at(0));
        path.update(&[state(0, 0.05, 1_000.0, 0.0)], at(999));
        assert!(is_close(path.links()[0].backlog, 2_850.0));
        for (now, backlog, expected) in
            [(1_999, 500.0, 500.0), (2_049, 1_500.0, 1_000.0), (2_099, 2_500.0, 1_500.0)]
        {
            path.update(&[state(0, 0.05, 1_000.0, backlog)], at(now));
            let link = path.links()[0];
            assert!(is_close(link.backlog, expected) && is_close(link.throughput, 20_000.0));
        }
    }

    #[test]
    fn a_backlog_that_four_states_do_not_have_is_no_more() {
        let backlogs = |corrections| {
            let mut path = PathAverages::new(corrections);
            path.update(&[state(0, 1.0, 0.0, 1_000_000.0)], at(0));
            [1, 2, 3, 4].map(|number| {
                path.update(&[state(0, 0.05, 0.0, 0.0)], at(50 * number));
                path.links()[0].backlog
            })
        };
        let [.., third, fourth] = backlogs(Corrections::All);
        // 95 % of it after each twentieth of a second, and at last eight targets.
        assert!(is_close(third, 857_375.0) && is_close(fourth, 12_000.0));
        let [.., published] = backlogs(Corrections::None);
        assert!(is_close(published, 814_506.25));
    }

    #[test]
    fn a_state_without_news_changes_rate_and_delay_only() {
        let mut path = new_averages();
        path.update(&[state(0, 1.0, 10_000.0, 3_000.0)], at(50));
        let silent = crate::test_values::state(LinkId::unnamed(0), [0.0, 0.0, 0.0, 2_000_000.0, 0.007]);
        path.update(&[silent], at(100));
        let link = path.links()[0];
        assert!(is_close(link.rate, 2_000_000.0) && is_close(path.base_delay(), 0.007));
        assert!(is_close(link.backlog, 3_000.0) && is_close(link.feedback, 1.02));
        assert!(is_close(path.packet_times(), 0.000_75));
        let slow = crate::test_values::state(LinkId::unnamed(0), [0.0, 0.0, 0.0, 1_000.0, 0.007]);
        path.update(&[slow], at(100));
        assert!(is_close(path.packet_times(), 0.007), "a packet's time is a part of the delay at most");
    }

    #[test]
    fn averages_of_links_that_stay_go_on() {
        let mut path = new_averages();
        path.update(&[state(0, 1.0, 1_000.0, 1_000.0), state(1, 1.0, 2_000.0, 2_000.0)], at(0));
        path.update(&[state(1, 0.05, 2_000.0, 2_000.0), state(2, 0.05, 1_000.0, 1_000.0)], at(50));
        assert!(is_close(path.links()[0].backlog, 2_000.0) && is_close(path.links()[1].backlog, 50.0));
    }

    #[test]
    fn waits_are_those_of_the_newest_states() {
        let mut path = new_averages();
        for (now, backlog) in [(0, 4_000.0), (50, 4_000.0), (100, 1_000.0), (150, 2_000.0), (200, 9_000.0)] {
            path.update(&[state(0, 1.0, 0.0, backlog)], at(now));
        }
        assert!(is_close(path.wait_max(), 0.009) && is_close(path.wait_min(), 0.001));
    }

    #[test]
    fn four_missed_updates_are_missing_and_news_in_one_batch_are_one_update() {
        let busy = [crate::test_values::state(LinkId::unnamed(0), BUSY)];
        let mut path = new_averages();
        assert!(path.is_missing(at(0)));
        for _ in 0..40 {
            path.update(&busy, at(1_000));
        }
        assert!(!path.is_missing(at(1_999)) && path.is_missing(at(2_000)), "a poll may be slow at first");
        for number in 1..60 {
            path.update(&busy, at(1_000 + 50 * number));
        }
        let last = 1_000 + 50 * 59;
        assert!(!path.is_missing(at(last + 199)) && path.is_missing(at(last + 206)));
        // A silence of ten seconds is no gap between updates.
        path.update(&busy, at(last + 10_000));
        assert!(!path.is_missing(at(last + 10_250)) && path.is_missing(at(last + 10_300)));
    }

    #[test]
    fn one_silent_link_and_old_state_are_missing() {
        let news = |position| state(position, 0.05, 0.0, 1_000.0);
        let mut path = new_averages();
        path.update(&[news(0), news(1)], at(0));
        for number in 1..40 {
            path.update(&[news(0), state(1, 0.0, 0.0, 0.0)], at(50 * number));
        }
        assert!(path.is_missing(at(1_950)));
        path.drop_missing_backlogs(at(1_950));
        assert!(path.links()[0].backlog > 800.0 && is_close(path.links()[1].backlog, 0.0));
        let mut path = new_averages();
        path.update(&[news(0).older_by(millis(1_880))], at(0));
        assert!(!path.is_missing(at(99)) && path.is_missing(at(100)));
    }
}
