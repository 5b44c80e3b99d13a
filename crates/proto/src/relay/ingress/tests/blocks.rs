//! In-stream blocks.

use super::*;
use crate::limits::{BLOCK_WAIT, COPY_RETENTION};

#[test]
fn five_packets_give_one_repair_packet_at_once() {
    let mut talk = Talk::new();
    let flow = talk.flow(blocked(5, 1));
    (0..4).for_each(|sequence| talk.copy(flow, sequence));
    assert_eq!(talk.own(), []);
    talk.copy(flow, 4);
    let own = talk.own();
    assert_eq!(own.len(), 1);
    assert_eq!((own[0].alias, own[0].first, own[0].mask, own[0].made), (1, 0, 0b1_1111, 1));
    assert_eq!(talk.ingress.counters.in_stream, 1);
}

#[test]
fn every_packet_of_a_block_can_be_restored_from_the_others() {
    let mut talk = Talk::new();
    let flow = talk.flow(blocked(5, 1));
    let packets: Vec<_> = (10..15).map(|sequence| packet(1, sequence)).collect();
    (10..15).for_each(|sequence| talk.copy(flow, sequence));
    let own = talk.own();
    for lost in 0..5 {
        assert_eq!(restore(&packets, lost, &own[0].repair), packets[lost]);
    }
}

#[test]
fn an_in_stream_repair_packet_is_as_long_as_the_longest_packet() {
    let mut talk = Talk::new();
    let flow = talk.flow(blocked(3, 2));
    for (sequence, length) in (0..).zip([100, 731, 22]) {
        talk.copy_of(flow, sequence, &packet_of(1, sequence, length));
    }
    assert_eq!(talk.own().iter().map(|own| own.repair.payload.len()).collect::<Vec<_>>(), [731, 731]);
}

#[test]
fn a_block_is_closed_when_it_has_waited_long_enough() {
    let mut talk = Talk::new();
    let flow = talk.flow(blocked(5, 1));
    talk.copy(flow, 7);
    talk.wait(20);
    talk.copy(flow, 8);
    talk.wait(BLOCK_WAIT.as_millis() - 21);
    assert_eq!(talk.own(), []);
    talk.wait(1);
    let own = talk.own();
    assert_eq!((own.len(), own[0].first, own[0].mask), (1, 7, 0b11));
    talk.wait(1_000);
    assert_eq!(talk.own(), []);
}

#[test]
fn a_packet_too_far_ahead_begins_the_next_block() {
    let mut talk = Talk::new();
    let flow = talk.flow(Kind { copying: Copying::Selective, ..blocked(5, 1) });
    talk.copy(flow, 0);
    talk.copy(flow, 31);
    assert_eq!(talk.own(), []);
    talk.copy(flow, 32);
    let own = talk.own();
    assert_eq!((own[0].first, own[0].mask), (0, 1 | 1 << 31));
    talk.wait(BLOCK_WAIT.as_millis());
    assert_eq!((talk.own()[0].first, talk.ingress.counters.in_stream_left_out), (32, 0));
}

#[test]
fn what_the_sender_does_not_copy_is_not_covered() {
    let mut talk = Talk::new();
    let flow = talk.flow(Kind { copying: Copying::Selective, ..blocked(3, 1) });
    for sequence in [4, 7, 9] {
        talk.copy(flow, sequence);
    }
    let own = talk.own();
    assert_eq!((own[0].first, own[0].mask), (4, 0b10_1001));
    talk.wait(200);
    assert_eq!(talk.made.asked, [], "gaps are no losses");
}

#[test]
fn a_packet_that_others_overtook_is_left_out() {
    let mut talk = Talk::new();
    let flow = talk.flow(blocked(3, 1));
    for sequence in [0, 2, 1, 3] {
        talk.copy(flow, sequence);
    }
    let own = talk.own();
    assert_eq!((own.len(), own[0].mask), (1, 0b1101));
    assert_eq!(talk.ingress.counters.in_stream_left_out, 1);
    // From before the block's first packet, too.
    for sequence in [6, 5] {
        talk.copy(flow, sequence);
    }
    assert_eq!(talk.ingress.counters.in_stream_left_out, 2);
}

#[test]
fn a_dark_path_needs_no_blocks() {
    let mut talk = Talk::new();
    let kind = Kind { rates: CodingRates { in_stream: BlockShape::new(2, 1), ..coded().rates }, ..coded() };
    let (flow, other) = (talk.flow(kind), talk.flow(kind));
    talk.ingress.set_dark(other, said(true), talk.now);
    (0..2).for_each(|sequence| talk.copy(flow, sequence));
    assert_eq!((talk.own(), talk.ingress.counters.in_stream_saved), (Vec::new(), 1));
    talk.ingress.set_dark(other, said(false), talk.now);
    (2..4).for_each(|sequence| talk.copy(flow, sequence));
    assert_eq!(talk.own().len(), 1);
}

