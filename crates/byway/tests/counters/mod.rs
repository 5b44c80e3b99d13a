//! Counters of a node's status, which has those above zero only.

#![allow(unreachable_pub, reason = "module of tests")]

use serde_json::Value;

const METRICS: &str = include_str!("../../../../docs/metrics.md");

/// Returns a counter of a list of the status: `counters` or `drops`. It is 0 if the list lacks it.
///
/// # Panics
/// If no node has a counter of this name: a misspelt name would count nothing.
pub fn counter(status: &Value, list: &str, name: &str) -> u64 {
    let roles = ["agent", "relay", "controller"];
    let is_known = roles.iter().any(|role| METRICS.contains(&format!("`byway_{role}_{name}_total`")))
        || METRICS.contains(&format!("\n| `{name}` |"));
    assert!(is_known, "docs/metrics.md has no counter {name}");
    let counters = status[list].as_array().unwrap_or_else(|| panic!("{list} is not in {status}"));
    let found = counters.iter().find(|counter| counter["reason"] == name);
    found.map_or(0, |counter| counter["count"].as_u64().expect("a count is a number"))
}
