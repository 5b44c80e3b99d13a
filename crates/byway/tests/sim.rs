//! `byway sim`, as a process.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn byway(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_byway")).arg("sim").args(arguments).output().expect("it starts")
}

fn scenario(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/scenarios").join(name)
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

/// Returns the scenario of one call with one line replaced.
fn altered(folder: &Path, line: &str, instead: &str) -> String {
    #[allow(clippy::disallowed_methods, reason = "reads a file of the repository")]
    let right = std::fs::read_to_string(scenario("one-call.toml")).expect("it is there");
    assert!(right.contains(line), "{line}");
    let file = folder.join("call.toml");
    #[allow(clippy::disallowed_methods, reason = "the program reads it")]
    std::fs::write(&file, right.replace(line, instead)).expect("space on the disk");
    file.display().to_string()
}

#[test]
fn a_scenario_runs_and_is_the_same_each_time() {
    let file = scenario("one-call.toml").display().to_string();
    let [once, again] = [(); 2].map(|()| byway(&["run", &file, "--json", "--seeds", "3"]));
    assert!(once.status.success(), "{}", text(&once.stderr));
    assert_eq!(text(&once.stdout), text(&again.stdout));
    let outcomes: Vec<serde_json::Value> =
        text(&once.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let seeds: Vec<_> = outcomes.iter().map(|outcome| outcome["seed"].as_u64()).collect();
    assert_eq!(seeds, [Some(1), Some(2), Some(3)]);
    assert!(outcomes.iter().all(|outcome| outcome["flows"][0]["repaired"].as_u64() > Some(100)));
    let people = byway(&["run", &file]);
    assert!(text(&people.stdout).contains("met: repaired-within-rtt of call"), "{}", text(&people.stdout));
    let heads = "missing  repair p50 ms  repair p95 ms  repair p99 ms";
    assert!(text(&people.stdout).contains(heads), "of repairs, and not of packets: {}", text(&people.stdout));
}

#[test]
fn a_scenario_may_have_other_values() {
    let file = scenario("one-call.toml").display().to_string();
    let changed = byway(&["run", &file, "--set", "flow.call.service=internet", "--set", "length=20 s"]);
    assert_eq!(changed.status.code(), Some(6), "nothing is repaired: {}", text(&changed.stderr));
    assert!(text(&changed.stdout).contains("MISSED"), "{}", text(&changed.stdout));
    for (set, message) in [
        ("flow.calls.service=internet", "\"calls\" not found"),
        ("flow.call.service=carrier", "carrier"),
        ("length", "KEY=VALUE"),
    ] {
        let wrong = byway(&["run", &file, "--set", set]);
        assert_eq!(wrong.status.code(), Some(2), "{set}");
        assert!(text(&wrong.stderr).contains(message), "{set}: {}", text(&wrong.stderr));
    }
}

#[test]
fn what_is_missed_and_what_is_wrong_end_with_their_codes() {
    let folder = tempfile::tempdir().expect("a folder");
    let missed = byway(&["run", &altered(folder.path(), "service = \"caching\"", "service = \"internet\"")]);
    assert_eq!(missed.status.code(), Some(6));
    assert!(text(&missed.stdout).contains("MISSED"), "{}", text(&missed.stdout));
    assert!(
        text(&missed.stderr).contains("expectations not met by 1 of 1 seeds"),
        "{}",
        text(&missed.stderr)
    );
    let wrong = byway(&["check", &altered(folder.path(), "delay = \"50 ms\"", "delay = \"50\"")]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        text(&wrong.stderr).contains("call.toml:19") && text(&wrong.stderr).contains("200 ms"),
        "{}",
        text(&wrong.stderr)
    );
    let absent = byway(&["run", "absent.toml"]);
    assert_eq!(absent.status.code(), Some(2));
    assert!(text(&absent.stderr).contains("absent.toml"), "{}", text(&absent.stderr));
}

#[test]
fn transfers_and_links_have_their_tables() {
    let file = scenario("shared-bottleneck.toml").display().to_string();
    let run = |more: &[&str]| byway(&[&["run", &file], more].concat());
    let plain = run(&[]);
    let (plain, linked) = (text(&plain.stdout).to_owned(), run(&["--links"]));
    assert!(plain.contains("p99.9 ms") && plain.contains("timeouts"), "{plain}");
    assert!(!plain.contains("queue kB") && text(&linked.stdout).contains("queue kB"), "{plain}");
    let json = run(&["--json"]);
    let outcome: serde_json::Value = serde_json::from_str(text(&json.stdout)).expect("JSON");
    let links = outcome["links"].as_array().expect("links");
    let is_full = |link: &&serde_json::Value| link["utilisation"].as_f64() > Some(0.5);
    let bottleneck = links.iter().find(is_full).expect("one is busy");
    assert!(bottleneck["lost"]["queue_full"].as_u64() > Some(0), "{bottleneck}");
    assert!(bottleneck["queue_bytes_max"].as_u64() > Some(1_500), "{bottleneck}");
    let without = links.iter().find(|link| link["utilisation"].is_null()).expect("one has no rate");
    assert!(without["queue_bytes_max"].is_null() && without["sent"].as_u64() > Some(0), "{without}");
    let sent = |link: &serde_json::Value| link["sent"].as_u64().unwrap_or_default();
    assert_eq!(links.iter().map(sent).sum::<u64>(), outcome["link_crossings"].as_u64().unwrap_or_default());
}

#[test]
fn a_run_that_takes_too_much_ends_with_what_it_has() {
    let file = scenario("one-call.toml").display().to_string();
    let slow = byway(&["run", &file, "--at-most", "0 s"]);
    assert_eq!(slow.status.code(), Some(6), "{}", text(&slow.stderr));
    let words = "STOPPED after 0.1 s of 20 s, because it took 0 s of real time";
    assert!(text(&slow.stdout).contains(words), "{}", text(&slow.stdout));
    assert!(text(&slow.stdout).contains("not repeatable"), "{}", text(&slow.stdout));
    let [large, again] = [(); 2].map(|()| byway(&["run", &file, "--memory", "10 kB", "--json"]));
    assert_eq!((large.status.code(), &large.stdout), (Some(6), &again.stdout));
    let outcome: serde_json::Value = serde_json::from_str(text(&large.stdout)).expect("JSON");
    let stopped = &outcome["stopped"];
    assert_eq!(stopped["is_repeatable"], true, "{stopped}");
    assert!(stopped["seconds"].as_f64().is_some_and(|at| (2.0..10.0).contains(&at)), "{stopped}");
}

#[test]
fn a_trace_has_a_line_for_each_change() {
    let file = scenario("one-call.toml").display().to_string();
    let trace = byway(&["trace", &file]);
    assert!(text(&trace.stdout).contains("alice: session with bob established"), "{}", text(&trace.stdout));
    let packets = byway(&["trace", &file, "--packets"]);
    assert!(text(&packets.stdout).lines().count() > 5_000);
    assert!(text(&packets.stdout).contains("lost: outage"));
}
