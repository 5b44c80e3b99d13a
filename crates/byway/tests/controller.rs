//! Controller from its administrator's view: its counters, and its behaviour on a full disk.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests use files and processes")]

mod support;

use support::{ManagedNetwork, ask, byway, path, text};

/// Returns the value of a series in the metrics.
fn value(metrics: &str, series: &str) -> f64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    let line = line.unwrap_or_else(|| panic!("{series} is not in:\n{metrics}"));
    line.parse().expect("a number")
}

#[test]
fn members_requests_refusals_and_commits_are_counted() {
    let (network, _controller) = ManagedNetwork::new();
    let _relay = network.relay(1);
    let token = std::fs::read_to_string(network.bench.path("relay.token")).expect("it was made");
    let observe = network.observe(11).to_string();
    let state = network.bench.path("eve");
    let arguments =
        ["agent", "--name", "eve", "--token", token.trim(), "--state", path(&state), "--observe", &observe];
    let refused = byway(&arguments);
    assert_eq!(refused.status.code(), Some(5), "{}", text(&refused.stderr));
    let metrics = ask(network.observe(9), "/metrics");
    for (series, expected) in [
        ("byway_controller_members{role=\"relay\"}", 1.0),
        ("byway_controller_members{role=\"agent\"}", 0.0),
        ("byway_controller_members_alive{role=\"relay\"}", 1.0),
        ("byway_controller_members_alive{role=\"agent\"}", 0.0),
        ("byway_controller_requests_total{method=\"POST\",path=\"/v1/tokens\",outcome=\"ok\"}", 2.0),
        ("byway_controller_requests_total{method=\"POST\",path=\"/v1/join\",outcome=\"ok\"}", 1.0),
        ("byway_controller_requests_total{method=\"POST\",path=\"/v1/join\",outcome=\"wrong_role\"}", 1.0),
        ("byway_controller_commits_total{outcome=\"failed\"}", 0.0),
    ] {
        assert!((value(&metrics, series) - expected).abs() < 0.5, "{series}:\n{metrics}");
    }
    assert!(value(&metrics, "byway_controller_commits_total{outcome=\"ok\"}") > 2.5, "{metrics}");
    assert!(value(&metrics, "byway_controller_database_bytes{}") > 1_000.0, "{metrics}");
}

#[test]
fn a_controller_whose_disk_gets_full_serves_its_members_and_says_what_to_do() {
    let (network, mut controller) = ManagedNetwork::new();
    let _relay = network.relay(1);
    assert_eq!(controller.stop(), Some(0));
    let mut controller = network.controller_on_a_full_disk();
    let state = network.bench.path("controller");
    let create = ["token", "create", "--role", "agent", "--state", path(&state)];
    let refused = byway(&create);
    let message = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(4), "{message}");
    for phrase in ["the controller cannot store the change", "controller.redb", "disk full: free some space"]
    {
        assert!(message.contains(phrase), "{phrase:?} is not in: {message}");
    }
    let members = byway(&["node", "list", "--state", path(&state)]);
    assert!(text(&members.stdout).contains("east"), "{}", text(&members.stderr));
    let metrics = ask(network.observe(9), "/metrics");
    for series in ["byway_controller_storage_failing{}", "byway_controller_commits_total{outcome=\"failed\"}"]
    {
        assert!(value(&metrics, series) > 0.5, "{series}:\n{metrics}");
    }
    // After space is available again, the refused change succeeds; no half of it exists.
    assert_eq!(controller.stop(), Some(0));
    let _controller = network.controller();
    let tokens = text(&byway(&["token", "list", "--state", path(&state)]).stdout);
    assert_eq!(tokens.lines().count(), 3, "a heading and two tokens: {tokens}");
    assert!(byway(&create).status.success());
}
