//! Tests of the repository's scenarios.

#![allow(clippy::disallowed_methods, reason = "reads files of the repository")]

use std::fs;
use std::path::{Path, PathBuf};

use byway_scenario::Scenario;

/// Digest of each scenario with its own seed, on every machine and with any number of threads.
const DIGESTS: [(&str, &str); 3] = [
    ("one-call", "f6de478e5bd422f2"),
    ("eight-calls", "3879e48943c1e09c"),
    ("video-over-cell", "9ac54eb1fb559783"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn all_scenarios_come_out_as_they_expect() {
    let folder = root().join("experiments/scenarios");
    let files = fs::read_dir(&folder).expect("there are scenarios").map(|file| file.expect("a file").path());
    let mut count = 0;
    for file in files.filter(|file| file.extension().is_some_and(|extension| extension == "toml")) {
        let scenario = Scenario::read(&file, &|file| fs::read_to_string(file));
        let scenario = scenario.unwrap_or_else(|problem| panic!("{problem}"));
        assert_eq!(scenario.check(), Ok(()), "{}", file.display());
        let name = file.file_stem().and_then(|name| name.to_str()).expect("a name");
        let Some((_, digest)) = DIGESTS.iter().find(|(known, _)| *known == name) else {
            // Experiments run it, and define its expectations.
            continue;
        };
        let outcome =
            scenario.run(scenario.seed()).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        assert_eq!(outcome.digest, *digest, "{name}: packets change, or it is not the same on all machines");
        assert!(outcome.is_met(), "{}: {:#?}", file.display(), outcome.expectations);
        assert!(outcome.flows.iter().all(|flow| flow.lost_direct > 0 && flow.repaired > 0), "{outcome:#?}");
        count += 1;
    }
    assert_eq!(count, DIGESTS.len(), "each is there");
}

#[test]
fn the_scenario_of_the_page_is_the_one_in_its_file() {
    let page = fs::read_to_string(root().join("docs/scenarios.md")).expect("the page is there");
    let scenario = fs::read_to_string(root().join("experiments/scenarios/one-call.toml"))
        .expect("the scenario is there");
    assert!(page.contains(&scenario), "copy experiments/scenarios/one-call.toml into docs/scenarios.md");
}
