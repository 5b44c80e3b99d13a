//! Routes over up to three relays, where the direct path is too slow.
//!
//! A [`RouteTable`] contains the least delays between all relays, over at most one relay between.
//! So a route's first and last relay determine its delay, and a search compares pairs of relays.

use alloc::vec::Vec;
use core::fmt;

use byway_units::{Duration, Money, RelayId};

use crate::price::PricePerGigabyte;
use crate::relay_delays::{Grid, RelayDelays, UNREACHABLE, duration, microseconds};

/// Most relays of a route. Each adds a machine that can fail, and a price; more than three make
/// hardly any measured path faster.
pub const ROUTE_LENGTH_MAX: usize = 3;

/// Part of the least delay by which a cheaper or shorter route may be slower: a fiftieth, 2 %.
/// Measured delays vary by more.
const TOLERANCE_PARTS: i32 = 50;

/// Relays that a flow's packets pass, in order: one to three.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Route {
    length: u8,
    /// Relays in order; the unused ones repeat the first.
    relays: [RelayId; ROUTE_LENGTH_MAX],
}

impl Route {
    /// Returns the route over these relays; `None` unless there are one to three.
    #[must_use]
    pub fn new(relays: &[RelayId]) -> Option<Self> {
        let first = *relays.first()?;
        let length = u8::try_from(relays.len()).ok()?;
        let mut all = [first; ROUTE_LENGTH_MAX];
        all.get_mut(..relays.len())?.copy_from_slice(relays);
        Some(Self { length, relays: all })
    }

    /// Returns the relays of the route, that of the sender first.
    #[must_use]
    pub fn relays(&self) -> &[RelayId] {
        &self.relays[..usize::from(self.length)]
    }
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.relays().iter().map(|relay| relay.number())).finish()
    }
}

/// Route with the delay that its hops add up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedRoute {
    /// Relays of the route.
    pub route: Route,
    /// One-way delay from the sender over the relays to the receiver.
    pub delay: Duration,
}

/// One-way delay between an endpoint and a relay: to the relay for a sender, from it for a
/// receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessDelay {
    /// Relay that the endpoint can use.
    pub relay: RelayId,
    /// Delay between the two.
    pub delay: Duration,
}

/// Search for a route from a sender to a receiver.
#[derive(Clone, Copy)]
pub struct RouteQuery<'a> {
    /// Delays from the sender to its relays.
    pub sender: &'a [AccessDelay],
    /// Delays from the receiver's relays to it.
    pub receiver: &'a [AccessDelay],
    /// Prices of bytes that leave each relay; relays without a price are free.
    pub prices: &'a [(RelayId, PricePerGigabyte)],
    /// True for the routes that may be used: see [`RouteTrust`](crate::RouteTrust).
    pub is_permitted: &'a dyn Fn(&Route) -> bool,
}

impl fmt::Debug for RouteQuery<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut query = f.debug_struct("RouteQuery");
        query.field("sender", &self.sender).field("receiver", &self.receiver).finish_non_exhaustive()
    }
}

impl<'a> RouteQuery<'a> {
    /// Returns a search in which all routes are permitted and cost the same.
    #[must_use]
    pub const fn new(sender: &'a [AccessDelay], receiver: &'a [AccessDelay]) -> Self {
        Self { sender, receiver, prices: &[], is_permitted: &|_| true }
    }

    fn price(&self, route: &Route) -> Money {
        let price = |relay: &RelayId| self.prices.iter().find(|(priced, _)| priced == relay);
        let prices = route.relays().iter().filter_map(price);
        prices.fold(Money::ZERO, |sum, (_, price)| sum.saturating_add(price.money()))
    }
}

/// Least delays between all relays, from which routes for any endpoints follow.
///
/// Make a new table when delays have changed. That of 300 relays needs 27 million additions, about
/// three milliseconds of a core.
#[derive(Clone, Debug)]
pub struct RouteTable {
    delays: RelayDelays,
    /// Delays over at most one relay between. A relay reaches itself without delay.
    least: Grid,
}

