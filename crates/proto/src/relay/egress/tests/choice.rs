//! Choice of a repair, and its time.

use super::*;

#[test]
fn a_cached_packet_goes_before_any_repair_packet() {
    let mut harness = EgressHarness::new();
    let [flow, other] = harness.flows();
    harness.relay_copy(flow, 3);
    harness.block(flow, 0, 5, 1);
    harness.batch(0, &[(flow, 3), (other, 8)], 1);
    harness.nack(flow, 3, 3);
    // A batch covers it too; it therefore counts as decoded.
    assert_eq!(harness.drain_actions(), [cooperative(flow, 3)]);
    assert_eq!(harness.egress.counters.requests, 0);
}

#[test]
fn the_caching_service_sends_the_copy() {
    let mut harness = EgressHarness::new();
    let flow = harness.flow(Service::Caching);
    harness.relay_copy(flow, 7);
    assert_eq!(harness.drain_actions(), []);
    harness.nack(flow, 7, 7);
    assert_eq!(harness.drain_actions(), [cached(flow, 7)]);
    assert_eq!(harness.egress.counters.cached, 1);
}

#[test]
fn a_copy_that_was_asked_for_too_early_is_sent_when_it_comes() {
    let mut harness = EgressHarness::new();
    let flow = harness.flow(Service::Caching);
    harness.relay_copy(flow, 6);
    harness.nack(flow, 7, 7);
    assert_eq!(harness.drain_actions(), []);
    harness.relay_copy(flow, 7);
    assert_eq!(harness.drain_actions(), [cached(flow, 7)]);
}

#[test]
fn the_forwarding_service_sends_at_once_and_unasked() {
    let mut harness = EgressHarness::new();
    let flow = harness.flow(Service::Forwarding);
    harness.relay_copy(flow, 0);
    assert_eq!(
        harness.drain_actions(),
        [TestAction::SendRepair { flow, sequence: 0, source: RepairSource::Forwarded }]
    );
}

#[test]
fn the_flows_own_repair_packet_goes_before_cooperation() {
    let mut harness = EgressHarness::new();
    let [flow, other] = harness.flows();
    harness.block(flow, 0, 5, 1);
    harness.batch(0, &[(flow, 3), (other, 8)], 1);
    harness.nack(flow, 3, 3);
    assert_eq!(harness.drain_actions(), [TestAction::SendInStreamRepair { flow, first: 0 }]);
    assert_eq!((harness.egress.counters.in_stream, harness.egress.counters.requests), (1, 0));
}

#[test]
fn a_packet_that_its_own_block_did_not_restore_is_repaired_with_others() {
    let mut harness = EgressHarness::new();
    let [flow, other] = harness.flows();
    harness.block(flow, 0, 5, 1);
    harness.batch(0, &[(flow, 3), (other, 8)], 1);
    harness.nack(flow, 3, 3);
    harness.drain_actions();
    harness.advance(50);
    harness.nack(flow, 3, 3);
    assert_eq!(harness.drain_actions(), [], "the NACK crossed the repair");
    harness.advance(50);
    harness.nack(flow, 3, 3);
    assert_eq!(harness.drain_actions(), [requested(other, 8)]);
}

#[test]
fn in_stream_repair_packets_are_sent_only_if_they_suffice_for_all_that_is_missing() {
    let mut harness = EgressHarness::new();
    let [flow, other, third] = harness.flows();
    harness.block(flow, 0, 5, 1);
    harness.batch(0, &[(flow, 2), (other, 8)], 1);
    harness.batch(1, &[(flow, 3), (third, 8)], 1);
    harness.nack(flow, 2, 3);
    assert_eq!(harness.drain_actions(), [requested(other, 8), requested(third, 8)]);
    assert_eq!(harness.egress.counters.in_stream, 0);
}

#[test]
fn two_in_stream_repair_packets_repair_two_losses() {
    let mut harness = EgressHarness::new();
    let [flow] = harness.flows();
    harness.block(flow, 10, 8, 2);
    harness.nack(flow, 12, 12);
    assert_eq!(
        harness.drain_actions(),
        [TestAction::SendInStreamRepair { flow, first: 10 }],
        "no more than are needed"
    );
    harness.nack(flow, 15, 15);
    assert_eq!(harness.drain_actions(), [TestAction::SendInStreamRepair { flow, first: 10 }]);
    harness.nack(flow, 16, 16);
    assert_eq!(harness.drain_actions(), [], "there is no third");
    assert_eq!(harness.egress.counters.in_stream, 2);
}

