//! Study of routes over up to three relays, where the direct path is slower than acceptable.

use std::collections::BTreeSet;

use byway_plan::{
    AccessDelay, DelayTable, PlannedRoute, ROUTE_LENGTH_MAX, RelayDelays, Route, RouteQuery, RouteTable,
    World, delay_of, fastest_of_all,
};
use byway_sim::{Random, Seed};
use byway_units::{Duration, RelayId};

use super::Model;
use super::data::Data;
use super::drawing::{distribution, distributions, percent, table};
use super::{environments, route_flows};
use crate::findings::{Findings, Unit, quantile, share};

/// One-way delay up to which a direct path is acceptable: half a round trip of 100 ms. From that
/// on, interactive programs feel slow.
pub(super) const ACCEPTABLE: Duration = Duration::from_millis(50);

/// Least gain of a route: a fifth of the acceptable delay. Less is hardly felt.
pub(super) const GAIN: Duration = Duration::from_millis(10);

/// Sums of delays that the enumeration of all routes may need in one area: a few seconds.
const SUMS_MAX: usize = 1_000_000_000;

/// Largest error of a delay that routes are planned from, in the rows about errors: 5 %.
const ERROR_MAX: f64 = 0.05;

/// Hosts of the table of hosts that are relays, of 490.
const HOST_RELAYS: usize = 300;

/// Longest delay in the plot, in milliseconds.
const PLOTTED_MS_MAX: f64 = 400.0;

/// Columns of the table of areas.
const COLUMNS: [&str; 11] = [
    "area",
    "relays",
    "pairs over 50 ms",
    "faster by 10 ms",
    "then within 50 ms",
    "gain, median",
    "compared pairs",
    "within 2 %",
    "one relay",
    "two relays",
    "nearest relays",
];

/// Endpoints and relays of one table of delays.
pub(super) struct Area {
    name: &'static str,
    pub(super) relays: RelayDelays,
    /// Delays between each endpoint and the relays, the same in both directions.
    pub(super) access: Vec<Vec<AccessDelay>>,
    /// Delays of the direct paths, by sender and receiver.
    pub(super) direct: Vec<Vec<Option<Duration>>>,
}

impl Area {
    /// Returns the area of relays and endpoints with these delays; `None` if there are too many
    /// relays.
    fn new(
        name: &'static str,
        [relays, endpoints]: [usize; 2],
        between: impl Fn(usize, usize) -> Option<Duration>,
        access: impl Fn(usize, usize) -> Option<Duration>,
        direct: impl Fn(usize, usize) -> Option<Duration>,
    ) -> Option<Self> {
        let ids: Vec<RelayId> = (0..).take(relays).map(RelayId::new).collect();
        let mut delays = RelayDelays::new(&ids).ok()?;
        for (from, first) in ids.iter().enumerate() {
            for (to, second) in ids.iter().enumerate() {
                delays.set(*first, *second, between(from, to));
            }
        }
        let of_endpoint = |endpoint| {
            let known = ids
                .iter()
                .enumerate()
                .filter_map(|(relay, id)| Some(AccessDelay { relay: *id, delay: access(endpoint, relay)? }));
            known.collect()
        };
        let row = |from| (0..endpoints).map(|to| direct(from, to).filter(|_| from != to)).collect();
        Some(Self {
            name,
            relays: delays,
            access: (0..endpoints).map(of_endpoint).collect(),
            direct: (0..endpoints).map(row).collect(),
        })
    }

    /// Returns the area of a world: relays in its regions, endpoints in its cities.
    pub(super) fn of_world(name: &'static str, world: &World) -> Option<Self> {
        let (regions, cities) = (&world.regions, &world.cities);
        Self::new(
            name,
            [regions.len(), cities.len()],
            |from, to| world.between_regions.between(&regions[from].id, &regions[to].id),
            |city, region| world.between_cities.between(&cities[city].name, &regions[region].city),
            |from, to| world.between_cities.between(&cities[from].name, &cities[to].name),
        )
    }

    /// Returns the area of a table in which these locations have relays, and these endpoints.
    fn of_table(name: &'static str, delays: &DelayTable, relays: &[&str], ends: &[&str]) -> Option<Self> {
        Self::new(
            name,
            [relays.len(), ends.len()],
            |from, to| delays.between(relays[from], relays[to]),
            |end, relay| delays.between(ends[end], relays[relay]),
            |from, to| delays.between(ends[from], ends[to]),
        )
    }

    /// Returns the built-in area, and those of the public tables that are available.
    fn all(data: &Data) -> Vec<Self> {
        let mut areas = vec![Self::of_world("built-in tables", &World::built_in())];
        if let Some(world) = environments::public_everywhere(data) {
            areas.push(Self::of_world("242 cities, cloud regions", &world));
            let everywhere = environments::relay_in_every_city(&world);
            areas.push(Self::of_world("242 cities, a relay in each", &everywhere));
        }
        if let Some(regions) = &data.regions {
            let names = names(regions);
            areas.push(Self::of_table("cloud regions", regions, &names, &names));
        }
        if let Some(hosts) = &data.hosts {
            let names = names(hosts);
            let is_relay = |index: &usize| {
                let relays_until = |index: usize| index * HOST_RELAYS / names.len();
                relays_until(*index) != relays_until(index + 1)
            };
            let (relays, ends): (Vec<_>, Vec<_>) =
                names.iter().enumerate().partition(|(index, _)| is_relay(index));
            let [relays, ends] =
                [relays, ends].map(|list| list.into_iter().map(|(_, name)| *name).collect::<Vec<_>>());
            areas.push(Self::of_table("490 hosts, 300 of them relays", hosts, &relays, &ends));
        }
        areas.into_iter().flatten().collect()
    }

