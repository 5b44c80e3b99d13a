//! In-stream blocks.

use super::*;
use crate::limits::{BLOCK_WAIT_MAX, COPY_RETENTION};

#[test]
fn five_packets_give_one_repair_packet_at_once() {
    let mut harness = IngressHarness::new();
    let flow = harness.flow(blocked(5, 1));
    (0..4).for_each(|sequence| harness.copy(flow, sequence));
    assert_eq!(harness.drain_in_stream(), []);
    harness.copy(flow, 4);
    let own = harness.drain_in_stream();
    assert_eq!(own.len(), 1);
    assert_eq!((own[0].alias, own[0].first, own[0].mask, own[0].repair_count), (1, 0, 0b1_1111, 1));
    assert_eq!(harness.ingress.counters.in_stream, 1);
}

#[test]
fn every_packet_of_a_block_can_be_restored_from_the_others() {
    let mut harness = IngressHarness::new();
    let flow = harness.flow(blocked(5, 1));
    let packets: Vec<_> = (10..15).map(|sequence| packet(1, sequence)).collect();
    (10..15).for_each(|sequence| harness.copy(flow, sequence));
    let own = harness.drain_in_stream();
    for lost in 0..5 {
        assert_eq!(restore(&packets, lost, &own[0].repair), packets[lost]);
    }
}

#[test]
fn an_in_stream_repair_packet_is_as_long_as_the_longest_packet() {
    let mut harness = IngressHarness::new();
    let flow = harness.flow(blocked(3, 2));
    for (sequence, length) in (0..).zip([100, 731, 22]) {
        harness.copy_of(flow, sequence, &packet_of(1, sequence, length));
    }
    assert_eq!(
        harness.drain_in_stream().iter().map(|own| own.repair.payload.len()).collect::<Vec<_>>(),
        [731, 731]
    );
}

#[test]
fn a_block_is_closed_when_it_has_waited_long_enough() {
    let mut harness = IngressHarness::new();
    let flow = harness.flow(blocked(5, 1));
    harness.copy(flow, 7);
    harness.advance(20);
    harness.copy(flow, 8);
    harness.advance(BLOCK_WAIT_MAX.as_millis() - 21);
    assert_eq!(harness.drain_in_stream(), []);
    harness.advance(1);
    let own = harness.drain_in_stream();
    assert_eq!((own.len(), own[0].first, own[0].mask), (1, 7, 0b11));
    harness.advance(1_000);
    assert_eq!(harness.drain_in_stream(), []);
}

#[test]
fn a_block_waits_for_half_of_the_budget_and_costs_in_proportion() {
    let mut harness = IngressHarness::new();
    let flow = harness.flow(FlowConfig { latency_budget: ms(50), ..blocked(8, 4) });
    harness.copy(flow, 0);
    harness.advance(10);
    harness.copy(flow, 1);
    harness.advance(10);
    harness.copy(flow, 2);
    harness.advance(4);
    assert_eq!(harness.drain_in_stream(), []);
    harness.advance(1);
    let own = harness.drain_in_stream();
    assert_eq!((own.len(), own[0].mask), (2, 0b111), "4 of 8 for a full block");
}

#[test]
fn a_packet_too_far_ahead_begins_the_next_block() {
    let mut harness = IngressHarness::new();
    let flow = harness.flow(FlowConfig { copy_mode: CopyMode::Selective, ..blocked(5, 1) });
    harness.copy(flow, 0);
    harness.copy(flow, 31);
    assert_eq!(harness.drain_in_stream(), []);
    harness.copy(flow, 32);
    let own = harness.drain_in_stream();
    assert_eq!((own[0].first, own[0].mask), (0, 1 | 1 << 31));
    harness.advance(BLOCK_WAIT_MAX.as_millis());
    assert_eq!((harness.drain_in_stream()[0].first, harness.ingress.counters.in_stream_left_out), (32, 0));
}

#[test]
fn what_the_sender_does_not_copy_is_not_covered() {
    let mut harness = IngressHarness::new();
    let flow = harness.flow(FlowConfig { copy_mode: CopyMode::Selective, ..blocked(3, 1) });
    for sequence in [4, 7, 9] {
        harness.copy(flow, sequence);
    }
    let own = harness.drain_in_stream();
    assert_eq!((own[0].first, own[0].mask), (4, 0b10_1001));
    harness.advance(200);
    assert_eq!(harness.sink.requested, [], "gaps are no losses");
}