/// Least delays from a sender to all relays, over at most three relays, which include the last.
#[derive(Clone, Debug)]
pub struct Reach<'a> {
    table: &'a RouteTable,
    delays: Vec<i32>,
}

/// Candidate of a search, in the order of preference after its delay.
type Candidate = (Money, Route, i32);

impl RouteTable {
    /// Computes the table from the relays' delays to each other.
    #[must_use]
    pub fn new(delays: RelayDelays) -> Self {
        let least = delays.grid().over_one_relay();
        Self { delays, least }
    }

    /// Returns the delays from which the table was made.
    #[must_use]
    pub const fn delays(&self) -> &RelayDelays {
        &self.delays
    }

    /// Returns the route to use: the cheapest of those that are at most 2 % slower than the
    /// fastest. Of equally cheap ones it is the route with the fewest relays, then the fastest,
    /// then the one with the lowest numbers. `None` if no permitted route exists.
    #[must_use]
    pub fn plan(&self, query: &RouteQuery<'_>) -> Option<PlannedRoute> {
        let fastest = self.least_delay(query)?;
        let mut best: Option<Candidate> = None;
        self.visit(query, fastest + fastest / TOLERANCE_PARTS, |route, delay, limit| {
            let candidate = (query.price(&route), route, delay);
            let rank = |candidate: &Candidate| {
                let (price, route, delay) = *candidate;
                (price, route.relays().len(), delay, route)
            };
            if best.as_ref().is_none_or(|best| rank(&candidate) < rank(best)) {
                best = Some(candidate);
            }
            limit
        });
        let (_, route, delay) = best?;
        Some(PlannedRoute { route, delay: duration(delay)? })
    }

    /// Returns the least delays from a sender to all relays. For many receivers, this is faster
    /// than one search for each.
    #[must_use]
    pub fn reach(&self, sender: &[AccessDelay]) -> Reach<'_> {
        let mut delays = alloc::vec![UNREACHABLE; self.delays.relays().len()];
        for (from, access) in self.endpoint(sender) {
            for (delay, onward) in delays.iter_mut().zip(self.least.row(from)) {
                *delay = (*delay).min(access + *onward);
            }
        }
        Reach { table: self, delays }
    }

    /// Returns the rows of an endpoint's relays, with their delays in microseconds. Relays that are
    /// not in the table are left out.
    fn endpoint(&self, access: &[AccessDelay]) -> impl Iterator<Item = (usize, i32)> {
        access
            .iter()
            .filter_map(|access| Some((self.delays.index(access.relay)?, microseconds(access.delay))))
    }

    /// Returns the delay of the fastest permitted route.
    fn least_delay(&self, query: &RouteQuery<'_>) -> Option<i32> {
        let mut least = None;
        self.visit(query, UNREACHABLE - 1, |_, delay, _| {
            least = Some(delay);
            delay - 1
        });
        least
    }

    /// Visits the permitted routes whose delay is at most `limit`. `visit` returns the limit for
    /// the routes that follow.
    ///
    /// Delays in the table are lower bounds, also if some routes are not permitted. So most pairs
    /// of relays are passed over without a look at the relays between.
    fn visit(&self, query: &RouteQuery<'_>, mut limit: i32, mut visit: impl FnMut(Route, i32, i32) -> i32) {
        let receiver: Vec<(usize, i32)> = self.endpoint(query.receiver).collect();
        let (ids, direct) = (self.delays.relays(), self.delays.grid());
        for (from, before) in self.endpoint(query.sender) {
            for (to, after) in receiver.iter().copied() {
                let access = before + after;
                if access + self.least.get(from, to) > limit {
                    continue;
                }
                let mut offer = |relays: &[RelayId], delay: i32, limit: i32| {
                    let route =
                        Route::new(relays).filter(|route| delay <= limit && (query.is_permitted)(route));
                    route.map_or(limit, |route| visit(route, delay, limit))
                };
                if from == to {
                    limit = offer(&[ids[from]], access, limit);
                    continue;
                }
                limit = offer(&[ids[from], ids[to]], access + direct.get(from, to), limit);
                for middle in (0..ids.len()).filter(|middle| *middle != from && *middle != to) {
                    let delay = access + direct.get(from, middle) + direct.get(middle, to);
                    limit = offer(&[ids[from], ids[middle], ids[to]], delay, limit);
                }
            }
        }
    }
}

