//! Tests of redundancy that follows the losses of a coding group.

use byway_proto::agent::RedundancyMode;
use byway_sim::{GilbertElliott, Loss};
use byway_units::{Probability, Time};
use byway_wire::{Service, TenantId};

use crate::support::{OverlayWorld, Plan, Run, at, ms, secs};

/// Eight coded flows with adaptive redundancy, whose latency budget leaves no time to fetch a
/// packet from the ingress relay.
fn adaptive(length_seconds: u64) -> Plan {
    Plan::pairs(8, Service::Coding).each_flow(|flow| {
        flow.settings.redundancy = RedundancyMode::Adaptive;
        flow.settings.latency_budget = ms(140);
        flow.length = secs(length_seconds);
    })
}

fn losing(share: f64) -> Loss {
    let share = Probability::new(share).expect("a share");
    Loss::GilbertElliott(GilbertElliott::bursts(share, 3.0, ms(10)).expect("bursts of three are possible"))
}

/// Returns the bytes of repair packets between the relays, and of the copies, so far.
fn repair_bytes(run: &Run, world: &OverlayWorld) -> (u64, u64) {
    let counters = run.ingress(0, world);
    (counters.cross_stream_bytes + counters.in_stream_bytes, counters.copies_bytes)
}

#[test]
fn without_losses_repair_packets_end_after_five_seconds() {
    let (mut world, mut run) = adaptive(30).build();
    world.run_until(at(8_000), &mut run);
    let (before, _) = repair_bytes(&run, &world);
    run.finish(&mut world);
    let (after, copies) = repair_bytes(&run, &world);
    assert!(before > 0 && after == before, "{before} and {after} of {copies}");
}

/// The redundancy costs as much as the losses require: neither the largest nor none.
#[test]
fn lossy_paths_are_repaired_in_time_at_less_than_the_largest_cost() {
    let plan = adaptive(60).each_flow(|flow| flow.direct.loss = vec![losing(0.02)]);
    let (world, run) = plan.run();
    let fate = run.fate(&world);
    let (repairs, copies) = repair_bytes(&run, &world);
    assert!(fate.lost > 500, "{fate:?}");
    assert!(fate.repaired * 100 >= fate.lost * 94, "{fate:?}");
    assert!(repairs * 100 <= copies * 42, "{repairs} of {copies}");
}

/// Batches have no repair packets where less is lost than the target allows. What is lost is
/// fetched from the ingress relay, if the budget leaves time for it.
#[test]
fn rare_losses_are_fetched_and_cost_next_to_nothing() {
    let plan = adaptive(120).each_flow(|flow| {
        flow.direct.loss = vec![losing(0.0003)];
        flow.settings.latency_budget = ms(300);
    });
    let (mut world, mut run) = plan.build();
    world.run_until(at(8_000), &mut run);
    let before = repair_bytes(&run, &world);
    run.finish(&mut world);
    let after = repair_bytes(&run, &world);
    let (fate, egress) = (run.fate(&world), run.egress(1, &world));
    assert!(fate.lost >= 20 && fate.missing * 20 <= fate.lost, "{fate:?}");
    assert!(egress.fetched >= 20, "{egress:?}");
    let (repairs, copies) = (after.0 - before.0, after.1 - before.1);
    assert!(repairs * 20 <= copies, "{repairs} of {copies}");
}

#[test]
fn losses_that_end_cost_nothing_half_a_minute_later() {
    let mut plan = adaptive(70).each_flow(|flow| flow.direct.loss = vec![losing(0.02)]);
    for flow in &mut plan.flows {
        flow.length = secs(20);
    }
    // The same path without losses: other flows of the group, which begin when the losses end.
    let more = adaptive(70);
    let first = plan.agents.len();
    plan.agents.extend(more.agents);
    for mut flow in more.flows {
        (flow.from, flow.to) = (flow.from + first, flow.to + first);
        flow.terms.tenant = TenantId::new(1);
        plan.flows.push(flow);
    }
    let (mut world, mut run) = plan.build();
    world.run_until(at(20_000), &mut run);
    let (lossy, _) = repair_bytes(&run, &world);
    world.run_until(at(54_000), &mut run);
    let (before, _) = repair_bytes(&run, &world);
    run.finish(&mut world);
    let (after, _) = repair_bytes(&run, &world);
    assert!(lossy > 100_000 && after == before, "{lossy}, {before} and {after}");
}

#[test]
fn an_outage_after_a_clean_time_raises_the_redundancy_at_once() {
    let mut plan = adaptive(30);
    plan.add_outage(0, at(15_000), secs(10));
    let (_, run) = plan.run();
    // The first packets are lost before the relays learn of the outage. The rest is repaired.
    let missing = run.missing(0, at(15_000), at(25_000)).len();
    assert!(missing <= 50, "{missing} of 1,000");
    assert_eq!(run.all_missing(Time::START, at(15_000)), 0);
}
