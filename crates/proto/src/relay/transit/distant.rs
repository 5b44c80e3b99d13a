//! Distant relay: another relay to which packets may go through a third one, with the third relays
//! that are probed, and the choice among them.

use alloc::collections::BTreeMap;

use arrayvec::ArrayVec;
use byway_plan::{
    LatencyTerms, PathDelay, PathObservation, PathReason, PathSelection, PlannedRoute, Route, RouteSelector,
    RouteTrust,
};
use byway_units::{Duration, RelayId, Time};
use byway_wire::{Microseconds, SessionIndex, TransitLabel};

use super::delivery::TransitDelivery;
use crate::limits::{
    TRANSIT_CANDIDATES_MAX, TRANSIT_DIRECT_BELIEVED_FOR, TRANSIT_DIRECT_SAMPLES_MIN, TRANSIT_DISMISSED_FOR,
    TRANSIT_GAIN, TRANSIT_GAIN_PART, TRANSIT_REQUEST_RETRY, TRANSIT_SAMPLES,
};
use crate::parts::path_probes::{DelaySamples, PathProbes};
use crate::session::{SessionId, TransitPath};

/// Third relay with the delay through it, by the delays that both relays report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ThirdRelay {
    /// Session with the third relay.
    pub(super) session: SessionId,
    pub(super) number: RelayId,
    /// One-way delay through it.
    pub(super) delay: Duration,
}

/// Third relay that is probed.
#[derive(Debug)]
pub(super) struct Candidate {
    /// Session with the third relay.
    pub(super) session: SessionId,
    number: RelayId,
    /// Path with the latest label; `None` before the first one.
    path: Option<TransitPath>,
    /// Index for which a label was requested, and the time of the latest request.
    requested: Option<(SessionIndex, Time)>,
    probes: PathProbes,
    /// True if the third relay refused, has lost its labels, or cannot be reached.
    has_failed: bool,
}

impl Candidate {
    fn new(session: SessionId, number: RelayId) -> Self {
        let probes = PathProbes::default();
        Self { session, number, path: None, requested: None, probes, has_failed: false }
    }

    fn route(&self) -> Option<Route> {
        Route::new(&[self.number])
    }

    /// Returns the path for the next probe; `None` before the first label.
    pub(super) const fn path(&self) -> Option<TransitPath> {
        self.path
    }

    /// True if a request for a label is due, which the caller sends: there is none for this index
    /// of the distant relay's session, or no answer.
    pub(super) fn poll_request(&mut self, index: SessionIndex, now: Time) -> bool {
        let is_labelled = self.path.is_some_and(|path| path.index == index);
        let is_awaited = self
            .requested
            .is_some_and(|(requested, at)| requested == index && now < at + TRANSIT_REQUEST_RETRY);
        let is_due = !is_labelled && !is_awaited && !self.has_failed;
        if is_due {
            self.requested = Some((index, now));
        }
        is_due
    }

    /// Records the answer to a request: a label, or a refusal. Ignores answers to other requests.
    fn on_label(&mut self, index: SessionIndex, label: Option<TransitLabel>) {
        if self.requested.take_if(|(requested, _)| *requested == index).is_none() {
            return;
        }
        match label {
            Some(label) => self.path = Some(TransitPath { relay: self.session, label, index }),
            None => self.has_failed = true,
        }
    }

    /// Records a probe with this number; `None` if it could not be sent.
    pub(super) fn on_probe(&mut self, number: Option<u32>, now: Time) {
        match number {
            Some(number) => self.probes.on_sent(number, now),
            None => self.has_failed = true,
        }
    }

    fn is_silent(&self, now: Time) -> bool {
        self.has_failed || self.probes.is_silent(now)
    }

    /// True if the latest probes were all answered, often enough for a median.
    fn is_measured(&self, now: Time) -> bool {
        self.probes.delays().count() == TRANSIT_SAMPLES && !self.is_silent(now)
    }
}

/// Returns the least gain over a path with this delay.
fn least_gain(slower: Duration) -> Duration {
    TRANSIT_GAIN.max(slower / TRANSIT_GAIN_PART)
}

/// True if a path with the first delay gains enough over one with the other.
fn is_gain(faster: Duration, slower: Duration) -> bool {
    faster.saturating_add(least_gain(slower)) <= slower
}

