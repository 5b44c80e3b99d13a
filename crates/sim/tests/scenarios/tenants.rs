//! Tests of tenants' grants: coding partners, duration, and rate.

use byway_proto::agent::Delivery;
use byway_units::{Rate, Time};
use byway_wire::{KilobitsPerSecond, Service, TenantId};

use crate::support::{OverlayWorld, Plan, Run, at, secs};

/// Four coded flows without in-stream repair packets: flows 0 and 1 of one tenant, 2 and 3 of
/// another.
fn two_tenants(sharing: bool) -> Plan {
    two_tenants_with([sharing; 2], [sharing; 2])
}

/// The same flows. Each tenant permits coding with the other one (`tenants`) or not, and so do the
/// settings of its flows (`flows`).
fn two_tenants_with(tenants: [bool; 2], flows: [bool; 2]) -> Plan {
    let mut plan = Plan::pairs(4, Service::Coding).each_flow(|flow| flow.settings.rates.in_stream = None);
    for (nth, flow) in plan.flows.iter_mut().enumerate() {
        let index = nth / 2;
        flow.terms.tenant = TenantId::new(if index == 0 { 1 } else { 2 });
        (flow.terms.sharing, flow.terms.is_shared) = (tenants[index], flows[index]);
    }
    plan
}

/// Returns the number of packets that the receiver of each flow returned for others.
fn cooperative_packets(run: &Run, world: &OverlayWorld) -> [u64; 4] {
    core::array::from_fn(|flow| run.statistics(flow, world).lent)
}

#[test]
fn tenants_that_do_not_share_are_never_in_one_batch() {
    let mut plan = two_tenants(false);
    for nth in 0..20 {
        plan.lose(0, 30 + nth * 45, 1);
    }
    let (world, run) = plan.run();
    let fate = &run.fates(&world)[0];
    // Half of the batches of two get a repair packet: the overhead is that of full ones, a quarter.
    assert!(fate.lost == 20 && fate.by(Delivery::Cooperative) >= 8, "{fate:?}");
    // Every receiver in a batch with a lost packet gets a request for its own packet.
    let counts = cooperative_packets(&run, &world);
    assert!(counts[1] >= 8 && counts[2..] == [0, 0], "{counts:?}");
}

#[test]
fn flows_are_coded_with_those_of_another_tenant_only_if_both_tenants_and_both_flows_agree() {
    let (both, first, second) = ([true; 2], [true, false], [false, true]);
    for (tenants, flows) in [(first, both), (second, both), (both, first), (both, second)] {
        let mut plan = two_tenants_with(tenants, flows);
        for nth in 0..20 {
            plan.lose(0, 30 + nth * 45, 1);
        }
        let (world, run) = plan.run();
        let fate = &run.fates(&world)[0];
        assert!(fate.by(Delivery::Cooperative) >= 8, "its own tenant repairs it: {fate:?}");
        let counts = cooperative_packets(&run, &world);
        assert!(counts[1] >= 8 && counts[2..] == [0, 0], "{tenants:?}, {flows:?}: {counts:?}");
    }
}

#[test]
fn tenants_that_share_are_coded_together_and_repaired() {
    let mut plan = two_tenants(true);
    for flow in 0..4 {
        for nth in 0..10 {
            plan.lose(flow, 30 + nth * 90 + flow as u64 * 20, 1);
        }
    }
    let (world, run) = plan.run();
    let fate = run.fate(&world);
    assert_eq!((fate.lost, fate.repaired, fate.by(Delivery::Cooperative)), (40, 40, 40), "{fate:?}");
    let counts = cooperative_packets(&run, &world);
    assert!(counts.iter().all(|counts| *counts >= 20), "all are asked for losses of others: {counts:?}");
}

#[test]
fn a_flow_whose_grant_ends_goes_on_over_the_direct_path_and_is_coded_no_more() {
    let mut plan = Plan::pairs(4, Service::Coding).losing_in_turn();
    plan.has_controller = true;
    plan.flows[0].terms.not_after_unix_seconds = 6;
    let (mut world, mut run) = plan.build();
    // The grant is valid until the end of its last second.
    world.run_until(at(7_500), &mut run);
    let sender = run.agents[0];
    let copies = |world: &OverlayWorld| world.host(sender).agent().counters().copies;
    let until_then = copies(&world);
    assert!(until_then > 400, "{until_then}");
    let before = run.delivery_counts(0, at(2_000), at(7_000));
    run.finish(&mut world);
    assert_eq!(copies(&world), until_then, "nothing is copied any more");
    for relay in &run.relays {
        assert_eq!(world.host(*relay).relay().counters().grants_ended, 1);
    }
    let repaired = |counts: &std::collections::BTreeMap<Delivery, u64>| -> u64 {
        counts.iter().filter(|(delivery, _)| delivery.is_repair()).map(|(_, count)| count).sum()
    };
    assert!(repaired(&before) > 20, "{before:?}");
    let after = run.delivery_counts(0, at(7_500), Time::MAX);
    assert_eq!(repaired(&after), 0, "{after:?}");
    // All packets that the direct path does not lose; it loses one of 16.
    assert!(after[&Delivery::Direct] > 410, "{after:?}");
    for fate in &run.fates(&world)[1..] {
        assert_eq!((fate.repaired, fate.missing), (fate.lost, 0), "others are repaired as before: {fate:?}");
    }
}

#[test]
fn a_tenant_that_sends_beyond_its_granted_rate_costs_others_nothing() {
    let mut plan = Plan::pairs(4, Service::Caching).losing_in_turn();
    plan.flows[0].terms.tenant = TenantId::new(2);
    plan.flows[0].terms.rate = KilobitsPerSecond::new(100);
    plan.flows[0].settings.rate = Rate::from_megabits_per_second(8);
    plan.flows[0].sending = byway_sim::overlay::SendSchedule::Paced(byway_units::Duration::from_millis(2));
    plan.flows[0].direct.outages.clear();
    let (world, run) = plan.run();
    let ingress = run.ingress(0, &world);
    // 100 kbit/s plus a burst, of the 10 s: the relay does not forward the rest.
    let granted = Rate::from_kilobits_per_second(100).bytes_in(secs(12)).expect("it is no long time").count();
    let relayed = ingress.copies_relayed - run.fates(&world)[1..].iter().map(|fate| fate.sent).sum::<u64>();
    assert!(relayed * 300 <= granted && relayed > 200, "{relayed} of {granted} B: {ingress:?}");
    assert!(ingress.copies_beyond_rate > 4_000, "{ingress:?}");
    let fates = run.fates(&world);
    assert_eq!(fates[0].missing, 0, "its direct path is its own: {:?}", fates[0]);
    for fate in &fates[1..] {
        assert!(fate.lost > 50, "{fate:?}");
        assert_eq!((fate.repaired, fate.missing), (fate.lost, 0), "{fate:?}");
    }
}
