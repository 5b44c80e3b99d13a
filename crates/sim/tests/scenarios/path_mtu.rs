//! Tests of path MTUs that shrink during a call: long datagrams continue in two fragments.

use byway_proto::agent::AgentCounters;
use byway_sim::Link;
use byway_sim::overlay::SendSchedule;
use byway_units::{Bytes, Rate, Time};
use byway_wire::Service;

use crate::support::{OverlayWorld, Plan, Run, access, at, ms, secs};

/// Longest IP packet of the path after the change.
const NARROW: u64 = 1_300;

/// Time at which the path MTU shrinks.
const NARROWS_MS: u64 = 6_003;

/// Length of flow 0's datagrams; each takes a packet of 1,411 bytes.
const LONG_BYTES: usize = 1_350;

/// Two agents, with a flow of long datagrams, and more flows of these lengths, each in one of the
/// directions.
fn calls(service: Service, more: &[(usize, bool)]) -> Plan {
    let mut plan = Plan::pairs(1, service);
    for (bytes, is_back) in more {
        let mut flow = plan.flows[0].clone();
        flow.datagram_bytes = *bytes;
        if *is_back {
            (flow.from, flow.to) = (flow.to, flow.from);
            flow.paths.iter_mut().for_each(|path| *path = (path.1, path.0));
        }
        plan.flows.push(flow);
    }
    plan.flows[0].datagram_bytes = LONG_BYTES;
    plan.each_flow(|flow| {
        flow.sending = SendSchedule::Paced(ms(20));
        flow.settings.rate = Rate::from_megabits_per_second(2);
        flow.length = secs(8);
    })
}

fn narrow(link: Link) -> Link {
    Link { ip_bytes_max: Some(Bytes::new(NARROW)), ..link }
}

fn counters<'a>(run: &Run, agent: usize, world: &'a OverlayWorld) -> &'a AgentCounters {
    world.host(run.agents[agent]).agent().counters()
}

/// Asserts that the datagrams of a flow arrive again two round trips and 100 ms after the path MTU
/// shrank. At least `split_min` of those sent in between are sent again.
fn assert_recovers(run: &Run, world: &OverlayWorld, flow: usize, split_min: u64) {
    let detected = at(NARROWS_MS) + ms(2 * 100 + 100);
    assert_eq!(run.missing(flow, at(0), at(NARROWS_MS)), [], "flow {flow}");
    assert_eq!(run.missing(flow, detected, Time::MAX), [], "flow {flow}");
    // Those of the first 50 ms can no longer arrive within their latency budget of 300 ms.
    let missing = run.missing(flow, at(NARROWS_MS), detected).len();
    assert!(missing <= 4, "{missing} of flow {flow}");
    let agent = counters(run, run.plan.flows[flow].from, world);
    assert_eq!(agent.paths_narrowed, 1, "{agent:?}");
    assert!(agent.datagrams_split_again >= split_min, "{agent:?}");
    assert!(agent.datagrams_too_long_for_path >= agent.datagrams_split_again);
    let statistics = run.statistics(flow, world);
    assert!(statistics.lost >= agent.datagrams_split_again / 2, "losses are counted: {statistics:?}");
    assert_eq!(run.reported(flow, world).lost, statistics.lost, "and reported");
}

/// Shrinks the MTU of the direct path in one direction, or in both, during the run of a plan.
fn run_narrowed(plan: Plan, is_both: bool) -> (OverlayWorld, Run) {
    let (mut world, mut run) = plan.build();
    Run::schedule(&mut world, at(NARROWS_MS), move |run, world| {
        let (one, other) = (run.agents[0], run.agents[1]);
        world.connect(one, other, narrow(run.plan.flows[0].direct.clone()));
        if is_both {
            world.connect(other, one, narrow(run.plan.flows[0].back.clone()));
        }
    });
    run.finish(&mut world);
    (world, run)
}

#[test]
fn long_datagrams_alone_go_on_when_their_path_narrows() {
    let (world, run) = run_narrowed(calls(Service::Internet, &[]), false);
    assert_recovers(&run, &world, 0, 8);
}

#[test]
fn long_datagrams_beside_short_ones_go_on_when_their_path_narrows() {
    let (world, run) = run_narrowed(calls(Service::Internet, &[(100, false), (100, true)]), false);
    assert_recovers(&run, &world, 0, 8);
    for flow in [1, 2] {
        assert_eq!(run.missing(flow, at(0), Time::MAX), [], "short ones are not affected");
    }
}

#[test]
fn long_datagrams_in_both_directions_go_on_when_their_path_narrows() {
    let (world, run) = run_narrowed(calls(Service::Internet, &[(LONG_BYTES, true)]), true);
    assert_recovers(&run, &world, 0, 8);
    assert_recovers(&run, &world, 1, 8);
}

#[test]
fn long_datagrams_in_the_other_direction_are_not_split() {
    let (world, run) = run_narrowed(calls(Service::Internet, &[(LONG_BYTES, true)]), false);
    assert_recovers(&run, &world, 0, 8);
    assert_eq!(run.missing(1, at(0), Time::MAX), []);
    assert_eq!(counters(&run, 1, &world).paths_narrowed, 0);
}

#[test]
fn long_datagrams_through_relays_go_on_when_the_way_to_the_relay_narrows() {
    let (mut world, mut run) = calls(Service::Forwarding, &[]).build();
    Run::schedule(&mut world, at(NARROWS_MS), move |run, world| {
        world.connect(run.agents[0], run.relays[0], narrow(access()));
    });
    run.finish(&mut world);
    // The relay is nearer than the peer, therefore fewer are sent in between.
    assert_recovers(&run, &world, 0, 4);
}

#[test]
fn a_path_that_loses_packets_of_all_lengths_is_not_taken_for_narrow() {
    let plan = calls(Service::Internet, &[(100, false)]).each_flow(|flow| {
        flow.length = secs(60);
        flow.direct.loss = vec![byway_sim::Loss::Independent(crate::support::share(0.05))];
    });
    let (world, run) = plan.run();
    let lost = world.counters(run.agents[0], run.agents[1]).expect("they are connected").lost.total();
    assert!(lost > 100, "{lost}");
    assert_eq!(counters(&run, 0, &world).paths_narrowed, 0);
}
