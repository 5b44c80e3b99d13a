//! Tests of a relay whose uplink is too slow for everything that it forwards.

#![allow(clippy::disallowed_methods, reason = "reads a file of the repository")]

use byway_scenario::{FlowOutcome, Outcome, Scenario};

fn text() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/scenarios/relay-uplink.toml");
    std::fs::read_to_string(path).expect("it is there")
}

fn changed(line: &str, instead: &str) -> String {
    assert!(text().contains(line), "{line}");
    text().replacen(line, instead, 1)
}

fn run(text: &str) -> Outcome {
    Scenario::parse(text).expect("a scenario").run(1).expect("all are joined")
}

/// Returns the first flow of this name, which must have sent more than 800 packets, of which more
/// than half arrived.
fn flow(outcome: &Outcome, name: &str) -> FlowOutcome {
    let flow = outcome.flows.iter().find(|flow| flow.name == name).expect("it is there").clone();
    assert!(flow.sent > 800 && flow.delivered + flow.late > flow.sent / 2, "{flow:?}");
    flow
}

fn slowest(flow: &FlowOutcome) -> f64 {
    flow.delay_ms.expect("some arrived").p99
}

#[test]
fn a_flow_with_a_small_budget_keeps_its_delay_and_the_others_wait() {
    let outcome = run(&text());
    assert!(outcome.is_met(), "{:#?}", outcome.expectations);
    let (call, patient) = (flow(&outcome, "call"), flow(&outcome, "patient-call"));
    // 30 ms of path delay, and 10 ms of queueing at most.
    assert!(slowest(&call) <= 41.0 && call.delivered == call.sent, "{call:?}");
    assert!(slowest(&patient) > 200.0, "{patient:?}");
    let upload = flow(&outcome, "upload");
    assert!(upload.missing > 500 && upload.delivered > 12_000, "the line is full: {upload:?}");
}

#[test]
fn without_classes_all_wait_alike() {
    let narrow = "between = [\"bob\", \"east\"]\nrate = \"10 Mbit/s\"\nqueue = \"312 kB\"";
    for text in [
        changed(
            "uplink = { rate = \"10 Mbit/s\" }",
            "uplink = { rate = \"10 Mbit/s\", low_delay_budget = \"1 ms\" }",
        ),
        changed("uplink = { rate = \"10 Mbit/s\" }\n", "").replacen(
            "between = [\"bob\", \"east\"]",
            narrow,
            1,
        ),
    ] {
        let outcome = run(&text);
        assert!(!outcome.is_met());
        assert!(slowest(&flow(&outcome, "call")) > 200.0, "{:#?}", outcome.flows);
    }
}

#[test]
fn without_a_limit_nothing_waits() {
    let outcome = run(&changed("uplink = { rate = \"10 Mbit/s\" }\n", ""));
    for name in ["upload", "call", "patient-call"] {
        let flow = flow(&outcome, name);
        assert!(slowest(&flow) <= 30.1 && flow.missing == 0, "{flow:?}");
    }
}

#[test]
fn what_is_wrong_is_named_with_its_place_and_a_remedy() {
    for (line, instead, location, words) in [
        ("rate = \"10 Mbit/s\"", "rate = \"1 Mbit/s\"", "node[2].uplink.rate", "a rate of 2.432"),
        ("rate = \"10 Mbit/s\"", "ratio = 2.0", "scenario.toml", "missing field `rate`"),
        ("rate = \"10 Mbit/s\"", "rate = \"10 Mbit/s\", ratio = 0.5", "node[2].uplink.ratio", "more than 1"),
        ("role = \"relay\"", "role = \"router\"", "node[2].uplink", "only relays have an uplink"),
    ] {
        let message = Scenario::parse(&changed(line, instead)).expect_err(instead).to_string();
        assert!(message.contains(location) && message.contains(words), "{instead}: {message}");
    }
}
