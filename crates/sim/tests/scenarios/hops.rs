//! Losses between relays, and on the last hop from a relay to a receiver.

use byway_proto::agent::Delivery;
use byway_sim::{Link, Loss, Span};
use byway_wire::Service;

use crate::support::{Fate, OverlayWorld, Plan, Run, at, ms, secs, share};

fn losing(link: &Link, part: f64) -> Link {
    Link { loss: vec![Loss::Independent(share(part))], ..link.clone() }
}

/// Four flows of 100 packets/s for 20 s; each way of the overlay loses such a part.
fn lossy(service: Service, access: f64, between: f64) -> Plan {
    let mut plan = Plan::pairs(4, service).each_flow(|flow| flow.length = secs(20));
    plan.between = losing(&plan.between, between);
    for (_, link) in plan.agents.iter_mut().flat_map(|agent| &mut agent.relays) {
        *link = losing(link, access);
    }
    plan
}

/// Relays are the only way between the agents.
fn only_relays(mut plan: Plan) -> Plan {
    plan.agents.iter_mut().for_each(|agent| agent.is_known = false);
    for flow in &mut plan.flows {
        flow.direct.outages.push(Span::new(at(0), secs(1_000)));
        flow.back.outages.push(Span::new(at(0), secs(1_000)));
    }
    plan
}

/// What the relays lost of each other's, and of what they gave receivers.
fn lost_on_the_way(run: &Run, world: &OverlayWorld) -> (u64, u64) {
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
    let (lost, _) = lost_on_the_way(&run, &world);
    assert!(lost > 120 && ingress.resent <= lost + 2, "{lost} lost, {ingress:?}");
    // Some questions are lost, and asked again.
    assert!(egress.carried_asked <= lost * 11 / 10 + 4, "{egress:?}");
    assert_eq!((egress.carried_repeated, ingress.resends_refused), (0, 0));
}

#[test]
fn forwarding_delivers_everything_though_each_hop_loses_one_in_a_hundred() {
    for plan in [lossy(Service::Forwarding, 0.01, 0.01), only_relays(lossy(Service::Caching, 0.01, 0.01))] {
        let (world, run) = plan.run();
        let fate = run.fate(&world);
        assert_eq!(run.all_missing(at(4_000), at(21_800)), 0, "{fate:?}");
        assert!(fate.by(Delivery::Cached) > 50, "{fate:?}");
        let (ingress, egress) = (run.ingress(0, &world), run.egress(1, &world));
        assert!(ingress.resent > 50, "{ingress:?}");
        // What is repaired is what was lost, and little else.
        let (between, last) = lost_on_the_way(&run, &world);
        assert!(ingress.resent <= between * 11 / 10 + 4, "{between} lost, {ingress:?}");
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
    assert_eq!(run.ingress(0, &world).resent, 0);
}

fn both(direct: f64, between: Link) -> (OverlayWorld, Run, Fate) {
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
        // One in a thousand came on neither way, and was repaired.
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
    assert_eq!(ingress.resent, 0, "{ingress:?}");
    assert!(ingress.resends_gone > 100, "{ingress:?}");
}
