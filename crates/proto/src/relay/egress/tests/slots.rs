//! Reuse of slots: flows leave, and others get their slots.

use super::*;
use crate::limits::QUARANTINED_MAX;

/// Unregisters a flow, and registers another in its slot.
fn replaced(harness: &mut EgressHarness, old_slot: FlowSlot) -> FlowSlot {
    harness.egress.unregister(old_slot);
    let next = harness.flow(Service::Coding);
    assert_eq!(next.index(), old_slot.index());
    assert_ne!(next, old_slot);
    next
}

#[test]
fn nobody_is_asked_for_the_packets_of_whoever_was_there_before() {
    let mut harness = EgressHarness::new();
    let [flow, a, b] = harness.flows();
    harness.batch(0, &[(flow, 0), (a, 7_000), (b, 0)], 2);
    let next = replaced(&mut harness, a);
    harness.nack(flow, 0, 0);
    assert_eq!(harness.drain_actions(), [requested(b, 0)]);
    harness.answer_with(next, 7_000, &packet(a, 7_000));
    assert_eq!(harness.egress.counters.answers_unsolicited, 1);
    assert_eq!(harness.drain_actions(), []);
}

#[test]
fn nobody_is_given_what_was_lost_by_whoever_was_there_before() {
    let mut harness = EgressHarness::new();
    let [flow, a] = harness.flows();
    harness.batch(0, &[(flow, 0), (a, 7_000)], 2);
    harness.nack(a, 7_000, 7_000);
    let next = replaced(&mut harness, a);
    harness.drain_actions();
    harness.answer(flow, 0);
    assert_eq!(harness.drain_actions(), [], "the restored packet belongs to no flow");
    harness.batch(1, &[(next, 0), (flow, 1)], 1);
    harness.nack(next, 0, 0);
    assert_eq!(harness.drain_actions(), [requested(flow, 1)], "its own sequence numbers are unchanged");
}

#[test]
fn who_comes_back_is_not_repaired_what_was_repaired_before() {
    let mut harness = EgressHarness::new();
    let flow = harness.flow(Service::Caching);
    harness.relay_copy(flow, 0);
    for _ in 0..2 {
        harness.nack(flow, 0, 0);
        harness.advance(200);
    }
    assert_eq!(harness.drain_actions().len(), 2);
    let next = replaced(&mut harness, flow);
    harness.nack(next, 0, 0);
    assert_eq!(harness.drain_actions(), []);
}

#[test]
fn who_answered_falsely_is_not_asked_after_coming_back_either_and_its_other_flows_are() {
    let mut harness = EgressHarness::new();
    let [flow, false_helper, other] = harness.flows();
    let key = harness.egress.key(false_helper).expect("it is registered");
    harness.egress.quarantine(false_helper);
    harness.egress.unregister(false_helper);
    let back = harness.egress.register((key, Holder::default()), Service::Coding, RATE, CONSENT, harness.now);
    harness.batch(0, &[(flow, 0), (back, 0), (other, 0)], 2);
    harness.nack(flow, 0, 0);
    assert_eq!(harness.drain_actions(), [requested(other, 0)]);
}

#[test]
fn another_flow_in_the_place_of_a_false_one_is_asked() {
    let mut harness = EgressHarness::new();
    let [flow, false_helper] = harness.flows();
    harness.egress.quarantine(false_helper);
    harness.egress.unregister(false_helper);
    let key = FlowKey::new(AgentId::new(8), Receiver::Agent(AgentId::new(9)), FlowId::new(0));
    let next = harness.egress.register((key, Holder::default()), Service::Coding, RATE, CONSENT, harness.now);
    assert_eq!(next.index(), false_helper.index());
    harness.batch(0, &[(flow, 0), (next, 0)], 1);
    harness.nack(flow, 0, 0);
    assert_eq!(harness.drain_actions(), [requested(next, 0)]);
}

#[test]
fn of_too_many_false_flows_the_oldest_is_forgotten() {
    let mut harness = EgressHarness::new();
    let false_helpers: Vec<FlowSlot> = (0..=QUARANTINED_MAX).map(|_| harness.flow(Service::Coding)).collect();
    for false_helper in &false_helpers {
        harness.egress.quarantine(*false_helper);
        harness.egress.quarantine(*false_helper);
    }
    assert_eq!(harness.egress.quarantined.len(), QUARANTINED_MAX);
    assert_eq!(harness.egress.counters.answers_false, 2 * (QUARANTINED_MAX as u64 + 1));
    let is_barred = |harness: &EgressHarness, false_helper: FlowSlot| {
        let key = harness.egress.key(false_helper).expect("it is registered");
        harness.egress.quarantined.contains(&key)
    };
    assert!(!is_barred(&harness, false_helpers[0]) && is_barred(&harness, false_helpers[1]));
}

#[test]
fn a_place_has_many_turns() {
    let mut harness = EgressHarness::new();
    let first = harness.flow(Service::Coding);
    let mut flow = first;
    for _ in 0..10_000 {
        flow = replaced(&mut harness, flow);
    }
    assert_eq!((flow.index(), harness.egress.flows.len()), (first.index(), 1));
}
