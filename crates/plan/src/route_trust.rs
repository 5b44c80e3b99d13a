//! Trust in routes and relays, from the delays that were measured on routes in use.
//!
//! The delays from which routes are planned are those that relays report. A relay that reports too
//! small ones attracts flows, but a route through it is then slower than planned.

use alloc::collections::{BTreeMap, VecDeque};

use byway_units::{Duration, RelayId, Time};

use crate::route::Route;

/// Time for which a route that failed, or was slower than planned, is not used.
pub const ROUTE_BARRED_FOR: Duration = Duration::from_secs(60);

/// Longest time for which a relay is not used. A relay that always misreports its delays then costs
/// a flow one attempt in an hour.
const RELAY_BARRED_MAX: Duration = Duration::from_secs(3_600);

/// Time for which a successful route clears its relays of the blame for another one. A relay may
/// have become slow since.
const CLEARED_FOR: Duration = Duration::from_secs(60);

/// Time for which a route that was as fast as planned is preferred to untried ones.
const PROVEN_FOR: Duration = Duration::from_secs(600);

/// Most proven routes: those that a flow used in the last minutes.
const PROVEN_ROUTES_MAX: usize = 16;

/// Most barred routes. Flows change routes at most each 5 s, so a minute has twelve of a flow.
const BARRED_ROUTES_MAX: usize = 256;

/// Most relays with a record; the relays of a matrix are not more.
const RECORDS_MAX: usize = crate::relay_delays::ROUTE_RELAYS_MAX;

/// Trust of a sender in routes to one receiver.
///
/// Keep one for each pair of agents. The measurements are the receiver's, so they must not change
/// the routes to others.
#[derive(Clone, Debug, Default)]
pub struct RouteTrust {
    barred: VecDeque<(Route, Time)>,
    /// Routes that were as fast as planned, with the time of the last success.
    proven: VecDeque<(Route, Time)>,
    relays: BTreeMap<RelayId, Record>,
}

/// Record of a relay in the routes that were used.
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    /// Failed routes since the last success.
    failures: u32,
    /// Time until which no route uses the relay.
    barred_until: Option<Time>,
    succeeded_at: Option<Time>,
}

impl RouteTrust {
    /// Returns trust in every route.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// True if neither the route nor one of its relays failed recently. The ends measure the delays
    /// of a route over a single relay themselves, so only its own failures count.
    #[must_use]
    pub fn permits(&self, route: &Route, now: Time) -> bool {
        let is_barred = |relay: &RelayId| {
            let until = self.relays.get(relay).and_then(|record| record.barred_until);
            until.is_some_and(|until| now < until)
        };
        let is_recent = |at: Time| now.saturating_since(at) < ROUTE_BARRED_FOR;
        !self.barred.iter().any(|(barred, at)| barred == route && is_recent(*at))
            && !reporting(route).iter().any(is_barred)
    }

    /// True if the route was as fast as planned when it was last used, in the last ten minutes.
    #[must_use]
    pub fn is_proven(&self, route: &Route, now: Time) -> bool {
        let is_recent = |at: Time| now.saturating_since(at) < PROVEN_FOR;
        self.proven.iter().any(|(proven, at)| proven == route && is_recent(*at))
    }

    /// Records that the route delivers nothing, or was slower than planned.
    ///
    /// The route is barred for a minute. So are its relays, except those of a recent successful
    /// route: one in the middle for twice as long, because its two hops are more likely to be
    /// misreported. Each further failure of a relay doubles its time. So the next routes use other
    /// relays, and those that are right are used again before those that are not.
    pub fn on_failure(&mut self, route: &Route, now: Time) {
        self.bar(route, now);
        let relays = reporting(route);
        for (index, relay) in relays.iter().enumerate() {
            self.forget_if_full(now);
            let record = self.relays.entry(*relay).or_default();
            if record.succeeded_at.is_some_and(|at| now.saturating_since(at) < CLEARED_FOR) {
                continue;
            }
            let is_end = index == 0 || index + 1 == relays.len();
            let doublings = record.failures.min(6) + u32::from(!is_end);
            let barred_for = (ROUTE_BARRED_FOR * (1 << doublings)).min(RELAY_BARRED_MAX);
            record.barred_until = now.checked_add(barred_for).max(record.barred_until);
            record.failures = record.failures.saturating_add(1);
        }
    }

    /// Bars the route for a minute from now on, because a flow leaves it after a failure.
    pub(crate) fn bar(&mut self, route: &Route, now: Time) {
        self.proven.retain(|(proven, _)| proven != route);
        replace(&mut self.barred, BARRED_ROUTES_MAX, (*route, now));
    }

    /// Records that the route is as fast as planned, which clears its relays. A route over a single
    /// relay shows nothing of the delays between relays.
    pub fn on_success(&mut self, route: &Route, now: Time) {
        replace(&mut self.proven, PROVEN_ROUTES_MAX, (*route, now));
        for relay in reporting(route) {
            self.forget_if_full(now);
            let record = Record { succeeded_at: Some(now), ..Record::default() };
            self.relays.insert(*relay, record);
        }
    }

