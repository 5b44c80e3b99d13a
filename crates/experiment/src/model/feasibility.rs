//! Whether services are fast enough between endpoints on four continents (J-QoS, section 5.1 and figure 4).

use std::collections::BTreeMap;

use byway_plan::{Delays, FeasibilitySetup, LastMile, PathDelays, StudyPath, World};
use byway_units::Duration;
use byway_wire::Service;

use super::Model;
use super::data::Data;
use super::drawing::{distribution, distributions, name, published};
use super::explain;
use super::worlds::{self, CONTINENTS};
use crate::findings::{Findings, Unit, quantile, share};
use crate::result::Curve;

/// What deliveries are to be within: the published budget.
pub(super) const BUDGET_MS: f64 = 200.0;

/// What recovery times are to be within, in round trips, and in words.
pub(super) const ROUND_TRIPS: [(f64, &str); 2] = [(0.25, "quarter"), (0.5, "half")];

/// Deliveries that are drawn, at most this late: the published figure ends before.
const DRAWN_MS_MAX: f64 = 500.0;

/// Recovery times that are drawn, as shares of a round trip: beyond it, a retransmission by the sender is faster.
const DRAWN_ROUND_TRIPS_MAX: f64 = 1.5;

/// Forwarding takes about as long as the Internet if it takes no more than this of it: the publication names no number.
const SIMILAR_MAX: f64 = 1.1;

/// Last miles that are drawn, at most this long: the tables have none that is much longer.
const DRAWN_LAST_MILE_MS_MAX: f64 = 100.0;

/// Titles, captions and horizontal axes of the plots.
const DELIVERY: [&str; 3] = [
    "How long deliveries take when the direct copy is lost",
    "As figure 4a; the Internet's copies are those that are not lost.",
    "delivery, ms",
];
const BY_CONTINENTS: [&str; 3] = [
    "How long caching takes to deliver between continents",
    "As figure 4b; from sender to receiver.",
    "delivery, ms",
];
const RECOVERY: [&str; 3] = [
    "How long recovery takes as a share of the direct round trip",
    "As figure 4c.",
    "recovery time, round trips",
];
const LAST_MILE: [&str; 3] =
    ["How far receivers are from their relays, one way", "As figure 4d.", "delay, ms"];

/// The services of the published figure; the Internet's deliveries are those that are not lost.
const SERVICES: [Service; 4] = [Service::Internet, Service::Forwarding, Service::Caching, Service::Coding];

/// How far a share may be from the published one to agree with it: ten points.
const AGREEMENT: f64 = 0.1;

/// The published shares, by their measures.
const PUBLISHED: [(&str, f64); 8] = [
    ("caching-within-200-ms", 0.85),
    ("coding-within-200-ms", 0.5),
    ("caching-us-eu", 0.95),
    ("caching-eu-oc", 0.5),
    ("caching-within-quarter-rtt", 0.9),
    ("coding-within-quarter-rtt", 0.2),
    ("coding-within-half-rtt", 0.75),
    ("last-mile-all-over-20-ms", 0.2),
];

/// The pairs of continents of the published figure, from sender to receiver, and two that it describes.
const PAIRS: [(&str, &str, &str); 5] = [
    ("us-eu", "North America", "Europe"),
    ("eu-as", "Europe", "Asia"),
    ("eu-oc", "Europe", "Oceania"),
    ("us-as", "North America", "Asia"),
    ("us-oc", "North America", "Oceania"),
];

/// The paths of one world.
pub(super) struct Paths(BTreeMap<(String, String), PathDelays>);

/// Which of them.
#[derive(Clone, Copy)]
pub(super) enum Which<'a> {
    All,
    BetweenContinents,
    Pair(&'a str, &'a str),
    To(&'a str),
}

impl Which<'_> {
    fn holds(self, from: &str, to: &str) -> bool {
        match self {
            Self::All => true,
            Self::BetweenContinents => from != to,
            Self::Pair(sender, receiver) => (from, to) == (sender, receiver),
            Self::To(receiver) => to == receiver,
        }
    }
}

impl Paths {
    pub(super) fn of(world: &World, last_mile: &LastMile, setup: &FeasibilitySetup) -> Self {
        Self(byway_plan::feasibility(world, last_mile, setup))
    }