    pub(super) fn query(&self, [from, to]: [usize; 2]) -> RouteQuery<'_> {
        RouteQuery::new(&self.access[from], &self.access[to])
    }

    /// Returns the pairs of endpoints whose direct path is slower than acceptable, with its delay.
    fn slow_pairs(&self) -> Vec<([usize; 2], Duration)> {
        let rows = self.direct.iter().enumerate().flat_map(|(from, row)| {
            row.iter().enumerate().filter_map(move |(to, delay)| Some(([from, to], (*delay)?)))
        });
        rows.filter(|(_, delay)| *delay > ACCEPTABLE).collect()
    }

    /// Returns the area with delays that have an error.
    fn with_errors(&self, random: &mut Random) -> Self {
        let mut wrong = |delay: Duration| scaled(delay, 1.0 + ERROR_MAX * (2.0 * random.fraction() - 1.0));
        let mut relays = self.relays.clone();
        for from in self.relays.relays() {
            for to in self.relays.relays() {
                relays.set(*from, *to, self.relays.get(*from, *to).map(&mut wrong));
            }
        }
        let mut access = self.access.clone();
        for access in access.iter_mut().flatten() {
            access.delay = wrong(access.delay);
        }
        Self { name: self.name, relays, access, direct: Vec::new() }
    }
}

/// Returns the names of a table's locations.
fn names(delays: &DelayTable) -> Vec<&str> {
    let names: BTreeSet<&str> = delays.iter().flat_map(|(from, to, _)| [from, to]).collect();
    names.into_iter().collect()
}

/// Returns a delay times a factor.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "delays of tables are known to a few digits, and the cast saturates"
)]
pub(super) fn scaled(delay: Duration, factor: f64) -> Duration {
    Duration::from_nanos((delay.as_nanos() as f64 * factor) as u64)
}

/// Returns a delay in milliseconds.
pub(super) fn milliseconds(delay: Duration) -> f64 {
    delay.as_secs_f64() * 1_000.0
}

/// Routes of one area.
struct Outcome {
    pairs: usize,
    /// Direct delays of the slow pairs, and delays of their fastest routes, in milliseconds.
    direct: Vec<f64>,
    by_route: Vec<f64>,
    /// Gains of the pairs that gain enough, in milliseconds.
    gains: Vec<f64>,
    acceptable: u64,
    compared: u64,
    /// Compared pairs whose route is within 2 % of the best. Routes are: the planned one, the
    /// fastest over one relay, that over two, that over the nearest relays, and one that is planned
    /// from wrong delays.
    near_best: [u64; 5],
    /// Part by which routes that were planned from wrong delays are slower than the best.
    excess: Vec<f64>,
}

impl Outcome {
    fn of(area: &Area, random: &mut Random) -> Self {
        let table = RouteTable::new(area.relays.clone());
        let mut slow = area.slow_pairs();
        let mut outcome = Self::gains(area, &table, &slow);
        let wrong = area.with_errors(random);
        let wrong_table = RouteTable::new(wrong.relays.clone());
        let compared = (SUMS_MAX / area.relays.relays().len().pow(3).max(1)).max(1);
        for index in 0..compared.min(slow.len()) {
            let (rest, first) = (slow.len() - index, index);
            let other = usize::try_from(random.below(rest as u64)).map_or(first, |other| first + other);
            slow.swap(first, other);
            let query = area.query(slow[index].0);
            let Some(best) = fastest_of_all(&area.relays, &query, ROUTE_LENGTH_MAX) else {
                continue;
            };
            let by_wrong = wrong_table.plan(&wrong.query(slow[index].0));
            let by_wrong = by_wrong.and_then(|planned| delay_of(&area.relays, &query, &planned.route));
            let delay = |planned: Option<PlannedRoute>| planned.map(|planned| planned.delay);
            let found = [
                delay(table.plan(&query)),
                delay(fastest_of_all(&area.relays, &query, 1)),
                delay(fastest_of_all(&area.relays, &query, 2)),
                nearest(&query).and_then(|route| delay_of(&area.relays, &query, &route)),
                by_wrong,
            ];
            for (near_best, found) in outcome.near_best.iter_mut().zip(found) {
                *near_best += u64::from(found.is_some_and(|found| found * 100 <= best.delay * 102));
            }
            outcome.excess.extend(by_wrong.map(|found| milliseconds(found) / milliseconds(best.delay) - 1.0));
            outcome.compared += 1;
        }
        outcome
    }

