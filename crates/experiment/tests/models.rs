//! Tests of the computed experiments: their verdicts with built-in tables, and the effects of
//! datasets.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use byway_experiment::{Experiment, Options, Results, Row};

const FEASIBILITY: &str = include_str!("../../../experiments/rec-feasibility.toml");
const COST: &str = include_str!("../../../experiments/rec-cost.toml");
const ROUTES: &str = include_str!("../../../experiments/sel-routes.toml");

/// Dataset file made by a test.
type File<'a> = (&'a str, &'a str);

fn results(experiment: &str, data: Option<&[File<'_>]>) -> Result<Results, String> {
    let options = Options { data: data.map(|_| PathBuf::from("data")), ..Options::default() };
    results_with(experiment, data, &options)
}

fn results_with(experiment: &str, data: Option<&[File<'_>]>, options: &Options) -> Result<Results, String> {
    let read = |file: &Path| match file.strip_prefix("data") {
        Err(_) => Ok(experiment.to_owned()),
        Ok(file) => {
            let found = data.into_iter().flatten().find(|(name, _)| Path::new(name) == file);
            found.map(|(_, text)| (*text).to_owned()).ok_or(io::Error::from(io::ErrorKind::NotFound))
        }
    };
    let experiment = Experiment::read(Path::new("experiment.toml"), options, &read);
    let experiment = experiment.map_err(|problem| problem.to_string())?;
    let finding = experiment.run(0, &mut |_| ControlFlow::Continue(()));
    Ok(experiment.results(vec![finding.expect("a model has nothing to build")]))
}

/// Returns the results with the built-in tables.
fn feasibility() -> &'static Results {
    static RESULTS: OnceLock<Results> = OnceLock::new();
    RESULTS.get_or_init(|| results(FEASIBILITY, None).expect("the experiment is right"))
}

fn row<'a>(results: &'a Results, metric: &str) -> &'a Row {
    results.rows.iter().find(|row| row.metric == metric).unwrap_or_else(|| panic!("there is no {metric}"))
}

/// Checks that a row has about this value, and this verdict.
fn check(results: &Results, metric: &str, expected: f64, met: Option<bool>) {
    let row = row(results, metric);
    let measured = row.measured.unwrap_or_else(|| panic!("{metric} is not measured"));
    assert!((measured - expected).abs() <= 0.01 * expected, "{metric}: {measured}, not {expected}");
    assert_eq!(row.met, met, "{metric}");
}

fn missed(results: &Results) -> Vec<&str> {
    let missed = results.rows.iter().filter(|row| row.met == Some(false));
    missed.map(|row| row.metric.as_str()).collect()
}

#[test]
fn deliveries_are_near_what_was_published_and_recovery_times_are_not() {
    let found = feasibility();
    check(found, "caching delivers within 200 ms", 0.793, Some(true));
    check(found, "coding delivers within 200 ms", 0.381, Some(false));
    check(found, "caching delivers within 200 ms, North America to Europe", 0.932, Some(true));
    check(found, "caching delivers within 200 ms, Europe to Oceania", 0.373, Some(false));
    check(found, "caching recovers within 0.25 RTT", 0.648, Some(false));
    check(found, "coding recovers within 0.25 RTT", 0.0672, Some(false));
    check(found, "coding recovers within 0.5 RTT", 0.413, Some(false));
    check(found, "last mile over 20 ms", 0.400, Some(false));
    assert!(found.rows.iter().all(|row| row.measured.is_some()));
    let plots: Vec<_> = found.series.keys().map(String::as_str).collect();
    assert_eq!(plots, ["delivery", "delivery-by-continents", "last-mile", "recovery"]);
    assert!(found.series.values().flat_map(|plot| &plot.curves).all(|curve| !curve.points.is_empty()));
    assert!(row(found, "caching recovers within 0.25 RTT").worst.is_some());
    assert_eq!(&results(FEASIBILITY, None).expect("the experiment is right"), found);
}

#[test]
fn near_relays_and_atlantic_endpoints_explain_most() {
    let found = feasibility();
    let explained = |measure: &str| format!("{measure}, if relays are near, and most endpoints Atlantic");
    check(found, &explained("caching delivers within 200 ms"), 0.787, Some(true));
    check(found, &explained("coding delivers within 200 ms"), 0.424, Some(true));
    check(found, &explained("caching recovers within 0.25 RTT"), 0.844, Some(true));
    check(found, &explained("coding recovers within 0.25 RTT"), 0.155, Some(true));
    check(found, &explained("coding recovers within 0.5 RTT"), 0.577, Some(false));
}

#[test]
fn costs_are_those_that_were_published() {
    let found = results(COST, None).expect("the experiment is right");
    // Costs of services that agents select are measured by the report; they may miss their targets.
    let of_publication = missed(&found).into_iter().filter(|metric| !metric.contains("agents select"));
    let higher = "these pairs whose threshold is at most 50 %";
    assert_eq!(of_publication.collect::<Vec<_>>(), [higher]);
    check(&found, higher, 21.0 / 36.0, Some(false));
    check(&found, "egress of the ingress relay, coding", 1.323, Some(true));
    check(&found, "egress of the ingress relay, forwarding", 6.615, Some(true));
    check(&found, "compute, coding", 0.5086, Some(true));
    check(&found, "compute, forwarding and caching (fitted)", 0.1935, None);
    check(&found, "150 calls, coding", 1.0998, Some(true));
    check(&found, "150 calls, forwarding over coding", 16.0, Some(true));
    let forwarding = "pairs of regions for which published criteria choose forwarding at 1 % loss, quota";
    check(&found, forwarding, 1.0, Some(true));
    assert_eq!(row(&found, "150 calls, coding").unit, "$/h");
    assert!(found.rows.iter().all(|row| row.measured.is_some()));
    let pairs = found.tables.iter().find(|table| table.title.starts_with("Every pair"));
    assert_eq!(pairs.map(|table| table.rows.len()), Some(132));
    assert_eq!(results(COST, None).expect("the experiment is right"), found);
}

