//! Invalid files, and results of small ones: targets that hold, and controls that miss them.

use std::ops::ControlFlow;
use std::path::Path;

use super::{StatePlan, read};
use crate::findings::Findings;

const SMALL: &str = r#"title = "small"
length = "14 s"
settle = "6 s"

[[link]]
name = "core"
rate = "5 Mbit/s"
delay = "50 ms"

[[traffic]]
name = "viewers"
path = ["core"]
starts = "1 s"
apart = "500 ms"
sends = { kind = "state" }

[[period]]
name = "late"
from = "8 s"
to = "14 s"
traffic = "viewers"
rate = "5 Mbit/s"
within = "2 %"
"#;

fn plan(text: &str) -> Result<StatePlan, String> {
    read(Path::new("small.toml"), text.to_owned()).map_err(|problem| problem.to_string())
}

/// Runs the small file with these changes.
fn run(changes: &[(&str, &str)]) -> Findings {
    let text = changes.iter().fold(SMALL.to_owned(), |text, (before, after)| {
        assert!(text.contains(before), "{before}");
        text.replace(before, after)
    });
    plan(&text).expect("it is right").run(1, &mut |_| ControlFlow::Continue(()))
}

fn of(findings: &Findings, measure: &str, traffic: Option<&str>) -> f64 {
    findings.value(measure, traffic).unwrap_or_else(|| panic!("{measure} was not measured"))
}

const PUBLISHED: (&str, &str) = ("kind = \"state\"", "kind = \"state\", rules = \"published\"");
const CUBIC: (&str, &str) = ("kind = \"state\"", "kind = \"tcp\"");

#[test]
fn what_is_wrong_is_said_with_its_place() {
    for (setting, instead, wanted) in [
        ("path = [\"core\"]", "path = [\"cor\"]", "traffic[0].path: link \"cor\" not found"),
        ("path = [\"core\"]", "path = [\"core\", \"core\"]", "does not start at the end"),
        ("path = [\"core\"]", "path = []", "traffic[0].path: no links"),
        ("rate = \"5 Mbit/s\"\ndelay", "rate = \"5 bit/s\"\ndelay", "link[0].rate: out of range"),
        ("delay = \"50 ms\"", "delay = \"1 ms\"\nkind = \"token-bucket\"", "link[0].delay: out of range"),
        ("delay = \"50 ms\"", "delay = \"50 ms\"\nbuffer = \"1 us\"", "link[0].buffer: out of range"),
        ("delay = \"50 ms\"", "delay = \"50 ms\"\nevery = \"1 ms\"", "link[0].every: out of range"),
        ("delay = \"50 ms\"", "delay = \"50 ms\"\nage = \"6 s\"", "link[0].age: too old"),
        ("delay = \"50 ms\"", "delay = \"50 ms\"\ntarget = \"1 B\"", "link[0].target: out of range"),
        ("delay = \"50 ms\"", "delay = \"50 ms\"\ncount = 31", "link[0].count: too many"),
        ("starts = \"1 s\"", "count = 1001", "traffic[0].count: too many"),
        ("kind = \"state\"", "kind = \"state\", acks = 17", "17 packets for an acknowledgment"),
        ("settle = \"6 s\"", "settle = \"14 s\"", "length: 14 s is out of range"),
        ("to = \"14 s\"", "to = \"8 s\"", "period[0].to: out of range"),
        ("traffic = \"viewers\"", "traffic = \"others\"", "period[0].traffic: traffic \"others\""),
        ("traffic = \"viewers\"\n", "", "traffic and rate belong together"),
    ] {
        assert!(SMALL.contains(setting), "{setting}");
        let error = plan(&SMALL.replacen(setting, instead, 1)).err().unwrap_or_default();
        assert!(error.contains(wanted), "{instead}: {error:?} has no {wanted:?}");
    }
}

#[test]
fn a_sender_with_state_fills_links_of_both_kinds_and_one_packet_waits() {
    for kind in ["store-and-forward", "token-bucket"] {
        let link = format!("delay = \"50 ms\"\nkind = \"{kind}\"");
        let findings = run(&[("delay = \"50 ms\"", link.as_str())]);
        assert!(of(&findings, "use", None) >= 0.98, "{kind}: {}", of(&findings, "use", None));
        let waits = ["wait-median", "wait-high"].map(|measure| of(&findings, measure, None));
        assert!(waits[0] <= 1.0 && waits[1] <= 2.0, "{kind}: {waits:?}");
        // S/R and two packets: 7.2 ms.
        let excess = of(&findings, "round-trip-excess", Some("viewers"));
        assert!((0.0..=7.2).contains(&excess), "{kind}: {excess}");
        assert!(
            of(&findings, "deviation@late", None) <= 0.02 && of(&findings, "settled@late", None) <= 100.0
        );
    }
}

