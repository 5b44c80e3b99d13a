//! Invalid files, and results of small ones.

use std::ops::ControlFlow;
use std::path::Path;

use super::{Plan, read};
use crate::findings::Findings;

const SMALL: &str = r#"title = "small"
length = "20 s"

[[link]]
name = "core"
rate = "20 Mbit/s"
delay = "10 ms"
queue = "rate-delay"

[[traffic]]
name = "many"
path = ["core"]
count = 20
round_trip = { from = "24 ms", to = "100 ms" }
sends = { kind = "bulk" }

[[traffic]]
name = "calls"
class = "low-delay"
path = ["core"]
count = 20
round_trip = "60 ms"
sends = { kind = "voice" }
"#;

fn plan(text: &str) -> Result<Plan, String> {
    read(Path::new("small.toml"), text.to_owned()).map_err(|problem| problem.to_string())
}

fn run(text: &str) -> Findings {
    let plan = plan(text).expect("it is right");
    plan.run(1, &mut |_| ControlFlow::Continue(()))
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    for (line, instead, wanted) in [
        (
            "path = [\"core\"]\ncount",
            "path = [\"cor\"]\ncount",
            "traffic[0].path: link \"cor\" not found: name one of core",
        ),
        ("path = [\"core\"]\ncount", "path = []\ncount", "traffic[0].path: no links"),
        (
            "queue = \"rate-delay\"",
            "queue = \"rate-delay\"\nratio = 1.0",
            "link[0].ratio: rate ratio 1 out of range: give more",
        ),
        (
            "queue = \"rate-delay\"",
            "queue = \"rate-delay\"\nbound = \"1 us\"",
            "link[0].bound: queueing delay 1 us",
        ),
        ("queue = \"rate-delay\"", "queue = \"rate-delay\"\nbuffer = \"1 us\"", "link[0].buffer"),
        ("rate = \"20 Mbit/s\"", "rate = \"0 bit/s\"", "link[0]"),
        ("count = 20\nround_trip = {", "count = 20000\nround_trip = {", "traffic[0].count"),
        ("count = 20\nround_trip = {", "count = 20\nstarts = 0.0\nround_trip = {", "traffic[0].starts"),
        ("length = \"20 s\"", "length = \"20 s\"\nsettle = \"20 s\"", "settle"),
        ("length = \"20 s\"", "length = \"20 s\"\nobserve = \"edge\"", "observe: link \"edge\" not found"),
        ("kind = \"bulk\"", "kind = \"bulky\"", "bulky"),
        ("kind = \"bulk\"", "kind = \"constant\", rate = \"0 bit/s\"", "traffic[0].sends"),
        (
            "kind = \"bulk\"",
            "kind = \"constant\", rate = \"1 Mbit/s\", packet = \"70 kB\"",
            "traffic[0].sends",
        ),
        ("kind = \"bulk\"", "kind = \"dummies\", per_second = 1e-12", "traffic[0].sends"),
        ("kind = \"bulk\"", "kind = \"short\", per_second = 1, shape = 1.0", "traffic[0].sends"),
        (
            "kind = \"bulk\" }",
            "kind = \"bulk\" }\ntcp = { initial_window = 9000000000000 }",
            "traffic[0].tcp",
        ),
        ("delay = \"10 ms\"", "delay = \"110000 d\"", "link[0].delay"),
        ("round_trip = \"60 ms\"", "round_trip = \"60 d\"", "traffic[1].round_trip"),
    ] {
        assert!(SMALL.contains(line), "{line}");
        let error = plan(&SMALL.replacen(line, instead, 1)).err().unwrap_or_default();
        assert!(error.contains(wanted), "{instead}: {error:?} has no {wanted:?}");
    }
}

#[test]
fn calls_are_better_where_links_have_classes() {
    let with_classes = run(SMALL);
    let without = run(&SMALL.replace("queue = \"rate-delay\"", ""));
    let of = |findings: &Findings, measure: &str, flow: &str| {
        findings.value(measure, Some(flow)).unwrap_or_else(|| panic!("{measure} of {flow}"))
    };
    assert!(of(&with_classes, "mos", "calls") > 4.1, "{}", of(&with_classes, "mos", "calls"));
    assert!(of(&without, "mos", "calls") < 3.9, "{}", of(&without, "mos", "calls"));
    assert!(of(&with_classes, "sojourn-max", "low-delay") <= 10.0);
    assert!(of(&without, "sojourn-max", "low-delay") > 100.0);
    assert!(of(&with_classes, "flow-rate", "many") > 0.9 * of(&without, "flow-rate", "many"));
    let used = with_classes.value("utilization", None).expect("it was measured");
    // The packet in transmission at either end counts as a whole.
    assert!((0.9..=1.001).contains(&used), "{used}");
}

#[test]
fn paths_of_many_links_are_ways_through_each() {
    let two = SMALL.replace(
        "[[traffic]]\nname = \"many\"",
        "[[link]]\nname = \"edge\"\nrate = \"100 Mbit/s\"\ndelay = \"5 ms\"\ncount = 3\n\n[[traffic]]\nname = \"many\"",
    );
    let far = two.replace(
        "path = [\"core\"]\ncount = 20\nround_trip = \"60 ms\"",
        "path = [\"core\", \"edge\"]\ncount = 20",
    );
    let findings = run(&far);
    let one_way_max = findings.value("one-way-max", Some("calls")).expect("calls arrived");
    assert!(
        (25.0..=40.0).contains(&one_way_max),
        "10 ms, three times 5 ms and at most 10 ms of waiting: {one_way_max} ms"
    );
    let each = far.replace("[\"core\", \"edge\"]\ncount = 20", "[\"edge\"]\neach = true\ncount = 2");
    let plan = plan(&each).expect("it is right");
    assert_eq!(plan.traffics[1].flows.len(), 6, "two on each of three links");
}

#[test]
fn the_same_seed_comes_to_the_same() {
    assert_eq!(run(SMALL), run(SMALL));
}
