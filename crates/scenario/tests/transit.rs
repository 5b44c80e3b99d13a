//! Tests of a relay that passes on packets between two others.

use byway_scenario::{FlowOutcome, Scenario};

/// A call over two relays that are far from each other, and near a third one.
const CALL: &str = r#"
title = "A call over two relays with a third one between them"
length = "30 s"
node = [
    { name = "caller", role = "agent" },
    { name = "friend", role = "agent" },
    { name = "near", role = "relay" },
    { name = "far", role = "relay" },
    { name = "middle", role = "relay", transit = true },
]
link = [
    { between = ["caller", "friend"], delay = "120 ms" },
    { between = ["caller", "near"], delay = "5 ms" },
    { between = ["near", "far"], delay = "100 ms" },
    { between = ["near", "middle"], delay = "20 ms" },
    { between = ["middle", "far"], delay = "20 ms" },
    { between = ["far", "friend"], delay = "5 ms" },
]
flow = [
    { name = "call", from = "caller", to = "friend", service = "forwarding",
      sends = { kind = "steady", every = "20 ms", bytes = 300 } },
]
"#;

/// Runs the call with `instead` in place of the setting of the relay between the others.
fn run(instead: &str) -> FlowOutcome {
    let text = CALL.replacen(", transit = true", instead, 1);
    let scenario = Scenario::parse(&text).unwrap_or_else(|problem| panic!("{problem}"));
    scenario.run(1).expect("all machines are joined").flows.remove(0)
}

fn median_delay(call: &FlowOutcome) -> f64 {
    assert_eq!((call.missing, call.late), (0, 0), "{call:?}");
    call.delay_ms.expect("packets arrived").p50
}

#[test]
fn a_relay_between_two_others_shortens_the_delay_if_it_passes_on_packets() {
    let call = run(", transit = true");
    // 5 + 20 + 20 + 5 ms.
    assert!((50.0..=51.0).contains(&median_delay(&call)), "{call:?}");
    for off in ["", ", transit = false"] {
        let call = run(off);
        // 5 + 100 + 5 ms.
        assert!((110.0..=111.0).contains(&median_delay(&call)), "{call:?}");
    }
}