#[test]
fn controls_of_a_single_flow_miss_its_targets() {
    let cubic = run(&[CUBIC]);
    assert!(of(&cubic, "wait-high", None) > 2.0 && of(&cubic, "round-trip-excess", Some("viewers")) > 7.2);
    let bunched = run(&[("kind = \"state\"", "kind = \"state\", rules = \"published\", acks = 10")]);
    assert!(of(&bunched, "use", None) < 0.97, "{}", of(&bunched, "use", None));
    let shown = ("delay = \"50 ms\"", "delay = \"50 ms\"\nbuffer = \"2 s\"\nshown = \"7.5 Mbit/s\"");
    let overstated = [run(&[shown]), run(&[shown, PUBLISHED])];
    let waits = overstated.each_ref().map(|findings| of(findings, "wait-median", None));
    assert!(waits[0] <= 2.0 && waits[1] > 10.0, "{waits:?}");
    let understated = run(&[("delay = \"50 ms\"", "delay = \"50 ms\"\nshown = \"4 Mbit/s\"")]);
    assert!(of(&understated, "use", None) < 0.9, "{}", of(&understated, "use", None));
}

#[test]
fn two_flows_share_a_link_and_old_state_makes_published_ones_oscillate() {
    let two = ("path = [\"core\"]\n", "path = [\"core\"]\ncount = 2\n");
    let fresh = run(&[two]);
    assert!(of(&fresh, "fairness", None) >= 0.99 && of(&fresh, "variation", None) <= 0.05);
    let aged = ("delay = \"50 ms\"", "delay = \"50 ms\"\nage = \"1 s\"\nbuffer = \"2 s\"");
    let longer = ("length = \"14 s\"\nsettle = \"6 s\"", "length = \"30 s\"\nsettle = \"15 s\"");
    let old = [run(&[two, aged, longer]), run(&[two, aged, longer, PUBLISHED])];
    let uses = old.each_ref().map(|findings| of(findings, "use", None));
    let variations = old.each_ref().map(|findings| of(findings, "variation", None));
    assert!(uses[0] >= 0.98 && uses[1] < 0.9, "{uses:?}");
    assert!(variations[0] <= 0.05 && variations[1] > 0.1, "{variations:?}");
}

#[test]
fn flows_that_begin_at_one_instant_ramp_up_and_published_ones_do_not() {
    let together = [
        ("path = [\"core\"]\n", "path = [\"core\"]\ncount = 5\n"),
        ("apart = \"500 ms\"\n", ""),
        ("from = \"8 s\"", "from = \"1 s\""),
        ("delay = \"50 ms\"", "delay = \"50 ms\"\nbuffer = \"10 s\""),
    ];
    let peak = |changes: &[(&str, &str)]| {
        let findings = run(changes);
        (of(&findings, "wait-peak@late", None), of(&findings, "wait-until-3@late", None))
    };
    let (ramped, until) = peak(&together);
    assert!(ramped <= 12.0 && until <= 3_000.0, "{ramped} until {until}");
    let (published, _) = peak(&[together.as_slice(), &[PUBLISHED]].concat());
    assert!(published > 12.0, "{published}");
}

const MIXED: &str = r#"title = "mixed"
length = "24 s"
settle = "5 s"

[[link]]
name = "core"
rate = "5 Mbit/s"
delay = "50 ms"
queues = "by-flows"

[[traffic]]
name = "viewer"
path = ["core"]
starts = "1 s"
sends = { kind = "state" }

[[traffic]]
name = "rival"
path = ["core"]
starts = "8 s"
sends = { kind = "tcp" }

[[period]]
name = "beside"
from = "14 s"
to = "24 s"
traffic = "viewer"
rate = "2.5 Mbit/s"
"#;

#[test]
fn beside_tcp_a_flow_has_its_share_in_two_queues_and_next_to_nothing_in_one() {
    let run = |text: &str| plan(text).expect("it is right").run(1, &mut |_| ControlFlow::Continue(()));
    let two = run(MIXED);
    assert!(of(&two, "deviation@beside", None) <= 0.05, "{}", of(&two, "deviation@beside", None));
    // S/R and two packets at 2.5 Mbit/s: 14.4 ms.
    assert!(of(&two, "round-trip-excess@beside", Some("viewer")) <= 14.4);
    assert!(of(&two, "rate@beside", Some("rival")) > 2.0);
    let one = run(&MIXED.replace("queues = \"by-flows\"", "buffer = \"2400 ms\""));
    assert!(of(&one, "rate@beside", Some("viewer")) < 1.0);
    assert!(of(&one, "round-trip-median@beside", Some("viewer")) > 1_000.0);
}

#[test]
fn random_traffic_has_its_rate_and_the_shown_rate_leaves_it_out() {
    let text = MIXED.replace("kind = \"tcp\"", "kind = \"poisson\", rate = \"1 Mbit/s\"");
    let findings = plan(&text).expect("it is right").run(1, &mut |_| ControlFlow::Continue(()));
    let rival = of(&findings, "rate@beside", Some("rival"));
    assert!((0.85..=1.15).contains(&rival), "{rival}");
    let viewer = of(&findings, "rate@beside", Some("viewer"));
    assert!((3.2..=4.2).contains(&viewer), "{viewer}");
    assert!(of(&findings, "wait-high@beside", None) <= 6.0);
}

#[test]
fn the_same_seed_yields_the_same() {
    let changes = [("path = [\"core\"]\n", "path = [\"core\"]\njitter = \"1 ms\"\ntoggles = \"10 %\"\n")];
    assert_eq!(run(&changes), run(&changes));
}
