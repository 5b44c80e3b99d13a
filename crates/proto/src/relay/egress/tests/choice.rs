//! Which repair is chosen, and when.

use super::*;

#[test]
fn a_cached_packet_goes_before_any_repair_packet() {
    let mut talk = Talk::new();
    let [flow, other] = talk.flows();
    talk.carried(flow, 3);
    talk.block(flow, 0, 5, 1);
    talk.batch(0, &[(flow, 3), (other, 8)], 1);
    talk.nack(flow, 3, 3);
    // It is in a batch too, and so passes for one that was decoded.
    assert_eq!(talk.said(), [cooperative(flow, 3)]);
    assert_eq!(talk.egress.counters.requests, 0);
}

#[test]
fn the_caching_service_sends_the_copy() {
    let mut talk = Talk::new();
    let flow = talk.flow(Service::Caching);
    talk.carried(flow, 7);
    assert_eq!(talk.said(), []);
    talk.nack(flow, 7, 7);
    assert_eq!(talk.said(), [cached(flow, 7)]);
    assert_eq!(talk.egress.counters.cached, 1);
}

#[test]
fn a_copy_that_was_asked_for_too_early_is_sent_when_it_comes() {
    let mut talk = Talk::new();
    let flow = talk.flow(Service::Caching);
    talk.carried(flow, 6);
    talk.nack(flow, 7, 7);
    assert_eq!(talk.said(), []);
    talk.carried(flow, 7);
    assert_eq!(talk.said(), [cached(flow, 7)]);
}

#[test]
fn the_forwarding_service_sends_at_once_and_unasked() {
    let mut talk = Talk::new();
    let flow = talk.flow(Service::Forwarding);
    talk.carried(flow, 0);
    assert_eq!(talk.said(), [Said::Give { flow, sequence: 0, given: Given::Forwarded }]);
}

#[test]
fn the_flows_own_repair_packet_goes_before_cooperation() {
    let mut talk = Talk::new();
    let [flow, other] = talk.flows();
    talk.block(flow, 0, 5, 1);
    talk.batch(0, &[(flow, 3), (other, 8)], 1);
    talk.nack(flow, 3, 3);
    assert_eq!(talk.said(), [Said::InStream { flow, first: 0 }]);
    assert_eq!((talk.egress.counters.in_stream, talk.egress.counters.requests), (1, 0));
}

#[test]
fn a_packet_that_its_own_block_did_not_restore_is_repaired_with_others() {
    let mut talk = Talk::new();
    let [flow, other] = talk.flows();
    talk.block(flow, 0, 5, 1);
    talk.batch(0, &[(flow, 3), (other, 8)], 1);
    talk.nack(flow, 3, 3);
    talk.said();
    talk.wait(50);
    talk.nack(flow, 3, 3);
    assert_eq!(talk.said(), [], "the question crossed the repair");
    talk.wait(50);
    talk.nack(flow, 3, 3);
    assert_eq!(talk.said(), [asked(other, 8)]);
}

#[test]
fn own_repair_packets_are_sent_only_if_they_suffice_for_all_that_is_missing() {
    let mut talk = Talk::new();
    let [flow, other, third] = talk.flows();
    talk.block(flow, 0, 5, 1);
    talk.batch(0, &[(flow, 2), (other, 8)], 1);
    talk.batch(1, &[(flow, 3), (third, 8)], 1);
    talk.nack(flow, 2, 3);
    assert_eq!(talk.said(), [asked(other, 8), asked(third, 8)]);
    assert_eq!(talk.egress.counters.in_stream, 0);
}

#[test]
fn two_own_repair_packets_repair_two_losses() {
    let mut talk = Talk::new();
    let [flow] = talk.flows();
    talk.block(flow, 10, 8, 2);
    talk.nack(flow, 12, 12);
    assert_eq!(talk.said(), [Said::InStream { flow, first: 10 }], "no more than are needed");
    talk.nack(flow, 15, 15);
    assert_eq!(talk.said(), [Said::InStream { flow, first: 10 }]);
    talk.nack(flow, 16, 16);
    assert_eq!(talk.said(), [], "there is no third");
    assert_eq!(talk.egress.counters.in_stream, 2);
}

