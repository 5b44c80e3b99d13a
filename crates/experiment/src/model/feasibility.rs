//! Study of feasibility: delays of services between endpoints on four continents (J-QoS, section
//! 5.1 and figure 4).

use std::collections::BTreeMap;

use byway_plan::{Delays, FeasibilitySetup, LastMile, PathDelays, StudyPath, World};
use byway_units::Duration;
use byway_wire::Service;

use super::Model;
use super::data::Data;
use super::drawing::{distribution, distributions, published};
use super::environments::{self, CONTINENTS};
use super::explain;
use crate::findings::{Findings, Unit, quantile, share};
use crate::result::Curve;

/// Latency budget of deliveries in milliseconds, as published.
pub(super) const BUDGET_MS: f64 = 200.0;

/// Limits of recovery times in round trips, with their names in measures.
pub(super) const ROUND_TRIPS: [(f64, &str); 2] = [(0.25, "quarter"), (0.5, "half")];

/// Longest delivery time in plots, in milliseconds; the published figure ends below it.
const PLOTTED_MS_MAX: f64 = 500.0;

/// Longest recovery time in plots, in round trips. Beyond it, a retransmission by the sender is
/// faster.
const PLOTTED_ROUND_TRIPS_MAX: f64 = 1.5;

/// Largest ratio of the delays of forwarding and of the Internet at which they count as similar.
/// The publication has no number.
const SIMILAR_MAX: f64 = 1.1;

/// Longest last mile (delay between a receiver and its relay) in plots, in milliseconds; hardly any
/// in the tables is longer.
const PLOTTED_LAST_MILE_MS_MAX: f64 = 100.0;

/// Titles, captions and horizontal axes of the plots.
const DELIVERY: [&str; 3] = [
    "Delivery times when the direct packet is lost",
    "As figure 4a; for the Internet, packets that are not lost.",
    "delivery, ms",
];
const BY_CONTINENTS: [&str; 3] = [
    "Delivery times of caching between continents",
    "As figure 4b; from sender to receiver.",
    "delivery, ms",
];
const RECOVERY: [&str; 3] =
    ["Recovery time as a share of the direct round trip", "As figure 4c.", "recovery time, round trips"];
const LAST_MILE: [&str; 3] =
    ["One-way delays between receivers and their relays", "As figure 4d.", "delay, ms"];

/// Services of the published figure. The Internet's deliveries are those without loss.
const SERVICES: [Service; 4] = [Service::Internet, Service::Forwarding, Service::Caching, Service::Coding];

/// Largest difference between a share and the published one that counts as agreement: ten points.
const AGREEMENT: f64 = 0.1;

/// Published shares by the names of their measures.
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

/// Pairs of continents with their names in measures, from sender to receiver: those of the
/// published figure, and two of its description.
const PAIRS: [(&str, &str, &str); 5] = [
    ("us-eu", "North America", "Europe"),
    ("eu-as", "Europe", "Asia"),
    ("eu-oc", "Europe", "Oceania"),
    ("us-as", "North America", "Asia"),
    ("us-oc", "North America", "Oceania"),
];

/// Delays of the paths of one environment, by the continents of sender and receiver.
pub(super) struct Paths(BTreeMap<(String, String), PathDelays>);

/// Selection of paths by the continents of their ends.
#[derive(Clone, Copy)]
pub(super) enum Selection<'a> {
    All,
    BetweenContinents,
    Pair(&'a str, &'a str),
    To(&'a str),
}

impl Selection<'_> {
    fn contains(self, from: &str, to: &str) -> bool {
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

    /// Computes the paths of all seeds and returns them together, with `draws` endpoints in each
    /// city for each seed.
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

    /// Returns the value that `of` computes from each selected path, without those for which it is
    /// `None`.
    pub(super) fn each(&self, selection: Selection<'_>, of: impl Fn(&Delays) -> Option<f64>) -> Vec<f64> {
        let chosen = self.0.iter().filter(|((from, to), _)| selection.contains(from, to));
        let paths = chosen.flat_map(|(_, delays)| &delays.paths);
        paths.filter_map(|path: &StudyPath| of(&path.delays)).collect()
    }
}

/// Returns the delivery time of a service after the loss of the direct copy, in milliseconds. For
/// the Internet it is the delay without loss.
pub(super) fn delivery_ms(delays: &Delays, service: Service) -> Option<f64> {
    let delivery = if service == Service::Internet { Some(delays.direct) } else { delays.delivery(service) };
    delivery.map(milliseconds)
}

