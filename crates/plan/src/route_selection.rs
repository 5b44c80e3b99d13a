//! Selection of a flow's path, again and again while the flow runs: the direct one, or a route over
//! relays.
//!
//! A [`RouteSelector`] leaves a direct path that is slower than acceptable with the first report
//! that shows it, if a route is faster by enough. It returns if the gain is gone for a while. The
//! more often the direct path is left again, the longer it waits.
//!
//! Planned delays may be wrong. So a new route is on trial: every packet uses both paths. A route
//! that is slower than planned is left for a faster one, or for the direct path. Routes that were
//! as fast as planned are preferred to untried ones.
//!
//! Routes that are probed before use need no trial: see [`RouteSelector::of_probed_routes`].

use core::fmt;

use byway_units::{Duration, Time};

use crate::route::{PlannedRoute, Route};
use crate::route_trust::RouteTrust;
use crate::selection::{CHANGE_INTERVAL, UPGRADE_REMEMBERED};

/// Time for which the gain has to be gone before a flow returns to the direct path, and for which
/// another route has to be faster. If a flow leaves the direct path again within
/// [`UPGRADE_REMEMBERED`], its next return waits twice as long, up to that time.
pub const RETURN_AFTER: Duration = Duration::from_secs(30);

/// Time after a change to a route in which silence is no failure: registrations at the relays need
/// some round trips.
const REGISTERED_AFTER: Duration = Duration::from_secs(2);

/// Least difference to the planned delay that counts as slower, besides a fifth of it. Queues of a
/// clean path vary by less.
const SLOWER_MIN: Duration = Duration::from_millis(5);

/// Most doublings of the time between two attempts after failed routes: up to eleven minutes.
const DOUBLINGS_MAX: u32 = 7;

/// Delays between sender and receiver that a user accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyTerms {
    /// Delay up to which the direct path is used, however fast the routes are.
    pub acceptable: Duration,
    /// Least difference between two paths for which a flow changes to the faster one.
    pub gain: Duration,
}

/// Delay of a path since the last report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathDelay {
    /// No packet was sent on the path, or no report arrived.
    #[default]
    Unknown,
    /// Delay that 95 % of the packets did not exceed, queues included.
    Measured(Duration),
    /// Packets were sent on the path, and none arrived.
    Silent,
}

/// State of a flow's paths at one time. All delays have to be by the same clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathObservation {
    /// Delay of the direct path. While relays forward the flow, some packets still use it.
    pub direct: PathDelay,
    /// Delay of the route in use.
    pub route: PathDelay,
}

/// Planner of the best route of those that the function permits; `None` if there is none. See
/// [`RouteQuery::is_permitted`](crate::RouteQuery::is_permitted).
pub type PlanRoute<'a> = dyn Fn(&dyn Fn(&Route) -> bool) -> Option<PlannedRoute> + 'a;

/// Path that a selector has selected, with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathSelection {
    /// Route of the flow; `None` for the direct path.
    pub route: Option<PlannedRoute>,
    /// Reason for the choice.
    pub reason: PathReason,
}

/// Reason for which a flow changes its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathReason {
    /// The direct path is slower than acceptable, and the route is faster.
    DirectTooSlow,
    /// The route in use is no longer faster than the direct path by the gain.
    GainGone,
    /// The route in use is slower than planned.
    SlowerThanPlanned,
    /// The route in use delivers nothing.
    RouteFailed,
    /// Another route is faster than the one in use.
    FasterRoute,
}

impl fmt::Display for PathReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DirectTooSlow => "direct path too slow",
            Self::GainGone => "direct path fast enough again",
            Self::SlowerThanPlanned => "route over relays slower than planned",
            Self::RouteFailed => "route over relays failed",
            Self::FasterRoute => "faster route over relays",
        })
    }
}

impl fmt::Display for PathDelay {
    /// Writes the delay in tenths of a millisecond.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("unknown"),
            Self::Silent => f.write_str("nothing delivered"),
            Self::Measured(delay) => write!(f, "{}", Duration::from_micros(delay.as_micros() / 100 * 100)),
        }
    }
}

