//! Copies: accepted, refused, requested again, forwarded.

use super::*;
use crate::limits::{CODED_BYTES_MAX, COPY_BURST, COPY_REORDERING, EGRESS_RELAYS_MAX, INGRESS_FLOWS_MAX};

#[test]
fn a_gap_between_copies_is_asked_for_three_times_and_no_more() {
    let mut harness = IngressHarness::new();
    let flow = harness.flow(coded());
    harness.ingress.set_round_trip(flow, ms(20));
    harness.copy(flow, 0);
    harness.copy(flow, 2);
    harness.advance(COPY_REORDERING.as_millis() - 1);
    assert_eq!(harness.sink.requested, []);
    harness.advance(1);
    assert_eq!(harness.sink.requested, [(flow, 1)]);
    harness.advance(29);
    assert_eq!(harness.sink.requested.len(), 1);
    harness.advance(1);
    assert_eq!(harness.sink.requested.len(), 2);
    harness.advance(1_000);
    assert_eq!((harness.sink.requested.len(), harness.ingress.counters.copies_nacked), (3, 3));
}

#[test]
fn a_copy_that_comes_when_asked_for_is_coded() {
    let mut harness = IngressHarness::new();
    let flows = [0; 2].map(|_| harness.flow(batched(2, 1)));
    for sequence in [0, 2] {
        harness.copy(flows[0], sequence);
    }
    harness.advance(COPY_REORDERING.as_millis());
    let coded = packet(1, 1);
    let copy = ArrivingCopy { sequence_low: 1, coded: &coded, is_resent: true, ecn: Ecn::NotCapable };
    harness.ingress.on_copy(flows[0], &copy, &mut harness.sink, harness.now);
    (0..3).for_each(|sequence| harness.copy(flows[1], sequence));
    let covered: Vec<_> = harness.batches().into_iter().flat_map(|batch| batch.covered).collect();
    assert!(covered.contains(&(1, 1)));
    assert_eq!((harness.ingress.counters.copies_retransmitted, harness.ingress.counters.copies), (1, 6));
    harness.advance(1_000);
    assert_eq!(harness.sink.requested.len(), 1);
}

#[test]
fn copies_beyond_the_registered_rate_are_not_taken() {
    let mut harness = IngressHarness::new();
    let rate = Rate::from_kilobits_per_second(800);
    let flow = harness.flow(FlowConfig { rate, ..coded() });
    let burst = rate.bytes_in(COPY_BURST).expect("small").count() / 1_000;
    (0..burst + 7).for_each(|sequence| harness.copy_of(flow, sequence, &packet_of(1, sequence, 1_000)));
    assert_eq!((harness.ingress.counters.copies, harness.ingress.counters.copies_beyond_rate), (burst, 7));
    harness.advance(100);
    (0..20).for_each(|sequence| harness.copy_of(flow, 100 + sequence, &packet_of(1, sequence, 1_000)));
    assert_eq!(harness.ingress.counters.copies, burst + 10, "800 kbit/s are ten such packets in 100 ms");
}

#[test]
fn copies_that_come_twice_or_too_late_are_counted() {
    let mut harness = IngressHarness::new();
    let flow = harness.flow(batched(2, 1));
    for sequence in [0, 0, 100, 0, 30] {
        harness.copy(flow, sequence);
    }
    let counters = harness.ingress.counters;
    assert_eq!((counters.copies, counters.copies_duplicate, counters.copies_too_old), (2, 1, 2));
}

#[test]
fn a_copy_as_long_as_any_may_be_is_coded_and_a_longer_one_is_not_taken() {
    let mut harness = IngressHarness::new();
    let flows = [0; 2].map(|_| harness.flow(batched(2, 1)));
    harness.copy_of(flows[0], 0, &packet_of(1, 0, CODED_BYTES_MAX + 1));
    assert_eq!(harness.ingress.counters.copies_too_long, 1);
    harness.copy_of(flows[0], 1, &packet_of(1, 1, CODED_BYTES_MAX));
    harness.copy_of(flows[1], 0, &packet_of(2, 0, CODED_BYTES_MAX - 1));
    assert_eq!(harness.batches()[0].repairs[0].payload.len(), CODED_BYTES_MAX);
}

#[test]
fn an_empty_copy_is_coded_like_any_other() {
    let mut harness = IngressHarness::new();
    let flows = [0; 2].map(|_| harness.flow(batched(2, 1)));
    for flow in &flows {
        harness.copy_of(*flow, 0, &[]);
    }
    harness.advance(50);
    assert!(
        harness.batches().iter().all(|batch| batch.repairs.iter().all(|repair| repair.payload.is_empty()))
    );
}

#[test]
fn copies_to_be_cached_or_forwarded_are_relayed_whole() {
    for service in [Service::Caching, Service::Forwarding, Service::Both] {
        let mut harness = IngressHarness::new();
        let flow = harness.flow(FlowConfig { service, ..coded() });
        harness.copy(flow, 3);
        harness.advance(200);
        assert_eq!(harness.sink.relayed, [(1, 3, packet(1, 3))]);
        assert_eq!(
            (
                harness.drain_in_stream().len(),
                harness.batches().len(),
                harness.ingress.counters.copies_relayed
            ),
            (0, 0, 1)
        );
    }
}

#[test]
fn nothing_is_relayed_where_nobody_receives() {
    let mut harness = IngressHarness::new();
    let flow = harness.unknown_flow(FlowConfig { service: Service::Caching, ..coded() });
    harness.copy(flow, 0);
    assert_eq!(harness.sink.relayed, []);
}

