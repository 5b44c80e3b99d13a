//! Comparison of a lab's measurements with a scenario's expectations.

use byway_scenario::{Subject, Verdict};

use super::commands::CommandOutcome;
use super::outcome::{FlowsOutcome, LinkOutcome};

/// Verdicts on a scenario's expectations, and the expectations that a lab cannot check.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Evaluation {
    /// Expectations on measures that a lab has.
    pub(super) verdicts: Vec<Verdict>,
    /// Expectations on measures that a lab does not have, unchanged.
    pub(super) unmeasured: Vec<Verdict>,
}

/// Compares expectations with measurements of flows, commands and links.
pub(super) fn evaluate(
    expected: Vec<Verdict>,
    flows: &[FlowsOutcome],
    commands: &[CommandOutcome],
    links: &[LinkOutcome],
) -> Evaluation {
    let mut evaluation = Evaluation::default();
    for verdict in expected {
        let measured = match &verdict.of {
            // A measure that a task does not report has no value.
            Subject::Command(name) => Some(of_commands(name, &verdict, commands)),
            Subject::Link(name) => {
                let named = links.iter().filter(|link| link.name.as_ref() == Some(name));
                Some(verdict.at_links(named.map(|link| &link.classes)))
            }
            Subject::Flow(name) => flows
                .iter()
                .find(|flows| flows.name == *name)
                .and_then(|flows| of_flows(&verdict.measure, flows)),
        };
        match measured {
            Some(measured) => evaluation.verdicts.push(verdict.with(measured)),
            None => evaluation.unmeasured.push(verdict),
        }
    }
    evaluation
}

/// Returns the measure of the commands with this name. If they run on several machines, the worst
/// value counts; `None` if one of them does not report it.
fn of_commands(name: &str, expected: &Verdict, commands: &[CommandOutcome]) -> Option<f64> {
    let is_of_name = |command: &&CommandOutcome| {
        let number = command.name.strip_prefix(name);
        number.is_some_and(|rest| {
            rest.is_empty() || rest.strip_prefix('.').is_some_and(|number| number.parse::<usize>().is_ok())
        })
    };
    let values =
        commands.iter().filter(is_of_name).map(|command| command.measures.get(&expected.measure).copied());
    let worst = if expected.at_least.is_some() { f64::min } else { f64::max };
    values.reduce(|one, other| one.zip(other).map(|(one, other)| worst(one, other))).flatten()
}

/// Returns a measure of flows. The outer `None` means that a lab does not measure it, the inner
/// `None` that the flows have no value.
#[allow(clippy::option_option, reason = "what is not measured and what there is none of are two things")]
fn of_flows(measure: &str, flows: &FlowsOutcome) -> Option<Option<f64>> {
    // Programs count their own packets.
    let sent = flows.sent?;
    let counted = |count: Option<u64>| count.filter(|_| sent > 0).map(number);
    match measure {
        "sent" => Some(counted(Some(sent))),
        "late" => Some(counted(flows.late)),
        "missing" => Some(counted(flows.missing)),
        "lost-direct" => Some(counted(flows.lost_direct)),
        "repaired" => {
            let (lost, repaired) = (flows.lost_direct.filter(|lost| *lost > 0), flows.repaired);
            Some(lost.zip(repaired).map(|(lost, repaired)| number(repaired) / number(lost)))
        }
        "delay-p50" => Some(flows.delay_ms.map(|delays| delays.p50)),
        "delay-p99" => Some(flows.delay_ms.map(|delays| delays.p99)),
        _ => None,
    }
}

#[allow(clippy::cast_precision_loss, reason = "packets of minutes are far below 2^53")]
const fn number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use byway_scenario::{ClassOutcome, ClassesOutcome, Scenario};

    use super::*;
    use crate::lab::outcome::Delays;

    const SCENARIO: &str = r#"
