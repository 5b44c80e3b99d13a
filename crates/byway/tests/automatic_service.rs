//! Flows whose agent chooses their service, with real processes.

#![allow(clippy::disallowed_methods, reason = "tests of the program use clocks")]

mod sites;

use std::time::{Duration, Instant};

use sites::{ALICE, BOB, CONTROLLER, Mode, Plan, Sites};

/// Fate of the controller when a flow begins.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Controller {
    Lives,
    Dies,
}

/// Runs a call over a direct path of 40 ms that loses one packet in fifty. Its forward leaves the
/// service to the agent, within this latency budget in milliseconds. Checks the selected service,
/// and that the receiver counts repairs by it.
fn selects(mode: Mode, controller: Controller, budget: u32, service: &str, repairs: &str) {
    let keys = format!("service = \"auto\"\nlatency_budget = \"{budget} ms\"");
    let plan = Plan {
        mode,
        direct: "loss = [{ share = \"2 %\" }]".to_owned(),
        uplink: String::new(),
        access: None,
        forwards: vec![keys.clone(), keys],
    };
    let Some(mut sites) = Sites::start(plan) else {
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
    if controller == Controller::Dies {
        sites.kill(CONTROLLER);
    }
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
    selects(Mode::Managed, Controller::Lives, 250, "retransmission", "resent");
}

#[test]
fn within_a_wide_budget_the_sender_repairs_in_a_static_network() {
    selects(Mode::Static, Controller::Lives, 250, "retransmission", "resent");
}

#[test]
fn within_a_tight_budget_a_cache_near_the_receiver_repairs() {
    selects(Mode::Managed, Controller::Lives, 110, "caching", "cached");
}

#[test]
fn without_its_controller_an_agent_selects_services() {
    selects(Mode::Managed, Controller::Dies, 110, "caching", "cached");
}
