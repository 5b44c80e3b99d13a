//! Bytes that are charged to tenants.

use byway_wire::RangeSet;

use super::*;

/// Returns the bytes that are charged to a tenant.
fn charged(harness: &IngressHarness, tenant: u32) -> u64 {
    let all = harness.ingress.traffic_by_tenant();
    all.filter(|(known, _)| known.number() == tenant).map(|(_, traffic)| traffic.sent).sum()
}

/// Harness with digests, so that tenants may share batches.
fn harness() -> IngressHarness {
    let mut harness = IngressHarness::new();
    harness.sink.has_digests = true;
    harness
}

#[test]
fn the_repair_packets_of_a_batch_are_charged_to_its_flows_by_their_bytes() {
    let mut harness = harness();
    let [one, other] = [1, 2].map(|tenant| harness.flow(FlowConfig { tenant, ..batched(2, 1) }));
    harness.copy_of(one, 0, &packet_of(1, 0, 600));
    harness.copy_of(other, 0, &packet_of(2, 0, 1_000));
    // The repair packet is as long as the longest packet: 6 and 10 of 16 parts of it.
    assert_eq!(harness.ingress.counters.cross_stream_bytes, 1_000);
    assert_eq!([1, 2].map(|tenant| charged(&harness, tenant)), [375, 625]);
}

#[test]
fn a_tenant_with_several_flows_in_a_batch_pays_for_all_of_them() {
    let mut harness = harness();
    let flows = [1, 2, 1].map(|tenant| harness.flow(FlowConfig { tenant, ..batched(3, 2) }));
    for (slot, bytes) in flows.into_iter().zip([300, 400, 500]) {
        harness.copy_of(slot, 0, &packet_of(alias(slot).number(), 0, bytes));
    }
    // Two repair packets of 500 bytes for 1,200 bytes: 250, 333.3 and 416.7 bytes.
    assert_eq!(harness.ingress.counters.cross_stream_bytes, 1_000);
    assert_eq!([1, 2].map(|tenant| charged(&harness, tenant)), [667, 333]);
}

#[test]
fn no_byte_of_a_batch_is_charged_twice_or_to_nobody() {
    let mut harness = harness();
    let flows: Vec<FlowSlot> =
        (0..8).map(|nth| harness.flow(FlowConfig { tenant: 1 + nth % 3, ..batched(8, 2) })).collect();
    for sequence in 0..200 {
        for slot in &flows {
            harness.copy(*slot, sequence);
        }
        harness.advance(1);
    }
    harness.advance(100);
    let counters = harness.ingress.counters;
    assert!(counters.cross_stream > 200, "{counters:?}");
    let parts = [1, 2, 3].map(|tenant| charged(&harness, tenant));
    assert_eq!(parts.iter().sum::<u64>(), counters.cross_stream_bytes);
    // Tenants 1 and 2 have three of the eight flows each, and tenant 3 has two.
    let eighths = parts.map(|part| part * 8 * 100 / counters.cross_stream_bytes);
    assert!(eighths.into_iter().zip([300, 300, 200]).all(|(is, expected)| is.abs_diff(expected) < 20));
}

#[test]
fn a_flow_that_has_ended_pays_for_its_last_batch() {
    let mut harness = harness();
    let [one, other] = [1, 2].map(|tenant| harness.flow(FlowConfig { tenant, ..batched(10, 2) }));
    harness.copy_of(one, 0, &packet_of(1, 0, 500));
    harness.copy_of(other, 0, &packet_of(2, 0, 500));
    let now = harness.now;
    harness.ingress.unregister(one, now);
    // Another flow gets its slot.
    assert_eq!(harness.flow(FlowConfig { tenant: 3, ..batched(10, 2) }), one);
    harness.advance(100);
    assert_eq!(harness.ingress.counters.cross_stream, 1);
    assert_eq!([1, 2, 3].map(|tenant| charged(&harness, tenant)), [250, 250, 0]);
}

#[test]
fn blocks_copies_and_their_retransmissions_are_charged_to_their_flows() {
    let mut harness = harness();
    let in_blocks = harness.flow(FlowConfig { tenant: 1, ..blocked(5, 1) });
    let cached = harness.flow(FlowConfig { tenant: 2, service: Service::Caching, ..coded() });
    let by_relay = FlowConfig { service: Service::Internet, copy_mode: CopyMode::ByRelay, ..coded() };
    let duplicated = harness.flow(FlowConfig { tenant: 3, ..by_relay });
    for sequence in 0..20 {
        for slot in [in_blocks, cached, duplicated] {
            harness.copy(slot, sequence);
        }
    }
    harness.advance(90);
    let mut lost = RangeSet::new();
    assert!(lost.insert(SequenceNumber::new(7)));
    let (ranges, peer, now) = (lost.ranges(), RelayPeerId(0), harness.now);
    harness.ingress.on_copy_nack((cached, peer), &ranges, ms(80), &mut harness.sink, now);
    let counters = harness.ingress.counters;
    assert_eq!((counters.in_stream, counters.copies_relayed, counters.duplicated), (4, 20, 20));
    assert_eq!(counters.retransmitted, 1);
    let copies = counters.copies_relayed_bytes + counters.retransmitted_bytes;
    let expected = [counters.in_stream_bytes, copies, counters.duplicated_bytes];
    assert_eq!([1, 2, 3].map(|tenant| charged(&harness, tenant)), expected);
}

#[test]
fn what_does_not_leave_the_relay_costs_nothing() {
    let mut harness = harness();
    harness.sink.is_local = true;
    let flows = [1, 2].map(|tenant| harness.flow(FlowConfig { tenant, ..batched(2, 1) }));
    let in_blocks = harness.flow(FlowConfig { tenant: 1, ..blocked(5, 1) });
    let cached = harness.flow(FlowConfig { tenant: 2, service: Service::Caching, ..coded() });
    for sequence in 0..20 {
        flows.into_iter().chain([in_blocks, cached]).for_each(|slot| harness.copy(slot, sequence));
    }
    let counters = harness.ingress.counters;
    assert!(counters.cross_stream > 0 && counters.in_stream > 0 && counters.copies_relayed > 0);
    assert_eq!([1, 2].map(|tenant| charged(&harness, tenant)), [0, 0]);
}