#[test]
fn an_early_question_of_a_timer_is_confirmed_before_it_is_answered() {
    let mut talk = Talk::new();
    let [flow, other] = talk.flows();
    talk.nack_by_timer(flow, 4, 4);
    assert_eq!(talk.said(), []);
    talk.wait(20);
    talk.batch(0, &[(flow, 4), (other, 9)], 1);
    assert_eq!(talk.said(), [Said::Confirm { flow, sequence: 4 }]);
    talk.wait(20);
    talk.nack(flow, 4, 4);
    assert_eq!(talk.said(), [asked(other, 9)]);
    talk.answer(other, 9);
    assert_eq!(talk.said(), [cooperative(flow, 4)]);
    assert_eq!(talk.egress.counters.confirms, 1);
}

#[test]
fn a_confirm_that_nobody_answers_costs_nothing_more() {
    let mut talk = Talk::new();
    let [flow, other] = talk.flows();
    talk.nack_by_timer(flow, 4, 4);
    talk.batch(0, &[(flow, 4), (other, 9)], 2);
    assert_eq!(talk.said(), [Said::Confirm { flow, sequence: 4 }]);
    talk.wait(250);
    talk.sweep();
    assert_eq!(talk.said(), []);
    assert_eq!((talk.egress.counters.given_up, talk.egress.counters.requests), (1, 0));
}

#[test]
fn an_early_question_about_a_gap_is_answered_as_soon_as_it_can_be() {
    let mut talk = Talk::new();
    let [flow, other] = talk.flows();
    talk.nack(flow, 4, 4);
    talk.batch(0, &[(flow, 4), (other, 9)], 1);
    assert_eq!(talk.said(), [asked(other, 9)]);
    assert_eq!(talk.egress.counters.confirms, 0);
}

#[test]
fn a_repair_packet_of_a_block_answers_an_early_question() {
    let mut talk = Talk::new();
    let [flow] = talk.flows();
    talk.nack(flow, 4, 4);
    talk.block(flow, 0, 5, 1);
    assert_eq!(talk.said(), [Said::InStream { flow, first: 0 }]);
}

#[test]
fn a_packet_is_repaired_at_most_three_times() {
    let mut talk = Talk::new();
    let flow = talk.flow(Service::Caching);
    talk.patience = ms(2_000);
    talk.carried(flow, 0);
    for _ in 0..5 {
        talk.nack(flow, 0, 0);
        talk.wait(100);
    }
    assert_eq!(talk.said(), [cached(flow, 0); 3]);
    assert_eq!(talk.egress.counters.refused_repeated, 2);
}

#[test]
fn a_question_that_crosses_its_answer_is_not_answered_again() {
    let mut talk = Talk::new();
    let flow = talk.flow(Service::Caching);
    talk.carried(flow, 0);
    talk.egress.set_round_trip(flow, ms(40));
    talk.nack(flow, 0, 0);
    talk.wait(39);
    talk.nack(flow, 0, 0);
    assert_eq!(talk.said().len(), 1);
    talk.wait(1);
    talk.nack(flow, 0, 0);
    assert_eq!(talk.said().len(), 1);
}

#[test]
fn a_missing_packet_is_given_up_when_a_repair_is_of_no_use_any_more() {
    let mut talk = Talk::new();
    let [flow, other] = talk.flows();
    talk.nack(flow, 4, 4);
    talk.wait(199);
    talk.sweep();
    assert_eq!(talk.egress.counters.given_up, 0);
    talk.wait(21);
    talk.sweep();
    assert_eq!(talk.egress.counters.given_up, 1);
    talk.batch(0, &[(flow, 4), (other, 9)], 1);
    assert_eq!(talk.said(), []);
}
