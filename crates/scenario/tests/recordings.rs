//! Tests of recordings in scenarios: capacities, delays and frames.

use std::io;
use std::path::Path;

use byway_scenario::{Outcome, Scenario};

/// Runs two agents with this link from one to the other, and a flow with this traffic and a budget
/// of a second.
fn run(link: &str, sends: &str, recorded: &str) -> Outcome {
    let text = format!(
        r#"
title = "A recording"
length = "20 s"
node = [{{ name = "alice", role = "agent" }}, {{ name = "bob", role = "agent" }}]

[[link]]
from = "alice"
to = "bob"
{link}

[[link]]
from = "bob"
to = "alice"
delay = "20 ms"

[[flow]]
name = "call"
from = "alice"
to = "bob"
service = "internet"
budget = "1 s"
sends = {{ {sends}, begin = "3 s" }}
"#
    );
    let scenario = Scenario::read(Path::new("call.toml"), &|file| match file.to_str() {
        Some("call.toml") => Ok(text.clone()),
        Some("recorded.txt") => Ok(recorded.to_owned()),
        _ => Err(io::ErrorKind::NotFound.into()),
    });
    let scenario = scenario.unwrap_or_else(|problem| panic!("{problem}"));
    scenario.run(1).expect("both are joined")
}

const STEADY: &str = "kind = \"steady\", every = \"10 ms\", bytes = 1_000";

#[test]
fn a_recorded_capacity_passes_what_it_passed_then_and_the_rest_waits_or_is_lost() {
    // 1,500 bytes each 20 ms, and for two seconds of ten no capacity at all.
    let recorded: Vec<String> =
        (1..=500).filter(|tick| !(200..300).contains(tick)).map(|tick| (tick * 20).to_string()).collect();
    let outcome =
        run("delay = \"5 ms\"\ncapacity = \"recorded.txt\"\nqueue = \"30 kB\"", STEADY, &recorded.join("\n"));
    let (call, link) = (&outcome.flows[0], &outcome.links[0]);
    assert_eq!((link.from.as_str(), link.to.as_str()), ("alice", "bob"));
    // Packets of about 1,060 bytes each 10 ms are 106 kB/s; the link passes 75 kB/s of these while
    // it has capacity.
    let lost = link.lost.get("queue_full").copied().unwrap_or_default();
    assert!((600..900).contains(&lost) && call.missing.abs_diff(lost) < 60, "{lost}: {call:#?}");
    assert!(link.queue_bytes_max.is_some_and(|bytes| (28_500..=30_000).contains(&bytes)), "{link:#?}");
    // Of 800 opportunities, those of the first three seconds and the last one are not used.
    assert!(link.utilisation.is_some_and(|used| (0.7..0.85).contains(&used)), "{link:#?}");
    let delays = call.delay_ms.expect("packets came");
    assert!(delays.p50 > 300.0 && delays.p99 > 2_000.0, "a full queue waits for two seconds: {delays:?}");
    let counted = link.delivered + link.lost.values().sum::<u64>();
    assert!(link.sent - counted < 60, "{link:#?}");
}

#[test]
fn measured_delays_are_met_again_and_what_was_late_is_lost() {
    let recorded = "0 30\n1000 60\n1500 250\n1600 lost\n1700 40\n2000 40\n";
    let delays =
        |late: &str| run(&format!("delays = {{ trace = \"recorded.txt\"{late} }}"), STEADY, recorded);
    let outcome = delays(", late = \"200 ms\"");
    let call = &outcome.flows[0];
    // The recording repeats after 2.4 s: in 16 s, packets of 0.2 s in each 2.4 s are lost.
    assert!((110..150).contains(&call.missing) && call.missing == call.lost_direct, "{call:#?}");
    let lost = outcome.links[0].lost.get("random").copied().unwrap_or_default();
    assert!(
        (call.missing..call.missing + 20).contains(&lost),
        "and some of what agents say to each other: {lost}"
    );
    let times = call.delay_ms.expect("packets came");
    assert_eq!((times.p50, times.p95), (40.0, 60.0));
    let kept = delays("");
    let call = &kept.flows[0];
    assert!((50..80).contains(&call.missing), "those that were lost then alone: {call:#?}");
    assert!(call.delay_ms.is_some_and(|times| (240.0..=250.0).contains(&times.p99)), "{call:#?}");
}

#[test]
fn recorded_frames_are_sent_whole() {
    let sends = |pace: &str| {
        format!("kind = \"frames\", every = \"40 ms\", bytes = 1_000, file = \"recorded.txt\"{pace}")
    };
    let recorded = "# two frames\n2500 I\n400 P\n";
    let outcome = run("delay = \"5 ms\"", &sends(""), recorded);
    let call = &outcome.flows[0];
    // 16 s have 400 frames, of 1,450 bytes and two packets in the mean.
    assert_eq!((call.sent, call.app_bytes, call.missing), (800, 400 * 1_450, 0));
    let spread = run("delay = \"5 ms\"", &sends(", pace = \"60 %\""), recorded);
    let paced = &spread.flows[0];
    assert!(paced.sent.abs_diff(800) <= 2 && paced.missing == 0, "{paced:#?}");
    // Back to back, three packets queue at 1 Mbit/s; 8 ms apart, they hardly do.
    let slow = |sends: &str| run("rate = \"1 Mbit/s\"", sends, recorded).links[0].queue_bytes_max;
    assert!(slow(&sends("")) > Some(2_500) && slow(&sends(", pace = \"60 %\"")) < Some(2_200));
}