impl Reach<'_> {
    /// Returns the delay of the fastest route to a receiver; `None` if there is none.
    #[must_use]
    pub fn delay(&self, receiver: &[AccessDelay]) -> Option<Duration> {
        let sums = self.table.endpoint(receiver).map(|(relay, access)| self.delays[relay] + access);
        sums.min().and_then(duration)
    }
}

/// Returns the fastest of all permitted routes over at most `relays_max` relays, by a look at each:
/// the reference for [`RouteTable::plan`]. Equally fast ones are ranked as in `plan`, without
/// prices.
///
/// Three of 300 relays need 27 million additions for one route, so it is for tests and studies.
#[must_use]
pub fn fastest_of_all(
    delays: &RelayDelays,
    query: &RouteQuery<'_>,
    relays_max: usize,
) -> Option<PlannedRoute> {
    let ids = delays.relays();
    let access = |endpoint: &[AccessDelay]| {
        let mut all = alloc::vec![UNREACHABLE; ids.len()];
        for access in endpoint {
            if let Some(index) = delays.index(access.relay) {
                all[index] = all[index].min(microseconds(access.delay));
            }
        }
        all
    };
    let (before, after) = (access(query.sender), access(query.receiver));
    let mut best: Option<(i32, usize, Route)> = None;
    let mut offer = |relays: &[usize], delay: i32| {
        let is_slower = best.as_ref().is_some_and(|(least, _, _)| delay > *least);
        if relays.len() > relays_max || delay >= UNREACHABLE || is_slower {
            return;
        }
        let relays: Vec<RelayId> = relays.iter().map(|relay| ids[*relay]).collect();
        let route = Route::new(&relays).filter(|route| (query.is_permitted)(route));
        if let Some(candidate) = route.map(|route| (delay, relays.len(), route)) {
            best = Some(best.map_or(candidate, |best| best.min(candidate)));
        }
    };
    let hop = |from, to| delays.grid().get(from, to);
    for first in 0..ids.len() {
        offer(&[first], before[first] + after[first]);
        for second in 0..ids.len() {
            let one_hop = before[first] + hop(first, second);
            offer(&[first, second], one_hop + after[second]);
            for third in (0..ids.len()).filter(|_| relays_max >= ROUTE_LENGTH_MAX) {
                offer(&[first, second, third], one_hop + hop(second, third) + after[third]);
            }
        }
    }
    best.and_then(|(delay, _, route)| Some(PlannedRoute { route, delay: duration(delay)? }))
}