    /// The paths of all seeds together, with so many endpoints in each city for each seed.
    pub(super) fn of_all(world: &World, last_mile: &LastMile, draws: usize, seeds: &[u64]) -> Self {
        let setups = seeds
            .iter()
            .map(|seed| FeasibilitySetup { endpoints_per_city: draws, ..FeasibilitySetup::published(*seed) });
        Self::together(setups.map(|setup| Self::of(world, last_mile, &setup)))
    }

    pub(super) fn together(runs: impl IntoIterator<Item = Self>) -> Self {
        let mut together: BTreeMap<(String, String), PathDelays> = BTreeMap::new();
        for (continents, delays) in runs.into_iter().flat_map(|run| run.0) {
            together.entry(continents).or_default().paths.extend(delays.paths);
        }
        Self(together)
    }

    /// Something of each of these paths.
    pub(super) fn each(&self, which: Which<'_>, of: impl Fn(&Delays) -> Option<f64>) -> Vec<f64> {
        let chosen = self.0.iter().filter(|((from, to), _)| which.holds(from, to));
        let paths = chosen.flat_map(|(_, delays)| &delays.paths);
        paths.filter_map(|path: &StudyPath| of(&path.delays)).collect()
    }
}

/// How long deliveries of a service take if the direct copy is lost, or with the Internet alone, if it is not.
pub(super) fn delivery_ms(delays: &Delays, service: Service) -> Option<f64> {
    let delivery = if service == Service::Internet { Some(delays.direct) } else { delays.delivery(service) };
    delivery.map(milliseconds)
}

/// The share of values that are at most this; `None` of none.
pub(super) fn within(values: &[f64], limit: f64) -> Option<f64> {
    let count = values.iter().filter(|value| **value <= limit).count();
    share(count as u64, values.len() as u64)
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// The study, with each of these seeds: with the built-in tables, and beside them with public ones if they are at hand.
pub(crate) fn feasibility(seeds: &[u64], data: &Data) -> Model {
    let last_mile = LastMile::published();
    let built_in = worlds::built_in();
    let setups = seeds.iter().map(|seed| FeasibilitySetup::published(*seed));
    let runs: Vec<Paths> = setups.map(|setup| Paths::of(&built_in, &last_mile, &setup)).collect();
    let findings = runs.iter().map(measure).collect();
    let mut model = Model { findings, notes: data.notes(), ..Model::default() };
    let paths = Paths::together(runs);
    let public = worlds::public(data);
    let draws = explain::PUBLIC_DRAWS;
    let public_paths = public.as_ref().map(|world| Paths::of_all(world, &last_mile, draws, seeds));

    let shown = [("", Some(&paths)), (", public tables", public_paths.as_ref())];
    let shown: Vec<(&str, &Paths)> =
        shown.into_iter().filter_map(|(name, paths)| Some((name, paths?))).collect();
    draw(&shown, &mut model);
    let worlds = explain::Worlds { built_in: &built_in, public: public.as_ref() };
    explain::compare(&worlds, [Some(&paths), public_paths.as_ref()], seeds, &mut model);
    model
}

fn measure(paths: &Paths) -> Findings {
    let mut findings = Findings::default();
    measure_services(paths, &mut findings);
    measure_overlay(paths, &mut findings);
    measure_last_mile(paths, &mut findings);
    let apart = PUBLISHED.iter().filter_map(|(key, published)| {
        findings.value(key, None).map(|measured| (measured - published).abs())
    });
    let (count, near) =
        apart.fold((0, 0), |(count, near), apart| (count + 1, near + u64::from(apart <= AGREEMENT)));
    findings.measure("agreeing", None, share(near, count), Unit::Share);
    findings
}

/// Deliveries and recovery times.
fn measure_services(paths: &Paths, findings: &mut Findings) {
    let mut put = |name: &str, value: Option<f64>| findings.measure(name, None, value, Unit::Share);
    let mut delivered = |key: &str, which: Which<'_>, service| {
        let values = paths.each(which, |delays| delivery_ms(delays, service));
        put(key, within(&values, BUDGET_MS));
    };
    for service in SERVICES {
        delivered(&format!("{}-within-200-ms", name(service)), Which::All, service);
    }
    for (pair, from, to) in PAIRS {
        delivered(&format!("caching-{pair}"), Which::Pair(from, to), Service::Caching);
    }
    for service in [Service::Caching, Service::Coding] {
        let shares = paths.each(Which::All, |delays| delays.recovery_share(service));
        for (limit, words) in ROUND_TRIPS {
            put(&format!("{}-within-{words}-rtt", name(service)), within(&shares, limit));
        }
    }
}