title = "A call"
length = "4 s"
node = [{ name = "alice", role = "agent" }, { name = "bob", role = "agent" }]
link = [{ between = ["alice", "bob"], delay = "40 ms" }]
flow = [
    { name = "call", from = "alice", to = "bob", service = "internet", sends = { kind = "steady", every = "500 ms", bytes = 500 } },
]
command = [{ name = "ask", node = "alice", run = ["sh"] }]
expect = [
    { flow = "call", measure = "missing", at_most = 3 },
    { flow = "call", measure = "repaired", at_least = "90 %" },
    { flow = "call", measure = "delay-p99", at_most = "50 ms" },
    { flow = "call", measure = "relay-bytes", at_most = "50 %" },
    { command = "ask", measure = "sent", at_least = 10 },
    { command = "ask", measure = "p50_ms", at_most = 1.5 },
]
"#;

    #[test]
    fn of_a_command_in_several_machines_the_worst_counts() {
        let expected = Scenario::parse(SCENARIO).expect("a scenario").expectations();
        let outcome = |name: &str, measured: Option<f64>| CommandOutcome {
            name: name.to_owned(),
            node: "alice".to_owned(),
            exit: Some(0),
            seconds: Some(1.0),
            measures: measured.map(|measured| ("p50_ms".to_owned(), measured)).into_iter().collect(),
        };
        let at_most = expected.last().expect("at most 1.5");
        let all = [outcome("ask.1", Some(1.0)), outcome("ask.2", Some(2.0)), outcome("asked.3", Some(9.0))];
        assert_eq!(of_commands("ask", at_most, &all), Some(2.0));
        let at_least = Verdict { at_least: Some(1.5), at_most: None, ..at_most.clone() };
        assert_eq!(of_commands("ask", &at_least, &all), Some(1.0));
        assert_eq!(of_commands("ask", at_most, &[outcome("ask.1", Some(1.0)), outcome("ask.2", None)]), None);
        assert_eq!(of_commands("ask", at_most, &[]), None);
    }

    #[test]
    fn of_links_the_direction_that_is_furthest_from_what_is_expected_counts() {
        let scenario = SCENARIO
            .replace(
                "delay = \"40 ms\"",
                "name = \"middle\", rate = \"4 Mbit/s\", classes = { kind = \"rate-delay\" }",
            )
            .replace(
                "flow = \"call\", measure = \"missing\", at_most = 3",
                "link = \"middle\", measure = \"low-delay-sojourn-max\", at_most = \"10 ms\"",
            );
        let expected = Scenario::parse(&scenario).expect("a scenario").expectations();
        let link = |name: &str, left, waited_ms_max| LinkOutcome {
            name: Some(name.to_owned()),
            from: "alice".to_owned(),
            to: "bob".to_owned(),
            classes: ClassesOutcome {
                low_delay: ClassOutcome {
                    dequeued: left,
                    sojourn_ms_max: waited_ms_max,
                    ..ClassOutcome::default()
                },
                ..ClassesOutcome::default()
            },
        };
        let first = |links: &[LinkOutcome]| evaluate(expected.clone(), &[], &[], links).verdicts.remove(0);
        let both = [link("middle", 7, 9.0), link("middle", 7, 12.0), link("other", 7, 99.0)];
        assert_eq!((first(&both).measured, first(&both).is_met), (Some(12.0), false));
        assert_eq!((first(&both[..1]).measured, first(&both[..1]).is_met), (Some(9.0), true));
        // A link without packets does not prove anything.
        let idle = first(&[link("middle", 0, 0.0)]);
        assert_eq!((idle.measured, idle.is_met), (None, false));
    }

    #[test]
    fn what_a_lab_measures_is_judged_and_the_rest_named() {
        let expected = Scenario::parse(SCENARIO).expect("a scenario").expectations();
        let flows = FlowsOutcome {
            name: "call".to_owned(),
            sent: Some(100),
            missing: Some(4),
            lost_direct: Some(10),
            repaired: Some(9),
            delay_ms: Some(Delays { p50: 40.0, p95: 45.0, p99: 49.0 }),
            ..FlowsOutcome::default()
        };
        let measures = [("p50_ms".to_owned(), 1.0)].into();
        let asked = CommandOutcome {
            name: "ask".to_owned(),
            node: "alice".to_owned(),
            exit: Some(0),
            seconds: Some(1.0),
            measures,
        };
        let judged = evaluate(expected, &[flows], &[asked], &[]);
        let met: Vec<bool> = judged.verdicts.iter().map(|verdict| verdict.is_met).collect();
        assert_eq!(met, [false, true, true, false, true]);
        let left: Vec<&str> = judged.unmeasured.iter().map(|verdict| verdict.measure.as_str()).collect();
        assert_eq!(left, ["relay-bytes"]);
    }
}