#[test]
fn a_packet_that_others_overtook_is_left_out() {
    let mut harness = IngressHarness::new();
    let flow = harness.flow(blocked(3, 1));
    for sequence in [0, 2, 1, 3] {
        harness.copy(flow, sequence);
    }
    let own = harness.drain_in_stream();
    assert_eq!((own.len(), own[0].mask), (1, 0b1101));
    assert_eq!(harness.ingress.counters.in_stream_left_out, 1);
    // This includes packets from before the block's first packet.
    for sequence in [6, 5] {
        harness.copy(flow, sequence);
    }
    assert_eq!(harness.ingress.counters.in_stream_left_out, 2);
}

#[test]
fn a_path_outage_needs_no_blocks() {
    let mut harness = IngressHarness::new();
    let kind =
        FlowConfig { rates: CodingRates { in_stream: BlockShape::new(2, 1), ..coded().rates }, ..coded() };
    let (flow, other) = (harness.flow(kind), harness.flow(kind));
    harness.ingress.set_outage(other, egress_outage(true), harness.now);
    (0..2).for_each(|sequence| harness.copy(flow, sequence));
    assert_eq!(harness.drain_in_stream().len(), 1, "a report without packets saves nothing");
    harness.copy(other, 0);
    (2..4).for_each(|sequence| harness.copy(flow, sequence));
    assert_eq!((harness.drain_in_stream(), harness.ingress.counters.in_stream_saved), (Vec::new(), 1));
    harness.ingress.set_outage(other, egress_outage(false), harness.now);
    (4..6).for_each(|sequence| harness.copy(flow, sequence));
    assert_eq!(harness.drain_in_stream().len(), 1);
}

#[test]
fn outages_of_flows_without_repair_packets_suppress_none_of_others() {
    let mut harness = IngressHarness::new();
    let kind =
        FlowConfig { rates: CodingRates { in_stream: BlockShape::new(2, 1), ..coded().rates }, ..coded() };
    let flow = harness.flow(kind);
    for service in [Service::Pull, Service::Retransmission, Service::Caching] {
        let other = harness.flow(FlowConfig { service, ..kind });
        harness.ingress.set_outage(other, egress_outage(true), harness.now);
        (0..2).for_each(|sequence| harness.copy(other, sequence));
    }
    harness.drain_in_stream();
    (0..2).for_each(|sequence| harness.copy(flow, sequence));
    assert_eq!((harness.drain_in_stream().len(), harness.ingress.counters.in_stream_saved), (1, 0));
}

#[test]
fn no_repair_packet_leaves_before_the_egress_relay_knows_the_flow() {
    let mut harness = IngressHarness::new();
    let flow = harness.unknown_flow(coded());
    (0..10).for_each(|sequence| harness.copy(flow, sequence));
    harness.advance(200);
    assert_eq!((harness.drain_in_stream(), harness.batches()), (Vec::new(), Vec::new()));
    assert_eq!(harness.ingress.counters.uncovered_unknown, 10);
    harness.ingress.set_has_receiver(flow, RelayPeerId(0), true);
    (10..15).for_each(|sequence| harness.copy(flow, sequence));
    assert_eq!(harness.drain_in_stream().len(), 1);
}

#[test]
fn a_flow_at_rest_gives_its_memory_back() {
    let mut harness = IngressHarness::new();
    let flow = harness.flow(coded());
    harness.copy(flow, 0);
    harness.advance(COPY_RETENTION.as_millis() - 1);
    assert!(harness.ingress.flow_mut(flow).is_some_and(|flow| flow.active_mut().is_some()));
    harness.advance(1);
    assert!(harness.ingress.flow_mut(flow).is_some_and(|flow| flow.active_mut().is_none()));
    assert_eq!(harness.ingress.deadline(), None);
}