    /// Computes the gains of all slow pairs.
    fn gains(area: &Area, table: &RouteTable, slow: &[([usize; 2], Duration)]) -> Self {
        let pairs = area.direct.iter().flatten().flatten().count();
        let (mut direct_ms, mut by_route, mut gains, mut acceptable) =
            (Vec::new(), Vec::new(), Vec::new(), 0);
        let mut reach = None;
        for ([from, to], direct) in slow {
            if reach.as_ref().is_none_or(|(sender, _)| sender != from) {
                reach = Some((*from, table.reach(&area.access[*from])));
            }
            let route = reach.as_ref().and_then(|(_, reach)| reach.delay(&area.access[*to]));
            let gain = route.filter(|route| route.saturating_add(GAIN) <= *direct);
            gains.extend(gain.map(|route| milliseconds(*direct) - milliseconds(route)));
            acceptable += u64::from(gain.is_some_and(|route| route <= ACCEPTABLE));
            direct_ms.push(milliseconds(*direct));
            by_route.push(milliseconds(gain.unwrap_or(*direct)));
        }
        Self {
            pairs,
            direct: direct_ms,
            by_route,
            gains,
            acceptable,
            compared: 0,
            near_best: [0; 5],
            excess: Vec::new(),
        }
    }

    fn row(&self, area: &Area) -> Vec<String> {
        let (slow, gaining) = (self.direct.len() as u64, self.gains.len() as u64);
        let [planned, one, two, nearest, _] = self.near_best.map(|near| percent(share(near, self.compared)));
        let gain = quantile(&mut self.gains.clone(), 0.5);
        vec![
            area.name.to_owned(),
            area.relays.relays().len().to_string(),
            percent(share(slow, self.pairs as u64)),
            percent(share(gaining, slow)),
            percent(share(self.acceptable, gaining)),
            gain.map_or_else(|| "–".to_owned(), |gain| format!("{gain:.1} ms")),
            self.compared.to_string(),
            planned,
            one,
            two,
            nearest,
        ]
    }
}

/// Returns the route over the relays that are nearest to the ends, as relay paths have.
fn nearest(query: &RouteQuery<'_>) -> Option<Route> {
    let nearest =
        |access: &[AccessDelay]| access.iter().min_by_key(|access| access.delay).map(|access| access.relay);
    let (ingress, egress) = (nearest(query.sender)?, nearest(query.receiver)?);
    if ingress == egress { Route::new(&[ingress]) } else { Route::new(&[ingress, egress]) }
}

/// Computes the study of routes with the built-in tables, and with the public ones that are
/// available.
pub(crate) fn routes(seeds: &[u64], data: &Data) -> Model {
    let areas = Area::all(data);
    let mut model = Model { notes: data.notes(), ..Model::default() };
    for seed in seeds {
        let mut findings = Findings::default();
        let mut random = Seed::new(*seed).named("routes").sequence();
        let outcomes: Vec<Outcome> = areas.iter().map(|area| Outcome::of(area, &mut random)).collect();
        measure(&outcomes, &mut findings);
        if let Some(area) = areas.first() {
            route_flows::run(area, *seed, &mut findings);
        }
        if model.findings.is_empty() {
            let rows = areas.iter().zip(&outcomes).map(|(area, outcome)| outcome.row(area)).collect();
            model.tables.push(table("Routes by area, first seed", &COLUMNS, rows));
            let curves = areas.iter().zip(&outcomes).flat_map(|(area, outcome)| {
                let curve = |name, values: &[f64]| {
                    distribution(&format!("{}, {name}", area.name), values.to_vec(), PLOTTED_MS_MAX)
                };
                [curve("direct", &outcome.direct), curve("with routes", &outcome.by_route)]
            });
            let plot = distributions(
                "Delays of pairs whose direct path takes over 50 ms",
                "With routes: over relays if that is faster by 10 ms.",
                "one-way delay, ms",
                curves.collect(),
            );
            model.series.insert("delays".to_owned(), plot);
        }
        model.findings.push(findings);
    }
    model
}

/// Adds the measures of all areas together, and the least share of an area.
fn measure(outcomes: &[Outcome], findings: &mut Findings) {
    let names = ["planned", "one-relay", "two-relays", "nearest", "wrong-delays"];
    for (index, name) in names.into_iter().enumerate() {
        let shares = outcomes.iter().filter_map(|outcome| share(outcome.near_best[index], outcome.compared));
        findings.measure(&format!("{name}-near-best"), None, shares.reduce(f64::min), Unit::Share);
    }
    let mut excess: Vec<f64> = outcomes.iter().flat_map(|outcome| outcome.excess.clone()).collect();
    findings.measure("wrong-delays-excess-p95", None, quantile(&mut excess, 0.95), Unit::Share);
    let built_in = outcomes.first();
    let gaining = built_in.and_then(|outcome| share(outcome.gains.len() as u64, outcome.direct.len() as u64));
    findings.measure("gaining", None, gaining, Unit::Share);
    let gain = built_in.and_then(|outcome| quantile(&mut outcome.gains.clone(), 0.5));
    findings.measure("gain-p50", None, gain, Unit::Milliseconds);
}
