//! Rounds: batches completed with the packets of other receivers.

use super::*;

#[test]
fn the_other_receivers_of_the_batch_are_asked_and_the_packet_is_decoded() {
    let mut talk = Talk::new();
    let [flow, a, b] = talk.flows();
    talk.batch(0, &[(flow, 4), (a, 9), (b, 2)], 1);
    talk.nack(flow, 4, 4);
    assert_eq!(talk.said(), [asked(a, 9), asked(b, 2)]);
    talk.answer(b, 2);
    assert_eq!(talk.said(), []);
    talk.answer(a, 9);
    assert_eq!(talk.said(), [cooperative(flow, 4)]);
    let counters = talk.egress.counters;
    assert_eq!((counters.rounds, counters.rounds_decoded, counters.answers), (1, 1, 2));
}

#[test]
fn a_second_repair_packet_makes_one_straggler_unnecessary() {
    let mut talk = Talk::new();
    let [flow, a, b, c] = talk.flows();
    talk.batch(0, &[(flow, 4), (a, 9), (b, 2), (c, 5)], 2);
    talk.nack(flow, 4, 4);
    talk.said();
    talk.answer(c, 5);
    talk.answer(a, 9);
    assert_eq!(talk.said(), [cooperative(flow, 4)]);
    talk.answer(b, 2);
    assert_eq!(talk.said(), []);
    assert_eq!((talk.egress.counters.answers, talk.egress.counters.answers_unasked), (2, 1));
}

#[test]
fn several_losers_of_a_batch_are_served_from_one_decoding() {
    let mut talk = Talk::new();
    let [flow, a, b, c] = talk.flows();
    talk.batch(0, &[(flow, 4), (a, 9), (b, 2), (c, 5)], 2);
    talk.nack(flow, 4, 4);
    assert_eq!(talk.said().len(), 3);
    talk.nack(b, 2, 2);
    talk.answer(a, 9);
    assert_eq!(talk.said(), []);
    talk.answer(c, 5);
    assert_eq!(talk.said(), [cooperative(flow, 4), cooperative(b, 2)]);
    assert_eq!(talk.egress.counters.rounds_decoded, 1);
}

#[test]
fn who_misses_a_packet_too_is_not_asked_for_it() {
    let mut talk = Talk::new();
    let [flow, a, b] = talk.flows();
    talk.nack(flow, 4, 4);
    talk.nack(a, 9, 9);
    talk.batch(0, &[(flow, 4), (a, 9), (b, 2)], 2);
    // The first repair packet begins the round for one, and then the other joins.
    assert_eq!(talk.said().iter().filter(|said| **said == asked(b, 2)).count(), 1);
    talk.answer(b, 2);
    assert_eq!(talk.said(), [cooperative(flow, 4), cooperative(a, 9)]);
}

#[test]
fn a_decoded_packet_is_kept_for_who_asks_later() {
    let mut talk = Talk::new();
    let [flow, a, b] = talk.flows();
    talk.batch(0, &[(flow, 4), (a, 9), (b, 2)], 2);
    talk.nack(flow, 4, 4);
    talk.answer(a, 9);
    assert_eq!(talk.said().last(), Some(&cooperative(flow, 4)));
    talk.wait(30);
    talk.nack(b, 2, 2);
    assert_eq!(talk.said(), [cooperative(b, 2)]);
    assert_eq!((talk.egress.counters.rounds, talk.egress.counters.cooperative), (1, 2));
}

#[test]
fn a_repair_packet_that_comes_after_the_question_completes_the_round() {
    let mut talk = Talk::new();
    let [flow, a, b] = talk.flows();
    let coded = code(&[(flow, 4), (a, 9), (b, 2)], 2);
    talk.repair(0, &coded, 0);
    talk.nack(flow, 4, 4);
    talk.answer(a, 9);
    talk.said();
    talk.repair(0, &coded, 1);
    assert_eq!(talk.said(), [cooperative(flow, 4)]);
}

#[test]
fn a_flow_without_a_receiver_here_does_not_break_a_round() {
    let mut talk = Talk::new();
    let [flow, a] = talk.flows();
    let nobody = FlowSlot(77);
    let coded = code(&[(flow, 4), (nobody, 1), (a, 9)], 2);
    talk.repair(0, &coded, 0);
    talk.nack(flow, 4, 4);
    assert_eq!(talk.said(), [asked(a, 9)]);
    talk.answer(a, 9);
    assert_eq!(talk.said(), [], "one repair packet cannot stand for two");
    talk.repair(0, &coded, 1);
    assert_eq!(talk.said(), [cooperative(flow, 4)]);
}

#[test]
fn a_batch_of_flows_without_receivers_is_not_kept() {
    let mut talk = Talk::new();
    talk.batch(0, &[(FlowSlot(70), 4), (FlowSlot(71), 9)], 1);
    assert_eq!((talk.egress.counters.repairs_unknown, talk.egress.counters.repairs_kept), (1, 0));
}

