//! Tests of access links with random losses, such as Wi-Fi and LTE: relays behind them repair the
//! losses.

use byway_scenario::{FlowOutcome, Scenario};

/// A call of 408 kbit/s between two sites. `{sender}` and `{receiver}` are the losses of their
/// access links.
const CALL: &str = r#"
title = "A call over a lossy access line"
length = "40 s"
node = [
    { name = "caller", role = "agent" },
    { name = "modem", role = "router" },
    { name = "access", role = "router" },
    { name = "friend", role = "agent" },
    { name = "near", role = "relay" },
    { name = "far", role = "relay" },
]

[[link]]
between = ["caller", "modem"]
delay = "3 ms"
jitter = "2 ms"
rate = "20 Mbit/s"
loss = [{ share = "{sender}" }]

[[link]]
between = ["access", "friend"]
delay = "3 ms"
jitter = "2 ms"
rate = "20 Mbit/s"
loss = [{ share = "{receiver}" }]

[[link]]
between = ["modem", "access"]
delay = "40 ms"

[[link]]
between = ["modem", "near"]
delay = "5 ms"

[[link]]
between = ["near", "far"]
delay = "35 ms"

[[link]]
between = ["far", "access"]
delay = "5 ms"

[[flow]]
name = "call"
from = "caller"
to = "friend"
budget = "250 ms"
service = "{service}"
sends = { kind = "steady", every = "20 ms", bytes = 1000 }
"#;

/// Seeds of each arrangement: a cause that delays copies occurs in some runs only.
const SEEDS: [u64; 6] = [1, 2, 3, 4, 5, 6];

fn run(service: &str, sender: &str, receiver: &str, seed: u64) -> FlowOutcome {
    let text = CALL.replace("{service}", service).replace("{sender}", sender).replace("{receiver}", receiver);
    let scenario = Scenario::parse(&text).unwrap_or_else(|problem| panic!("{problem}"));
    scenario.run(seed).expect("all machines are joined").flows.remove(0)
}

/// Checks the share of lost packets delivered within the budget, in all runs together. It is at
/// least this many percent if 10, 20 and 30 % are lost on the lossy access links.
fn check_repaired(service: &str, [sender, receiver]: [bool; 2], floors: [u64; 3]) {
    for (loss, floor) in ["10 %", "20 %", "30 %"].into_iter().zip(floors) {
        let of = |loses: bool| if loses { loss } else { "0 %" };
        let calls = SEEDS.map(|seed| run(service, of(sender), of(receiver), seed));
        assert!(calls.iter().all(|call| call.lost_direct > 100), "{loss}: {calls:#?}");
        let sum = |count: fn(&FlowOutcome) -> u64| calls.iter().map(count).sum::<u64>();
        let percent = sum(|call| call.repaired) * 100 / sum(|call| call.lost_direct);
        assert!(percent >= floor, "{service}, {loss}: {percent} %, {calls:#?}");
    }
}

#[test]
fn losses_of_the_senders_access_link_are_repaired() {
    for service in ["caching", "both"] {
        check_repaired(service, [true, false], [97, 92, 85]);
    }
}

#[test]
fn losses_of_the_receivers_access_link_are_repaired() {
    for service in ["caching", "both"] {
        check_repaired(service, [false, true], [97, 92, 85]);
    }
}

#[test]
fn losses_of_both_access_links_are_repaired() {
    // If both access links lose 30 %, half of the packets are lost, and half of their copies reach
    // the far relay late or not at all.
    check_repaired("caching", [true, true], [97, 92, 80]);
    check_repaired("both", [true, true], [97, 92, 85]);
}

#[test]
fn everything_is_forwarded_however_much_an_access_link_loses() {
    for seed in SEEDS {
        for (loss, missing) in [("10 %", 5), ("20 %", 40), ("30 %", 130)] {
            let call = run("forwarding", loss, "0 %", seed);
            // Each packet leaves two relays, once more if it is requested again; an access link
            // that loses 30 % loses some before the first relay.
            let share = call.relay_share.expect("packets were sent");
            assert!(share > 2.0 && call.missing <= missing, "{loss}, seed {seed}: {call:#?}");
        }
    }
}