/// Returns the sum of a route's hops; `None` if a hop does not exist.
#[must_use]
pub fn delay_of(delays: &RelayDelays, query: &RouteQuery<'_>, route: &Route) -> Option<Duration> {
    let access = |endpoint: &[AccessDelay], relay: &RelayId| {
        let known = endpoint.iter().filter(|access| access.relay == *relay);
        known.filter_map(|access| duration(microseconds(access.delay))).min()
    };
    let relays = route.relays();
    let mut total = access(query.sender, relays.first()?)?;
    for hop in relays.windows(2) {
        total += delays.get(hop[0], hop[1])?;
    }
    Some(total + access(query.receiver, relays.last()?)?)
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use proptest::prelude::*;

    use super::*;

    const fn relay(number: u32) -> RelayId {
        RelayId::new(number)
    }

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn route(relays: &[u32]) -> Route {
        let relays: Vec<RelayId> = relays.iter().copied().map(RelayId::new).collect();
        Route::new(&relays).expect("the test has one to three")
    }

    fn access(delays: &[(u32, u64)]) -> Vec<AccessDelay> {
        delays
            .iter()
            .map(|(number, millis)| AccessDelay { relay: relay(*number), delay: ms(*millis) })
            .collect()
    }

    /// Returns the matrix of relays 0 to `count - 1` with these delays in milliseconds.
    fn matrix(count: u32, hops: &[(u32, u32, u64)]) -> RelayDelays {
        let relays: Vec<RelayId> = (0..count).map(RelayId::new).collect();
        let mut delays = RelayDelays::new(&relays).expect("the test has few");
        for (from, to, millis) in hops {
            assert!(delays.set(relay(*from), relay(*to), Some(ms(*millis))));
        }
        delays
    }

    #[test]
    fn a_route_has_one_to_three_relays() {
        assert_eq!(Route::new(&[]), None);
        assert_eq!(Route::new(&[relay(1); 4]), None);
        assert_eq!(route(&[7, 2]).relays(), [relay(7), relay(2)]);
        assert_ne!(route(&[7]), route(&[7, 7]));
    }

    #[test]
    fn a_third_relay_between_is_found_and_directions_count() {
        let table = RouteTable::new(matrix(3, &[(0, 1, 90), (0, 2, 30), (2, 1, 30), (1, 0, 40)]));
        let (near, far) = (access(&[(0, 5)]), access(&[(1, 5)]));
        let there = table.plan(&RouteQuery::new(&near, &far));
        assert_eq!(there, Some(PlannedRoute { route: route(&[0, 2, 1]), delay: ms(70) }));
        let back = table.plan(&RouteQuery::new(&far, &near));
        assert_eq!(back, Some(PlannedRoute { route: route(&[1, 0]), delay: ms(50) }));
        assert_eq!(table.reach(&near).delay(&far), Some(ms(70)));
    }

    #[test]
    fn without_a_hop_there_is_no_route() {
        let table = RouteTable::new(matrix(2, &[(1, 0, 10)]));
        let (near, far) = (access(&[(0, 5)]), access(&[(1, 5)]));
        assert_eq!(table.plan(&RouteQuery::new(&near, &far)), None);
        assert_eq!(table.reach(&near).delay(&far), None);
        let unknown = access(&[(9, 1)]);
        assert_eq!(table.plan(&RouteQuery::new(&unknown, &near)), None);
    }

    #[test]
    fn within_two_per_cent_fewer_relays_and_lower_prices_decide() {
        let hops = [(0, 1, 92), (0, 2, 40), (2, 1, 50), (0, 3, 45), (3, 1, 46)];
        let table = RouteTable::new(matrix(4, &hops));
        let (near, far) = (access(&[(0, 5)]), access(&[(1, 5)]));
        let plan = |query: &RouteQuery<'_>| table.plan(query).map(|planned| planned.route);
        let query = RouteQuery::new(&near, &far);
        assert_eq!(plan(&query), Some(route(&[0, 1])), "102 ms in place of 100");
        let dollar = PricePerGigabyte::new(Money::from_cents(100));
        let prices = [(relay(0), dollar), (relay(2), dollar)];
        let slower =
            RouteTable::new(matrix(4, &[(0, 1, 93), (0, 2, 40), (2, 1, 50), (0, 3, 45), (3, 1, 46)]));
        let fastest = slower.plan(&RouteQuery { prices: &prices, ..query });
        assert_eq!(fastest.map(|planned| planned.route), Some(route(&[0, 3, 1])), "relay 2 is dear");
        assert_eq!(slower.plan(&query).map(|planned| planned.route), Some(route(&[0, 2, 1])));
    }

    #[test]
    fn routes_that_are_not_permitted_are_avoided() {
        let table = RouteTable::new(matrix(3, &[(0, 1, 90), (0, 2, 30), (2, 1, 30)]));
        let (near, far) = (access(&[(0, 5)]), access(&[(1, 5)]));
        let without = |excluded: RelayId| {
            let is_permitted = |route: &Route| !route.relays().contains(&excluded);
            table.plan(&RouteQuery { is_permitted: &is_permitted, ..RouteQuery::new(&near, &far) })
        };
        assert_eq!(without(relay(2)).map(|planned| planned.route), Some(route(&[0, 1])));
        assert_eq!(without(relay(0)), None);
    }

    #[test]
    fn equal_routes_are_always_the_same_one() {
        let hops = [(0, 1, 10), (2, 3, 10), (0, 3, 10), (2, 1, 10)];
        let (near, far) = (access(&[(2, 5), (0, 5)]), access(&[(3, 5), (1, 5)]));
        let mirrored: Vec<_> = hops.iter().rev().copied().collect();
        for hops in [&hops[..], &mirrored] {
            let table = RouteTable::new(matrix(4, hops));
            let planned = table.plan(&RouteQuery::new(&near, &far));
            assert_eq!(planned, Some(PlannedRoute { route: route(&[0, 1]), delay: ms(20) }));
        }
    }

    fn delay() -> impl Strategy<Value = Option<u64>> {
        prop_oneof![6 => (0..300_u64).prop_map(Some), 2 => (0..5_u64).prop_map(Some), 2 => Just(None)]
    }

    proptest! {
        #[test]
        fn routes_are_as_fast_as_the_best_of_all(
            count in 1..9_u32,
            hops in proptest::collection::vec(delay(), 81),
            ends in proptest::collection::vec(delay(), 18),
            barred in proptest::collection::vec(0..9_u32, 0..3),
        ) {
            let mut hop = hops.into_iter();
            let mut delays = matrix(count, &[]);
            for (from, to) in (0..count).flat_map(|from| (0..count).map(move |to| (from, to))) {
                delays.set(relay(from), relay(to), hop.next().flatten().map(ms));
            }
            let known = |ends: &[Option<u64>]| {
                let known = (0..count).zip(ends).filter_map(|(relay, delay)| Some((relay, (*delay)?)));
                access(&known.collect::<Vec<_>>())
            };
            let (sender, receiver) = (known(&ends[..9]), known(&ends[9..]));
            let all = RouteQuery::new(&sender, &receiver);
            let table = RouteTable::new(delays.clone());
            let least = fastest_of_all(&delays, &all, ROUTE_LENGTH_MAX).map(|planned| planned.delay);
            prop_assert_eq!(table.reach(&sender).delay(&receiver), least);

            let is_permitted =
                |route: &Route| !route.relays().iter().any(|relay| barred.contains(&relay.number()));
            let query = RouteQuery { is_permitted: &is_permitted, ..all };
            let (found, reference) = (table.plan(&query), fastest_of_all(&delays, &query, ROUTE_LENGTH_MAX));
            prop_assert_eq!(found.is_some(), reference.is_some());
            if let (Some(found), Some(reference)) = (found, reference) {
                prop_assert_eq!(delay_of(&delays, &query, &found.route), Some(found.delay));
                prop_assert!(found.delay >= reference.delay);
                prop_assert!(found.delay.as_micros() * 50 <= reference.delay.as_micros() * 51);
                prop_assert!(is_permitted(&found.route));
                let is_shorter = found.route.relays().len() < reference.route.relays().len();
                prop_assert!(is_shorter || found.delay == reference.delay, "{:?} {:?}", found, reference);
            }
            prop_assert_eq!(found, table.plan(&query));
        }
    }

    #[test]
    fn three_hundred_relays_are_planned_like_a_few() {
        let mut random = crate::random::SplitMix::new(3);
        let relays: Vec<RelayId> = (0..300).map(RelayId::new).collect();
        let mut delays = RelayDelays::new(&relays).expect("300 are few");
        for from in &relays {
            for to in &relays {
                delays.set(*from, *to, Some(Duration::from_micros(1_000 + random.next() % 200_000)));
            }
        }
        let table = RouteTable::new(delays.clone());
        let near = vec![AccessDelay { relay: relay(0), delay: ms(5) }];
        let far = vec![AccessDelay { relay: relay(299), delay: ms(5) }];
        let planned = table.plan(&RouteQuery::new(&near, &far)).expect("all are reachable");
        let least = relays.iter().filter_map(|middle| {
            Some(delays.get(relay(0), *middle)? + delays.get(*middle, relay(299))? + ms(10))
        });
        assert_eq!(Some(planned.delay), least.min());
    }
}
