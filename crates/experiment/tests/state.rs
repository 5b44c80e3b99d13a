//! Tests of the experiments on network state: their files, and the verdicts of a short one.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use byway_experiment::{Experiment, Options};

/// Files of each experiment: its own, and its scenario.
const FILES: [[&str; 2]; 7] = [
    [
        include_str!("../../../experiments/ns-age.toml"),
        include_str!("../../../experiments/state/ns-age.toml"),
    ],
    [
        include_str!("../../../experiments/ns-fair.toml"),
        include_str!("../../../experiments/state/ns-fair.toml"),
    ],
    [
        include_str!("../../../experiments/ns-federated.toml"),
        include_str!("../../../experiments/state/ns-federated.toml"),
    ],
    [
        include_str!("../../../experiments/ns-mixed.toml"),
        include_str!("../../../experiments/state/ns-mixed.toml"),
    ],
    [
        include_str!("../../../experiments/ns-overstate.toml"),
        include_str!("../../../experiments/state/ns-overstate.toml"),
    ],
    [
        include_str!("../../../experiments/ns-rest.toml"),
        include_str!("../../../experiments/state/ns-rest.toml"),
    ],
    [
        include_str!("../../../experiments/ns-single.toml"),
        include_str!("../../../experiments/state/ns-single.toml"),
    ],
];

/// Index of the shortest experiment in [`FILES`].
const REST: usize = 5;

fn read(index: usize, is_full: bool) -> Experiment {
    let [experiment, scenario] = FILES[index];
    let text = |file: &Path| -> io::Result<String> {
        Ok(if file.starts_with("state") { scenario } else { experiment }.to_owned())
    };
    let options = Options { is_full, seeds: (!is_full).then(|| vec![1]), ..Options::default() };
    let experiment = Experiment::read(Path::new("experiment.toml"), &options, &text);
    experiment.map_err(|problem| problem.to_string()).expect("it is right")
}

#[test]
fn files_of_all_experiments_are_right() {
    for index in 0..FILES.len() {
        let [short, full] = [false, true].map(|is_full| read(index, is_full));
        assert!(short.id().starts_with("ns-"), "{}", short.id());
        assert_eq!(full.runs(), 5 * short.runs(), "{}: five seeds", full.id());
    }
}

#[test]
fn the_rest_of_a_path_is_learned_and_published_equations_leave_the_link_idle() {
    let experiment = read(REST, false);
    assert_eq!(experiment.id(), "ns-rest");
    let run = |nth| experiment.run(nth, &mut |_| ControlFlow::Continue(())).expect("it has nothing to build");
    let results = experiment.results((0..experiment.runs()).map(run).collect());
    assert!(results.is_met(), "{:?}", results.rows);
    assert!(results.rows.iter().all(|row| row.measured.is_some()), "{:?}", results.rows);
    let controls = results.tables.iter().find(|table| table.title.starts_with("Controls"));
    let controls = controls.expect("two rows have controls");
    assert!(controls.rows.iter().all(|row| row[3] == "missed, as expected"), "{controls:?}");
}