#[test]
fn a_receiver_that_left_is_not_asked() {
    let mut talk = Talk::new();
    let [flow, a, b] = talk.flows();
    talk.batch(0, &[(flow, 4), (a, 9), (b, 2)], 2);
    talk.egress.unregister(a);
    talk.nack(flow, 4, 4);
    assert_eq!(talk.said(), [asked(b, 2)]);
    talk.answer(b, 2);
    assert_eq!(talk.said(), [cooperative(flow, 4)]);
}

#[test]
fn a_new_flow_is_not_asked_for_what_another_left_behind() {
    let mut talk = Talk::new();
    let [flow, a, b] = talk.flows();
    talk.batch(0, &[(flow, 4), (a, 9), (b, 2)], 2);
    talk.egress.unregister(a);
    let newcomer = talk.flow(Service::Coding);
    talk.nack(flow, 4, 4);
    assert_eq!(talk.said(), [asked(b, 2)]);
    assert!(newcomer != a && newcomer.place() == a.place(), "the place of the flow that left is taken");
}

#[test]
fn answers_to_nothing_are_counted_and_change_nothing() {
    let mut talk = Talk::new();
    let [flow, a] = talk.flows();
    talk.batch(0, &[(flow, 4), (a, 9)], 1);
    talk.answer(a, 9);
    talk.answer(a, 1_000);
    assert_eq!((talk.said().len(), talk.egress.counters.answers_unasked), (0, 2));
}

#[test]
fn an_answer_counts_once() {
    let mut talk = Talk::new();
    let [flow, a, b] = talk.flows();
    talk.batch(0, &[(flow, 4), (a, 9), (b, 2)], 1);
    talk.nack(flow, 4, 4);
    talk.said();
    talk.answer(a, 9);
    talk.answer(a, 9);
    assert_eq!(talk.said(), []);
    assert_eq!((talk.egress.counters.answers, talk.egress.counters.answers_unasked), (1, 1));
}

#[test]
fn who_did_not_answer_is_asked_again_after_one_and_a_half_round_trips() {
    let mut talk = Talk::new();
    talk.patience = ms(500);
    let [flow, a, b] = talk.flows();
    talk.egress.set_round_trip(a, ms(40));
    talk.egress.set_round_trip(b, ms(40));
    talk.batch(0, &[(flow, 4), (a, 9), (b, 2)], 1);
    talk.nack(flow, 4, 4);
    assert_eq!(talk.said().len(), 2);
    talk.answer(a, 9);
    talk.wait(59);
    talk.nack(flow, 4, 4);
    assert_eq!(talk.said(), []);
    talk.wait(1);
    talk.nack(flow, 4, 4);
    assert_eq!(talk.said(), [asked(b, 2)]);
}

#[test]
fn a_late_round_is_given_up_and_counted() {
    let mut talk = Talk::new();
    let [flow, a] = talk.flows();
    talk.batch(0, &[(flow, 4), (a, 9)], 1);
    talk.nack(flow, 4, 4);
    talk.said();
    talk.wait(220);
    talk.sweep();
    assert_eq!((talk.egress.counters.rounds_expired, talk.egress.counters.given_up), (1, 1));
    assert_eq!(talk.egress.rounds.under_way(), 0);
    talk.answer(a, 9);
    assert_eq!(talk.said(), [], "late is lost");
    assert_eq!(talk.egress.counters.answers_unasked, 1);
}

#[test]
fn a_false_answer_repairs_nothing_and_the_round_can_begin_again() {
    let mut talk = Talk::new();
    let [flow, a, b] = talk.flows();
    talk.batch(0, &[(flow, 4), (a, 9), (b, 2)], 2);
    talk.nack(flow, 4, 4);
    talk.said();
    // Longer than the repair packets: that cannot have gone into them.
    talk.answer_with(a, 9, &[7; 200]);
    assert_eq!((talk.said(), talk.egress.counters.rounds_inconsistent), (Vec::new(), 1));
    talk.wait(60);
    talk.nack(flow, 4, 4);
    assert_eq!(talk.said(), [asked(a, 9), asked(b, 2)]);
    talk.answer(b, 2);
    assert_eq!(talk.said(), [cooperative(flow, 4)]);
}

#[test]
fn a_barred_receiver_is_asked_no_more() {
    let mut talk = Talk::new();
    let [flow, a, b] = talk.flows();
    talk.egress.bar(a);
    talk.batch(0, &[(flow, 4), (a, 9), (b, 2)], 2);
    talk.nack(flow, 4, 4);
    assert_eq!(talk.said(), [asked(b, 2)]);
    assert_eq!(talk.egress.counters.answers_false, 1);
}

#[test]
fn a_receiver_gives_no_more_than_it_consented_to() {
    let mut talk = Talk::new();
    let [flow, b] = talk.flows();
    let unwilling = talk.flow_of(Service::Coding, RATE, NOTHING);
    talk.batch(0, &[(flow, 4), (unwilling, 9), (b, 2)], 2);
    talk.nack(flow, 4, 4);
    assert_eq!(talk.said(), [asked(b, 2)]);
    assert_eq!(talk.egress.counters.requests_beyond_consent, 1);
}

