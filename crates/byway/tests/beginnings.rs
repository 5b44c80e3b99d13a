//! Begin of flows on a direct path that loses a third of the packets, with real processes.

#![allow(clippy::disallowed_methods, reason = "tests of the program use clocks")]

mod counters;
mod sites;

use std::time::{Duration, Instant};

use sites::{ALICE, BurstTo, Mode, Plan, Sites};

/// Number of flows, which begin one after the other.
const FLOWS: usize = 5;

/// Round trip of the direct path.
const ROUND_TRIP: Duration = Duration::from_millis(80);

/// Returns the time from an application's first packet to the first that arrives. No packet arrives
/// twice.
fn first_packet(sites: &Sites, forward: usize) -> Duration {
    let begun = Instant::now();
    let stream = sites.begin(ALICE, forward);
    sites.wait_for("a packet arrives", || stream.count() > 0);
    let first = begun.elapsed();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(stream.finish().twice(), 0, "flow {forward}");
    first
}

#[test]
fn flows_begin_within_a_round_trip_and_100_ms_on_a_path_that_loses_a_third() {
    let plan = Plan {
        mode: Mode::Static,
        direct: "loss = [{ share = \"30 %\" }]".to_owned(),
        uplink: String::new(),
        access: None,
        forwards: vec!["service = \"caching\"".to_owned(); FLOWS],
    };
    let Some(sites) = Sites::start(plan) else {
        return;
    };
    sites.wait_for("the agent has its relays", || {
        let relays = sites.status(ALICE)["relays"].as_array().cloned().unwrap_or_default();
        relays.len() == 2 && relays.iter().all(|relay| relay["is_alive"] == true)
    });
    let mut firsts: Vec<Duration> = (0..FLOWS).map(|forward| first_packet(&sites, forward)).collect();
    firsts.sort_unstable();
    let median = firsts[FLOWS / 2];
    assert!(median <= ROUND_TRIP + Duration::from_millis(100), "{firsts:?}");
    let status = sites.status(ALICE);
    assert!(counters::counter(&status, "counters", "early") >= FLOWS as u64, "{status}");
}

#[test]
fn all_datagrams_of_a_burst_from_a_new_port_arrive_as_without_byway() {
    let plan = Plan {
        mode: Mode::Static,
        direct: String::new(),
        uplink: String::new(),
        access: None,
        forwards: vec!["service = \"caching\"".to_owned(); 2],
    };
    let Some(sites) = Sites::start(plan) else {
        return;
    };
    sites.wait_for("the agent has its relays", || {
        let relays = sites.status(ALICE)["relays"].as_array().cloned().unwrap_or_default();
        relays.len() == 2 && relays.iter().all(|relay| relay["is_alive"] == true)
    });
    for (forward, (count, bytes)) in [(1_000, 200), (200, 1_200)].into_iter().enumerate() {
        let without = sites.burst(BurstTo::Machine, count, bytes);
        let by_byway = sites.burst(BurstTo::Forward(forward), count, bytes);
        assert_eq!((without, by_byway), (count as usize, count as usize), "{}", sites.status(ALICE));
    }
    let status = sites.status(ALICE);
    let dropped = |reason: &str| counters::counter(&status, "counters", reason);
    for reason in ["proxy_pending_overflow", "proxy_pending_stale", "proxy_pending_refused"] {
        assert_eq!(dropped(reason), 0, "{reason}");
    }
}
