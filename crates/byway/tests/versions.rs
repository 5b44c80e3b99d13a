//! This version of the program beside the one before it, with real processes: both kinds of networks repair what a path
//! loses, and flows go on while one node after the other changes its version.
//!
//! `BYWAY_PREVIOUS` names the binary of the version before, which scripts/previous.sh builds: run `make versions`.

#![allow(clippy::disallowed_methods, reason = "tests of the program use clocks and settings")]

mod sites;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use sites::{ALICE, BOB, BYWAY, CONTROLLER, EAST, Fate, Mode, Plan, Sites, Stream, WEST};

/// Share of the packets that the direct path loses, in per cent.
const LOSS_PER_CENT: usize = 5;

/// Start of the direct path's outage, after its links began anew, and its length.
const DARK_AT: Duration = Duration::from_secs(2);
const DARK_FOR: Duration = Duration::from_secs(2);

/// Least packets of a stream that the direct path loses: about 200 fall into the outage, and 20 get lost beside it.
const LOST_MIN: usize = 150;

/// Time in which more than the path's own share may be lost, once a node is there again.
const MOVED: Duration = Duration::from_millis(600);

/// Time that the repair of a lost packet takes: the next node may stop meanwhile.
const UNDER_WAY: Duration = Duration::from_millis(300);

/// Packets that may be missing beside: repairs that a busy machine delays.
const MISSING_MAX: usize = 3;

/// Share of its losses, in per cent, that a flow alone in its batches may keep: an outage takes all packets of a batch, which
/// no decoding restores then.
const CODED_MISSING_PER_CENT: usize = 40;

const SERVICES: [&str; 3] = ["caching", "coding", "forwarding"];

fn previous() -> PathBuf {
    let program = std::env::var_os("BYWAY_PREVIOUS");
    program.expect("BYWAY_PREVIOUS names the binary of the version before: run `make versions`").into()
}

/// Most packets of a stream that may be missing where the direct path loses so many.
fn missing_max(stream: &str, lost: usize) -> usize {
    let kept = if stream.starts_with("coding") { lost * CODED_MISSING_PER_CENT / 100 } else { 0 };
    MISSING_MAX + kept
}

fn plan(mode: Mode, outage: &str) -> Plan {
    Plan {
        mode,
        direct: format!("loss = [{{ share = \"{LOSS_PER_CENT} %\" }}]\n{outage}"),
        uplink: String::new(),
        access: None,
        forwards: SERVICES.map(|service| format!("service = \"{service}\"\ncopies = \"all\"")).to_vec(),
    }
}

/// True if relays serve all flows by the first path, and by no other one.
fn is_steady(sites: &Sites) -> bool {
    let has_paths = |agent, forward| {
        let paths = sites.mapping(agent, forward)["paths"].as_array().cloned().unwrap_or_default();
        let is_accepted = |path: &serde_json::Value| path["state"] == "accepted";
        paths.first().is_some_and(|first| first["is_in_use"] == true) && paths.iter().all(is_accepted)
    };
    [ALICE, BOB].into_iter().all(|agent| (0..SERVICES.len()).all(|forward| has_paths(agent, forward)))
}

/// Begins a stream of each service in both directions, and waits until relays serve them.
fn begin(sites: &Sites) -> Vec<(String, Stream)> {
    let mut streams = Vec::new();
    for (from, name) in [(ALICE, "alice"), (BOB, "bob")] {
        for (forward, service) in SERVICES.iter().enumerate() {
            streams.push((format!("{service} from {name}"), sites.begin(from, forward)));
        }
    }
    sites.wait_for("relays serve all flows", || is_steady(sites));
    streams
}

fn received(sites: &Sites, agent: usize, what: &str) -> u64 {
    let status = sites.status(agent);
    let totals = status["totals"].as_array().into_iter().flatten();
    totals.map(|total| total["received"][what].as_u64().unwrap_or(0)).sum()
}

/// Nodes of this version at these places, and the version before at the others: losses and an outage are repaired.
fn stand_beside(mode: Mode, current: &[usize]) {
    let program = |place| if current.contains(&place) { BYWAY.into() } else { previous() };
    let outage =
        format!("outage = [{{ at = \"{} s\", for = \"{} s\" }}]", DARK_AT.as_secs(), DARK_FOR.as_secs());
    let Some(mut sites) = Sites::start_with(plan(mode, &outage), std::array::from_fn(program)) else {
        return;
    };
    let streams = begin(&sites);
    let lost_before = [ALICE, BOB].map(|agent| received(&sites, agent, "lost_direct"));
    let begun = Instant::now();
    sites.begin_links();
    std::thread::sleep(DARK_AT + DARK_FOR + Duration::from_secs(2));
    let streams: Vec<_> = streams.into_iter().map(|(told, stream)| (told, stream.finish())).collect();
    for (told, fate) in streams {
        // What is on its way when the links begin anew is lost.
        let missing = fate.missing(begun + UNDER_WAY, Instant::now());
        let most = missing_max(&told, LOST_MIN);
        assert!(missing <= most, "{mode:?}, {current:?}, {told}: {missing} missing");
        assert_eq!(fate.twice(), 0, "{mode:?}, {current:?}, {told}");
    }
    for (agent, before) in [ALICE, BOB].into_iter().zip(lost_before) {
        let lost = received(&sites, agent, "lost_direct") - before;
        // Forwarded packets go by relays first, and are none of these.
        assert!(lost >= 2 * LOST_MIN as u64, "{mode:?}, {current:?}, agent {agent}: {lost} lost");
    }
}

