//! Tests of uplinks without the capacity for every packet twice: calls over them are as good as
//! without the overlay.

use byway_scenario::{FlowOutcome, Outcome, Quantiles, Scenario};

/// A call of 450 kbit/s over an uplink of 1.2 times that rate, and its outcome without an overlay.
const CALL: &str = r#"
title = "A call over a narrow uplink"
length = "20 s"
node = [
    { name = "caller", role = "agent" },
    { name = "modem", role = "router" },
    { name = "friend", role = "agent" },
    { name = "near", role = "relay" },
    { name = "far", role = "relay" },
]

[[link]]
name = "uplink"
between = ["caller", "modem"]
delay = "1 ms"
jitter = "5 ms"
rate = "550 kbit/s"

[[link]]
name = "direct"
between = ["modem", "friend"]
delay = "40 ms"
jitter = "5 ms"
loss = []

[[link]]
name = "to-near"
between = ["modem", "near"]
delay = "8 ms"
jitter = "5 ms"
loss = [{ share = "1 %" }]

[[link]]
between = ["near", "far"]
delay = "30 ms"

[[link]]
between = ["far", "friend"]
delay = "8 ms"

[[flow]]
name = "call"
from = "caller"
to = "friend"
service = "caching"
sends = { kind = "steady", every = "10 ms", bytes = 500 }

[[expect]]
flow = "call"
measure = "missing"
at_most = "0"

[[expect]]
flow = "call"
measure = "delay-p99"
at_most = "60 ms"
"#;

fn run(text: &str) -> Outcome {
    run_with(text, 1)
}

fn run_with(text: &str, seed: u64) -> Outcome {
    let scenario = Scenario::parse(text).unwrap_or_else(|problem| panic!("{problem}"));
    scenario.run(seed).expect("all machines are joined")
}

fn delays(call: &FlowOutcome) -> Quantiles {
    call.delay_ms.expect("packets came")
}

/// The first flow of a scenario, with each of a few seeds.
fn calls(text: &str) -> Vec<FlowOutcome> {
    let scenario = Scenario::parse(text).unwrap_or_else(|problem| panic!("{problem}"));
    let run = |seed| scenario.run(seed).expect("all machines are joined").flows.remove(0);
    (1..=9).map(run).collect()
}

fn changed(what: &str, into: &str) -> String {
    assert!(CALL.contains(what), "{what}");
    CALL.replace(what, into)
}

#[test]
fn a_call_over_a_narrow_uplink_is_as_good_as_without_the_overlay() {
    for rate in ["550 kbit/s", "690 kbit/s", "870 kbit/s"] {
        let outcome = run(&changed("550 kbit/s", rate));
        assert!(outcome.is_met(), "{rate}: {outcome:#?}");
    }
}

#[test]
fn trains_that_lose_packets_do_not_harm() {
    let outcome = run(&changed("share = \"1 %\"", "share = \"20 %\""));
    assert!(outcome.is_met(), "{outcome:#?}");
}

#[test]
fn trains_that_lose_packets_are_enough() {
    // All four packets of a train arrive in 13 of 100, and one of its two pairs in 59. Arrivals
    // reveal an uplink with capacity for copies in the few seconds that some trains take.
    let text = changed("share = \"1 %\"", "share = \"40 %\"").replace("550 kbit/s", "3 Mbit/s");
    let scenario = Scenario::parse(&text).unwrap_or_else(|problem| panic!("{problem}"));
    let is_copied = |seed: &u64| {
        let outcome = scenario.run(*seed).expect("all machines are joined");
        outcome.flows[0].relay_share.expect("packets were sent") > 0.05
    };
    let copied = (1..=12).filter(is_copied).count();
    assert!(copied >= 5, "with {copied} of 12 seeds");
}

#[test]
fn a_call_that_begins_with_its_session_is_late_for_a_moment_only() {
    let outcome = run(&changed("bytes = 500", "bytes = 500, begin = \"0 s\""));
    let call = &outcome.flows[0];
    // Without a session, an agent cannot send.
    assert!(call.missing <= 10 && delays(call).p95 < 80.0, "{call:#?}");
}

#[test]
fn losses_are_repaired_by_uplinks_that_bear_it() {
    for rate in ["1150 kbit/s", "10 Mbit/s", "1 Gbit/s"] {
        let text = changed("550 kbit/s", rate).replace("loss = []", "loss = [{ share = \"1 %\" }]");
        let calls = calls(&text);
        assert!(calls.iter().all(|call| call.lost_direct > 10), "{rate}: {calls:#?}");
        // An uplink with just enough capacity for the copies may seem too narrow for some seconds,
        // in one call of twelve.
        let (missing, most) = if rate == "1150 kbit/s" { (1, 2) } else { (0, 0) };
        let lossy = calls.iter().filter(|call| call.missing > missing).count();
        assert!(lossy <= most, "{rate}: {calls:#?}");
    }
}

#[test]
fn an_uplink_that_becomes_narrow_is_found_out() {
    let slower = "\n[[step]]\nat = \"6 s\"\ndo = \"change\"\nbetween = [\"caller\", \"modem\"]\nrate = \"550 kbit/s\"\n";
    let calls = calls(&(changed("550 kbit/s", "10 Mbit/s") + slower));
    // One run loses up to twice as many as another, because the backlog at the time of a packet
    // train is random.
    let count = calls.len() as u64;
    let (lost, missing) = calls.iter().fold((0, 0), |(lost, missing), call| {
        assert!(delays(call).p50 < 60.0, "{call:#?}");
        (lost + call.lost_direct, missing + call.missing)
    });
    assert!(lost <= 30 * count && missing <= 20 * count, "{lost} lost and {missing} missing in {count} runs");
}

#[test]
fn calls_that_share_an_uplink_are_copied_if_it_bears_all_of_them() {
    let two = CALL.replace("sends =", "count = 2\nsends =");
    for (rate, is_copied) in [("1100 kbit/s", false), ("3 Mbit/s", true)] {
        let outcome = run(&two.replace("550 kbit/s", rate));
        let share = outcome.flows[0].relay_share.expect("packets were sent");
        assert!(outcome.is_met() && (share > 0.5) == is_copied, "{rate}: {outcome:#?}");
    }
}

#[test]
fn an_outage_behind_an_uplink_too_narrow_for_copies_is_repaired() {
    // With all headers, 300 packets in three seconds take 446 kbit/s.
    for service in ["caching", "coding", "retransmission", "pull"] {
        let mut calls = Vec::new();
        for rate in ["670 kbit/s", "780 kbit/s"] {
            for jitter in ["0 ms", "5 ms"] {
                // The stream begins after three seconds.
                for at in ["3 s", "4 s", "12 s"] {
                    let text = changed("550 kbit/s", rate)
                        .replace("jitter = \"5 ms\"", &format!("jitter = \"{jitter}\""))
                        .replace("loss = []", &format!("outage = [{{ at = \"{at}\", for = \"3 s\" }}]"))
                        .replace("service = \"caching\"", &format!("service = \"{service}\""));
                    calls.extend((1..=3).map(|seed| run_with(&text, seed).flows.remove(0)));
                }
            }
        }
        // Most source packets are withheld, and none of them is lost. In one run of 36, the uplink
        // has a queue when the outage begins, so that the copies begin later.
        let late = calls.iter().filter(|call| call.missing > 36).count();
        let is_bridged = |call: &FlowOutcome| call.missing <= 100 && call.repaired >= 30;
        assert!(late <= 1 && calls.iter().all(is_bridged), "{service}: {calls:#?}");
    }
}