/// Forwarding beside the Internet.
fn measure_overlay(paths: &Paths, findings: &mut Findings) {
    let ratio = |delays: &Delays| {
        let [overlay, direct] = [Service::Forwarding, Service::Internet].map(|one| delivery_ms(delays, one));
        Some(overlay? / direct?)
    };
    let similar = within(&paths.each(Which::All, ratio), SIMILAR_MAX);
    findings.measure("forwarding-similar", None, similar, Unit::Share);
    let tail = |service| quantile(&mut paths.each(Which::All, |delays| delivery_ms(delays, service)), 0.99);
    let tails = tail(Service::Internet).zip(tail(Service::Forwarding));
    let tails = tails.map(|(direct, overlay)| direct / overlay);
    findings.measure("internet-tail-over-forwarding", None, tails, Unit::Ratio);
}

/// How far receivers are from their relays.
fn measure_last_mile(paths: &Paths, findings: &mut Findings) {
    let continents =
        CONTINENTS.map(|continent| (continent.to_lowercase().replace(' ', "-"), Which::To(continent)));
    for (place, which) in continents.into_iter().chain([("all".to_owned(), Which::All)]) {
        let mut delays = last_mile(paths, which);
        let mut put = |name: &str, value, unit| {
            findings.measure(&format!("last-mile-{place}-{name}"), None, value, unit);
        };
        put("over-20-ms", within(&delays, 20.0).map(|share| 1.0 - share), Unit::Share);
        put("within-25-ms", within(&delays, 25.0), Unit::Share);
        put("p50", quantile(&mut delays, 0.5), Unit::Milliseconds);
    }
}

fn last_mile(paths: &Paths, which: Which<'_>) -> Vec<f64> {
    paths.each(which, |delays| Some(milliseconds(delays.egress_to_receiver)))
}

/// The four plots of the published figure, of each set of tables.
fn draw(shown: &[(&str, &Paths)], model: &mut Model) {
    let curves = |which: Which<'_>, label: &str, of: &dyn Fn(&Delays) -> Option<f64>, x_max: f64| {
        let curve = |(tables, paths): &(&str, &Paths)| {
            distribution(&format!("{label}{tables}"), paths.each(which, of), x_max)
        };
        shown.iter().map(curve).collect::<Vec<_>>()
    };
    let mut put = |key: &str, [title, caption, x]: [&str; 3], curves: Vec<Curve>| {
        model.series.insert(key.to_owned(), distributions(title, caption, x, curves));
    };
    let delivery = SERVICES
        .into_iter()
        .flat_map(|one| curves(Which::All, name(one), &|delays| delivery_ms(delays, one), DRAWN_MS_MAX));
    let lines = [published("caching", BUDGET_MS, 0.85), published("coding", BUDGET_MS, 0.5)];
    put("delivery", DELIVERY, delivery.chain(lines).collect());

    let pairs = PAIRS.into_iter().flat_map(|(label, from, to)| {
        let delivery = |delays: &Delays| delivery_ms(delays, Service::Caching);
        curves(Which::Pair(from, to), &label.to_uppercase(), &delivery, DRAWN_MS_MAX)
    });
    let lines = [published("US-EU", BUDGET_MS, 0.95), published("EU-OC", BUDGET_MS, 0.5)];
    put("delivery-by-continents", BY_CONTINENTS, pairs.chain(lines).collect());

    let recovery = [Service::Caching, Service::Coding].into_iter().flat_map(|one| {
        curves(Which::All, name(one), &|delays| delays.recovery_share(one), DRAWN_ROUND_TRIPS_MAX)
    });
    let lines = [published("caching", 0.25, 0.9), published("coding", 0.25, 0.2)];
    put("recovery", RECOVERY, recovery.chain(lines).collect());

    let last_mile = CONTINENTS.into_iter().flat_map(|one| {
        let delay = |delays: &Delays| Some(milliseconds(delays.egress_to_receiver));
        curves(Which::To(one), one, &delay, DRAWN_LAST_MILE_MS_MAX)
    });
    put("last-mile", LAST_MILE, last_mile.collect());
}
