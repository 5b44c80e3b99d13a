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

mod interface;

use byway_units::{Duration, Time};

pub use interface::{LatencyTerms, PathDelay, PathObservation, PathReason, PathSelection, PlanRoute};

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
mod tests;
