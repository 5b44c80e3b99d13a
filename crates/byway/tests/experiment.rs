//! `byway experiment` and `byway sim swarm`, as processes.

#![allow(clippy::disallowed_methods, reason = "reads and writes what the program writes and reads")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn byway(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_byway")).args(arguments).output().expect("it starts")
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

const SMALL: &str = r#"
id = "small"
title = "Two repair packets and one"
source = "nobody"
study = "flows"
scenario = "call.toml"
seeds = [1, 2]
control = "off"

[[arm]]
name = "on"

[[arm]]
name = "off"
[arm.set]
"flow.call.service" = "internet"

[[row]]
metric = "repaired within one RTT"
measure = "repaired-within-rtt"
at_least = "90 %"

[[row]]
metric = "never so much"
measure = "repaired-within-rtt"
at_least = "100 %"

[[row]]
metric = "bytes of relays"
measure = "relay-share"
at_most = "0.1"

[[plot]]
name = "times"
title = "Times of repair"
form = "cdf"
of = "repair"
x = "ms"
y = "share of repairs"
"#;

/// Writes a folder with an experiment. Returns the folder, its path and the path of the results.
fn folder(experiment: &str) -> (tempfile::TempDir, String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let call =
        fs::read_to_string(repository().join("experiments/scenarios/one-call.toml")).expect("it is there");
    fs::write(folder.path().join("call.toml"), call).expect("space on the disk");
    fs::write(folder.path().join("small.toml"), experiment).expect("space on the disk");
    let [experiments, output] =
        [folder.path().to_owned(), folder.path().join("out")].map(|path| path.display().to_string());
    (folder, experiments, output)
}

#[test]
fn an_experiment_is_run_written_and_reported_and_is_the_same_each_time() {
    let (folder, experiments, output) = folder(SMALL);
    let folders = ["--experiments", &experiments, "--output", &output];
    let run = |more: &[&str]| byway(&[&["experiment", "run", "small"], &folders[..], more].concat());
    let once = run(&[]);
    assert!(once.status.success(), "{}", text(&once.stderr));
    assert!(text(&once.stdout).contains("small: 1 of 3 targets met"), "{}", text(&once.stdout));
    let result = folder.path().join("out/small/result.json");
    let written = fs::read_to_string(&result).expect("a result");
    let value: serde_json::Value = serde_json::from_str(&written).expect("JSON");
    assert_eq!((value["id"].as_str(), value["rows"].as_array().map(Vec::len)), (Some("small"), Some(3)));
    let met: Vec<_> = (0..3).map(|row| value["rows"][row]["met"].as_bool()).collect();
    // Target 3 holds without the overlay as well, so it proves nothing and is not met.
    assert_eq!(met, [Some(true), Some(false), Some(false)], "{written}");
    assert!(
        value["series"]["times"]["curves"][0]["points"].as_array().is_some_and(|points| !points.is_empty())
    );
    assert!(
        fs::read_to_string(folder.path().join("out/small/times.svg"))
            .is_ok_and(|svg| svg.starts_with("<svg"))
    );
    assert_eq!(run(&["--strict"]).status.code(), Some(6));
    assert_eq!(fs::read_to_string(&result).ok(), Some(written), "the same each time");
    let report = byway(&["experiment", "report", "--output", &output]);
    assert!(report.status.success(), "{}", text(&report.stderr));
    let page = fs::read_to_string(folder.path().join("out/report.html")).expect("a page");
    assert!(page.contains("Two repair packets and one") && page.contains("</html>"));
}

#[test]
fn an_experiment_with_a_run_that_was_stopped_has_met_nothing() {
    let lax = SMALL.replace("at_least = \"90 %\"", "at_most = \"100 %\"").replace("control = \"off\"", "");
    let (folder, experiments, output) = folder(&lax);
    let folders = ["--experiments", &experiments, "--output", &output];
    let run = |more: &[&str]| byway(&[&["experiment", "run", "small"], &folders[..], more].concat());
    assert!(text(&run(&[]).stdout).contains("small: 1 of 3 targets met"));
    let stopped = run(&["--memory", "20 kB"]);
    let message = text(&stopped.stdout);
    assert!(message.contains("small: 0 of 3 targets met"), "{message}");
    assert!(message.contains("STOPPED: on, seed 2: stopped after"), "{message}");
    let result = fs::read_to_string(folder.path().join("out/small/result.json")).expect("a result");
    let value: serde_json::Value = serde_json::from_str(&result).expect("JSON");
    assert_eq!(value["stopped"].as_array().map(Vec::len), Some(4), "two arms, two seeds: {result}");
    assert!(value["rows"][0]["measured"].is_number(), "it has what it has: {result}");
    let nothing = run(&["--at-most", "0 s"]);
    assert!(text(&nothing.stdout).contains("not repeatable"), "{}", text(&nothing.stdout));
}

