//! `byway lab` as a process: real agents and relays, compared with the simulator on the same
//! scenario. Skipped if the kernel refuses namespaces to this process.

#![allow(clippy::disallowed_methods, reason = "the program reads files that are written here")]
#![allow(clippy::print_stderr, reason = "says what is skipped")]

use std::path::Path;
use std::process::{Command, Output};

/// Scenario of a call of three seconds, over a path with bursts of losses.
const CALL: &str = r#"
title = "A call"
length = "6 s"
node = [
    { name = "alice", role = "agent" },
    { name = "bob", role = "agent" },
    { name = "east", role = "relay" },
    { name = "west", role = "relay" },
]
link = [
    { between = ["alice", "bob"], delay = "40 ms", loss = [{ share = "12 %", burst = 3.0, every = "10 ms" }] },
    { between = ["alice", "east"], delay = "5 ms" },
    { between = ["bob", "west"], delay = "5 ms" },
    { between = ["east", "west"], delay = "35 ms" },
]
flow = [
    { name = "call", from = "alice", to = "bob", service = "caching", sends = { kind = "steady", every = "10 ms", bytes = 500 } },
]
"#;

fn byway(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_byway")).args(arguments).output().expect("it starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

fn write_scenario(folder: &Path, scenario: &str) -> String {
    let file = folder.join("scenario.toml");
    std::fs::write(&file, scenario).expect("space on the disk");
    file.display().to_string()
}

/// Returns the outcome of the only flow; `None` if this machine cannot run a lab, or is too busy
/// for it.
fn call(arguments: &[&str]) -> Option<serde_json::Value> {
    let output = byway(arguments);
    if output.status.code() == Some(3) {
        let message = text(&output.stderr);
        assert!(message.contains("need root") || message.contains("run void"), "{message}");
        eprintln!("skipped: {message}");
        return None;
    }
    assert!(output.status.success(), "{}", text(&output.stderr));
    let outcome: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    Some(outcome["flows"][0].clone())
}

fn number(flow: &serde_json::Value, name: &str) -> u64 {
    flow[name].as_u64().unwrap_or_else(|| panic!("{name} of {flow}"))
}

/// Scenario of four calls that are coded together, one of them over a path with an outage of a
/// second.
const CALLS: &str = r#"
title = "Four calls and an outage"
length = "8 s"
node = [
    { name = "alice", role = "agent", count = 4 },
    { name = "bob", role = "agent", count = 4 },
    { name = "east", role = "relay" },
    { name = "west", role = "relay" },
]
link = [
    { between = ["alice", "bob"], delay = "40 ms", loss = [{ share = "2 %", burst = 3.0, every = "10 ms" }] },
    { between = ["alice", "east"], delay = "5 ms" },
    { between = ["bob", "west"], delay = "5 ms" },
    { between = ["east", "west"], delay = "35 ms" },
]
flow = [
    { name = "call", from = "alice", to = "bob", service = "coding", sends = { kind = "steady", every = "10 ms", bytes = 500 } },
]
step = [
    { at = "4 s", do = "cut", between = ["alice.1", "bob.1"] },
    { at = "5 s", do = "mend", between = ["alice.1", "bob.1"] },
]
"#;

/// Scenario of a path that is always bad, and relays that forward all packets.
const FORWARDED: &str = r#"
title = "A call by relays"
length = "6 s"
node = [
    { name = "alice", role = "agent" },
    { name = "bob", role = "agent" },
    { name = "relay", role = "relay" },
]
link = [
    { between = ["alice", "bob"], delay = "60 ms", loss = [{ share = "30 %" }] },
    { between = ["alice", "relay"], delay = "20 ms", loss = [{ share = "0.5 %" }] },
    { between = ["bob", "relay"], delay = "20 ms" },
]
flow = [
    { name = "call", from = "alice", to = "bob", service = "forwarding", sends = { kind = "voice" } },
]
"#;

/// Scenario of a call over two relays that are far from each other, and near a third one.
const BY_A_THIRD: &str = r#"
title = "A call over two relays with a third one between them"
length = "20 s"
node = [
    { name = "alice", role = "agent" },
    { name = "bob", role = "agent" },
    { name = "east", role = "relay" },
    { name = "west", role = "relay" },
    { name = "middle", role = "relay", transit = true },
]
link = [
    { between = ["alice", "bob"], delay = "120 ms" },
    { between = ["alice", "east"], delay = "5 ms" },
    { between = ["bob", "west"], delay = "5 ms" },
    { between = ["east", "west"], delay = "100 ms" },
    { between = ["east", "middle"], delay = "20 ms" },
    { between = ["middle", "west"], delay = "20 ms" },
]
flow = [
    { name = "call", from = "alice", to = "bob", service = "forwarding", sends = { kind = "voice" } },
]
"#;

#[test]
fn real_relays_send_through_a_third_one_that_is_nearer() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = write_scenario(folder.path(), BY_A_THIRD);
    let Some(real) = call(&["lab", "run", &file, "--json"]) else { return };
    // 5 + 20 + 20 + 5 ms; at first 5 + 100 + 5 ms.
    let median = real["delay_ms"]["p50"].as_f64().expect("packets arrived");
    assert!((50.0..60.0).contains(&median), "{real}");
    assert_eq!(number(&real, "missing"), 0, "{real}");
}