#[test]
fn a_group_of_receivers_is_served_through_several_egress_relays() {
    let mut harness = IngressHarness::new();
    let flow = harness.flow(FlowConfig { service: Service::Forwarding, ..coded() });
    for peer in 1..10 {
        let has_receiver = peer != 2;
        harness.ingress.add_next_hop(
            flow,
            NextHop { peer: RelayPeerId(peer), alias: alias(FlowSlot(u32::from(peer))), has_receiver },
        );
    }
    harness.copy(flow, 0);
    let through: Vec<u16> = harness.sink.relayed.iter().map(|(alias, ..)| *alias).collect();
    assert_eq!(through, [1, 2, 4], "of {EGRESS_RELAYS_MAX} next hops, one has no receiver");
}

#[test]
fn a_relay_that_duplicates_sends_each_copy_on_once() {
    let mut harness = IngressHarness::new();
    let flow = harness.flow(FlowConfig { copy_mode: CopyMode::ByRelay, ..coded() });
    harness.copy(flow, 0);
    harness.copy(flow, 1);
    harness.copy(flow, 1);
    let on: Vec<u64> = harness.sink.duplicated.iter().map(|(_, number, _)| *number).collect();
    assert_eq!(on, [0, 1]);
}

#[test]
fn the_slot_of_a_flow_that_left_is_given_again() {
    let mut harness = IngressHarness::new();
    let flow = harness.flow(batched(2, 1));
    harness.copy(flow, 5);
    harness.ingress.unregister(flow, harness.now);
    let next = harness.flow(batched(2, 1));
    assert_eq!(next, flow);
    harness.copy(next, 5);
    assert_eq!(harness.ingress.counters.copies_duplicate, 0);
    let other = harness.flow(batched(2, 1));
    harness.copy(other, 0);
    assert_eq!(
        harness.batches().last().map(|batch| batch.covered.clone()),
        Some(alloc::vec![(1, 5), (2, 0)])
    );
}

#[test]
fn only_so_many_flows_are_registered_and_those_are_served() {
    let mut harness = IngressHarness::new();
    let first = harness.flow(batched(2, 1));
    let second = harness.flow(batched(2, 1));
    let group = registration(first, batched(2, 1)).group;
    for _ in 2..INGRESS_FLOWS_MAX {
        assert_eq!(harness.ingress.check_capacity(group, TenantId::new(0)), Ok(()));
        let register = |slot: FlowSlot| Registration {
            batching: BatchedFlow { slot: slot.0, ..registration(first, batched(2, 1)).batching },
            ..registration(first, batched(2, 1))
        };
        harness.ingress.register(register, harness.now);
    }
    for group in [group, None] {
        assert_eq!(harness.ingress.check_capacity(group, TenantId::new(0)), Err(Refusal::Full));
    }
    harness.copy(first, 0);
    harness.copy(second, 0);
    assert_eq!(harness.batches()[0].covered, [(1, 0), (2, 0)]);
    harness.ingress.unregister(second, harness.now);
    assert_eq!(harness.ingress.check_capacity(group, TenantId::new(0)), Ok(()));
}

#[test]
fn a_grant_that_follows_another_goes_on_with_its_account() {
    let mut harness = IngressHarness::new();
    let kilobits = Rate::from_kilobits_per_second;
    let kind = FlowConfig { policer_rate: Some(kilobits(800)), ..batched(2, 1) };
    let flow = harness.flow(kind);
    let burst = kilobits(800).bytes_in(COPY_BURST).expect("small").count() / 1_000;
    (0..burst).for_each(|sequence| harness.copy_of(flow, sequence, &packet_of(1, sequence, 1_000)));
    assert_eq!(harness.ingress.counters.copies_beyond_rate, 0);
    // Another flow, or another grant for the same flows, adds nothing to the burst. Its rate
    // applies from now on.
    let other = harness.flow(FlowConfig { policer_rate: Some(kilobits(1_600)), ..kind });
    harness.copy_of(other, 0, &packet_of(2, 0, 1_000));
    assert_eq!(harness.ingress.counters.copies_beyond_rate, 1);
    harness.advance(50);
    (1..20).for_each(|sequence| harness.copy_of(other, sequence, &packet_of(2, sequence, 1_000)));
    assert_eq!(harness.ingress.counters.copies, burst + 10, "1,600 kbit/s are ten such packets in 50 ms");
}

#[test]
fn who_leaves_and_comes_back_finds_its_grant_as_spent_as_it_left_it() {
    let mut harness = IngressHarness::new();
    let kind = FlowConfig { policer_rate: Some(Rate::from_kilobits_per_second(800)), ..batched(2, 1) };
    let mut copies = 0;
    for _ in 0..20 {
        let flow = harness.flow(kind);
        (0..100).for_each(|sequence| harness.copy_of(flow, sequence, &packet_of(1, sequence, 1_000)));
        harness.ingress.unregister(flow, harness.now);
        copies = harness.ingress.counters.copies;
    }
    assert_eq!(copies, 50, "half a second's worth");
    harness.advance(1_000);
    let flow = harness.flow(kind);
    (0..100).for_each(|sequence| harness.copy_of(flow, sequence, &packet_of(1, sequence, 1_000)));
    assert_eq!(harness.ingress.counters.copies, 100, "and as much again when the bucket would be full");
}
