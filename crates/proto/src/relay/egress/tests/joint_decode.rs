//! Joint decoding of attempts that fail alone, within limits.

use super::*;
use crate::limits::{JOINT_DECODE_BATCHES_MAX, UNDECODABLE_ATTEMPTS_MAX};

/// Batches of one repair packet over packet n of both flows. Both packets are lost, and no batch
/// suffices alone.
fn undecodable_batches(harness: &mut EgressHarness, [one, other]: [FlowSlot; 2], count: u64) {
    for number in 0..count {
        harness.batch(u32::try_from(number).expect("few"), &[(one, number), (other, number)], 1);
    }
    harness.nack(one, 0, count - 1);
    harness.nack(other, 0, count - 1);
}

#[test]
fn only_so_many_decode_attempts_are_retried_and_the_others_are_not_lost() {
    let mut harness = EgressHarness::new();
    let [one, other] = harness.flows();
    let count = UNDECODABLE_ATTEMPTS_MAX as u64 + 8;
    undecodable_batches(&mut harness, [one, other], count);
    assert_eq!(harness.egress.joint.undecodable.len(), UNDECODABLE_ATTEMPTS_MAX);
    assert!(harness.egress.counters.decode_attempts_expanded >= count);
    harness.drain_actions();
    // One attempt of the oldest, which is not retried any more, and one of the newest.
    for sequence in [0, count - 1] {
        harness.answer(other, sequence);
        assert_eq!(harness.drain_actions(), [cooperative(one, sequence)]);
    }
}

#[test]
fn an_equation_system_is_solved_again_only_after_new_packets_for_it() {
    let mut harness = EgressHarness::new();
    let [one, other, helper, beside, last] = harness.flows();
    harness.batch(0, &[(one, 0), (other, 0)], 1);
    harness.batch(1, &[(one, 0), (helper, 0)], 1);
    harness.nack(one, 0, 0);
    harness.lost(helper, 0, 0);
    harness.drain_actions();
    let solves = harness.egress.work.solves;
    assert!(solves > 0);
    for number in 2..20 {
        harness.advance(1);
        harness.batch(number, &[(beside, u64::from(number)), (last, u64::from(number))], 1);
    }
    assert_eq!(harness.egress.work.solves, solves);
    assert!(!harness.drain_actions().contains(&cooperative(one, 0)));
    harness.answer(other, 0);
    assert_eq!(
        (harness.drain_actions(), harness.egress.work.solves),
        (alloc::vec![cooperative(one, 0)], solves + 1)
    );
}

#[test]
fn a_chain_of_batches_longer_than_is_solved_together_is_solved_all_the_same() {
    let mut harness = EgressHarness::new();
    let [flow, a] = harness.flows();
    // Each batch shares a lost packet with the next.
    let count = 4 * JOINT_DECODE_BATCHES_MAX as u64;
    for number in 0..count {
        let packets = [(flow, number), (a, number), (flow, number + 1)];
        harness.batch(u32::try_from(number).expect("few"), &packets, 1);
    }
    harness.nack(flow, 0, count);
    harness.lost(flow, 0, count);
    (0..count).for_each(|sequence| harness.answer(a, sequence));
    harness.drain_actions();
    let mut restored = alloc::collections::BTreeSet::new();
    harness.batch(1_000, &[(flow, 0)], 1);
    for _ in 0..20 {
        let actions = harness.drain_actions();
        restored.extend(actions.into_iter().filter_map(|action| match action {
            TestAction::SendRepair { sequence, .. } => Some(sequence),
            _ => None,
        }));
        harness.advance(20);
        harness.nack(flow, 0, count);
    }
    assert_eq!(restored.len() as u64, count + 1);
    assert_eq!(harness.egress.counters.decode_attempts_inconsistent, 0);
}

#[test]
fn a_false_packet_among_batches_decoded_jointly_harms_those_that_rest_on_it_and_no_others() {
    let mut harness = EgressHarness::new();
    let [one, other, false_helper, honest] = harness.flows();
    harness.batch(0, &[(one, 0), (false_helper, 0)], 1);
    harness.batch(1, &[(other, 0), (honest, 0)], 1);
    harness.nack(one, 0, 0);
    harness.nack(other, 0, 0);
    harness.drain_actions();
    harness.answer_with(false_helper, 0, &[0xEE; 60]);
    // The relay sends the decoded packet, which the receiver cannot authenticate.
    assert_eq!(harness.actions.drain(..).count(), 1);
    harness.answer(honest, 0);
    assert_eq!(harness.drain_actions(), [cooperative(other, 0)]);
    // Repeated NACKs cause the same repair twice more, then none.
    for _ in 0..6 {
        harness.advance(150);
        harness.nack(one, 0, 0);
    }
    assert!(harness.actions.drain(..).count() <= 2);
    assert!(harness.egress.counters.refused_repeated >= 3);
}

#[test]
fn a_loss_that_concerns_two_decode_attempts_is_solved_in_both() {
    let mut harness = EgressHarness::new();
    let [p, q, r, s] = harness.flows();
    harness.batch(0, &[(p, 10), (q, 10)], 1);
    harness.batch(1, &[(p, 10), (r, 10)], 1);
    harness.batch(2, &[(r, 10), (s, 10)], 1);
    for flow in [q, p, r] {
        harness.nack(flow, 10, 10);
    }
    harness.answer(s, 10);
    harness.drain_actions();
    harness.lost(p, 10, 10);
    let actions = harness.drain_actions();
    assert!(actions.contains(&cooperative(p, 10)) && actions.contains(&cooperative(q, 10)), "{actions:?}");
}
