//! This version of the program with the previous one, with real processes. Both kinds of networks
//! repair a path's losses, and flows continue while one node after the other changes its version.
//!
//! `BYWAY_PREVIOUS` names the binary of the previous version, which scripts/previous.sh builds: run
//! `make versions`.

#![allow(clippy::disallowed_methods, reason = "tests of the program use clocks and settings")]

mod sites;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use sites::{ALICE, BOB, BYWAY, CONTROLLER, EAST, Fate, Mode, Plan, Sites, Stream, WEST};

/// Share of the packets that the direct path loses, in per cent.
const LOSS_PER_CENT: usize = 5;

/// Start of the direct path's outage, after its links began anew, and its length.
const OUTAGE_AT: Duration = Duration::from_secs(2);
const OUTAGE_DURATION: Duration = Duration::from_secs(2);

/// Fewest packets of a stream that the direct path loses: about 200 in the outage, and 20 others.
const LOST_MIN: usize = 150;

/// Time after a node's return in which losses may exceed the path's own rate.
const MOVED: Duration = Duration::from_millis(600);

/// Time that the repair of a lost packet takes, in which the next node may stop.
const REPAIR_TIME: Duration = Duration::from_millis(300);

/// Most additional missing packets: repairs that a busy machine delays.
const MISSING_MAX: usize = 3;

/// Largest unrepaired share of losses, in per cent, for a flow alone in its batches. An outage
/// loses all packets of such a batch, and decoding cannot restore them.
const CODED_MISSING_PER_CENT: usize = 40;

const SERVICES: [&str; 3] = ["caching", "coding", "forwarding"];

fn previous() -> PathBuf {
    let program = std::env::var_os("BYWAY_PREVIOUS");
    program.expect("BYWAY_PREVIOUS names the binary of the version before: run `make versions`").into()
}

/// Returns the most packets of a stream that may be missing if the direct path loses this many.
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

/// True if all flows use their first path, and relays have accepted all paths.
fn is_steady(sites: &Sites) -> bool {
    let has_paths = |agent, forward| {
        let paths = sites.mapping(agent, forward)["paths"].as_array().cloned().unwrap_or_default();
        let is_accepted = |path: &serde_json::Value| path["state"] == "accepted";
        paths.first().is_some_and(|first| first["is_in_use"] == true) && paths.iter().all(is_accepted)
    };
    [ALICE, BOB].into_iter().all(|agent| (0..SERVICES.len()).all(|forward| has_paths(agent, forward)))
}

/// Starts a stream of each service in both directions, and waits until relays serve them.
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

/// Tests nodes of this version at these indices together with the previous version at the others:
/// losses and an outage are repaired.
fn stand_beside(mode: Mode, current: &[usize]) {
    let program = |index| if current.contains(&index) { BYWAY.into() } else { previous() };
    let outage = format!(
        "outage = [{{ at = \"{} s\", for = \"{} s\" }}]",
        OUTAGE_AT.as_secs(),
        OUTAGE_DURATION.as_secs()
    );
    let Some(mut sites) = Sites::start_with(plan(mode, &outage), std::array::from_fn(program)) else {
        return;
    };
    let streams = begin(&sites);
    let lost_before = [ALICE, BOB].map(|agent| received(&sites, agent, "lost_direct"));
    let begun = Instant::now();
    sites.begin_links();
    std::thread::sleep(OUTAGE_AT + OUTAGE_DURATION + Duration::from_secs(2));
    let streams: Vec<_> = streams.into_iter().map(|(context, stream)| (context, stream.finish())).collect();
    for (context, fate) in streams {
        // Packets in flight at the restart of the links are lost.
        let missing = fate.missing(begun + REPAIR_TIME, Instant::now());
        let most = missing_max(&context, LOST_MIN);
        assert!(missing <= most, "{mode:?}, {current:?}, {context}: {missing} missing");
        assert_eq!(fate.twice(), 0, "{mode:?}, {current:?}, {context}");
    }
    for (agent, before) in [ALICE, BOB].into_iter().zip(lost_before) {
        let lost = received(&sites, agent, "lost_direct") - before;
        // Forwarded packets arrive by relays first, and do not count here.
        assert!(lost >= 2 * LOST_MIN as u64, "{mode:?}, {current:?}, agent {agent}: {lost} lost");
    }
}

/// Change of a node's version.
#[derive(Debug)]
struct Upgrade {
    node_index: usize,
    stopped: Instant,
    serving: Instant,
}

/// Changes one node after the other to this version, and waits for its flows each time.
fn change_versions(sites: &mut Sites, mode: Mode) -> Vec<Upgrade> {
    let mut changes = Vec::new();
    for index in [CONTROLLER, EAST, WEST, BOB, ALICE] {
        if index == CONTROLLER && mode == Mode::Static {
            continue;
        }
        let stopped = Instant::now();
        sites.replace(index, BYWAY.as_ref());
        if index == CONTROLLER {
            sites.token_with(&["--role", "agent"]);
        } else {
            sites.wait_for("the node serves its status", || sites.status(index).is_object());
        }
        changes.push(Upgrade { node_index: index, stopped, serving: Instant::now() });
        sites.wait_for("relays serve all flows again", || is_steady(sites));
        std::thread::sleep(MOVED + REPAIR_TIME);
    }
    changes
}

/// Returns the most packets that the direct path loses, exceeded once in 30,000 times: four
/// standard deviations.
fn losses_max(fate: &Fate, from: Instant, until: Instant) -> usize {
    let sent = fate.sent.iter().filter(|sent| (from..until).contains(*sent)).count();
    let deviation = (sent * LOSS_PER_CENT * (100 - LOSS_PER_CENT)).isqrt().div_ceil(100);
    sent * LOSS_PER_CENT / 100 + 4 * deviation
}

fn check_changes((mode, context): (Mode, &str), fate: &Fate, changes: &[Upgrade]) {
    for (nth, change) in changes.iter().enumerate() {
        let &Upgrade { node_index: index, stopped, serving } = change;
        let next = changes.get(nth + 1).and_then(|next| next.stopped.checked_sub(REPAIR_TIME));
        let next = next.unwrap_or_else(Instant::now);
        let after = fate.missing(serving + MOVED, next);
        let most = missing_max(context, losses_max(fate, serving + MOVED, next));
        assert!(after <= most, "{mode:?}, {context}: {after} missing after node {index} was back");
        let meanwhile = fate.missing(stopped + MOVED, serving + MOVED);
        let lost = losses_max(fate, stopped + MOVED, serving + MOVED);
        let most = match index {
            CONTROLLER => missing_max(context, lost),
            EAST | WEST => MISSING_MAX + lost,
            // The packets to a stopped agent are lost.
            _ => continue,
        };
        assert!(meanwhile <= most, "{mode:?}, {context}: {meanwhile} missing while node {index} was away");
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
    for (context, stream) in streams {
        let fate = stream.finish();
        check_changes((mode, &context), &fate, &changes);
        assert_eq!(fate.twice(), 0, "{mode:?}, {context}");
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
