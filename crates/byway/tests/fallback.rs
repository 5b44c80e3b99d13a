//! Death of all relays during calls, with real processes: the direct path takes over every service.

#![allow(clippy::disallowed_methods, reason = "tests of the program use clocks")]

mod sites;

use std::time::{Duration, Instant};

use sites::{ALICE, BOB, EAST, Mode, Plan, Sites, WEST};

/// Longest time of losses after the death of all relays.
const MOVED: Duration = Duration::from_millis(600);

/// Time for which the relays are dead.
const DEAD_FOR: Duration = Duration::from_secs(5);

const SERVICES: [&str; 4] = ["forwarding", "both", "caching", "coding"];

const FORWARDING: usize = 0;

fn has_path(sites: &Sites, agent: usize, forward: usize) -> bool {
    let paths = sites.mapping(agent, forward)["paths"].as_array().cloned().unwrap_or_default();
    paths.iter().any(|path| path["is_in_use"] == true)
}

fn forwarded(sites: &Sites) -> u64 {
    let status = sites.status(BOB);
    let mut mappings = status["mappings"].as_array().into_iter().flatten();
    let mapping = mappings.find(|mapping| mapping["service"] == "forwarding");
    mapping.map_or(0, |mapping| mapping["received"]["forwarded"].as_u64().unwrap_or(0))
}

fn kill_all_relays(mode: Mode) {
    let plan = Plan {
        mode,
        direct: String::new(),
        uplink: String::new(),
        access: None,
        forwards: SERVICES.map(|service| format!("service = \"{service}\"")).to_vec(),
    };
    let Some(mut sites) = Sites::start(plan) else { return };
    let streams: Vec<_> = (0..SERVICES.len()).map(|forward| sites.begin(ALICE, forward)).collect();
    for forward in 0..SERVICES.len() {
        sites.wait_for("a path is in use", || has_path(&sites, ALICE, forward));
    }
    sites.wait_for("relays deliver", || forwarded(&sites) > 50);
    let killed = Instant::now();
    for relay in [EAST, WEST] {
        sites.kill(relay);
    }
    std::thread::sleep(DEAD_FOR);
    let mapping = sites.mapping(ALICE, FORWARDING);
    let note = mapping["note"].as_str().unwrap_or_default();
    assert!(
        note.contains("all packets use the direct path") && mapping["service"] == "internet",
        "{mapping}"
    );
    let dead = forwarded(&sites);
    for relay in [EAST, WEST] {
        sites.revive(relay);
    }
    sites.wait_for("relays deliver again", || forwarded(&sites) > dead + 50);
    for (service, stream) in SERVICES.iter().zip(streams) {
        let fate = stream.finish();
        let last = fate.last_missing(killed, Instant::now()).map(|sent| sent - killed);
        assert!(last.is_none_or(|last| last <= MOVED), "{mode:?}, {service}: {last:?} after the death");
        assert_eq!(fate.twice(), 0, "{mode:?}, {service}");
    }
}

#[test]
fn a_static_network_without_relays_has_its_direct_paths() {
    kill_all_relays(Mode::Static);
}

#[test]
fn a_managed_network_without_relays_has_its_direct_paths() {
    kill_all_relays(Mode::Managed);
}
