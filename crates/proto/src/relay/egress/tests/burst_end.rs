//! Tail-loss hints after pauses of the copies.

use super::*;

/// Tail-loss hints that the receiver gets within some milliseconds.
fn burst_end_hints(harness: &mut EgressHarness, millis: u64) -> Vec<(u64, TestAction)> {
    let mut hints = Vec::new();
    for passed in 1..=millis {
        harness.advance(1);
        harness.egress.send_tail_loss_hints(harness.now, &mut harness.actions);
        hints.extend(harness.drain_actions().into_iter().map(|action| (passed, action)));
    }
    hints
}

#[test]
fn a_receiver_is_told_once_where_a_burst_ended() {
    let mut harness = EgressHarness::new();
    let flow = harness.flow(Service::Caching);
    for sequence in 0..10 {
        harness.relay_copy(flow, sequence);
    }
    assert_eq!(burst_end_hints(&mut harness, 500), [(8, TestAction::SendConfirm { flow, sequence: 9 })]);
    harness.relay_copy(flow, 10);
    assert_eq!(burst_end_hints(&mut harness, 500), [(8, TestAction::SendConfirm { flow, sequence: 10 })]);
    assert_eq!(harness.egress.counters.tail_loss_hints, 2);
}

#[test]
fn steady_flows_are_soon_left_alone() {
    for every in [10, 20, 33] {
        let mut harness = EgressHarness::new();
        let flow = harness.flow(Service::Caching);
        let mut count = 0;
        for sequence in 0..100 {
            harness.relay_copy(flow, sequence);
            count += burst_end_hints(&mut harness, every).len();
        }
        assert!((4..=12).contains(&count), "{count} at {every} ms");
        assert_eq!(burst_end_hints(&mut harness, 500).len(), 1, "its end causes a hint");
    }
}

#[test]
fn who_has_asked_is_not_told() {
    let mut harness = EgressHarness::new();
    let flow = harness.flow(Service::Caching);
    harness.relay_copy(flow, 0);
    harness.nack(flow, 1, 1);
    harness.relay_copy(flow, 1);
    assert_eq!(harness.drain_actions(), [cached(flow, 1)]);
    harness.nack_open_ended(flow, 2);
    harness.relay_copy(flow, 2);
    harness.drain_actions();
    assert_eq!(burst_end_hints(&mut harness, 500), []);
}

#[test]
fn what_is_delivered_or_coded_needs_no_telling() {
    let mut harness = EgressHarness::new();
    let flow = harness.flow(Service::Both);
    harness.relay_copy(flow, 0);
    let [coded, other] = harness.flows();
    harness.batch(0, &[(coded, 64), (other, 64)], 1);
    harness.drain_actions();
    assert_eq!(burst_end_hints(&mut harness, 500), []);
}

#[test]
fn the_receiver_of_a_coded_flow_is_told_of_its_first_packets() {
    let mut harness = EgressHarness::new();
    let [begun, under_way] = harness.flows();
    harness.batch(0, &[(begun, 63), (under_way, 1_000)], 1);
    harness.drain_actions();
    assert_eq!(
        burst_end_hints(&mut harness, 500),
        [(8, TestAction::SendConfirm { flow: begun, sequence: 63 })]
    );
}

#[test]
fn a_copy_that_was_sent_again_is_no_other_end() {
    let mut harness = EgressHarness::new();
    let flow = harness.flow(Service::Caching);
    for sequence in [0, 2] {
        harness.relay_copy(flow, sequence);
    }
    assert_eq!(burst_end_hints(&mut harness, 100).len(), 1);
    harness.relay_copy(flow, 1);
    assert_eq!(burst_end_hints(&mut harness, 500), []);
}

#[test]
fn a_flow_that_left_is_nobodys() {
    let mut harness = EgressHarness::new();
    let flow = harness.flow(Service::Caching);
    harness.relay_copy(flow, 0);
    harness.egress.unregister(flow);
    assert_eq!(burst_end_hints(&mut harness, 500), []);
}

#[test]
fn bursts_with_pauses_are_told_soon_whatever_the_flow_did_before() {
    let mut harness = EgressHarness::new();
    let flow = harness.flow(Service::Caching);
    for (sequence, every) in (0..60).zip([5, 10, 20, 40, 100, 200].into_iter().flat_map(|every| [every; 10]))
    {
        harness.relay_copy(flow, sequence);
        burst_end_hints(&mut harness, every);
    }
    for burst in 15..25 {
        for sequence in burst * 4..burst * 4 + 4 {
            harness.relay_copy(flow, sequence);
            harness.advance(1);
        }
        let hints = burst_end_hints(&mut harness, 195);
        let last = burst * 4 + 3;
        assert!(
            burst == 15 || hints == [(7, TestAction::SendConfirm { flow, sequence: last })],
            "{burst}: {hints:?}"
        );
    }
}