/// Selector of the path of one flow.
#[derive(Clone, Debug)]
pub struct RouteSelector {
    terms: LatencyTerms,
    in_use: Option<RouteInUse>,
    changed_at: Option<Time>,
    /// Time since which the route in use has had no gain.
    gain_gone_since: Option<Time>,
    /// Faster route, and the time since which it has been.
    faster: Option<(Route, Time)>,
    return_after: Duration,
    /// Time of the last return to the direct path because the gain was gone.
    returned_at: Option<Time>,
    /// Routes in a row that failed or were slower than planned.
    failures: u32,
    /// Inverse of the least gain as a share of the slower delay, if routes are probed before use.
    probed_gain_part: Option<u64>,
}

/// Route that a flow uses.
#[derive(Clone, Copy, Debug)]
struct RouteInUse {
    planned: PlannedRoute,
    since: Time,
    /// Delay at the last report, at first as planned.
    delay: Duration,
    /// True if it was slower than planned. The flow may stay, because it is still faster than the
    /// others.
    has_missed: bool,
    /// True if the direct path was faster by the gain at the last report.
    is_slower_than_direct: bool,
}

impl RouteSelector {
    /// Returns the selector of a flow that uses the direct path.
    #[must_use]
    pub const fn new(terms: LatencyTerms) -> Self {
        Self {
            terms,
            in_use: None,
            changed_at: None,
            gain_gone_since: None,
            faster: None,
            return_after: RETURN_AFTER,
            returned_at: None,
            failures: 0,
            probed_gain_part: None,
        }
    }

    /// Returns the selector of packets that use the direct path, and whose routes are probed before
    /// they are used, and while they are.
    ///
    /// Each gain has to be at least the slower delay divided by `gain_part` as well. A route that
    /// fails, or has become slow, is left at once, however short it was in use.
    #[must_use]
    pub const fn of_probed_routes(terms: LatencyTerms, gain_part: u64) -> Self {
        Self { probed_gain_part: Some(gain_part), ..Self::new(terms) }
    }

    /// Returns the route in use; `None` for the direct path.
    #[must_use]
    pub fn route(&self) -> Option<Route> {
        self.in_use.map(|in_use| in_use.planned.route)
    }

    /// True while every packet has to use both paths: in the first seconds of a route, and while
    /// the direct path is faster by the gain. Then a wrong plan delays no packet, a failed route
    /// loses none, and the wait for the return costs no time.
    #[must_use]
    pub fn uses_both(&self, now: Time) -> bool {
        self.in_use.is_some_and(|in_use| {
            now.saturating_since(in_use.since) < CHANGE_INTERVAL || in_use.is_slower_than_direct
        })
    }

    /// Selects the path of the flow by a new observation. Calls `plan` only if the direct path is
    /// slower than acceptable, or a route is in use.
    ///
    /// Returns the path to change to; `None` to keep the one in use. Call
    /// [`RouteSelector::on_changed`] once the change has begun. The result of the route in use is
    /// recorded in `trust`.
    pub fn select(
        &mut self,
        observation: &PathObservation,
        plan: &PlanRoute<'_>,
        trust: &mut RouteTrust,
        now: Time,
    ) -> Option<PathSelection> {
        let has_failed = self.judge(observation, trust, now);
        let (used, may_try) = (self.route(), self.may_try(now));
        let permits = |route: &Route| Some(*route) != used && trust.permits(route, now);
        let proven = || plan(&|route| permits(route) && trust.is_proven(route, now));
        let untried = || if may_try { plan(&permits) } else { None };
        let selection = match self.in_use {
            None if !self.is_gain(observation.direct, Duration::ZERO) => None,
            None => self.leave_direct(observation.direct, [proven(), untried()]),
            Some(_) if has_failed => self.leave_failed(observation.direct, [proven(), untried()]),
            Some(in_use) => self.on_route(&in_use, observation.direct, [proven(), untried()], now),
        };
        let may_change = |selection: &PathSelection| self.may_change(now) || self.is_urgent(selection.reason);
        let selection = selection.filter(may_change)?;
        if let Some(left) = self.in_use.filter(|in_use| in_use.has_missed) {
            trust.bar(&left.planned.route, now);
        }
        Some(selection)
    }

