//! Death of relays during traffic: the protection of a flow moves to another relay, and the status
//! shows it.
//!
//! This is a small version; `make kills` kills each relay twenty times.

#![allow(clippy::disallowed_methods, reason = "tests of the program use clocks and settings")]
#![allow(clippy::print_stderr, reason = "says what was measured")]

mod sites;

use std::time::{Duration, Instant};

use sites::{ALICE, BOB, EAST, Fate, Mode, Plan, Sites, Stream, WEST};

/// Longest time of losses after a relay's death.
const MOVED: Duration = Duration::from_millis(600);

/// Longest time until the status is correct.
const SHOWN: Duration = Duration::from_secs(2);

/// Time that the repair of a lost packet takes, in which its relay may die.
const REPAIR_TIME: Duration = Duration::from_millis(300);

const CACHING: usize = 0;
const FORWARDING: usize = 1;

/// Returns the number of kills of each relay.
fn kills() -> usize {
    std::env::var("KILLS").ok().map_or(1, |kills| kills.parse().expect("KILLS is a number"))
}

/// True if the agent's first path is in use again, and the others are available.
fn is_steady(sites: &Sites, agent: usize, forward: usize) -> bool {
    let paths = sites.mapping(agent, forward)["paths"].as_array().cloned().unwrap_or_default();
    paths.len() == 3 && paths[0]["is_in_use"] == true && paths.iter().all(|path| path["state"] == "accepted")
}

/// True if an agent's status shows that a path without the dead relay protects a flow, and that no
/// path over the dead one is accepted.
fn shows_death(sites: &Sites, agent: usize, forward: usize, dead: &str) -> bool {
    let paths = sites.mapping(agent, forward)["paths"].as_array().cloned().unwrap_or_default();
    let is_through = |path: &serde_json::Value| path["ingress"] == dead || path["egress"] == dead;
    let in_use: Vec<_> = paths.iter().filter(|path| path["is_in_use"] == true).collect();
    in_use.len() == 1
        && !is_through(in_use[0])
        && !paths.iter().any(|path| is_through(path) && path["state"] == "accepted")
}

fn wait_until_steady(sites: &Sites) {
    for (agent, forward) in [(ALICE, CACHING), (ALICE, FORWARDING), (BOB, CACHING), (BOB, FORWARDING)] {
        sites.wait_for("the first path is in use", || is_steady(sites, agent, forward));
    }
}

/// Kills a relay and restarts it; returns the time of the kill.
fn kill_once(sites: &mut Sites, relay: usize) -> Instant {
    wait_until_steady(sites);
    let killed = Instant::now();
    sites.kill(relay);
    let dead = if relay == EAST { "east" } else { "west" };
    for (agent, forward) in [(ALICE, CACHING), (ALICE, FORWARDING), (BOB, CACHING), (BOB, FORWARDING)] {
        while !shows_death(sites, agent, forward, dead) {
            let status = sites.mapping(agent, forward);
            assert!(killed.elapsed() < SHOWN, "{dead} is dead, and status says: {status}");
        }
    }
    std::thread::sleep(SHOWN.saturating_sub(killed.elapsed()));
    sites.revive(relay);
    killed
}

/// Additional losses of a path change: packets whose repair was in progress.
const REPAIRS_LOST_MAX: usize = 2;

fn check(context: &str, fate: &Fate, kills: &[Instant], until: Instant) {
    for (index, killed) in kills.iter().enumerate() {
        let next = kills.get(index + 1).and_then(|next| next.checked_sub(REPAIR_TIME)).unwrap_or(until);
        let moved = fate.last_missing(*killed, *killed + SHOWN).map(|sent| sent - *killed);
        eprintln!("{context}: the last one missing after kill {index}: {moved:?}");
        assert!(moved.is_none_or(|moved| moved <= MOVED), "{context}: {moved:?} after kill {index}");
        let after = fate.missing(*killed + SHOWN, next);
        assert!(
            after <= REPAIRS_LOST_MAX,
            "{context}: {after} missing once the relay of kill {index} is back"
        );
    }
    assert_eq!(fate.twice(), 0, "{context}: a packet arrived twice");
}

fn kill_each_relay(mode: Mode) {
    let plan = Plan {
        mode,
        direct: "loss = [{ share = \"5 %\" }]".to_owned(),
        uplink: String::new(),
        access: None,
        forwards: ["caching", "forwarding"]
            .map(|service| format!("service = \"{service}\"\ncopies = \"all\""))
            .to_vec(),
    };
    let Some(mut sites) = Sites::start(plan) else { return };
    let streams: Vec<(String, Stream)> =
        [(ALICE, CACHING), (BOB, CACHING), (ALICE, FORWARDING), (BOB, FORWARDING)]
            .map(|(from, forward)| {
                (format!("{mode:?}, from {from}, forward {forward}"), sites.begin(from, forward))
            })
            .into();
    let mut killed = Vec::new();
    for _ in 0..kills() {
        for relay in [WEST, EAST] {
            killed.push(kill_once(&mut sites, relay));
        }
    }
    wait_until_steady(&sites);
    let until = Instant::now();
    for (context, stream) in streams {
        check(&context, &stream.finish(), &killed, until);
    }
    let status = sites.status(BOB);
    let received = &status["totals"][0]["received"];
    assert!(
        received["lost_direct"].as_u64() > Some(25) && received["cached"].as_u64() > Some(25),
        "{status}"
    );
}

#[test]
fn whichever_relay_is_killed_flows_of_a_static_network_are_protected_again_within_600_ms() {
    kill_each_relay(Mode::Static);
}

#[test]
fn whichever_relay_is_killed_flows_of_a_managed_network_are_protected_again_within_600_ms() {
    kill_each_relay(Mode::Managed);
}
