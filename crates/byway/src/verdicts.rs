//! Formatting of the results of expectations, for people.

use byway_scenario::{Subject, Verdict};

use crate::table::rounded;

/// Formats a share, from 0 to 1, as a percentage.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// Formats the result of an expectation on a run in one line.
pub(crate) fn describe_verdict(verdict: &Verdict) -> String {
    let of = verdict.of.name();
    let value = |value: f64| match verdict.measure.as_str() {
        _ if matches!(verdict.of, Subject::Command(_)) => rounded(value),
        "goodput" => format!("{value:.2} Mbit/s"),
        name if ["repair-", "delay-", "transfer-"].iter().any(|kind| name.starts_with(kind))
            || name.ends_with("-sojourn-max") =>
        {
            format!("{value:.2} ms")
        }
        "repaired" | "repaired-within-rtt" | "relay-bytes" | "high-rate-loss" | "low-delay-loss" => {
            percent(value)
        }
        _ => value.to_string(),
    };
    let bound = match (verdict.at_least, verdict.at_most) {
        (Some(bound), _) => format!("at least {}", value(bound)),
        (None, Some(bound)) => format!("at most {}", value(bound)),
        (None, None) => String::new(),
    };
    let measured = verdict.measured.map_or_else(|| "no measurement".to_owned(), value);
    let word = if verdict.is_met { "met" } else { "MISSED" };
    format!("{word}: {} of {of}: {measured}, expected {bound}", verdict.measure)
}