    /// Records that the flow changes to the selected path.
    pub fn on_changed(&mut self, to: PathSelection, now: Time) {
        if self.in_use.is_none() {
            let is_recent = |at: Time| now.saturating_since(at) < UPGRADE_REMEMBERED;
            let doubled = (self.return_after * 2).min(UPGRADE_REMEMBERED);
            self.return_after = if self.returned_at.is_some_and(is_recent) { doubled } else { RETURN_AFTER };
        }
        if to.reason == PathReason::GainGone {
            self.returned_at = Some(now);
        }
        self.in_use = to.route.map(|planned| RouteInUse {
            planned,
            since: now,
            delay: planned.delay,
            has_missed: false,
            is_slower_than_direct: false,
        });
        (self.changed_at, self.gain_gone_since, self.faster) = (Some(now), None, None);
    }

    /// Compares the route in use with its plan, and records the result. Returns true if the route
    /// delivers nothing.
    fn judge(&mut self, observation: &PathObservation, trust: &mut RouteTrust, now: Time) -> bool {
        let Some(in_use) = &mut self.in_use else {
            return false;
        };
        let measured = observation.route;
        let used_for = now.saturating_since(in_use.since);
        let is_registered = self.probed_gain_part.is_some() || used_for >= REGISTERED_AFTER;
        let has_failed = measured == PathDelay::Silent && is_registered;
        let is_slow = match measured {
            PathDelay::Measured(delay) => {
                in_use.delay = delay;
                let gain = self.terms.gain;
                in_use.is_slower_than_direct = match observation.direct {
                    PathDelay::Measured(direct) => direct.saturating_add(gain) <= delay,
                    PathDelay::Silent | PathDelay::Unknown => false,
                };
                is_slower(delay, in_use.planned.delay)
            }
            PathDelay::Silent | PathDelay::Unknown if !has_failed => return false,
            PathDelay::Silent | PathDelay::Unknown => false,
        };
        if !has_failed && !is_slow {
            in_use.has_missed = false;
            trust.on_success(&in_use.planned.route, now);
            if used_for >= RETURN_AFTER {
                self.failures = 0;
            }
        } else if !in_use.has_missed {
            in_use.has_missed = true;
            trust.on_failure(&in_use.planned.route, now);
            self.failures = self.failures.saturating_add(1);
        }
        has_failed
    }

    /// Selects a route for a flow that uses the direct path: the first that is faster by the gain.
    fn leave_direct(&self, direct: PathDelay, planned: [Option<PlannedRoute>; 2]) -> Option<PathSelection> {
        let mut planned = planned.into_iter().flatten();
        let route = planned.find(|planned| self.is_gain(direct, planned.delay))?;
        Some(PathSelection { route: Some(route), reason: PathReason::DirectTooSlow })
    }

    /// Selects the path of a flow whose route delivers nothing. Any other route is better than that
    /// one if the direct path is not known to deliver either. Without another route, it then stays.
    fn leave_failed(&self, direct: PathDelay, others: [Option<PlannedRoute>; 2]) -> Option<PathSelection> {
        let delivers = matches!(direct, PathDelay::Measured(_));
        let route = others.into_iter().flatten().find(|other| !delivers || self.is_gain(direct, other.delay));
        (delivers || route.is_some()).then_some(PathSelection { route, reason: PathReason::RouteFailed })
    }

