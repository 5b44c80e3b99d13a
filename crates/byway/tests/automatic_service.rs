//! Flows whose agent chooses their service, with real processes.

#![allow(clippy::disallowed_methods, reason = "tests of the program use clocks")]

mod sites;

use std::time::{Duration, Instant};

use sites::{ALICE, BOB, CONTROLLER, Mode, Plan, Sites};

/// Runs a call over a direct path of 40 ms that loses one packet in fifty. Its forward leaves the
/// service to the agent, within this latency budget in milliseconds. Checks the chosen service, and
/// that the receiver counts repairs by it.
fn chooses(mode: Mode, budget: u32, service: &str, repairs: &str) {
    let keys = format!("service = \"auto\"\nlatency_budget = \"{budget} ms\"");
    let plan = Plan {
        mode,
        direct: "loss = [{ share = \"2 %\" }]".to_owned(),
        uplink: String::new(),
        access: None,
        forwards: vec![keys.clone(), keys],
    };
    let Some(sites) = Sites::start(plan) else {
        return;
    };
    sites.wait_for("the path through the nearest relays is in use", || {
        let stream = sites.begin(ALICE, 0);
        std::thread::sleep(Duration::from_millis(500));
        stream.finish();
        let paths = sites.mapping(ALICE, 0)["paths"].as_array().cloned().unwrap_or_default();
        paths
            .iter()
            .any(|path| path["is_in_use"] == true && path["ingress"] == "east" && path["egress"] == "west")
    });
    let stream = sites.begin(ALICE, 1);
    sites.wait_for("the agent chooses", || {
        let mapping = sites.mapping(ALICE, 1);
        mapping["service"] == service && mapping["service_reason"].is_string()
    });
    // Changes are five seconds apart at least.
    std::thread::sleep(Duration::from_secs(9));
    assert_eq!(sites.mapping(ALICE, 1)["service"], service, "it stays");
    let fate = stream.finish();
    let received = &sites.status(BOB)["totals"][0]["received"];
    let (missing, twice) = (fate.missing(fate.sent[0], Instant::now()), fate.twice());
    assert!(missing * 200 <= fate.sent.len() && twice == 0, "{missing} missing, {twice} twice: {received}");
    assert!(received[repairs].as_u64().is_some_and(|count| count >= 3), "{received}");
}

#[test]
fn within_a_wide_budget_the_sender_repairs_in_a_managed_network() {
    chooses(Mode::Managed, 250, "retransmission", "resent");
}

#[test]
fn within_a_wide_budget_the_sender_repairs_in_a_static_network() {
    chooses(Mode::Static, 250, "retransmission", "resent");
}

#[test]
fn within_a_tight_budget_a_cache_near_the_receiver_repairs() {
    chooses(Mode::Managed, 110, "caching", "cached");
}

/// Begin of the short outages that degrade the direct path, after the death of the controller, and
/// the time between them: each loses two packets. An agent may change a flow's service only 5 s
/// after the last change.
const DEGRADED_AT: Duration = Duration::from_secs(6);
const DEGRADED_EVERY: Duration = Duration::from_millis(250);

/// Number of these outages, which last for eight seconds.
const DEGRADATIONS: u32 = 32;

/// Longest time in which an agent selects the service of a clean path. It does not leave the
/// initial one before half a minute without losses.
const SELECTED_WITHIN: Duration = Duration::from_secs(90);

/// Time within which an agent replaces a service that misses its flow's budget.
const REPLACED_WITHIN: Duration = Duration::from_secs(2);

#[test]
fn without_its_controller_an_agent_replaces_the_service_of_a_path_that_degrades() {
    let outage = |number: u32| {
        let at = DEGRADED_AT + DEGRADED_EVERY * number;
        format!("{{ at = \"{} ms\", for = \"20 ms\" }}", at.as_millis())
    };
    let outages: Vec<String> = (0..DEGRADATIONS).map(outage).collect();
    let plan = Plan {
        mode: Mode::Managed,
        direct: format!("outage = [{}]", outages.join(", ")),
        uplink: String::new(),
        access: None,
        forwards: vec!["service = \"auto\"\nlatency_budget = \"110 ms\"".to_owned()],
    };
    let Some(mut sites) = Sites::start(plan) else {
        return;
    };
    let stream = sites.begin(ALICE, 0);
    sites.wait_at_most(SELECTED_WITHIN, "the agent selects the service of a clean path", || {
        sites.mapping(ALICE, 0)["service"] == "retransmission"
    });
    sites.kill(CONTROLLER);
    sites.begin_links();
    sites.wait_for("the path degrades", || sites.age() >= DEGRADED_AT);
    assert_eq!(sites.mapping(ALICE, 0)["service"], "retransmission", "nothing was lost until now");
    sites.wait_for("the agent replaces it", || sites.mapping(ALICE, 0)["service"] != "retransmission");
    let (replaced, degraded_from) = (sites.age(), Instant::now());
    assert!(replaced <= DEGRADED_AT + REPLACED_WITHIN, "{replaced:?}");
    std::thread::sleep(Duration::from_secs(4));
    let fate = stream.finish();
    let received = &sites.status(BOB)["totals"][0]["received"];
    let repaired: u64 = ["cached", "forwarded"].iter().filter_map(|kind| received[*kind].as_u64()).sum();
    assert!(repaired >= 20, "{received}");
    let missing = fate.missing(degraded_from + Duration::from_millis(200), Instant::now());
    assert_eq!((missing, fate.twice()), (0, 0), "{received}");
}