/// Compares both worlds within tolerances. Both have the same bursts, as functions of time. But
/// real packets leave some tenths of a millisecond later and may miss a burst, and agents' probes
/// are at other times.
#[test]
fn both_worlds_agree() {
    let folder = tempfile::tempdir().expect("a folder");
    for (scenario, lost_at_least) in [(CALL, 10), (CALLS, 60), (FORWARDED, 0)] {
        let file = write_scenario(folder.path(), scenario);
        let simulated = call(&["sim", "run", &file, "--json"]).expect("that needs no rights");
        let Some(real) = call(&["lab", "run", &file, "--json"]) else { return };
        let sent = number(&simulated, "sent");
        assert_eq!(number(&real, "sent"), sent);
        let [lost, expected] = [&real, &simulated].map(|world| number(world, "lost_direct"));
        assert!(expected >= lost_at_least, "{simulated}");
        assert!(lost.abs_diff(expected) <= expected / 4 + 5, "lost: {lost} and {expected}");
        let [repaired, expected] = [&real, &simulated].map(|world| number(world, "repaired"));
        assert!(repaired.abs_diff(expected) <= expected / 4 + 5, "repaired: {repaired} and {expected}");
        let [missing, expected] =
            [&real, &simulated].map(|world| number(world, "missing") + number(world, "late"));
        assert!(
            missing.abs_diff(expected) <= sent / 50,
            "missing or late: {missing} and {expected} of {sent}"
        );
    }
}

#[test]
fn without_relays_what_is_lost_is_missing() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = write_scenario(folder.path(), CALL);
    let expected =
        number(&call(&["sim", "run", &file, "--json"]).expect("that needs no rights"), "lost_direct");
    let Some(bare) = call(&["lab", "run", &file, "--json", "--without-relays"]) else { return };
    assert!(number(&bare, "missing") >= expected / 2 && number(&bare, "repaired") == 0, "{bare}");
}

#[test]
fn what_a_lab_cannot_do_is_said_before_anything_is_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let tcp = r#"sends = { kind = "bulk" }"#;
    let steady = r#"sends = { kind = "steady", every = "10 ms", bytes = 500 }"#;
    let output = byway(&["lab", "run", &write_scenario(folder.path(), &CALL.replace(steady, tcp))]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("use byway sim run"), "{}", text(&output.stderr));
    let absent = byway(&["lab", "run", "absent.toml"]);
    assert_eq!(absent.status.code(), Some(2));
    assert!(text(&absent.stderr).contains("absent.toml"), "{}", text(&absent.stderr));
}