    /// Selects the path of a flow whose route delivers.
    fn on_route(
        &mut self,
        in_use: &RouteInUse,
        direct: PathDelay,
        others: [Option<PlannedRoute>; 2],
        now: Time,
    ) -> Option<PathSelection> {
        let mut others = others.into_iter().flatten();
        let gain = self.gain_over(in_use.delay);
        let faster = others.find(|other| other.delay.saturating_add(gain) <= in_use.delay);
        let has_gain = direct == PathDelay::Unknown || self.is_gain(direct, in_use.delay);
        if in_use.has_missed && (faster.is_some() || !has_gain) {
            let route =
                faster.filter(|faster| direct == PathDelay::Unknown || self.is_gain(direct, faster.delay));
            return Some(PathSelection { route, reason: PathReason::SlowerThanPlanned });
        }
        if self.has_no_gain(has_gain, now) {
            return Some(PathSelection { route: None, reason: PathReason::GainGone });
        }
        let route = Some(self.stays_faster(faster, now)?);
        Some(PathSelection { route, reason: PathReason::FasterRoute })
    }

    /// True if the route in use has had no gain for long enough.
    fn has_no_gain(&mut self, has_gain: bool, now: Time) -> bool {
        if has_gain {
            self.gain_gone_since = None;
            return false;
        }
        let since = *self.gain_gone_since.get_or_insert(now);
        now.saturating_since(since) >= self.return_after
    }

    /// Returns the other route if it has been faster for long enough.
    fn stays_faster(&mut self, faster: Option<PlannedRoute>, now: Time) -> Option<PlannedRoute> {
        let Some(other) = faster else {
            self.faster = None;
            return None;
        };
        let since = self.faster.filter(|(route, _)| *route == other.route).map_or(now, |(_, since)| since);
        self.faster = Some((other.route, since));
        (now.saturating_since(since) >= RETURN_AFTER).then_some(other)
    }

    /// True if the direct path is slower than acceptable, and a route with this delay is faster by
    /// the gain.
    fn is_gain(&self, direct: PathDelay, route: Duration) -> bool {
        match direct {
            PathDelay::Unknown => false,
            PathDelay::Silent => true,
            PathDelay::Measured(direct) => {
                direct > self.terms.acceptable && route.saturating_add(self.gain_over(direct)) <= direct
            }
        }
    }

    /// Returns the least gain over a path with this delay.
    fn gain_over(&self, slower: Duration) -> Duration {
        self.probed_gain_part.map_or(self.terms.gain, |part| self.terms.gain.max(slower / part))
    }

    /// True if a change for this reason need not wait: a probed route lost its gain by a failure.
    fn is_urgent(&self, reason: PathReason) -> bool {
        let has_failed = matches!(reason, PathReason::RouteFailed | PathReason::SlowerThanPlanned);
        has_failed && self.probed_gain_part.is_some()
    }

    /// True if the last change is long enough ago.
    fn may_change(&self, now: Time) -> bool {
        self.changed_at.is_none_or(|at| now.saturating_since(at) >= CHANGE_INTERVAL)
    }

    /// True if the last change is long enough ago for a route: the more routes in a row failed, the
    /// longer.
    fn may_try(&self, now: Time) -> bool {
        let wait = CHANGE_INTERVAL * (1 << self.failures.saturating_sub(1).min(DOUBLINGS_MAX));
        self.changed_at.is_none_or(|at| now.saturating_since(at) >= wait)
    }
}