/// Returns the share of `values` of at most `limit`; `None` without values.
pub(super) fn within(values: &[f64], limit: f64) -> Option<f64> {
    let count = values.iter().filter(|value| **value <= limit).count();
    share(count as u64, values.len() as u64)
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Computes the study of feasibility with each of these seeds: with the built-in tables, and with
/// public ones if they are available.
pub(crate) fn feasibility(seeds: &[u64], data: &Data) -> Model {
    let last_mile = LastMile::published();
    let built_in = environments::built_in();
    let setups = seeds.iter().map(|seed| FeasibilitySetup::published(*seed));
    let runs: Vec<Paths> = setups.map(|setup| Paths::of(&built_in, &last_mile, &setup)).collect();
    let findings = runs.iter().map(measure).collect();
    let mut model = Model { findings, notes: data.notes(), ..Model::default() };
    let paths = Paths::together(runs);
    let public = environments::public(data);
    let draws = explain::PUBLIC_DRAWS;
    let public_paths = public.as_ref().map(|world| Paths::of_all(world, &last_mile, draws, seeds));

    let shown = [("", Some(&paths)), (", public tables", public_paths.as_ref())];
    let shown: Vec<(&str, &Paths)> =
        shown.into_iter().filter_map(|(name, paths)| Some((name, paths?))).collect();
    add_plots(&shown, &mut model);
    let worlds = explain::Environments { built_in: &built_in, public: public.as_ref() };
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

/// Adds the shares of paths by delivery and recovery time of each service.
fn measure_services(paths: &Paths, findings: &mut Findings) {
    let mut put = |name: &str, value: Option<f64>| findings.measure(name, None, value, Unit::Share);
    let mut delivered = |key: &str, selection: Selection<'_>, service| {
        let values = paths.each(selection, |delays| delivery_ms(delays, service));
        put(key, within(&values, BUDGET_MS));
    };
    for service in SERVICES {
        delivered(&format!("{}-within-200-ms", service.name()), Selection::All, service);
    }
    for (pair, from, to) in PAIRS {
        delivered(&format!("caching-{pair}"), Selection::Pair(from, to), Service::Caching);
    }
    for service in [Service::Caching, Service::Coding] {
        let shares = paths.each(Selection::All, |delays| delays.recovery_share(service));
        for (limit, words) in ROUND_TRIPS {
            put(&format!("{}-within-{words}-rtt", service.name()), within(&shares, limit));
        }
    }
}

/// Adds the measures that compare the delays of forwarding and of the Internet.
fn measure_overlay(paths: &Paths, findings: &mut Findings) {
    let ratio = |delays: &Delays| {
        let [overlay, direct] = [Service::Forwarding, Service::Internet].map(|one| delivery_ms(delays, one));
        Some(overlay? / direct?)
    };
    let similar = within(&paths.each(Selection::All, ratio), SIMILAR_MAX);
    findings.measure("forwarding-similar", None, similar, Unit::Share);
    let tail =
        |service| quantile(&mut paths.each(Selection::All, |delays| delivery_ms(delays, service)), 0.99);
    let tails = tail(Service::Internet).zip(tail(Service::Forwarding));
    let tails = tails.map(|(direct, overlay)| direct / overlay);
    findings.measure("internet-tail-over-forwarding", None, tails, Unit::Ratio);
}

/// Adds measures of the delays between receivers and their relays, by continent.
fn measure_last_mile(paths: &Paths, findings: &mut Findings) {
    let continents =
        CONTINENTS.map(|continent| (continent.to_lowercase().replace(' ', "-"), Selection::To(continent)));
    for (region, selection) in continents.into_iter().chain([("all".to_owned(), Selection::All)]) {
        let mut delays = last_mile(paths, selection);
        let mut put = |name: &str, value, unit| {
            findings.measure(&format!("last-mile-{region}-{name}"), None, value, unit);
        };
        put("over-20-ms", within(&delays, 20.0).map(|share| 1.0 - share), Unit::Share);
        put("within-25-ms", within(&delays, 25.0), Unit::Share);
        put("p50", quantile(&mut delays, 0.5), Unit::Milliseconds);
    }
}

fn last_mile(paths: &Paths, selection: Selection<'_>) -> Vec<f64> {
    paths.each(selection, |delays| Some(milliseconds(delays.egress_to_receiver)))
}

/// Adds the four plots of the published figure 4. `shown` has the paths of the built-in and of the
/// public tables, with a suffix for the names of curves.
fn add_plots(shown: &[(&str, &Paths)], model: &mut Model) {
    let curves = |selection: Selection<'_>, label: &str, of: &dyn Fn(&Delays) -> Option<f64>, x_max: f64| {
        let curve = |(tables, paths): &(&str, &Paths)| {
            distribution(&format!("{label}{tables}"), paths.each(selection, of), x_max)
        };
        shown.iter().map(curve).collect::<Vec<_>>()
    };
    let mut put = |key: &str, [title, caption, x]: [&str; 3], curves: Vec<Curve>| {
        model.series.insert(key.to_owned(), distributions(title, caption, x, curves));
    };
    let delivery = SERVICES.into_iter().flat_map(|one| {
        curves(Selection::All, one.name(), &|delays| delivery_ms(delays, one), PLOTTED_MS_MAX)
    });
    let references = [published("caching", BUDGET_MS, 0.85), published("coding", BUDGET_MS, 0.5)];
    put("delivery", DELIVERY, delivery.chain(references).collect());

    let pairs = PAIRS.into_iter().flat_map(|(label, from, to)| {
        let delivery = |delays: &Delays| delivery_ms(delays, Service::Caching);
        curves(Selection::Pair(from, to), &label.to_uppercase(), &delivery, PLOTTED_MS_MAX)
    });
    let references = [published("US-EU", BUDGET_MS, 0.95), published("EU-OC", BUDGET_MS, 0.5)];
    put("delivery-by-continents", BY_CONTINENTS, pairs.chain(references).collect());

    let recovery = [Service::Caching, Service::Coding].into_iter().flat_map(|one| {
        curves(Selection::All, one.name(), &|delays| delays.recovery_share(one), PLOTTED_ROUND_TRIPS_MAX)
    });
    let references = [published("caching", 0.25, 0.9), published("coding", 0.25, 0.2)];
    put("recovery", RECOVERY, recovery.chain(references).collect());

    let last_mile = CONTINENTS.into_iter().flat_map(|one| {
        let delay = |delays: &Delays| Some(milliseconds(delays.egress_to_receiver));
        curves(Selection::To(one), one, &delay, PLOTTED_LAST_MILE_MS_MAX)
    });
    put("last-mile", LAST_MILE, last_mile.collect());
}