#[test]
fn a_flow_that_left_is_closed_for_good() {
    let mut harness = IngressHarness::new();
    let flow = harness.flow(blocked(5, 1));
    harness.copy(flow, 0);
    harness.ingress.unregister(flow, harness.now);
    harness.copy(flow, 1);
    harness.advance(1_000);
    assert_eq!((harness.drain_in_stream(), harness.ingress.counters.copies), (Vec::new(), 1));
    assert_eq!(harness.ingress.deadline(), None);
}

/// Returns a repair packet that a sender made, with this payload.
fn sent_by_sender(payload: &[u8]) -> InStreamRepair<'_> {
    let (alias, repair_index) = (Alias::new(77), byway_wire::RepairIndex::new(0, 1));
    let head = InStreamHead {
        alias: alias.expect("it is not zero"),
        first_low: 20,
        mask: byway_wire::messages::Mask::new(0b1_1111).expect("its lowest bit is set"),
        repair_index: repair_index.expect("it is the only one"),
        length_symbol: [3, 4],
    };
    InStreamRepair { head, payload }
}

#[test]
fn a_repair_packet_of_the_sender_goes_on_under_the_name_it_has_there() {
    let mut harness = IngressHarness::new();
    let flow = harness.flow(FlowConfig { copy_mode: CopyMode::SenderFec, ..blocked(5, 1) });
    harness.ingress.on_sender_repair(flow, &sent_by_sender(&[9; 100]), &mut harness.sink, harness.now);
    let own = harness.drain_in_stream();
    assert_eq!((own.len(), own[0].alias, own[0].first, own[0].mask), (1, 1, 20, 0b1_1111));
    assert_eq!((&own[0].repair.payload[..], own[0].repair.length_symbol), (&[9; 100][..], [3, 4]));
    assert_eq!(harness.ingress.counters.sender_fec, 1);
}

#[test]
fn repair_packets_of_a_sender_that_is_to_send_copies_are_refused() {
    let mut harness = IngressHarness::new();
    let flow = harness.flow(blocked(5, 1));
    harness.ingress.on_sender_repair(flow, &sent_by_sender(&[9; 100]), &mut harness.sink, harness.now);
    let without_blocks = harness.flow(FlowConfig { copy_mode: CopyMode::SenderFec, ..batched(8, 2) });
    harness.ingress.on_sender_repair(
        without_blocks,
        &sent_by_sender(&[9; 100]),
        &mut harness.sink,
        harness.now,
    );
    let paid = harness.flow(FlowConfig { copy_mode: CopyMode::SenderFec, ..blocked(5, 1) });
    let shorter_than_any_packet = [9; byway_wire::CODED_OVERHEAD - 1];
    harness.ingress.on_sender_repair(
        paid,
        &sent_by_sender(&shorter_than_any_packet),
        &mut harness.sink,
        harness.now,
    );
    assert_eq!((harness.drain_in_stream().len(), harness.ingress.counters.sender_fec_refused), (0, 3));
}

#[test]
fn a_sender_gets_no_more_repair_packets_on_than_its_rate_has_blocks() {
    let mut harness = IngressHarness::new();
    let rate = Rate::from_kilobits_per_second(800);
    let flow = harness.flow(FlowConfig { copy_mode: CopyMode::SenderFec, rate, ..blocked(5, 1) });
    for _ in 0..10_000 {
        harness.ingress.on_sender_repair(flow, &sent_by_sender(&[9; 100]), &mut harness.sink, harness.now);
        harness.advance(1);
    }
    // 100,000 bytes/s are 200 blocks of five packets of 100 bytes. The burst is half a second of
    // them.
    assert_eq!(harness.drain_in_stream().len(), 200 * 9_999 / 1_000 + 100);
    assert_eq!(harness.ingress.counters.copies_beyond_rate, 10_000 - 2_099);
}

#[test]
fn a_repair_packet_that_is_longer_than_any_packet_is_refused() {
    let mut harness = IngressHarness::new();
    let flow = harness.flow(FlowConfig { copy_mode: CopyMode::SenderFec, ..blocked(5, 1) });
    let payload = [9; crate::limits::CODED_BYTES_MAX + 1];
    harness.ingress.on_sender_repair(flow, &sent_by_sender(&payload), &mut harness.sink, harness.now);
    assert_eq!((harness.drain_in_stream().len(), harness.ingress.counters.copies_too_long), (0, 1));
}