/// True if a delay is longer than the planned one by more than measurements vary.
fn is_slower(measured: Duration, planned: Duration) -> bool {
    measured > planned.saturating_add((planned / 5).max(SLOWER_MIN))
}

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;
    use alloc::vec;
    use alloc::vec::Vec;

    use byway_units::RelayId;

    use super::*;

    const TERMS: LatencyTerms =
        LatencyTerms { acceptable: Duration::from_millis(50), gain: Duration::from_millis(10) };

    /// Route of a trace. Delays are in milliseconds.
    struct TraceRoute {
        route: Route,
        /// Delay by the reports of the relays.
        planned: u64,
        /// Delay at a second of the trace; `None` while the route delivers nothing.
        delay: Box<dyn Fn(u64) -> Option<u64>>,
    }

    /// Flow whose receiver reports once a second.
    struct Harness {
        selector: RouteSelector,
        trust: RouteTrust,
        second: u64,
        /// Delay of the direct path by second; `None` while it delivers nothing.
        direct: Box<dyn Fn(u64) -> Option<u64>>,
        routes: Vec<TraceRoute>,
        changes: Vec<(u64, PathSelection)>,
        /// Seconds in which a packet is later than it would be on the direct path by over 10 ms.
        delayed: u64,
        /// Seconds in which no path in use delivers, and another one does.
        dark: u64,
    }

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn route(relays: &[u32]) -> Route {
        let relays: Vec<RelayId> = relays.iter().copied().map(RelayId::new).collect();
        Route::new(&relays).expect("the test has one to three")
    }

    fn trace(relays: &[u32], planned: u64, delay: impl Fn(u64) -> Option<u64> + 'static) -> TraceRoute {
        TraceRoute { route: route(relays), planned, delay: Box::new(delay) }
    }

    fn measured(delay: Option<u64>) -> PathDelay {
        delay.map_or(PathDelay::Silent, |delay| PathDelay::Measured(ms(delay)))
    }

    impl Harness {
        fn new(direct: impl Fn(u64) -> Option<u64> + 'static, routes: Vec<TraceRoute>) -> Self {
            Self {
                selector: RouteSelector::new(TERMS),
                trust: RouteTrust::new(),
                second: 0,
                direct: Box::new(direct),
                routes,
                changes: Vec::new(),
                delayed: 0,
                dark: 0,
            }
        }

        fn now(&self) -> Time {
            Time::START + Duration::from_secs(self.second)
        }

        fn in_use(&self) -> Option<&TraceRoute> {
            let route = self.selector.route()?;
            self.routes.iter().find(|trace| trace.route == route)
        }

        /// Lets the flow send until this second. Each report is about the second before it.
        fn run_until(&mut self, end: u64) {
            while self.second < end {
                let (direct, both) = ((self.direct)(self.second), self.selector.uses_both(self.now()));
                let by_route = self.in_use().map(|route| (route.delay)(self.second));
                let used = match by_route {
                    None => direct,
                    Some(by_route) if both => direct.into_iter().chain(by_route).min(),
                    Some(by_route) => by_route,
                };
                self.dark += u64::from(used.is_none() && direct.is_some());
                self.delayed += u64::from(used.zip(direct).is_some_and(|(used, direct)| used > direct + 10));
                self.second += 1;
                let now = self.now();
                let plan = |is_permitted: &dyn Fn(&Route) -> bool| {
                    let permitted = self.routes.iter().filter(|trace| is_permitted(&trace.route));
                    let best = permitted.min_by_key(|trace| trace.planned)?;
                    Some(PlannedRoute { route: best.route, delay: ms(best.planned) })
                };
                let route = by_route.map_or(PathDelay::Unknown, measured);
                let observation = PathObservation { direct: measured(direct), route };
                let selection = self.selector.select(&observation, &plan, &mut self.trust, now);
                if let Some(selection) = selection {
                    self.selector.on_changed(selection, now);
                    self.changes.push((self.second, selection));
                }
            }
        }

        fn reasons(&self) -> Vec<(u64, PathReason)> {
            self.changes.iter().map(|(second, selection)| (*second, selection.reason)).collect()
        }

        fn changes_are_five_seconds_apart(&self) -> bool {
            self.changes.windows(2).all(|pair| pair[1].0 - pair[0].0 >= 5)
        }
    }

    #[test]
    fn a_direct_path_that_becomes_slow_is_left_with_the_next_report() {
        let direct = |second| Some(if (100..200).contains(&second) { 120 } else { 40 });
        let mut harness = Harness::new(direct, vec![trace(&[1, 2], 45, |_| Some(47))]);
        harness.run_until(400);
        let expected = [(101, PathReason::DirectTooSlow), (231, PathReason::GainGone)];
        assert_eq!(harness.reasons(), expected, "it returns when the gain is gone for 30 s");
        assert_eq!(harness.selector.route(), None);
    }

    #[test]
    fn acceptable_delays_and_small_gains_change_nothing() {
        let mut harness = Harness::new(|_| Some(50), vec![trace(&[1], 5, |_| Some(5))]);
        harness.run_until(100);
        assert_eq!(harness.changes, [], "50 ms are acceptable");
        let mut harness = Harness::new(|_| Some(60), vec![trace(&[1], 51, |_| Some(51))]);
        harness.run_until(100);
        assert_eq!(harness.changes, [], "9 ms are no gain");
        let mut harness = Harness::new(|_| Some(61), vec![trace(&[1], 51, |_| Some(51))]);
        harness.run_until(100);
        assert_eq!(harness.reasons(), [(1, PathReason::DirectTooSlow)]);
    }

    #[test]
    fn a_path_that_varies_at_the_threshold_is_left_once() {
        for period in [2, 7, 20, 29] {
            let direct = move |second| Some(if second % period == 0 { 61 } else { 50 });
            let mut harness = Harness::new(direct, vec![trace(&[1], 48, |_| Some(48))]);
            harness.run_until(600);
            assert_eq!(harness.changes.len(), 1, "every {period} s");
        }
    }

    #[test]
    fn slow_spells_that_come_again_make_the_return_wait_longer() {
        let direct = |second| Some(if second % 80 < 40 { 120 } else { 40 });
        let mut harness = Harness::new(direct, vec![trace(&[1], 45, |_| Some(45))]);
        harness.run_until(3_600);
        assert_eq!(harness.reasons()[..2], [(1, PathReason::DirectTooSlow), (71, PathReason::GainGone)]);
        assert!(harness.changes.len() <= 3, "{:?}", harness.changes);
    }

    #[test]
    fn a_route_that_fails_loses_nothing_and_waits_a_minute() {
        let works = |second: u64| (second >= 100).then_some(45);
        let mut harness = Harness::new(|_| Some(120), vec![trace(&[1], 45, works)]);
        harness.run_until(400);
        let (left, failed) = (PathReason::DirectTooSlow, PathReason::RouteFailed);
        assert_eq!(harness.reasons(), [(1, left), (6, failed), (66, left), (71, failed), (131, left)]);
        assert_eq!(harness.dark, 0, "trials use both paths");
    }

    #[test]
    fn when_the_route_in_use_dies_the_next_report_returns_to_a_path_that_works() {
        let first = |second: u64| (second < 100).then_some(45);
        let routes = vec![trace(&[1], 45, first), trace(&[2], 55, |_| Some(55))];
        let mut harness = Harness::new(|_| Some(120), routes);
        harness.run_until(155);
        let expected = [(1, PathReason::DirectTooSlow), (101, PathReason::RouteFailed)];
        assert_eq!(harness.reasons(), expected);
        assert_eq!((harness.selector.route(), harness.dark), (Some(route(&[2])), 1));
        assert!(harness.changes_are_five_seconds_apart());
    }

    #[test]
    fn a_route_that_fails_is_kept_while_nothing_shows_that_the_direct_path_delivers() {
        let works = |second: u64| (second < 50).then_some(45);
        let mut harness = Harness::new(|_| Some(120), vec![trace(&[1], 45, works)]);
        harness.run_until(50);
        let now = harness.now() + Duration::from_secs(1);
        for direct in [PathDelay::Unknown, PathDelay::Silent] {
            let failed = PathObservation { direct, route: PathDelay::Silent };
            let selection = harness.selector.select(&failed, &|_| None, &mut harness.trust, now);
            assert_eq!(selection, None, "{direct:?}");
        }
        let reason = PathReason::RouteFailed;
        let failed = PathObservation { direct: PathDelay::Measured(ms(120)), route: PathDelay::Silent };
        let selection = harness.selector.select(&failed, &|_| None, &mut harness.trust, now);
        assert_eq!(selection, Some(PathSelection { route: None, reason }));
        let failed = PathObservation { direct: PathDelay::Unknown, route: PathDelay::Silent };
        let other = PlannedRoute { route: route(&[2]), delay: ms(55) };
        let plan = |is_permitted: &dyn Fn(&Route) -> bool| Some(other).filter(|_| is_permitted(&other.route));
        let selection = harness.selector.select(&failed, &plan, &mut harness.trust, now);
        assert_eq!(selection, Some(PathSelection { route: Some(other), reason }));
    }

    #[test]
    fn a_route_that_becomes_slow_is_left_for_the_direct_path() {
        let slow = |second| Some(if second < 100 { 45 } else { 115 });
        let mut harness = Harness::new(|_| Some(120), vec![trace(&[1], 45, slow)]);
        harness.run_until(130);
        let expected = [(1, PathReason::DirectTooSlow), (101, PathReason::SlowerThanPlanned)];
        assert_eq!(harness.reasons(), expected);
        assert_eq!(harness.selector.route(), None);
    }

    #[test]
    fn the_wait_for_the_return_delays_no_packet() {
        let direct = |second| Some(if second % 60 < 30 { 120 } else { 40 });
        let mut harness = Harness::new(direct, vec![trace(&[1], 80, |_| Some(80))]);
        harness.run_until(1_800);
        // A report is a second late, so the first second after a slow spell uses the route alone.
        assert!(harness.delayed <= 30, "{} s delayed", harness.delayed);
        assert_eq!(harness.changes.len(), 1, "{:?}", harness.changes);
    }

    #[test]
    fn a_faster_route_is_used_once_it_stays_faster() {
        let routes = vec![trace(&[1], 80, |_| Some(80))];
        let mut harness = Harness::new(|_| Some(120), routes);
        harness.run_until(50);
        harness.routes.push(trace(&[2], 71, |_| Some(71)));
        harness.run_until(100);
        assert_eq!(harness.changes.len(), 1, "9 ms are no gain");
        harness.routes.push(trace(&[3], 60, |_| Some(60)));
        harness.run_until(200);
        assert_eq!(harness.reasons()[1..], [(131, PathReason::FasterRoute)]);
        assert_eq!(harness.selector.route(), Some(route(&[3])));
    }

    #[test]
    fn after_a_route_that_missed_its_plan_the_proven_one_is_used_again() {
        let mut harness = Harness::new(|_| Some(120), vec![trace(&[1], 60, |_| Some(60))]);
        harness.run_until(50);
        harness.routes.extend([trace(&[2], 20, |_| Some(130)), trace(&[3], 25, |_| Some(130))]);
        harness.run_until(88);
        let routes: Vec<_> = harness.changes.iter().filter_map(|(_, to)| to.route).collect();
        assert_eq!(
            routes.iter().map(|to| to.route).collect::<Vec<_>>(),
            [1, 2, 1].map(|relay| route(&[relay]))
        );
        assert_eq!(harness.delayed, 0);
    }

    #[test]
    fn a_relay_that_misreports_its_delays_attracts_a_flow_seldom() {
        // Relay 9 reports that it reaches everyone at once; through it, all routes need 200 ms.
        let mut routes = vec![trace(&[1, 2], 60, |_| Some(61))];
        for near in 1..9 {
            routes.push(trace(&[near, 9, 2], 10 + u64::from(near), |_| Some(200)));
            routes.push(trace(&[near, 9], 10 + u64::from(near), |_| Some(200)));
        }
        let mut harness = Harness::new(|_| Some(120), routes);
        harness.run_until(4 * 3_600);
        let of_nine = harness.changes.iter().filter(|(_, selection)| {
            selection.route.is_some_and(|planned| planned.route.relays().contains(&RelayId::new(9)))
        });
        let (attempts, delayed) = (of_nine.count(), harness.delayed);
        assert!((1..=12).contains(&attempts), "{attempts} attempts");
        assert!(delayed <= 12, "{delayed} s delayed: trials use both paths");
        assert_eq!(harness.selector.route(), Some(route(&[1, 2])), "the honest route is used");
        assert!(harness.changes_are_five_seconds_apart());
    }

    #[test]
    fn where_every_plan_is_wrong_attempts_become_rare() {
        let routes = (0..200).map(|number| trace(&[number], 20, |_| Some(130))).collect();
        let mut harness = Harness::new(|_| Some(120), routes);
        harness.run_until(3_600);
        assert!(harness.changes.len() <= 24, "{}", harness.changes.len());
        assert!(harness.changes_are_five_seconds_apart());
        assert_eq!(harness.delayed, 0, "every trial uses both paths");
    }

    /// Lets a selector of probed routes to relay 1 see these delays of the direct path and of the
    /// route, one pair each 200 ms. Returns the changes, with the number of the observation.
    fn probed_changes(delays: impl IntoIterator<Item = (u64, Option<u64>)>) -> Vec<(usize, PathReason)> {
        let terms = LatencyTerms { acceptable: Duration::ZERO, gain: ms(10) };
        let (mut selector, mut trust) = (RouteSelector::of_probed_routes(terms, 10), RouteTrust::new());
        let mut changes = Vec::new();
        for (nth, (direct, by_route)) in delays.into_iter().enumerate() {
            let now = Time::START + ms(200) * nth as u64;
            let candidate = by_route.map(|delay| PlannedRoute { route: route(&[1]), delay: ms(delay) });
            let plan = |is_permitted: &dyn Fn(&Route) -> bool| {
                candidate.filter(|candidate| is_permitted(&candidate.route))
            };
            let measured_route =
                if selector.route().is_some() { measured(by_route) } else { PathDelay::Unknown };
            let observation = PathObservation { direct: measured(Some(direct)), route: measured_route };
            if let Some(selection) = selector.select(&observation, &plan, &mut trust, now) {
                selector.on_changed(selection, now);
                changes.push((nth, selection.reason));
            }
        }
        changes
    }

    #[test]
    fn a_probed_route_has_to_gain_ten_milliseconds_and_a_tenth() {
        let expected = [(0, PathReason::DirectTooSlow)];
        for (direct, by_route, gains) in
            [(20, 11, false), (20, 10, true), (100, 90, true), (300, 271, false), (300, 270, true)]
        {
            let changes = probed_changes([(direct, Some(by_route)); 20]);
            assert_eq!(changes, if gains { &expected[..] } else { &[] }, "{by_route} for {direct} ms");
        }
    }

    #[test]
    fn a_probed_route_that_fails_is_left_at_once_and_is_back_after_a_minute() {
        let begun = PathReason::DirectTooSlow;
        for (then, why) in [(None, PathReason::RouteFailed), (Some(160), PathReason::SlowerThanPlanned)] {
            // It fails 0.6 s after the change, for two observations: 300 of them are a minute.
            let delays = (0..400).map(|nth| (100, if matches!(nth, 3 | 4) { then } else { Some(40) }));
            assert_eq!(probed_changes(delays), [(0, begun), (3, why), (303, begun)]);
        }
    }

    #[test]
    fn a_probed_route_without_a_gain_is_left_after_half_a_minute() {
        // 150 observations are 30 s.
        let delays = (0..400).map(|nth| (if nth < 50 { 100 } else { 45 }, Some(40)));
        let expected = [(0, PathReason::DirectTooSlow), (200, PathReason::GainGone)];
        assert_eq!(probed_changes(delays), expected);
        let varying = (0..400).map(|nth| (if nth % 100 < 50 { 100 } else { 45 }, Some(40)));
        assert_eq!(probed_changes(varying).len(), 1, "a spell of ten seconds is no change");
    }

    #[test]
    fn pauses_change_nothing() {
        let mut harness = Harness::new(|_| Some(120), vec![trace(&[1], 45, |_| Some(45))]);
        harness.run_until(50);
        let now = harness.now() + Duration::from_secs(500);
        let nothing = PathObservation::default();
        assert_eq!(harness.selector.select(&nothing, &|_| None, &mut harness.trust, now), None);
        assert_eq!(harness.selector.route(), Some(route(&[1])));
    }
}