/// Another relay to which packets may go through a third one.
#[derive(Debug)]
pub(super) struct DistantRelay {
    selector: RouteSelector,
    trust: RouteTrust,
    /// Delays of the direct path: halves of its round-trip times.
    direct: DelaySamples,
    /// Time by which the other clock is ahead, as the direct path shows it.
    clock_offset: DelaySamples,
    pub(super) candidates: ArrayVec<Candidate, TRANSIT_CANDIDATES_MAX>,
    /// Third relays without a gain, and the time until which they are not probed.
    dismissed: BTreeMap<SessionId, Time>,
    delivery: TransitDelivery,
    /// Packets through third relays that the relay's counter contains, modulo 2^32.
    counted: u32,
    /// Time of the next review; `None` while no packets are sent there.
    pub(super) review_at: Option<Time>,
}

impl DistantRelay {
    pub(super) fn new() -> Self {
        Self {
            selector: selector(),
            trust: RouteTrust::new(),
            direct: DelaySamples::default(),
            clock_offset: DelaySamples::default(),
            candidates: ArrayVec::new(),
            dismissed: BTreeMap::new(),
            delivery: TransitDelivery::default(),
            counted: 0,
            review_at: None,
        }
    }

    /// Returns the number of packets since the last call, of which `sent` went through third relays
    /// in all, modulo 2^32.
    pub(super) const fn count_sent(&mut self, sent: u32) -> u32 {
        sent.wrapping_sub(core::mem::replace(&mut self.counted, sent))
    }

    /// Ends the route and the probes. Routes that failed stay barred.
    pub(super) fn reset(&mut self) {
        self.selector = selector();
        (self.direct, self.clock_offset) = (DelaySamples::default(), DelaySamples::default());
        self.candidates.clear();
        self.delivery = TransitDelivery::default();
        self.review_at = None;
    }

    /// Returns the one-way delay of the direct path, by the latest probes.
    pub(super) fn delay(&self) -> Duration {
        self.direct.median().map_or(Duration::ZERO, |micros| Duration::from_micros(micros.into()))
    }

    /// Returns the delay of the path in use.
    pub(super) fn delay_in_use(&self) -> Duration {
        self.in_use().and_then(|candidate| self.delay_through(candidate)).unwrap_or_else(|| self.delay())
    }

    /// Returns the third relay in use; `None` while packets use the direct path.
    pub(super) fn in_use(&self) -> Option<&Candidate> {
        let route = self.selector.route()?;
        self.candidates.iter().find(|candidate| candidate.route() == Some(route))
    }

    /// True if a third relay may be worth its probes.
    pub(super) fn wants(&self, delay: Duration) -> bool {
        is_gain(delay, self.delay())
    }

    /// Adds third relays to probe, those with the least delays first, while there is capacity.
    pub(super) fn add_candidates(&mut self, found: &[ThirdRelay], now: Time) {
        self.dismissed.retain(|_, until| now < *until);
        while !self.candidates.is_full() {
            let is_new = |third: &&ThirdRelay| {
                let is_permitted =
                    Route::new(&[third.number]).is_some_and(|route| self.trust.permits(&route, now));
                let is_known = self.candidates.iter().any(|candidate| candidate.number == third.number);
                is_permitted
                    && !is_known
                    && !self.dismissed.contains_key(&third.session)
                    && self.wants(third.delay)
            };
            let best = found.iter().filter(is_new).min_by_key(|third| (third.delay, third.number));
            let Some(&ThirdRelay { session, number, .. }) = best else {
                return;
            };
            self.candidates.push(Candidate::new(session, number));
        }
    }

    /// Records the answer to a request for a label of a third relay.
    pub(super) fn on_label(&mut self, third: SessionId, index: SessionIndex, label: Option<TransitLabel>) {
        for candidate in self.candidates.iter_mut().filter(|candidate| candidate.session == third) {
            candidate.on_label(index, label);
        }
    }

    /// Records that a third relay has lost its labels, or does not answer. Returns true if it is
    /// probed.
    pub(super) fn on_third_lost(&mut self, third: SessionId) -> bool {
        let mut lost = self.candidates.iter_mut().filter(|candidate| candidate.session == third);
        lost.next().map(|candidate| candidate.has_failed = true).is_some()
    }

    /// Records the answer to a probe on the direct path: its round-trip time, its delay by both
    /// clocks, and the packets through third relays that it shows.
    pub(super) fn on_direct_reply(
        &mut self,
        round_trip: Microseconds,
        delay: u32,
        packets: TransitPackets,
        now: Time,
    ) {
        let half = round_trip.count() / 2;
        self.direct.add(half, now);
        self.clock_offset.add(delay.wrapping_sub(half), now);
        if self.selector.route().is_some() {
            let TransitPackets { sent_before, sent, received } = packets;
            self.delivery.on_report(sent_before, sent, received, now);
        }
    }

