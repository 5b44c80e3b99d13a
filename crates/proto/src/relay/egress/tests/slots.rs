//! Flows come and go, and their places are given again.

use super::*;
use crate::limits::BARRED_MAX;

/// A flow that left, and another in its place.
fn replaced(talk: &mut Talk, left: FlowSlot) -> FlowSlot {
    talk.egress.unregister(left);
    let next = talk.flow(Service::Coding);
    assert_eq!(next.place(), left.place());
    assert_ne!(next, left);
    next
}

#[test]
fn nobody_is_asked_for_the_packets_of_whoever_was_there_before() {
    let mut talk = Talk::new();
    let [flow, a, b] = talk.flows();
    talk.batch(0, &[(flow, 0), (a, 7_000), (b, 0)], 2);
    let next = replaced(&mut talk, a);
    talk.nack(flow, 0, 0);
    assert_eq!(talk.said(), [asked(b, 0)]);
    talk.answer_with(next, 7_000, &packet(a, 7_000));
    assert_eq!(talk.egress.counters.answers_unasked, 1);
    assert_eq!(talk.said(), []);
}

#[test]
fn nobody_is_given_what_was_lost_by_whoever_was_there_before() {
    let mut talk = Talk::new();
    let [flow, a] = talk.flows();
    talk.batch(0, &[(flow, 0), (a, 7_000)], 2);
    talk.nack(a, 7_000, 7_000);
    let next = replaced(&mut talk, a);
    talk.said();
    talk.answer(flow, 0);
    assert_eq!(talk.said(), [], "what is restored is nobody's");
    talk.batch(1, &[(next, 0), (flow, 1)], 1);
    talk.nack(next, 0, 0);
    assert_eq!(talk.said(), [asked(flow, 1)], "and its own numbers are what they were");
}

#[test]
fn who_comes_back_is_not_repaired_what_was_repaired_before() {
    let mut talk = Talk::new();
    let flow = talk.flow(Service::Caching);
    talk.carried(flow, 0);
    for _ in 0..2 {
        talk.nack(flow, 0, 0);
        talk.wait(200);
    }
    assert_eq!(talk.said().len(), 2);
    let next = replaced(&mut talk, flow);
    talk.nack(next, 0, 0);
    assert_eq!(talk.said(), []);
}

#[test]
fn who_answered_falsely_is_not_asked_after_coming_back_either_and_its_other_flows_are() {
    let mut talk = Talk::new();
    let [flow, liar, other] = talk.flows();
    let key = talk.egress.key(liar).expect("it is registered");
    talk.egress.bar(liar);
    talk.egress.unregister(liar);
    let back = talk.egress.register((key, Holder::default()), Service::Coding, RATE, CONSENT, talk.now);
    talk.batch(0, &[(flow, 0), (back, 0), (other, 0)], 2);
    talk.nack(flow, 0, 0);
    assert_eq!(talk.said(), [asked(other, 0)]);
}

#[test]
fn another_flow_in_the_place_of_a_false_one_is_asked() {
    let mut talk = Talk::new();
    let [flow, liar] = talk.flows();
    talk.egress.bar(liar);
    talk.egress.unregister(liar);
    let key = FlowKey::new(AgentId::new(8), Receiver::Agent(AgentId::new(9)), FlowId::new(0));
    let next = talk.egress.register((key, Holder::default()), Service::Coding, RATE, CONSENT, talk.now);
    assert_eq!(next.place(), liar.place());
    talk.batch(0, &[(flow, 0), (next, 0)], 1);
    talk.nack(flow, 0, 0);
    assert_eq!(talk.said(), [asked(next, 0)]);
}

#[test]
fn of_too_many_false_flows_the_oldest_is_forgotten() {
    let mut talk = Talk::new();
    let liars: Vec<FlowSlot> = (0..=BARRED_MAX).map(|_| talk.flow(Service::Coding)).collect();
    for liar in &liars {
        talk.egress.bar(*liar);
        talk.egress.bar(*liar);
    }
    assert_eq!(talk.egress.barred.len(), BARRED_MAX);
    assert_eq!(talk.egress.counters.answers_false, 2 * (BARRED_MAX as u64 + 1));
    let is_barred = |talk: &Talk, liar: FlowSlot| {
        let key = talk.egress.key(liar).expect("it is registered");
        talk.egress.barred.contains(&key)
    };
    assert!(!is_barred(&talk, liars[0]) && is_barred(&talk, liars[1]));
}

#[test]
fn a_place_has_many_turns() {
    let mut talk = Talk::new();
    let first = talk.flow(Service::Coding);
    let mut flow = first;
    for _ in 0..10_000 {
        flow = replaced(&mut talk, flow);
    }
    assert_eq!((flow.place(), talk.egress.flows.len()), (first.place(), 1));
}
