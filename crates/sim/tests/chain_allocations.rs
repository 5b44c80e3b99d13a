//! Tests that agents and relays in a steady state allocate nothing for packets that they forward,
//! buffer and deliver.

use byway_code::Engine;
use byway_proto::CodingRates;
use byway_proto::agent::FlowSettings;
use byway_sim::overlay::{Chain, ChainSettings, Stage};
use byway_units::{Duration, Rate};
use byway_wire::Service;
use byway_wire::seal::PortableProvider;

const STEPS: usize = 1_000;

/// 60 flows of three pairs, 200 packets a second each, that have sent for longer than any buffer
/// retains packets.
fn warmed_up(service: Service, lose_one_in: u64) -> Chain {
    let flow = FlowSettings {
        service,
        rates: CodingRates::default(),
        rate: Rate::from_megabits_per_second(10),
        ..FlowSettings::default()
    };
    let (interval, step) = (Duration::from_nanos(83_333), Duration::from_millis(1));
    let settings = ChainSettings { pairs: 3, flows: 20, flow, datagram_bytes: 512, interval, step };
    let mut chain = Chain::new(settings, Engine::fastest(), &PortableProvider);
    (0..20).for_each(|flow| chain.open_flows(flow));
    chain.run(1_000, false);
    chain.lose_one_in(lose_one_in);
    chain.run(7_000, true);
    chain
}

/// Returns the allocations of each stage in this many steps.
fn allocations(chain: &mut Chain) -> [u64; 4] {
    let mut counts = [0; 4];
    for _ in 0..STEPS {
        for (stage, count) in Stage::ALL.into_iter().zip(&mut counts) {
            *count += allocation_counter::measure(|| chain.run_stage(stage)).count_total;
        }
        chain.advance();
    }
    counts
}

#[test]
fn packets_that_arrive_are_sealed_copied_coded_kept_and_delivered_without_allocations() {
    let mut chain = warmed_up(Service::Coding, 0);
    let (before, _) = chain.delivered();
    let covered = chain.ingress().ingress_counters().covered;
    let stored_before = chain.egress().egress_counters().repairs_stored;
    assert_eq!(allocations(&mut chain), [0; 4], "senders, ingress, egress, receivers");
    assert!(chain.delivered().0 > before + 10_000);
    assert!(chain.ingress().ingress_counters().covered > covered + 10_000);
    assert!(chain.egress().egress_counters().repairs_stored > stored_before + 4_000);
}

#[test]
fn packets_that_are_lost_are_asked_for_restored_and_delivered_without_allocations() {
    let mut chain = warmed_up(Service::Coding, 50);
    let repaired = |chain: &Chain| -> u64 {
        let of = |(pair, flow)| {
            let statistics = chain.agent(false, pair).statistics(flow).expect("the flow is open");
            statistics.in_stream + statistics.cooperative
        };
        chain.accepted().map(of).sum()
    };
    let before = repaired(&chain);
    assert_eq!(allocations(&mut chain), [0; 4], "senders, ingress, egress, receivers");
    assert!(repaired(&chain) > before + 100);
}

#[test]
fn packets_that_are_cached_are_carried_without_allocations() {
    let mut chain = warmed_up(Service::Caching, 50);
    assert_eq!(allocations(&mut chain), [0; 4], "senders, ingress, egress, receivers");
    assert!(chain.egress().egress_counters().cached > 100);
    assert!(chain.ingress().ingress_counters().retransmitted > 100);
}

#[test]
fn packets_that_are_forwarded_are_carried_repaired_and_delivered_without_allocations() {
    for service in [Service::Forwarding, Service::Both] {
        let mut chain = warmed_up(service, 50);
        assert_eq!(allocations(&mut chain), [0; 4], "senders, ingress, egress, receivers");
        assert!(chain.ingress().ingress_counters().retransmitted > 100);
        // The other path delivers packets that one of two paths lost.
        assert!(chain.egress().egress_counters().cached > 100 || service == Service::Both);
    }
}