#[test]
fn routes_are_as_fast_as_the_best_and_slow_paths_are_left() {
    let files = [(
        "latency/interdc_rtt_2022.csv",
        "src,src_tier,dst,dst_tier,rtt_min_ms\na,P,b,P,300\na,P,c,P,100\nb,P,c,P,100\n",
    )];
    let options = Options { seeds: Some(vec![31]), data: Some(PathBuf::from("data")), ..Options::default() };
    let found = results_with(ROUTES, Some(&files), &options).expect("the dataset is right");
    assert_eq!(missed(&found), Vec::<&str>::new());
    check(&found, "planned routes within 2 % of the best, area with the fewest", 1.0, Some(true));
    check(&found, "pairs over 50 ms that gain 10 ms, built-in tables", 0.35, None);
    assert!(found.rows.iter().all(|row| row.measured.is_some()));
    let areas = found.tables.iter().find(|table| table.title.starts_with("Routes by area"));
    let regions = areas.and_then(|table| table.rows.iter().find(|row| row[0] == "cloud regions"));
    let expected = ["cloud regions", "3", "33.3 %", "100.0 %", "0.0 %"];
    assert_eq!(regions.map(|row| &row[..5]), Some(&expected.map(str::to_owned)[..]));
    assert!(found.notes.iter().any(|note| note.contains("planetlab490_median_rtt_ms.csv not used")));
}

#[test]
fn every_line_of_a_table_has_a_cell_for_each_column() {
    let cost = results(COST, None).expect("the experiment is right");
    for table in feasibility().tables.iter().chain(&cost.tables) {
        let is_whole = |line: &Vec<String>| line.len() == table.columns.len();
        assert!(table.rows.iter().all(is_whole), "{}", table.title);
    }
}

#[test]
fn notes_say_which_tables_were_used() {
    let without = results(COST, None).expect("the experiment is right");
    let names = |results: &Results, words: &str| results.notes.iter().any(|note| note.contains(words));
    assert!(names(&without, "Public dataset prices/aws_transfer_2023-04.csv not used"));
    let prices = "src,dst,usd_per_gb\naws:a,aws:b,0.02\naws:b,aws:a,0.09\n";
    let with = results(COST, Some(&[("prices/allcloud_egress_pairs_2023-02.csv", prices)]));
    let with = with.expect("the dataset is right");
    assert!(names(&with, "Public datasets used: prices between all regions"));
    assert!(names(&with, "Public dataset prices/aws_transfer_2023-04.csv not used"));
    assert_eq!(with.rows, without.rows);
    let markets = &with.series.get("markets").expect("markets are drawn").labels;
    assert!(markets.contains(&"three clouds, public table".to_owned()));
}

#[test]
fn public_delays_stand_beside_built_in_ones() {
    let files = [
        (
            "latency/interdc_rtt_2022.csv",
            "src,src_tier,dst,dst_tier,rtt_min_ms\naws:eu-central-1,P,aws:us-east-1,P,88\n",
        ),
        (
            "latency/wondernetwork_2018_avg_rtt_ms.csv",
            "src\\dst,Frankfurt,Washington\nFrankfurt,,90\nWashington,92,\n",
        ),
        (
            "latency/wondernetwork_cities.csv",
            "city,country_continent,lat_deg,lon_deg\nFrankfurt,\"Germany, Eurasia\",50,8\n\
             Washington,\"United States, North America\",39,-77\n",
        ),
    ];
    let found = results(FEASIBILITY, Some(&files)).expect("the datasets are right");
    let curves = &found.series.get("delivery").expect("deliveries are drawn").curves;
    assert!(curves.iter().any(|curve| curve.name == "caching, public tables" && !curve.points.is_empty()));
    let alone = results(FEASIBILITY, Some(&files[..1])).expect("one dataset is right");
    let curves = &alone.series.get("delivery").expect("deliveries are drawn").curves;
    assert!(curves.iter().all(|curve| curve.name != "caching, public tables"));
}

#[test]
fn damaged_datasets_are_named_with_line_and_remedy() {
    let problem =
        |experiment, files: &[File<'_>]| results(experiment, Some(files)).expect_err("it is damaged");
    let file = "prices/aws_transfer_2023-04.csv";
    let text = problem(COST, &[(file, "src_region,dst,usd_per_gb\na,b,dear\n")]);
    assert_eq!(
        text,
        "data/prices/aws_transfer_2023-04.csv:2: usd_per_gb: invalid number \"dear\": give one from 0 to 1000; \
         or remove the file"
    );
    let text = problem(COST, &[(file, "src_region,dst,usd_per_gb\n")]);
    assert_eq!(
        text,
        "data/prices/aws_transfer_2023-04.csv:1: no rows found; download it again, or remove it"
    );
    let text = problem(FEASIBILITY, &[("latency/wondernetwork_2018_avg_rtt_ms.csv", "x,A\nA,far\n")]);
    assert!(
        text.starts_with("data/latency/wondernetwork_2018_avg_rtt_ms.csv:2: A: invalid round trip \"far\""),
        "{text}"
    );
    let text = problem(FEASIBILITY, &[]);
    assert!(
        text.starts_with("data: latency/interdc_rtt_2022.csv, ")
            && text.contains(" not found; name the folder"),
        "{text}"
    );
}
