//! What came of expectations, for people.

use byway_scenario::{Subject, Verdict};

use crate::table::rounded;

/// A share as people write it.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

/// What came of an expectation, in a line.
pub(crate) fn verdict_line(verdict: &Verdict) -> String {
    let of = verdict.of.name();
    let value = |value: f64| match verdict.measure.as_str() {
        _ if matches!(verdict.of, Subject::Command(_)) => rounded(value),
        "goodput" => format!("{value:.2} Mbit/s"),
        name if ["repair-", "delay-", "transfer-"].iter().any(|kind| name.starts_with(kind))
            || name.ends_with("-wait-max") =>
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
    let measured = verdict.measured.map_or_else(|| "nothing to measure".to_owned(), value);
    let word = if verdict.is_met { "met" } else { "MISSED" };
    format!("{word}: {} of {of}: {measured}, expected {bound}", verdict.measure)
}