#[test]
fn what_is_wrong_with_an_experiment_is_said_with_its_place() {
    for (line, instead, wanted) in [
        ("study = \"flows\"", "study = \"flaws\"", "small.toml:5"),
        ("\"flow.call.service\" = \"internet\"", "\"flow.cell.service\" = \"internet\"", "\"cell\""),
        ("\"flow.call.service\" = \"internet\"", "\"flow.call.service\" = \"intranet\"", "intranet"),
        ("at_least = \"90 %\"", "at_least = \"ninety\"", "small.toml:21"),
        ("control = \"off\"", "control = \"of\"", "name one of on, off"),
        ("seeds = [1, 2]", "seeds = []", "small.toml:7"),
        ("scenario = \"call.toml\"", "", "scenario"),
        ("scenario = \"call.toml\"", "scenario = \"cell.toml\"", "cell.toml"),
    ] {
        assert!(SMALL.contains(line), "{line}");
        let (_folder, experiments, output) = folder(&SMALL.replace(line, instead));
        let failed =
            byway(&["experiment", "run", "small", "--experiments", &experiments, "--output", &output]);
        assert_eq!(failed.status.code(), Some(2), "{instead}: {}", text(&failed.stderr));
        assert!(text(&failed.stderr).contains(wanted), "{instead}: {}", text(&failed.stderr));
    }
    let absent = byway(&["experiment", "run", "absent", "--experiments", "/"]);
    assert_eq!(absent.status.code(), Some(2));
    let empty = byway(&["experiment", "report", "--output", "/absent"]);
    assert!(text(&empty.stderr).contains("byway experiment run"), "{}", text(&empty.stderr));
}

#[test]
fn all_experiments_of_the_repository_can_be_read() {
    let folder = repository().join("experiments").display().to_string();
    let list = byway(&["experiment", "list", "--json", "--experiments", &folder]);
    assert!(list.status.success(), "{}", text(&list.stderr));
    assert!(text(&list.stdout).lines().count() >= 11, "{}", text(&list.stdout));
}

#[test]
fn a_swarm_is_as_it_must_be() {
    let seeds = repository().join("experiments/swarm-seeds.txt").display().to_string();
    let swarm = byway(&["sim", "swarm", "--seeds", "200", "--replay", &seeds]);
    assert!(swarm.status.success(), "{}{}", text(&swarm.stdout), text(&swarm.stderr));
    assert!(text(&swarm.stdout).contains(", 0 failed; "), "{}", text(&swarm.stdout));
    let seed =
        (1..200).find(|seed| byway_scenario::swarm_files(*seed).len() == 3).expect("one in sixteen has both");
    let folder = tempfile::tempdir().expect("a folder");
    let inside = |arguments: &[&str]| {
        let program = Command::new(env!("CARGO_BIN_EXE_byway"))
            .arg("sim")
            .args(arguments)
            .current_dir(&folder)
            .output();
        program.expect("it starts")
    };
    let written = inside(&["swarm", "--write", &seed.to_string()]);
    assert!(written.status.success(), "{}", text(&written.stderr));
    let checked = inside(&["check", &format!("swarm-{seed}.toml")]);
    assert!(text(&checked.stdout).contains(&format!("Swarm, seed {seed}")), "{}", text(&checked.stderr));
    let wrong = byway(&["sim", "swarm", "--replay", "Cargo.toml"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("invalid seed"), "{}", text(&wrong.stderr));
}

#[test]
fn a_seed_of_a_swarm_that_takes_too_long_has_failed() {
    let swarm = byway(&["sim", "swarm", "--seeds", "1", "--from", "10", "--at-most", "0 s"]);
    assert_eq!(swarm.status.code(), Some(6), "{}", text(&swarm.stdout));
    assert!(text(&swarm.stdout).contains("seed 10: stopped after 0.1 s"), "{}", text(&swarm.stdout));
}

#[test]
fn measurements_become_loss_traces() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("measured.csv");
    fs::write(&file, "1,40\n2,41\n4,300\n").expect("space on the disk");
    let file = file.display().to_string();
    let trace = byway(&["sim", "import", &file, "--format", "columns", "--late", "150ms"]);
    assert_eq!(text(&trace.stdout), "0011\n", "{}", text(&trace.stderr));
    let delays = byway(&["sim", "import", &file, "--format", "columns", "--delays", "--half"]);
    assert_eq!(text(&delays.stdout), "20.000\n20.500\nlost\n150.000\n", "{}", text(&delays.stderr));
    let wrong = byway(&["sim", "import", &file]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("icmp_seq"), "{}", text(&wrong.stderr));
}