    /// Records the answer to a probe through a third relay.
    pub(super) fn on_reply(&mut self, number: u32, delay: u32, now: Time) {
        for candidate in &mut self.candidates {
            if candidate.probes.on_reply(number, delay, now) {
                return;
            }
        }
    }

    /// Selects the path of packets. Returns the change; `None` to keep the path in use.
    pub(super) fn select(&mut self, is_overrun: bool, now: Time) -> Option<PathSelection> {
        let observation = self.observation(is_overrun, now);
        let planned: ArrayVec<PlannedRoute, TRANSIT_CANDIDATES_MAX> =
            self.candidates.iter().filter_map(|candidate| self.planned(candidate, now)).collect();
        let plan = |is_permitted: &dyn Fn(&Route) -> bool| {
            let permitted = planned.iter().filter(|planned| is_permitted(&planned.route));
            permitted.min_by_key(|planned| planned.delay).copied()
        };
        let left = self.selector.route();
        let selection = self.selector.select(&observation, &plan, &mut self.trust, now)?;
        self.selector.on_changed(selection, now);
        self.delivery = TransitDelivery::default();
        if matches!(selection.reason, PathReason::RouteFailed | PathReason::SlowerThanPlanned) {
            self.candidates.retain(|candidate| candidate.route() != left);
        }
        Some(selection)
    }

    /// Removes the third relays that are not in use and have failed, or gain nothing over the
    /// direct path. They are not probed for a while. One that gains stays in reserve.
    pub(super) fn dismiss_candidates(&mut self, now: Time) {
        let route = self.selector.route();
        let is_useless = |candidate: &Candidate| {
            let delay = self.delay_through(candidate).filter(|_| candidate.is_measured(now));
            let gains_nothing = delay.is_some_and(|delay| !is_gain(delay, self.delay()));
            candidate.route() != route && (candidate.is_silent(now) || gains_nothing)
        };
        let useless: ArrayVec<SessionId, TRANSIT_CANDIDATES_MAX> = self
            .candidates
            .iter()
            .filter(|candidate| is_useless(candidate))
            .map(|useless| useless.session)
            .collect();
        self.candidates.retain(|candidate| !useless.contains(&candidate.session));
        self.dismissed.extend(useless.into_iter().map(|session| (session, now + TRANSIT_DISMISSED_FOR)));
    }

    fn observation(&self, is_overrun: bool, now: Time) -> PathObservation {
        let is_recent = self.direct.latest().is_some_and(|at| now < at + TRANSIT_DIRECT_BELIEVED_FOR);
        let is_known = is_recent && self.direct.count() >= TRANSIT_DIRECT_SAMPLES_MIN;
        let direct = if is_known { PathDelay::Measured(self.delay()) } else { PathDelay::Unknown };
        let route = match (self.selector.route(), self.in_use()) {
            (None, _) => PathDelay::Unknown,
            (Some(_), None) => PathDelay::Silent,
            (Some(_), Some(candidate)) => {
                let has_failed = is_overrun || candidate.is_silent(now) || self.delivery.is_lossy();
                let delay = self.delay_through(candidate);
                if has_failed {
                    PathDelay::Silent
                } else {
                    delay.map_or(PathDelay::Unknown, PathDelay::Measured)
                }
            }
        };
        PathObservation { direct, route }
    }

    fn planned(&self, candidate: &Candidate, now: Time) -> Option<PlannedRoute> {
        let delay = self.delay_through(candidate).filter(|_| candidate.is_measured(now))?;
        Some(PlannedRoute { route: candidate.route()?, delay })
    }

    /// Returns the one-way delay through a third relay, by the other clock as the direct path shows
    /// it.
    fn delay_through(&self, candidate: &Candidate) -> Option<Duration> {
        let micros = candidate.probes.delays().median()?.wrapping_sub(self.clock_offset.median()?);
        Some(Duration::from_micros(micros.cast_signed().max(0).cast_unsigned().into()))
    }
}

/// Numbers of packets of a session that go through third relays.
#[derive(Clone, Copy, Debug)]
pub(super) struct TransitPackets {
    /// Packets sent before the probe was.
    pub(super) sent_before: u32,
    /// Packets sent until now.
    pub(super) sent: u32,
    /// Packets that the distant relay had received when it answered.
    pub(super) received: u32,
}