    /// Forgets relays that are not barred, if there are too many records. If all are barred,
    /// forgets all.
    fn forget_if_full(&mut self, now: Time) {
        if self.relays.len() < RECORDS_MAX {
            return;
        }
        self.relays.retain(|_, record| record.barred_until.is_some_and(|until| now < until));
        if self.relays.len() >= RECORDS_MAX {
            self.relays.clear();
        }
    }
}

/// Replaces the entry of a route, or adds one in place of the oldest.
fn replace(routes: &mut VecDeque<(Route, Time)>, most: usize, entry: (Route, Time)) {
    routes.retain(|(route, _)| *route != entry.0);
    if routes.len() >= most {
        routes.pop_front();
    }
    routes.push_back(entry);
}

/// Returns the relays whose reports the plan of a route depends on: none of a single one.
fn reporting(route: &Route) -> &[RelayId] {
    if route.relays().len() > 1 { route.relays() } else { &[] }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn route(relays: &[u32]) -> Route {
        let relays: Vec<RelayId> = relays.iter().copied().map(RelayId::new).collect();
        Route::new(&relays).expect("the test has one to three")
    }

    fn second(number: u64) -> Time {
        Time::START + Duration::from_secs(number)
    }

    #[test]
    fn a_route_that_failed_is_barred_for_a_minute() {
        let mut trust = RouteTrust::new();
        trust.on_success(&route(&[1, 2]), second(0));
        trust.on_failure(&route(&[1, 2]), second(1));
        assert!(!trust.permits(&route(&[1, 2]), second(60)));
        assert!(trust.permits(&route(&[1, 2]), second(61)));
        assert!(trust.permits(&route(&[2, 1]), second(2)), "another route over relays that were right");
    }

    #[test]
    fn the_relays_of_a_failed_route_are_barred_those_in_the_middle_longer() {
        let mut trust = RouteTrust::new();
        trust.on_failure(&route(&[1, 7, 2]), second(1));
        for relay in [1, 2] {
            assert!(!trust.permits(&route(&[relay, 3]), second(60)));
            assert!(trust.permits(&route(&[relay, 3]), second(61)));
        }
        assert!(!trust.permits(&route(&[3, 7]), second(120)));
        assert!(trust.permits(&route(&[3, 7]), second(121)));
    }

    #[test]
    fn relays_of_a_successful_route_are_not_to_blame() {
        let mut trust = RouteTrust::new();
        trust.on_success(&route(&[1, 2]), second(0));
        trust.on_failure(&route(&[1, 7, 2]), second(1));
        assert!(trust.permits(&route(&[1, 2]), second(2)));
        assert!(!trust.permits(&route(&[1, 7]), second(2)));
        trust.on_success(&route(&[7, 2]), second(3));
        assert!(trust.permits(&route(&[1, 7]), second(4)), "cleared later");
        assert!(!trust.permits(&route(&[1, 7, 2]), second(4)), "the route is barred nevertheless");
    }

    #[test]
    fn each_further_failure_doubles_the_time_up_to_an_hour() {
        let mut trust = RouteTrust::new();
        let (mut now, mut waits) = (second(0), Vec::new());
        for attempt in 0..9 {
            trust.on_failure(&route(&[7, 10 + attempt]), now);
            let is_permitted = |wait: &u64| trust.permits(&route(&[7, 99]), now + Duration::from_secs(*wait));
            waits.push((0..5_000).find(is_permitted).expect("no relay is barred for ever"));
            now += Duration::from_secs(waits[waits.len() - 1]);
        }
        assert_eq!(waits, [60, 120, 240, 480, 960, 1_920, 3_600, 3_600, 3_600]);
        trust.on_success(&route(&[6, 7]), now);
        now += CLEARED_FOR;
        trust.on_failure(&route(&[7, 2]), now);
        assert!(trust.permits(&route(&[7, 99]), now + ROUTE_BARRED_FOR), "a success counts from the start");
    }

    #[test]
    fn a_single_relay_is_used_whatever_it_reports() {
        let mut trust = RouteTrust::new();
        trust.on_failure(&route(&[1, 7, 2]), second(1));
        assert!(trust.permits(&route(&[7]), second(2)));
        trust.on_success(&route(&[7]), second(2));
        assert!(!trust.permits(&route(&[7, 3]), second(2)), "it shows nothing of its reports");
        trust.on_failure(&route(&[7]), second(3));
        assert!(!trust.permits(&route(&[7]), second(62)));
        assert!(trust.permits(&route(&[7]), second(63)));
    }

    #[test]
    fn memory_is_bounded_whatever_fails() {
        let mut trust = RouteTrust::new();
        for number in 0..3_000 {
            trust.on_failure(&route(&[number, number + 1, number + 2]), second(1));
            trust.on_success(&route(&[number + 10_000, number + 20_000]), second(1));
            assert!(trust.relays.len() <= RECORDS_MAX && trust.barred.len() <= BARRED_ROUTES_MAX);
            assert!(trust.proven.len() <= PROVEN_ROUTES_MAX);
        }
    }
}
