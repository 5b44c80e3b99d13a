//! Tests of cohorts: flows whose receivers share an access network are coded apart.

use byway_proto::CodingRates;
use byway_proto::agent::Delivery;
use byway_units::Time;
use byway_wire::{BlockShape, Service};

use crate::support::{FlowSummary, Plan, address, at, secs};

/// Flows to the common network. All but the last send right after each other.
const TOGETHER: usize = 4;

/// Sixteen coded flows in batches of four, with one repair packet each. The access link of the
/// first four receivers loses three packets of each of them every half second. It begins at 8 s, so
/// that the ingress relay knows the flows.
fn site_with_a_lossy_access_link() -> Plan {
    let mut plan = Plan::pairs(16, Service::Coding).each_flow(|flow| {
        flow.settings.rates = CodingRates { in_stream: None, batch: BlockShape::new(4, 1) };
        flow.length = secs(12);
    });
    for burst in 0..10 {
        (0..TOGETHER).for_each(|flow| plan.lose(flow, 600 + burst * 50, 3));
    }
    plan
}

/// Puts the receivers into networks: the first four into `common`, each other into its own.
fn with_networks(mut plan: Plan, common: impl Fn(u8) -> u8) -> Plan {
    for (pair, flow) in (0..).zip(0..plan.flows.len()) {
        let network = if flow < TOGETHER { common(pair) } else { 100 + pair };
        plan.agents[2 * flow + 1].network = network;
    }
    plan
}

/// Runs the plan. Returns the outcomes of the first four flows together.
fn outcome(plan: Plan) -> FlowSummary {
    let (world, run) = plan.run();
    let mut all = FlowSummary::default();
    for fate in &run.fates(&world)[..TOGETHER] {
        all.lost += fate.lost;
        all.repaired += fate.repaired;
        *all.by.entry(Delivery::Cooperative).or_default() += fate.by(Delivery::Cooperative);
    }
    all
}

#[test]
fn a_burst_on_a_common_access_link_is_repaired_by_flows_to_other_networks() {
    let apart = outcome(with_networks(site_with_a_lossy_access_link(), |_| 90));
    assert_eq!(apart.lost, 120);
    assert!(apart.repaired >= 114 && apart.by(Delivery::Cooperative) >= 110, "{apart:?}");
    // The relays do not know that the same receivers lose packets together.
    let unknown = outcome(with_networks(site_with_a_lossy_access_link(), |pair| 100 + pair));
    assert_eq!(unknown.lost, 120);
    assert!(unknown.by(Delivery::Cooperative) <= 80, "relays fetch copies instead: {unknown:?}");
}

#[test]
fn flows_of_one_network_repair_each_other_where_no_others_send() {
    let mut plan = with_networks(Plan::pairs(12, Service::Coding), |_| 90).each_flow(|flow| {
        flow.settings.rates = CodingRates { in_stream: None, batch: BlockShape::new(4, 1) };
    });
    for flow in 0..12 {
        for nth in 0..10 {
            plan.lose(flow, 40 + nth * 90 + flow as u64 * 7, 1);
        }
    }
    let all = outcome(plan);
    assert_eq!((all.lost, all.repaired), (40, 40), "{all:?}");
}

#[test]
fn a_receiver_that_moves_into_a_network_is_coded_apart_from_others_there() {
    // The receiver of flow 0 is elsewhere until 5 s, and then in the network of three others.
    let plan = with_networks(site_with_a_lossy_access_link(), |pair| if pair == 0 { 100 } else { 90 });
    let (mut world, mut run) = plan.build();
    world.run_until(at(5_000), &mut run);
    world.change_address(run.agents[1], address(100, 1), address(90, 1));
    run.finish(&mut world);
    let lost = world.observer().lost.iter().filter(|(flow, number)| *flow == 0 && *number >= 600).count();
    assert!(lost >= 30, "{lost}");
    let missing = run.missing(0, at(8_000), Time::MAX);
    assert!(missing.len() <= 6, "{missing:?}");
}
