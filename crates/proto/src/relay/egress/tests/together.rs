//! Rounds that fail alone, with others, as far as the limits go.

use super::*;
use crate::limits::{STUCK_ROUNDS_MAX, WIDENED_BATCHES_MAX};

/// Batches of one repair packet over packet n of both flows, of which both are lost: none can be restored alone.
fn stuck(talk: &mut Talk, [one, other]: [FlowSlot; 2], count: u64) {
    for number in 0..count {
        talk.batch(u32::try_from(number).expect("few"), &[(one, number), (other, number)], 1);
    }
    talk.nack(one, 0, count - 1);
    talk.nack(other, 0, count - 1);
}

#[test]
fn only_so_many_rounds_are_tried_again_and_the_others_are_not_lost() {
    let mut talk = Talk::new();
    let [one, other] = talk.flows();
    let count = STUCK_ROUNDS_MAX as u64 + 8;
    stuck(&mut talk, [one, other], count);
    assert_eq!(talk.egress.stuck.len(), STUCK_ROUNDS_MAX);
    assert!(talk.egress.counters.rounds_widened >= count);
    talk.said();
    // One of the oldest, which is tried again no more, and one of the newest.
    for sequence in [0, count - 1] {
        talk.answer(other, sequence);
        assert_eq!(talk.said(), [cooperative(one, sequence)]);
    }
}

#[test]
fn batches_are_solved_together_again_only_if_something_came_for_them() {
    let mut talk = Talk::new();
    let [one, other, helper, beside, last] = talk.flows();
    talk.batch(0, &[(one, 0), (other, 0)], 1);
    talk.batch(1, &[(one, 0), (helper, 0)], 1);
    talk.nack(one, 0, 0);
    talk.lost(helper, 0, 0);
    talk.said();
    let solves = talk.egress.work.solves;
    assert!(solves > 0);
    for number in 2..20 {
        talk.wait(1);
        talk.batch(number, &[(beside, u64::from(number)), (last, u64::from(number))], 1);
    }
    assert_eq!(talk.egress.work.solves, solves);
    assert!(!talk.said().contains(&cooperative(one, 0)));
    talk.answer(other, 0);
    assert_eq!((talk.said(), talk.egress.work.solves), (alloc::vec![cooperative(one, 0)], solves + 1));
}

#[test]
fn a_chain_of_batches_longer_than_is_solved_together_is_solved_all_the_same() {
    let mut talk = Talk::new();
    let [flow, a] = talk.flows();
    // Each batch shares a lost packet with the next.
    let count = 4 * WIDENED_BATCHES_MAX as u64;
    for number in 0..count {
        let packets = [(flow, number), (a, number), (flow, number + 1)];
        talk.batch(u32::try_from(number).expect("few"), &packets, 1);
    }
    talk.nack(flow, 0, count);
    talk.lost(flow, 0, count);
    (0..count).for_each(|sequence| talk.answer(a, sequence));
    talk.said();
    let mut restored = alloc::collections::BTreeSet::new();
    talk.batch(1_000, &[(flow, 0)], 1);
    for _ in 0..20 {
        let said = talk.said();
        restored.extend(said.into_iter().filter_map(|said| match said {
            Said::Give { sequence, .. } => Some(sequence),
            _ => None,
        }));
        talk.wait(20);
        talk.nack(flow, 0, count);
    }
    assert_eq!(restored.len() as u64, count + 1);
    assert_eq!(talk.egress.counters.rounds_inconsistent, 0);
}

#[test]
fn a_lie_among_batches_that_are_solved_together_harms_those_that_rest_on_it_and_no_others() {
    let mut talk = Talk::new();
    let [one, other, liar, honest] = talk.flows();
    talk.batch(0, &[(one, 0), (liar, 0)], 1);
    talk.batch(1, &[(other, 0), (honest, 0)], 1);
    talk.nack(one, 0, 0);
    talk.nack(other, 0, 0);
    talk.said();
    talk.answer_with(liar, 0, &[0xEE; 60]);
    // What comes of it is given, and does not open at the receiver.
    assert_eq!(talk.actions.drain(..).count(), 1);
    talk.answer(honest, 0);
    assert_eq!(talk.said(), [cooperative(other, 0)]);
    // Asking again brings the same, twice more and then nothing.
    for _ in 0..6 {
        talk.wait(150);
        talk.nack(one, 0, 0);
    }
    assert!(talk.actions.drain(..).count() <= 2);
    assert!(talk.egress.counters.refused_repeated >= 3);
}

#[test]
fn a_loss_that_concerns_two_rounds_is_solved_in_both() {
    let mut talk = Talk::new();
    let [p, q, r, s] = talk.flows();
    talk.batch(0, &[(p, 10), (q, 10)], 1);
    talk.batch(1, &[(p, 10), (r, 10)], 1);
    talk.batch(2, &[(r, 10), (s, 10)], 1);
    for flow in [q, p, r] {
        talk.nack(flow, 10, 10);
    }
    talk.answer(s, 10);
    talk.said();
    talk.lost(p, 10, 10);
    let said = talk.said();
    assert!(said.contains(&cooperative(p, 10)) && said.contains(&cooperative(q, 10)), "{said:?}");
}
