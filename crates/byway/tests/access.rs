//! Access link that loses packets at random, with real processes: relays repair its losses.

#![allow(clippy::disallowed_methods, reason = "tests of the program use clocks")]

mod sites;

use std::time::{Duration, Instant};

use sites::{ALICE, BOB, Mode, Plan, Sites};

/// Link that the direct path and the relay paths share; it loses a fifth of the packets in each
/// direction.
const LOSSY: &str = "delay = \"3 ms\"\nrate = \"20 Mbit/s\"\nloss = [{ share = \"20 %\" }]";

/// Length of the stream.
const STREAM: Duration = Duration::from_secs(20);

fn repairs_a_lossy_uplink(mode: Mode, service: &str) {
    let plan = Plan {
        mode,
        direct: String::new(),
        uplink: String::new(),
        access: Some(LOSSY.to_owned()),
        forwards: vec![format!("service = \"{service}\"")],
    };
    let Some(sites) = Sites::start(plan) else { return };
    let stream = sites.begin(ALICE, 0);
    sites.wait_for("a path is in use", || {
        let paths = sites.mapping(ALICE, 0)["paths"].as_array().cloned().unwrap_or_default();
        paths.iter().any(|path| path["is_in_use"] == true)
    });
    let begun = Instant::now();
    std::thread::sleep(STREAM);
    let ended = Instant::now();
    let fate = stream.finish();
    let (missing, twice) = (fate.missing(begun, ended), fate.twice());
    let sent = fate.sent.iter().filter(|sent| (begun..ended).contains(sent)).count();
    let received = &sites.status(BOB)["totals"][0]["received"];
    let context = format!("{mode:?}, {service}: {missing} of {sent} missing, {received}");
    // A fifth is lost on the direct path, and at most one in twelve of that is not repaired.
    assert!(missing * 12 * 5 <= sent && twice == 0, "{context}");
    let repaired = ["cached", "forwarded"].map(|kind| received[kind].as_u64().unwrap_or(0));
    assert!(repaired.iter().sum::<u64>() * 10 > sent as u64, "{context}");
}

#[test]
fn losses_of_an_access_link_are_repaired_in_a_static_network() {
    repairs_a_lossy_uplink(Mode::Static, "caching");
}

#[test]
fn losses_of_an_access_link_are_repaired_by_both_paths_in_a_managed_network() {
    repairs_a_lossy_uplink(Mode::Managed, "both");
}