#[test]
fn no_repair_packet_leaves_before_the_egress_relay_knows_the_flow() {
    let mut talk = Talk::new();
    let flow = talk.unknown_flow(coded());
    (0..10).for_each(|sequence| talk.copy(flow, sequence));
    talk.wait(200);
    assert_eq!((talk.own(), talk.batches()), (Vec::new(), Vec::new()));
    assert_eq!(talk.ingress.counters.uncovered_unknown, 10);
    talk.ingress.set_known(flow, EgressPort(0), true);
    (10..15).for_each(|sequence| talk.copy(flow, sequence));
    assert_eq!(talk.own().len(), 1);
}

#[test]
fn a_flow_at_rest_gives_its_memory_back() {
    let mut talk = Talk::new();
    let flow = talk.flow(coded());
    talk.copy(flow, 0);
    talk.wait(COPY_RETENTION.as_millis() - 1);
    assert!(talk.ingress.flow_mut(flow).is_some_and(|flow| flow.active_mut().is_some()));
    talk.wait(1);
    assert!(talk.ingress.flow_mut(flow).is_some_and(|flow| flow.active_mut().is_none()));
    assert_eq!(talk.ingress.deadline(), None);
}

#[test]
fn a_flow_that_left_is_closed_for_good() {
    let mut talk = Talk::new();
    let flow = talk.flow(blocked(5, 1));
    talk.copy(flow, 0);
    talk.ingress.unregister(flow, talk.now);
    talk.copy(flow, 1);
    talk.wait(1_000);
    assert_eq!((talk.own(), talk.ingress.counters.copies), (Vec::new(), 1));
    assert_eq!(talk.ingress.deadline(), None);
}

/// A repair packet that a sender made, of this many bytes.
fn sent_by_sender(payload: &[u8]) -> InStreamRepair<'_> {
    let (alias, place) = (Alias::new(77), byway_wire::Place::new(0, 1));
    let head = InStreamHead {
        alias: alias.expect("it is not zero"),
        first_low: 20,
        mask: byway_wire::messages::Mask::new(0b1_1111).expect("its lowest bit is set"),
        place: place.expect("it is the only one"),
        length_symbol: [3, 4],
    };
    InStreamRepair { head, payload }
}

#[test]
fn a_repair_packet_of_the_sender_goes_on_under_the_name_it_has_there() {
    let mut talk = Talk::new();
    let flow = talk.flow(Kind { copying: Copying::OwnRepairs, ..blocked(5, 1) });
    talk.ingress.own_repair(flow, &sent_by_sender(&[9; 100]), &mut talk.made, talk.now);
    let own = talk.own();
    assert_eq!((own.len(), own[0].alias, own[0].first, own[0].mask), (1, 1, 20, 0b1_1111));
    assert_eq!((&own[0].repair.payload[..], own[0].repair.length_symbol), (&[9; 100][..], [3, 4]));
    assert_eq!(talk.ingress.counters.own_repairs, 1);
}

#[test]
fn repair_packets_of_a_sender_that_is_to_send_copies_are_refused() {
    let mut talk = Talk::new();
    let flow = talk.flow(blocked(5, 1));
    talk.ingress.own_repair(flow, &sent_by_sender(&[9; 100]), &mut talk.made, talk.now);
    let without_blocks = talk.flow(Kind { copying: Copying::OwnRepairs, ..batched(8, 2) });
    talk.ingress.own_repair(without_blocks, &sent_by_sender(&[9; 100]), &mut talk.made, talk.now);
    let paid = talk.flow(Kind { copying: Copying::OwnRepairs, ..blocked(5, 1) });
    let shorter_than_any_packet = [9; byway_wire::CODED_OVERHEAD - 1];
    talk.ingress.own_repair(paid, &sent_by_sender(&shorter_than_any_packet), &mut talk.made, talk.now);
    assert_eq!((talk.own().len(), talk.ingress.counters.own_repairs_refused), (0, 3));
}

#[test]
fn a_sender_gets_no_more_repair_packets_on_than_its_rate_has_blocks() {
    let mut talk = Talk::new();
    let rate = Rate::from_kilobits_per_second(800);
    let flow = talk.flow(Kind { copying: Copying::OwnRepairs, rate, ..blocked(5, 1) });
    for _ in 0..10_000 {
        talk.ingress.own_repair(flow, &sent_by_sender(&[9; 100]), &mut talk.made, talk.now);
        talk.wait(1);
    }
    // 100,000 bytes/s give 200 blocks of five packets of 100 bytes, and half a second of them at once.
    assert_eq!(talk.own().len(), 200 * 9_999 / 1_000 + 100);
    assert_eq!(talk.ingress.counters.copies_beyond_rate, 10_000 - 2_099);
}

#[test]
fn a_repair_packet_that_is_longer_than_any_packet_is_refused() {
    let mut talk = Talk::new();
    let flow = talk.flow(Kind { copying: Copying::OwnRepairs, ..blocked(5, 1) });
    let payload = [9; crate::limits::CODED_BYTES_MAX + 1];
    talk.ingress.own_repair(flow, &sent_by_sender(&payload), &mut talk.made, talk.now);
    assert_eq!((talk.own().len(), talk.ingress.counters.copies_too_long), (0, 1));
}
