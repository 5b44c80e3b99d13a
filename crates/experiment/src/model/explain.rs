//! What explains differences from published curves: the same study in other worlds.

use byway_plan::{Delays, FeasibilitySetup, LastMile, World};
use byway_wire::Service;

use super::Model;
use super::drawing::{name, percent, table};
use super::feasibility::{self, Paths, Which, delivery_ms, within};
use super::worlds;
use crate::findings::{Findings, Unit, quantile};

/// Endpoints in each city of the built-in tables, for each seed, in the worlds that are compared: less than in the study
/// itself, as the paths of all seeds count together.
const DRAWS: usize = 4;

/// The same of the public tables, which have seven times as many cities, and paths go with the square.
pub(super) const PUBLIC_DRAWS: usize = 1;

/// The columns of the table.
pub(super) const COLUMNS: [&str; 10] = [
    "relays, endpoints",
    "paths",
    "how many",
    "caching within 200 ms",
    "coding within 200 ms",
    "caching within 0.25 RTT",
    "coding within 0.25 RTT",
    "caching within 0.5 RTT",
    "coding within 0.5 RTT",
    "last mile, median",
];

/// The worlds that there are.
pub(super) struct Worlds<'a> {
    pub(super) built_in: &'a World,
    pub(super) public: Option<&'a World>,
}

/// A table with two lines for each assumption that is changed, one at a time and some together: of all paths, and of those
/// between continents. Of the world that explains recovery times, there are measures, too.
pub(super) fn compare(
    worlds: &Worlds<'_>,
    [built_in, public]: [Option<&Paths>; 2],
    seeds: &[u64],
    model: &mut Model,
) {
    let whole = LastMile::published();
    let half = worlds::half_of(&whole);
    let of = |world: &World, last_mile: &LastMile| Paths::of_all(world, last_mile, DRAWS, seeds);
    let atlantic = worlds::mostly_atlantic(worlds.built_in);
    let explaining = worlds::relay_in_every_city(&atlantic);
    let setup = |seed| FeasibilitySetup { endpoints_per_city: DRAWS, ..FeasibilitySetup::published(seed) };
    let runs: Vec<Paths> = seeds.iter().map(|seed| Paths::of(&explaining, &whole, &setup(*seed))).collect();
    for (run, findings) in runs.iter().zip(&mut model.findings) {
        measure(run, findings);
    }
    let explained = Paths::together(runs);
    let mut lines = built_in.map(|paths| line("12 regions", paths)).unwrap_or_default();
    lines.extend(line("12 regions, most endpoints in Europe and North America", &of(&atlantic, &whole)));
    lines.extend(line("12 regions, half of the last mile", &of(worlds.built_in, &half)));
    lines.extend(line("a relay in every city", &of(&worlds::relay_in_every_city(worlds.built_in), &whole)));
    let title = "a relay in every city, most endpoints in Europe and North America";
    lines.extend(line(title, &explained));
    if let (Some(world), Some(public)) = (worlds.public, public) {
        let of = |world: &World, last_mile: &LastMile| Paths::of_all(world, last_mile, PUBLIC_DRAWS, seeds);
        lines.extend(line(&format!("public tables: {} regions", world.regions.len()), public));
        lines.extend(line("public tables: regions of AWS", &of(&worlds::of_provider(world, "aws"), &whole)));
        lines.extend(line("public tables, half of the last mile", &of(world, &half)));
        lines.extend(line(
            "public tables, a relay in every city",
            &of(&worlds::relay_in_every_city(world), &whole),
        ));
    }
    model.tables.push(table("What explains the differences", &COLUMNS, lines));
}

/// Deliveries and recovery times between continents in the world that explains most.
fn measure(explained: &Paths, findings: &mut Findings) {
    let each = |of: &dyn Fn(&Delays) -> Option<f64>| explained.each(Which::BetweenContinents, of);
    let mut put = |key: String, share| findings.measure(&key, None, share, Unit::Share);
    for service in [Service::Caching, Service::Coding] {
        let delivered = within(&each(&|delays| delivery_ms(delays, service)), feasibility::BUDGET_MS);
        put(format!("explained-{}-within-200-ms", name(service)), delivered);
        let shares = each(&|delays| delays.recovery_share(service));
        for (limit, words) in feasibility::ROUND_TRIPS {
            put(format!("explained-{}-within-{words}-rtt", name(service)), within(&shares, limit));
        }
    }
}

/// The lines of one world.
fn line(title: &str, paths: &Paths) -> Vec<Vec<String>> {
    vec![
        cells(title, "all", paths, Which::All),
        cells(title, "between continents", paths, Which::BetweenContinents),
    ]
}

fn cells(title: &str, paths_of: &str, paths: &Paths, which: Which<'_>) -> Vec<String> {
    let delivered =
        |service| within(&paths.each(which, |delays| delivery_ms(delays, service)), feasibility::BUDGET_MS);
    let recovered =
        |service, limit| within(&paths.each(which, |delays| delays.recovery_share(service)), limit);
    let mut last_mile = paths.each(which, |delays| Some(delays.egress_to_receiver.as_secs_f64() * 1e3));
    let count = last_mile.len();
    let median = quantile(&mut last_mile, 0.5);
    vec![
        title.to_owned(),
        paths_of.to_owned(),
        count.to_string(),
        percent(delivered(Service::Caching)),
        percent(delivered(Service::Coding)),
        percent(recovered(Service::Caching, 0.25)),
        percent(recovered(Service::Coding, 0.25)),
        percent(recovered(Service::Caching, 0.5)),
        percent(recovered(Service::Coding, 0.5)),
        median.map_or_else(|| "–".to_owned(), |median| format!("{median:.1} ms")),
    ]
}
