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

    /// True if neither the route nor one of its relays failed recently.
    #[must_use]
    pub fn permits(&self, route: &Route, now: Time) -> bool {
        let is_barred = |relay: &RelayId| {
            let until = self.relays.get(relay).and_then(|record| record.barred_until);
            until.is_some_and(|until| now < until)
        };
        let is_recent = |at: Time| now.saturating_since(at) < ROUTE_BARRED_FOR;
        !self.barred.iter().any(|(barred, at)| barred == route && is_recent(*at))
            && !route.relays().iter().any(is_barred)
    }

    /// Records that the route delivers nothing, or was slower than planned.
    ///
    /// The route is barred for a minute, and so is the relay that is most likely to blame: that
    /// with the most failed routes since its last successful one. Of equal ones it is that in the
    /// middle, then the last. Each further failure of the relay doubles the time. Relays of a
    /// recent successful route are not to blame.
    pub fn on_failure(&mut self, route: &Route, now: Time) {
        self.bar(route, now);
        let is_cleared =
            |record: &Record| record.succeeded_at.is_some_and(|at| now.saturating_since(at) < CLEARED_FOR);
        let relays = route.relays();
        let mut blamed: Option<RelayId> = None;
        for relay in relays.iter().skip(1).chain(relays.first()) {
            self.forget_if_full(now);
            let record = self.relays.entry(*relay).or_default();
            if is_cleared(record) {
                continue;
            }
            record.failures = record.failures.saturating_add(1);
            let failures = record.failures;
            let most = blamed.and_then(|blamed| self.relays.get(&blamed));
            if most.is_none_or(|most| failures > most.failures) {
                blamed = Some(*relay);
            }
        }
        if let Some(record) = blamed.and_then(|relay| self.relays.get_mut(&relay)) {
            let doubled = ROUTE_BARRED_FOR * (1_u64 << (record.failures - 1).min(6));
            record.barred_until = now.checked_add(doubled.min(RELAY_BARRED_MAX));
        }
    }

    /// Bars the route for a minute from now on, because a flow leaves it after a failure.
    pub(crate) fn bar(&mut self, route: &Route, now: Time) {
        self.barred.retain(|(barred, _)| barred != route);
        if self.barred.len() >= BARRED_ROUTES_MAX {
            self.barred.pop_front();
        }
        self.barred.push_back((*route, now));
    }

    /// Records that the route is as fast as planned, which clears its relays.
    pub fn on_success(&mut self, route: &Route, now: Time) {
        for relay in route.relays() {
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
    fn the_relay_in_the_middle_is_to_blame_unless_another_route_clears_it() {
        let mut trust = RouteTrust::new();
        trust.on_failure(&route(&[1, 7, 2]), second(1));
        assert!(!trust.permits(&route(&[3, 7]), second(60)));
        assert!(trust.permits(&route(&[3, 7]), second(61)));
        assert!(trust.permits(&route(&[1, 2]), second(2)));
        let mut trust = RouteTrust::new();
        trust.on_success(&route(&[7, 3]), second(0));
        trust.on_failure(&route(&[1, 7, 2]), second(1));
        assert!(trust.permits(&route(&[3, 7]), second(2)));
        assert!(!trust.permits(&route(&[1, 2]), second(2)), "the last");
    }

    #[test]
    fn of_several_failed_routes_the_common_relay_is_to_blame() {
        let mut trust = RouteTrust::new();
        trust.on_failure(&route(&[7, 2]), second(1));
        assert!(trust.permits(&route(&[7, 3]), second(2)), "the last one is to blame first");
        trust.on_failure(&route(&[7, 3]), second(2));
        assert!(!trust.permits(&route(&[7, 4]), second(121)));
        assert!(trust.permits(&route(&[7, 4]), second(122)), "its second failure");
        assert!(trust.permits(&route(&[1, 3]), second(2)));
    }

    #[test]
    fn each_further_failure_doubles_the_time_up_to_an_hour() {
        let mut trust = RouteTrust::new();
        let (mut now, mut waits) = (second(0), Vec::new());
        for _ in 0..9 {
            trust.on_failure(&route(&[7]), now);
            let barred =
                (0..5_000).find(|wait| trust.permits(&route(&[7]), now + Duration::from_secs(*wait)));
            waits.push(barred.expect("no relay is barred for ever"));
            now += Duration::from_secs(waits[waits.len() - 1]);
        }
        assert_eq!(waits, [60, 120, 240, 480, 960, 1_920, 3_600, 3_600, 3_600]);
        trust.on_success(&route(&[7]), now);
        now += CLEARED_FOR;
        trust.on_failure(&route(&[7]), now);
        assert!(trust.permits(&route(&[7]), now + ROUTE_BARRED_FOR), "a success counts from the start");
    }

    #[test]
    fn memory_is_bounded_whatever_fails() {
        let mut trust = RouteTrust::new();
        for number in 0..3_000 {
            trust.on_failure(&route(&[number, number + 1, number + 2]), second(1));
            trust.on_success(&route(&[number + 10_000]), second(1));
            assert!(trust.relays.len() <= RECORDS_MAX && trust.barred.len() <= BARRED_ROUTES_MAX);
        }
    }
}
