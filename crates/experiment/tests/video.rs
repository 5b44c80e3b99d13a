//! Check of docs/uplink.md: its table of the video must match the simulator.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

use byway_experiment::{Experiment, Options};

const EXPERIMENT: &str = include_str!("../../../experiments/rd-video.toml");
const SCENARIO: &str = include_str!("../../../experiments/classes/rd-video.toml");
const GUIDE: &str = include_str!("../../../docs/uplink.md");

/// First cell of the table's head; the other columns are arms.
const HEAD: &str = "| downloads beside the video |";

/// Reads the rates in Mbit/s from the guide, by downloads and column.
fn documented() -> BTreeMap<(String, String), f64> {
    let mut lines = GUIDE.lines().skip_while(|line| !line.starts_with(HEAD));
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`').to_owned()).collect()
    };
    let columns = cells(lines.next().expect("the guide has the table"));
    let rows = lines.skip(1).take_while(|line| line.starts_with('|')).map(cells);
    rows.flat_map(|row| {
        let downloads = row[0].clone();
        let rates = columns.iter().cloned().zip(row).skip(1);
        let rates: Vec<_> = rates.collect();
        rates
            .into_iter()
            .map(move |(column, rate)| ((downloads.clone(), column), rate.parse().expect("a rate in Mbit/s")))
    })
    .collect()
}

/// Simulates the same rates, to two digits.
fn simulated() -> BTreeMap<(String, String), f64> {
    let read = |file: &Path| {
        Ok(if file.starts_with("classes") { SCENARIO.to_owned() } else { EXPERIMENT.to_owned() })
    };
    let experiment = Experiment::read(Path::new("rd-video.toml"), &Options::default(), &read);
    let experiment = experiment.map_err(|problem| problem.to_string()).expect("it is right");
    let run = |number| experiment.run(number, &mut |_| ControlFlow::Continue(())).expect("it runs");
    let results = experiment.results((0..experiment.runs()).map(run).collect());
    assert!(results.is_met(), "{:?}", results.rows);
    let rows = results.rows.iter().map(|row| {
        let (downloads, column) = row
            .metric
            .strip_prefix("rate of the video beside ")
            .and_then(|rest| rest.split_once(" downloads, "))
            .expect("rows name downloads and guard");
        let rate = row.measured.expect("it was measured");
        ((downloads.to_owned(), column.to_owned()), (rate * 100.0).round() / 100.0)
    });
    rows.collect()
}

#[test]
fn the_guide_has_the_rates_that_the_simulator_yields() {
    assert_eq!(documented(), simulated());
}