/// A node that changed its version.
#[derive(Debug)]
struct Change {
    place: usize,
    stopped: Instant,
    serving: Instant,
}

/// Has one node after the other run this version; each waits for the flows of the one before.
fn change_versions(sites: &mut Sites, mode: Mode) -> Vec<Change> {
    let mut changes = Vec::new();
    for place in [CONTROLLER, EAST, WEST, BOB, ALICE] {
        if place == CONTROLLER && mode == Mode::Static {
            continue;
        }
        let stopped = Instant::now();
        sites.replace(place, BYWAY.as_ref());
        if place == CONTROLLER {
            sites.token_with(&["--role", "agent"]);
        } else {
            sites.wait_for("the node serves its status", || sites.status(place).is_object());
        }
        changes.push(Change { place, stopped, serving: Instant::now() });
        sites.wait_for("relays serve all flows again", || is_steady(sites));
        std::thread::sleep(MOVED + UNDER_WAY);
    }
    changes
}

/// Most packets that the direct path loses of so many, but for one time in 30,000: four standard deviations.
fn losses_max(fate: &Fate, from: Instant, until: Instant) -> usize {
    let sent = fate.sent.iter().filter(|sent| (from..until).contains(*sent)).count();
    let deviation = (sent * LOSS_PER_CENT * (100 - LOSS_PER_CENT)).isqrt().div_ceil(100);
    sent * LOSS_PER_CENT / 100 + 4 * deviation
}

fn check_changes((mode, told): (Mode, &str), fate: &Fate, changes: &[Change]) {
    for (nth, change) in changes.iter().enumerate() {
        let &Change { place, stopped, serving } = change;
        let next = changes.get(nth + 1).and_then(|next| next.stopped.checked_sub(UNDER_WAY));
        let next = next.unwrap_or_else(Instant::now);
        let after = fate.missing(serving + MOVED, next);
        let most = missing_max(told, losses_max(fate, serving + MOVED, next));
        assert!(after <= most, "{mode:?}, {told}: {after} missing after place {place} was back");
        let meanwhile = fate.missing(stopped + MOVED, serving + MOVED);
        let lost = losses_max(fate, stopped + MOVED, serving + MOVED);
        let most = match place {
            CONTROLLER => missing_max(told, lost),
            EAST | WEST => MISSING_MAX + lost,
            // Nobody takes the packets of an agent that is away.
            _ => continue,
        };
        assert!(meanwhile <= most, "{mode:?}, {told}: {meanwhile} missing while place {place} was away");
    }
}

fn upgrade(mode: Mode) {
    let programs = std::array::from_fn(|_| previous());
    let Some(mut sites) = Sites::start_with(plan(mode, ""), programs) else { return };
    let streams = begin(&sites);
    let changes = change_versions(&mut sites, mode);
    let repaired = [ALICE, BOB].map(|agent| received(&sites, agent, "cached"));
    std::thread::sleep(Duration::from_secs(2));
    for (agent, before) in [ALICE, BOB].into_iter().zip(repaired) {
        let repaired = received(&sites, agent, "cached") - before;
        assert!(repaired > 0, "{mode:?}: nothing is repaired at agent {agent} after the upgrade");
    }
    for (told, stream) in streams {
        let fate = stream.finish();
        check_changes((mode, &told), &fate, &changes);
        assert_eq!(fate.twice(), 0, "{mode:?}, {told}");
    }
}

#[test]
fn relays_of_the_version_before_serve_agents_of_this_one_in_a_static_network() {
    stand_beside(Mode::Static, &[ALICE, BOB]);
}

#[test]
fn relays_of_the_version_before_serve_agents_of_this_one_in_a_managed_network() {
    stand_beside(Mode::Managed, &[ALICE, BOB]);
}

#[test]
fn relays_of_this_version_serve_agents_of_the_one_before_in_a_static_network() {
    stand_beside(Mode::Static, &[EAST, WEST]);
}

#[test]
fn relays_of_this_version_serve_agents_of_the_one_before_in_a_managed_network() {
    stand_beside(Mode::Managed, &[EAST, WEST, CONTROLLER]);
}

#[test]
fn an_agent_and_a_relay_of_each_version_serve_each_other_in_a_static_network() {
    stand_beside(Mode::Static, &[ALICE, WEST]);
}

#[test]
fn an_agent_and_a_relay_of_each_version_serve_each_other_in_a_managed_network() {
    stand_beside(Mode::Managed, &[BOB, WEST, CONTROLLER]);
}

#[test]
fn a_controller_of_this_version_serves_nodes_of_the_one_before() {
    stand_beside(Mode::Managed, &[CONTROLLER]);
}

#[test]
fn flows_of_a_static_network_go_on_while_one_node_after_the_other_is_upgraded() {
    upgrade(Mode::Static);
}

#[test]
fn flows_of_a_managed_network_go_on_while_one_node_after_the_other_is_upgraded() {
    upgrade(Mode::Managed);
}