#[test]
fn an_early_question_of_a_timer_is_confirmed_before_it_is_answered() {
    let mut harness = EgressHarness::new();
    let [flow, other] = harness.flows();
    harness.nack_by_timer(flow, 4, 4);
    assert_eq!(harness.drain_actions(), []);
    harness.advance(20);
    harness.batch(0, &[(flow, 4), (other, 9)], 1);
    assert_eq!(harness.drain_actions(), [TestAction::SendConfirm { flow, sequence: 4 }]);
    harness.advance(20);
    harness.nack(flow, 4, 4);
    assert_eq!(harness.drain_actions(), [requested(other, 9)]);
    harness.answer(other, 9);
    assert_eq!(harness.drain_actions(), [cooperative(flow, 4)]);
    assert_eq!(harness.egress.counters.confirms, 1);
}

#[test]
fn a_confirm_that_nobody_answers_costs_nothing_more() {
    let mut harness = EgressHarness::new();
    let [flow, other] = harness.flows();
    harness.nack_by_timer(flow, 4, 4);
    harness.batch(0, &[(flow, 4), (other, 9)], 2);
    assert_eq!(harness.drain_actions(), [TestAction::SendConfirm { flow, sequence: 4 }]);
    harness.advance(250);
    harness.sweep();
    assert_eq!(harness.drain_actions(), []);
    assert_eq!((harness.egress.counters.abandoned, harness.egress.counters.requests), (1, 0));
}

#[test]
fn an_early_question_about_a_gap_is_answered_as_soon_as_it_can_be() {
    let mut harness = EgressHarness::new();
    let [flow, other] = harness.flows();
    harness.nack(flow, 4, 4);
    harness.batch(0, &[(flow, 4), (other, 9)], 1);
    assert_eq!(harness.drain_actions(), [requested(other, 9)]);
    assert_eq!(harness.egress.counters.confirms, 0);
}

#[test]
fn a_repair_packet_of_a_block_answers_an_early_question() {
    let mut harness = EgressHarness::new();
    let [flow] = harness.flows();
    harness.nack(flow, 4, 4);
    harness.block(flow, 0, 5, 1);
    assert_eq!(harness.drain_actions(), [TestAction::SendInStreamRepair { flow, first: 0 }]);
}

#[test]
fn a_packet_is_repaired_at_most_three_times() {
    let mut harness = EgressHarness::new();
    let flow = harness.flow(Service::Caching);
    harness.repair_lifetime = ms(2_000);
    harness.relay_copy(flow, 0);
    for _ in 0..5 {
        harness.nack(flow, 0, 0);
        harness.advance(100);
    }
    assert_eq!(harness.drain_actions(), [cached(flow, 0); 3]);
    assert_eq!(harness.egress.counters.refused_repeated, 2);
}

#[test]
fn a_question_that_crosses_its_answer_is_not_answered_again() {
    let mut harness = EgressHarness::new();
    let flow = harness.flow(Service::Caching);
    harness.relay_copy(flow, 0);
    harness.egress.set_round_trip(flow, ms(40));
    harness.nack(flow, 0, 0);
    harness.advance(39);
    harness.nack(flow, 0, 0);
    assert_eq!(harness.drain_actions().len(), 1);
    harness.advance(1);
    harness.nack(flow, 0, 0);
    assert_eq!(harness.drain_actions().len(), 1);
}

#[test]
fn a_missing_packet_is_given_up_when_a_repair_is_of_no_use_any_more() {
    let mut harness = EgressHarness::new();
    let [flow, other] = harness.flows();
    harness.nack(flow, 4, 4);
    harness.advance(199);
    harness.sweep();
    assert_eq!(harness.egress.counters.abandoned, 0);
    harness.advance(21);
    harness.sweep();
    assert_eq!(harness.egress.counters.abandoned, 1);
    harness.batch(0, &[(flow, 4), (other, 9)], 1);
    assert_eq!(harness.drain_actions(), []);
}
