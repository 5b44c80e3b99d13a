//! Relays that are killed while applications speak: what protects a flow moves to another relay, and status says so.
//!
//! Small here; `make kills` kills each relay twenty times.

#![allow(clippy::disallowed_methods, reason = "tests of the program use clocks and settings")]
#![allow(clippy::print_stderr, reason = "says what was measured")]

mod sites;

use std::time::{Duration, Instant};

use sites::{ALICE, BOB, EAST, Fate, Mode, Plan, Sites, Stream, WEST};

/// How long packets may be lost after a relay's death.
const MOVED: Duration = Duration::from_millis(600);

/// Until when status has to be right.
const SHOWN: Duration = Duration::from_secs(2);

/// What a packet that is lost takes to be repaired: its relay may die meanwhile.
const UNDER_WAY: Duration = Duration::from_millis(300);

const CACHING: usize = 0;
const FORWARDING: usize = 1;

/// How often each relay is killed.
fn kills() -> usize {
    std::env::var("KILLS").ok().map_or(1, |kills| kills.parse().expect("KILLS is a number"))
}

/// Whether the agent's first path is in use again, and the others stand by.
fn is_steady(sites: &Sites, agent: usize, forward: usize) -> bool {
    let paths = sites.mapping(agent, forward)["paths"].as_array().cloned().unwrap_or_default();
    paths.len() == 3 && paths[0]["is_in_use"] == true && paths.iter().all(|path| path["state"] == "accepted")
}

/// Whether an agent's status says that another relay protects a flow, and nothing by the one that is dead.
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

/// Kills a relay, and revives it; when it was killed.
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

/// What a change of paths may cost beside: a lost packet or two whose repair was under way.
const UNDER_WAY_MAX: usize = 2;

fn check(told: &str, fate: &Fate, kills: &[Instant], until: Instant) {
    for (place, killed) in kills.iter().enumerate() {
        let next = kills.get(place + 1).and_then(|next| next.checked_sub(UNDER_WAY)).unwrap_or(until);
        let moved = fate.last_missing(*killed, *killed + SHOWN).map(|sent| sent - *killed);
        eprintln!("{told}: the last one missing after kill {place}: {moved:?}");
        assert!(moved.is_none_or(|moved| moved <= MOVED), "{told}: {moved:?} after kill {place}");
        let after = fate.missing(*killed + SHOWN, next);
        assert!(after <= UNDER_WAY_MAX, "{told}: {after} missing once the relay of kill {place} is back");
    }
    assert_eq!(fate.twice(), 0, "{told}: something came twice");
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
    for (told, stream) in streams {
        check(&told, &stream.finish(), &killed, until);
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
