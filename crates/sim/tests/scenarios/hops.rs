//! Tests of losses between relays, and on the last hop from a relay to a receiver.

use byway_proto::agent::Delivery;
use byway_sim::{Link, Loss, Span};
use byway_wire::Service;

use crate::support::{FlowSummary, OverlayWorld, Plan, Run, at, ms, secs, share};

fn losing(link: &Link, part: f64) -> Link {
    Link { loss: vec![Loss::Independent(share(part))], ..link.clone() }
}

/// Four flows of 100 packets/s for 20 s; each hop of the overlay has this loss rate.
fn lossy(service: Service, access: f64, between: f64) -> Plan {
    let mut plan = Plan::pairs(4, service).each_flow(|flow| flow.length = secs(20));
    plan.between = losing(&plan.between, between);
    for (_, link) in plan.agents.iter_mut().flat_map(|agent| &mut agent.relays) {
        *link = losing(link, access);
    }
    plan
}

/// Only relays connect the agents.
fn only_relays(mut plan: Plan) -> Plan {
    plan.agents.iter_mut().for_each(|agent| agent.is_known = false);
    for flow in &mut plan.flows {
        flow.direct.outages.push(Span::new(at(0), secs(1_000)));
        flow.back.outages.push(Span::new(at(0), secs(1_000)));
    }
    plan
}

/// Returns the losses between the relays, and from relays to receivers.
fn relay_losses(run: &Run, world: &OverlayWorld) -> (u64, u64) {
    let lost = |from, to| world.counters(from, to).map_or(0, |counters| counters.lost.total());
    let receivers = run.plan.flows.iter().map(|flow| run.agents[flow.to]);
    let egress = run.relays[run.relays.len() - 1];
    (lost(run.relays[0], egress), receivers.map(|receiver| lost(egress, receiver)).sum())
}

#[test]
fn what_relays_lose_of_each_others_copies_is_in_the_cache_all_the_same() {
    let plan = lossy(Service::Caching, 0.0, 0.02).each_flow(|flow| {
        flow.direct.loss = vec![Loss::Independent(share(0.05))];
    });
    let (world, run) = plan.run();
    let fate = run.fate(&world);
    assert!(fate.lost > 350, "{fate:?}");
    assert_eq!((fate.repaired, fate.missing), (fate.lost, 0), "{fate:?}");
    let (ingress, egress) = (run.ingress(0, &world), run.egress(1, &world));
    let (lost, _) = relay_losses(&run, &world);
    assert!(lost > 120 && ingress.retransmitted <= lost + 2, "{lost} lost, {ingress:?}");
    // Some NACKs are lost, and repeated.
    assert!(egress.copies_nacked <= lost * 11 / 10 + 4, "{egress:?}");
    assert_eq!((egress.copies_duplicate, ingress.retransmits_refused), (0, 0));
}

#[test]
fn forwarding_delivers_everything_though_each_hop_loses_one_in_a_hundred() {
    for plan in [lossy(Service::Forwarding, 0.01, 0.01), only_relays(lossy(Service::Caching, 0.01, 0.01))] {
        let (world, run) = plan.run();
        let fate = run.fate(&world);
        assert_eq!(run.all_missing(at(4_000), at(21_800)), 0, "{fate:?}");
        assert!(fate.by(Delivery::Cached) > 50, "{fate:?}");
        let (ingress, egress) = (run.ingress(0, &world), run.egress(1, &world));
        assert!(ingress.retransmitted > 50, "{ingress:?}");
        // Repairs are little more than the losses.
        let (between, last) = relay_losses(&run, &world);
        assert!(ingress.retransmitted <= between * 11 / 10 + 4, "{between} lost, {ingress:?}");
        assert!(egress.cached <= last * 11 / 10 + 4, "{last} lost, {egress:?}");
        assert_eq!(egress.forwarded + fate.by(Delivery::Direct), 8_000, "each is forwarded once: {egress:?}");
        let duplicates: u64 = (0..4).map(|flow| run.statistics(flow, &world).duplicates).sum();
        assert!(duplicates < 12, "{duplicates}");
    }
}

#[test]
fn forwarding_through_one_relay_delivers_everything_too() {
    let plan = lossy(Service::Forwarding, 0.02, 0.0).with_one_relay();
    let (world, run) = plan.run();
    let fate = run.fate(&world);
    assert_eq!(run.all_missing(at(2_000), at(21_800)), 0, "{fate:?}");
    assert!(fate.by(Delivery::Cached) > 120, "{fate:?}");
    assert_eq!(run.ingress(0, &world).retransmitted, 0);
}

fn both(direct: f64, between: Link) -> (OverlayWorld, Run, FlowSummary) {
    let mut plan = lossy(Service::Both, 0.02, 0.02).each_flow(|flow| {
        flow.direct.loss = vec![Loss::Independent(share(direct))];
    });
    plan.between = Link { loss: plan.between.loss, ..between };
    let (world, run) = plan.run();
    let fate = run.fate(&world);
    (world, run, fate)
}

#[test]
fn of_two_ways_that_both_lose_packets_nothing_is_lost_and_little_is_asked_for() {
    // The overlay as long as the direct path, longer, and shorter.
    for delay in [35, 75, 10] {
        let (world, run, fate) = both(0.05, Link { delay: ms(delay), ..Link::default() });
        assert_eq!(run.all_missing(at(2_000), at(21_800)), 0, "{delay} ms: {fate:?}");
        // One in a thousand was lost on both paths, and was repaired.
        let egress = run.egress(1, &world);
        assert!((4..40).contains(&fate.by(Delivery::Cached)), "{delay} ms: {fate:?}");
        assert!(egress.cached < 40, "{delay} ms: {egress:?}");
    }
}

#[test]
fn a_relay_that_is_too_far_for_a_second_try_sends_nothing_in_vain() {
    let mut plan = lossy(Service::Forwarding, 0.0, 0.02);
    plan.between.delay = ms(120);
    let (world, run) = plan.run();
    let ingress = run.ingress(0, &world);
    assert_eq!(ingress.retransmitted, 0, "{ingress:?}");
    assert!(ingress.retransmits_expired > 100, "{ingress:?}");
}