fn selector() -> RouteSelector {
    let terms = LatencyTerms { acceptable: Duration::ZERO, gain: TRANSIT_GAIN };
    RouteSelector::of_probed_routes(terms, TRANSIT_GAIN_PART)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Returns the third relay with this number, by which packets are said to need `delay` ms.
    fn third(number: u32, delay: u64) -> ThirdRelay {
        ThirdRelay { session: SessionId(number), number: RelayId::new(number), delay: ms(delay) }
    }

    /// A distant relay, with paths that answer probes.
    struct TestPaths {
        distant: DistantRelay,
        found: Vec<ThirdRelay>,
        now: Time,
        probes: u32,
        /// One-way delay of the direct path in milliseconds.
        direct: u32,
        /// Actual delay through each third relay; relays that are not listed answer nothing.
        delays: BTreeMap<u32, u32>,
        index: SessionIndex,
        is_overrun: bool,
        changes: Vec<(u64, Option<u32>, PathReason)>,
        /// Numbers of the relays that were probed.
        probed: Vec<u32>,
    }

    impl TestPaths {
        fn new(direct: u32, found: Vec<ThirdRelay>, delays: &[(u32, u32)]) -> Self {
            Self {
                distant: DistantRelay::new(),
                found,
                now: Time::START,
                probes: 0,
                direct,
                delays: delays.iter().copied().collect(),
                index: SessionIndex::new(7),
                is_overrun: false,
                changes: Vec::new(),
                probed: Vec::new(),
            }
        }

        /// Lets the relay review its paths each 200 ms until this time in milliseconds.
        fn run_until(&mut self, end: u64) {
            while self.now < Time::START + ms(end) {
                self.review();
                self.now += ms(200);
            }
        }

        fn review(&mut self) {
            // The other clock is ahead by an hour, and an answer takes no time.
            let by_clocks = |delay: u32| 3_600_000_000_u32.wrapping_add(delay * 1_000);
            let round_trip = Microseconds::from_duration(ms(self.direct.into()) * 2);
            let packets = TransitPackets { sent_before: 0, sent: 0, received: 0 };
            self.distant.on_direct_reply(round_trip, by_clocks(self.direct), packets, self.now);
            let found = self.found.clone();
            self.distant.add_candidates(&found, self.now);
            for candidate in &mut self.distant.candidates {
                if candidate.poll_request(self.index, self.now) {
                    candidate.on_label(self.index, TransitLabel::new(1));
                }
                self.probed.push(candidate.session.0);
                self.probes += 1;
                candidate.on_probe(Some(self.probes), self.now);
                if let Some(delay) = self.delays.get(&candidate.session.0) {
                    candidate.probes.on_reply(self.probes, by_clocks(*delay), self.now);
                }
            }
            if let Some(selection) = self.distant.select(self.is_overrun, self.now) {
                let relay = selection.route.map(|planned| planned.route.relays()[0].number());
                let at = self.now.saturating_since(Time::START).as_millis();
                self.changes.push((at, relay, selection.reason));
            }
            self.distant.dismiss_candidates(self.now);
        }
    }

    const BEGUN: PathReason = PathReason::DirectTooSlow;

    #[test]
    fn a_third_relay_is_used_after_eight_answers_that_show_a_gain() {
        let mut paths = TestPaths::new(100, alloc::vec![third(3, 50)], &[(3, 40)]);
        paths.run_until(10_000);
        assert_eq!(paths.changes, [(1_400, Some(3), BEGUN)]);
        assert_eq!(paths.distant.delay_in_use(), ms(40), "as measured, not as reported");
    }

    #[test]
    fn reported_delays_attract_probes_and_no_packets() {
        let mut paths = TestPaths::new(100, alloc::vec![third(3, 20)], &[(3, 91)]);
        paths.run_until(120_000);
        assert_eq!(paths.changes, []);
        // Eight probes, and eight more after each minute.
        assert_eq!(paths.probed.len(), 16);
    }

    #[test]
    fn two_third_relays_are_probed_those_with_the_least_reported_delays() {
        let found = [(3, 50), (4, 30), (5, 40), (6, 91)].map(|(number, delay)| third(number, delay));
        let delays = [(3, 45), (4, 95), (5, 42), (6, 10)];
        let mut paths = TestPaths::new(100, found.to_vec(), &delays);
        paths.run_until(400);
        assert_eq!(paths.probed, [4, 5, 4, 5]);
        paths.run_until(30_000);
        assert_eq!(paths.changes, [(1_400, Some(5), BEGUN)]);
        assert!(!paths.probed.contains(&6), "by reports it gains nothing");
        assert!(paths.probed.ends_with(&[5, 3]), "the one in use, and one in reserve");
    }

    #[test]
    fn shards_of_one_relay_are_one_candidate() {
        let shard = ThirdRelay { session: SessionId(33), ..third(3, 50) };
        let mut paths = TestPaths::new(100, alloc::vec![third(3, 50), shard], &[(3, 40), (33, 40)]);
        paths.run_until(1_000);
        assert!(paths.probed.iter().all(|number| *number == 3), "{:?}", paths.probed);
    }

    #[test]
    fn a_route_that_dies_is_left_within_two_seconds_and_is_back_after_a_minute() {
        let mut paths = TestPaths::new(100, alloc::vec![third(3, 50)], &[(3, 40)]);
        paths.run_until(5_000);
        paths.delays.clear();
        paths.run_until(8_000);
        paths.delays.insert(3, 40);
        paths.run_until(80_000);
        let [(_, _, _), (left, to, why), (back, again, _)] = paths.changes[..] else {
            panic!("{:?}", paths.changes);
        };
        assert_eq!((to, why, again), (None, PathReason::RouteFailed, Some(3)));
        assert!((5_000..=7_000).contains(&left) && back >= left + 60_000, "{:?}", paths.changes);
    }

    #[test]
    fn a_route_that_becomes_slow_is_left_within_two_seconds() {
        let mut paths = TestPaths::new(100, alloc::vec![third(3, 50)], &[(3, 40)]);
        paths.run_until(5_000);
        paths.delays.insert(3, 120);
        paths.run_until(64_000);
        let [_, (left, to, why)] = paths.changes[..] else {
            panic!("{:?}", paths.changes);
        };
        assert_eq!((to, why), (None, PathReason::SlowerThanPlanned));
        assert!((5_000..=7_000).contains(&left), "{left} ms");
    }

    #[test]
    fn a_route_without_a_gain_is_left_after_half_a_minute() {
        let mut paths = TestPaths::new(100, alloc::vec![third(3, 50)], &[(3, 40)]);
        paths.run_until(5_000);
        paths.direct = 45;
        paths.run_until(60_000);
        let [_, (left, None, PathReason::GainGone)] = paths.changes[..] else {
            panic!("{:?}", paths.changes);
        };
        assert!((35_000..=37_000).contains(&left), "{left} ms");
        assert_eq!(paths.distant.delay(), ms(45));
    }

    #[test]
    fn a_route_beyond_its_rate_is_left_at_once() {
        let mut paths = TestPaths::new(100, alloc::vec![third(3, 50)], &[(3, 40)]);
        paths.run_until(5_000);
        paths.is_overrun = true;
        paths.run_until(5_200);
        assert_eq!(paths.changes[1..], [(5_000, None, PathReason::RouteFailed)]);
    }

    #[test]
    fn a_third_relay_that_fails_is_replaced_by_the_one_in_reserve_five_seconds_later() {
        let found = alloc::vec![third(3, 50), third(4, 35)];
        let mut paths = TestPaths::new(100, found, &[(3, 50), (4, 30)]);
        paths.run_until(4_000);
        paths.delays.remove(&4);
        paths.run_until(60_000);
        let [(_, Some(4), BEGUN), (left, None, PathReason::RouteFailed), (begun, Some(3), BEGUN)] =
            paths.changes[..]
        else {
            panic!("{:?}", paths.changes);
        };
        assert!((4_000..=6_000).contains(&left) && begun <= left + 6_000, "{:?}", paths.changes);
    }

    #[test]
    fn a_label_is_requested_again_and_anew_for_another_index() {
        let mut candidate = Candidate::new(SessionId(3), RelayId::new(3));
        let at = |millis| Time::START + ms(millis);
        let [first, second] = [7, 8].map(SessionIndex::new);
        let label = TransitLabel::new(5);
        assert!(candidate.poll_request(first, at(0)));
        assert!(!candidate.poll_request(first, at(499)));
        assert!(candidate.poll_request(first, at(500)));
        candidate.on_label(second, label);
        assert_eq!(candidate.path(), None, "it was not requested");
        candidate.on_label(first, label);
        assert_eq!(candidate.path().map(|path| path.index), Some(first));
        assert!(!candidate.poll_request(first, at(5_000)));
        assert!(candidate.poll_request(second, at(5_000)));
        assert_eq!(candidate.path().map(|path| path.index), Some(first), "until there is another");
        candidate.on_label(second, None);
        assert!(candidate.is_silent(at(5_000)) && !candidate.poll_request(second, at(6_000)));
    }
}