#[test]
fn consent_is_an_account_of_bytes_that_fills_with_time() {
    let mut talk = Talk::new();
    // 1 % of 1,000 bytes/s for 100 s: a thousand bytes at once. Refilled with 10 bytes/s.
    let consent = Consent { burst_percent: 1, average_per_mille: 10, seconds: 100 };
    let giver = talk.flow_of(Service::Coding, Rate::from_kilobits_per_second(8), consent);
    let asked = |talk: &mut Talk, batches: core::ops::Range<u32>| {
        for number in batches {
            let flow = talk.flow(Service::Coding);
            talk.batch(number, &[(giver, u64::from(number)), (flow, 0)], 1);
            talk.nack(flow, 0, 0);
        }
        talk.said().len()
    };
    let at_first = asked(&mut talk, 0..50);
    assert!((10..=14).contains(&at_first), "{at_first} packets of 70 to 100 bytes are about a thousand");
    talk.wait(50_000);
    let later = asked(&mut talk, 50..100);
    assert!((5..=7).contains(&later), "{later} of them are about 500 bytes");
}

#[test]
fn a_packet_in_two_batches_is_repaired_by_the_newer_one() {
    let mut talk = Talk::new();
    let [flow, a, b] = talk.flows();
    talk.batch(0, &[(flow, 4), (a, 9)], 1);
    talk.batch(1, &[(flow, 4), (b, 2)], 1);
    talk.nack(flow, 4, 4);
    assert_eq!(talk.said(), [asked(b, 2)]);
}

#[test]
fn an_answer_serves_every_round_that_asked_for_it() {
    let mut talk = Talk::new();
    let [flow, other, giver] = talk.flows();
    talk.batch(0, &[(flow, 4), (giver, 9)], 1);
    talk.batch(1, &[(other, 7), (giver, 9)], 1);
    talk.nack(flow, 4, 4);
    talk.nack(other, 7, 7);
    assert_eq!(talk.said(), [asked(giver, 9); 2]);
    talk.answer(giver, 9);
    assert_eq!(talk.said(), [cooperative(other, 7), cooperative(flow, 4)]);
}

#[test]
fn the_batches_of_two_ingress_relays_are_told_apart() {
    let mut talk = Talk::new();
    let [flow, a, b] = talk.flows();
    talk.batch(0, &[(flow, 4), (a, 9)], 1);
    let coded = code(&[(flow, 5), (b, 2)], 1);
    let entries: Entries = coded
        .packets
        .iter()
        .map(|(flow, sequence)| Entry {
            flow: Some(*flow),
            alias: Alias::new(1).expect("not zero"),
            sequence: SequenceNumber::new(*sequence),
            digest: None,
        })
        .collect();
    let (length_symbol, payload) = (coded.repairs[0].0, &coded.repairs[0].1);
    let repair = CrossStream { ingress: 1, batch: 0, index: 0, made: 1, covers: 2, length_symbol, payload };
    talk.egress.cross_stream(&repair, |_| entries, talk.now, &mut talk.actions);
    talk.nack(flow, 4, 5);
    assert_eq!(talk.said(), [asked(a, 9), asked(b, 2)]);
}

#[test]
fn what_is_decoded_too_late_for_one_is_given_to_the_other() {
    let mut talk = Talk::new();
    let [flow, a, b] = talk.flows();
    talk.batch(0, &[(flow, 4), (a, 9), (b, 2)], 2);
    talk.patience = ms(50);
    talk.nack(flow, 4, 4);
    talk.patience = ms(500);
    talk.nack(a, 9, 9);
    talk.said();
    talk.wait(50);
    talk.answer(b, 2);
    assert_eq!(talk.said(), [cooperative(a, 9)]);
}

#[test]
fn digests_that_were_overtaken_vouch_for_answers_all_the_same() {
    let mut talk = Talk::new();
    let [flow, a] = talk.flows();
    let coded = code(&[(flow, 0), (a, 0)], 2);
    talk.repair(0, &coded, 1);
    assert!(talk.egress.expected(a, SequenceNumber::new(0)).is_none());
    let digest = [1, 2, 3, 4];
    talk.vouched_repair(0, &coded, 0, Some(digest));
    let (_, entry) = talk.egress.expected(a, SequenceNumber::new(0)).expect("there is one");
    assert_eq!(entry.digest, Some(digest));
}

#[test]
fn a_batch_that_names_a_flow_twice_asks_it_for_no_more_than_it_consents_to() {
    let mut talk = Talk::new();
    let [flow] = talk.flows();
    // 110 bytes at most, of which an eighth is kept in reserve: one packet.
    let consent = Consent { burst_percent: 11, average_per_mille: 0, seconds: 1 };
    let giver = talk.flow_of(Service::Coding, Rate::from_kilobits_per_second(8), consent);
    talk.batch(0, &[(flow, 0), (giver, 0), (giver, 1)], 2);
    talk.nack(flow, 0, 0);
    assert_eq!(talk.said(), [asked(giver, 0)]);
    assert_eq!(talk.egress.counters.requests_beyond_consent, 1);
}
