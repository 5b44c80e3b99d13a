//! Explanation of differences from published curves: the study of feasibility in other
//! environments.

use byway_plan::{Delays, FeasibilitySetup, LastMile, World};
use byway_wire::Service;

use super::Model;
use super::drawing::{percent, table};
use super::environments;
use super::feasibility::{self, Paths, Selection, delivery_ms, within};
use crate::findings::{Findings, Unit, quantile};

/// Endpoints in each city of the built-in tables, for each seed, in the compared environments. The
/// study itself has more; here the paths of all seeds count together.
const DRAWS: usize = 4;

/// Endpoints in each city of the public tables, for each seed. These tables have seven times as
/// many cities, and the number of paths grows with the square.
pub(super) const PUBLIC_DRAWS: usize = 1;

/// Titles of the columns of the comparison.
pub(super) const COLUMNS: [&str; 10] = [
    "relays, endpoints",
    "paths",
    "count",
    "caching within 200 ms",
    "coding within 200 ms",
    "caching within 0.25 RTT",
    "coding within 0.25 RTT",
    "caching within 0.5 RTT",
    "coding within 0.5 RTT",
    "last mile, median",
];

/// Tables of regions, cities and delays from which the compared environments are made.
pub(super) struct Environments<'a> {
    pub(super) built_in: &'a World,
    pub(super) public: Option<&'a World>,
}

/// Adds a table with two rows for each environment: all paths, and paths between continents.
/// Environments differ from the study's in one or several assumptions; the one that explains
/// recovery times has measures as well.
pub(super) fn compare(
    worlds: &Environments<'_>,
    [built_in, public]: [Option<&Paths>; 2],
    seeds: &[u64],
    model: &mut Model,
) {
    let whole = LastMile::published();
    let half = environments::half_of(&whole);
    let of = |world: &World, last_mile: &LastMile| Paths::of_all(world, last_mile, DRAWS, seeds);
    let atlantic = environments::mostly_atlantic(worlds.built_in);
    let explaining = environments::relay_in_every_city(&atlantic);
    let setup = |seed| FeasibilitySetup { endpoints_per_city: DRAWS, ..FeasibilitySetup::published(seed) };
    let runs: Vec<Paths> = seeds.iter().map(|seed| Paths::of(&explaining, &whole, &setup(*seed))).collect();
    for (run, findings) in runs.iter().zip(&mut model.findings) {
        measure(run, findings);
    }
    let explained = Paths::together(runs);
    let mut rows_of_table = built_in.map(|paths| rows("12 regions", paths)).unwrap_or_default();
    rows_of_table
        .extend(rows("12 regions, most endpoints in Europe and North America", &of(&atlantic, &whole)));
    rows_of_table.extend(rows("12 regions, half of the last mile", &of(worlds.built_in, &half)));
    rows_of_table.extend(rows(
        "a relay in every city",
        &of(&environments::relay_in_every_city(worlds.built_in), &whole),
    ));
    let title = "a relay in every city, most endpoints in Europe and North America";
    rows_of_table.extend(rows(title, &explained));
    if let (Some(world), Some(public)) = (worlds.public, public) {
        let of = |world: &World, last_mile: &LastMile| Paths::of_all(world, last_mile, PUBLIC_DRAWS, seeds);
        rows_of_table.extend(rows(&format!("public tables: {} regions", world.regions.len()), public));
        rows_of_table.extend(rows(
            "public tables: regions of AWS",
            &of(&environments::of_provider(world, "aws"), &whole),
        ));
        rows_of_table.extend(rows("public tables, half of the last mile", &of(world, &half)));
        rows_of_table.extend(rows(
            "public tables, a relay in every city",
            &of(&environments::relay_in_every_city(world), &whole),
        ));
    }
    model.tables.push(table("Causes of the differences", &COLUMNS, rows_of_table));
}

/// Adds the shares of deliveries and recovery times between continents in the environment that
/// explains most of the differences.
fn measure(explained: &Paths, findings: &mut Findings) {
    let each = |of: &dyn Fn(&Delays) -> Option<f64>| explained.each(Selection::BetweenContinents, of);
    let mut put = |key: String, share| findings.measure(&key, None, share, Unit::Share);
    for service in [Service::Caching, Service::Coding] {
        let delivered = within(&each(&|delays| delivery_ms(delays, service)), feasibility::BUDGET_MS);
        put(format!("explained-{}-within-200-ms", service.name()), delivered);
        let shares = each(&|delays| delays.recovery_share(service));
        for (limit, words) in feasibility::ROUND_TRIPS {
            put(format!("explained-{}-within-{words}-rtt", service.name()), within(&shares, limit));
        }
    }
}

/// Returns the two rows of one environment.
fn rows(title: &str, paths: &Paths) -> Vec<Vec<String>> {
    vec![
        cells(title, "all", paths, Selection::All),
        cells(title, "between continents", paths, Selection::BetweenContinents),
    ]
}

fn cells(title: &str, paths_of: &str, paths: &Paths, selection: Selection<'_>) -> Vec<String> {
    let delivered = |service| {
        within(&paths.each(selection, |delays| delivery_ms(delays, service)), feasibility::BUDGET_MS)
    };
    let recovered =
        |service, limit| within(&paths.each(selection, |delays| delays.recovery_share(service)), limit);
    let mut last_mile = paths.each(selection, |delays| Some(delays.egress_to_receiver.as_secs_f64() * 1e3));
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
