//! Decode attempts: batches completed with the packets of other receivers.

use super::*;

#[test]
fn the_other_receivers_of_the_batch_are_asked_and_the_packet_is_decoded() {
    let mut harness = EgressHarness::new();
    let [flow, a, b] = harness.flows();
    harness.batch(0, &[(flow, 4), (a, 9), (b, 2)], 1);
    harness.nack(flow, 4, 4);
    assert_eq!(harness.drain_actions(), [requested(a, 9), requested(b, 2)]);
    harness.answer(b, 2);
    assert_eq!(harness.drain_actions(), []);
    harness.answer(a, 9);
    assert_eq!(harness.drain_actions(), [cooperative(flow, 4)]);
    let counters = harness.egress.counters;
    assert_eq!((counters.decode_attempts, counters.decode_attempts_decoded, counters.answers), (1, 1, 2));
}

#[test]
fn a_second_repair_packet_makes_one_straggler_unnecessary() {
    let mut harness = EgressHarness::new();
    let [flow, a, b, c] = harness.flows();
    harness.batch(0, &[(flow, 4), (a, 9), (b, 2), (c, 5)], 2);
    harness.nack(flow, 4, 4);
    harness.drain_actions();
    harness.answer(c, 5);
    harness.answer(a, 9);
    assert_eq!(harness.drain_actions(), [cooperative(flow, 4)]);
    harness.answer(b, 2);
    assert_eq!(harness.drain_actions(), []);
    assert_eq!((harness.egress.counters.answers, harness.egress.counters.answers_unsolicited), (2, 1));
}

#[test]
fn several_losers_of_a_batch_are_served_from_one_decoding() {
    let mut harness = EgressHarness::new();
    let [flow, a, b, c] = harness.flows();
    harness.batch(0, &[(flow, 4), (a, 9), (b, 2), (c, 5)], 2);
    harness.nack(flow, 4, 4);
    assert_eq!(harness.drain_actions().len(), 3);
    harness.nack(b, 2, 2);
    harness.answer(a, 9);
    assert_eq!(harness.drain_actions(), []);
    harness.answer(c, 5);
    assert_eq!(harness.drain_actions(), [cooperative(flow, 4), cooperative(b, 2)]);
    assert_eq!(harness.egress.counters.decode_attempts_decoded, 1);
}

#[test]
fn who_misses_a_packet_too_is_not_asked_for_it() {
    let mut harness = EgressHarness::new();
    let [flow, a, b] = harness.flows();
    harness.nack(flow, 4, 4);
    harness.nack(a, 9, 9);
    harness.batch(0, &[(flow, 4), (a, 9), (b, 2)], 2);
    // The first repair packet begins the attempt for one flow, and the other one joins it.
    assert_eq!(harness.drain_actions().iter().filter(|action| **action == requested(b, 2)).count(), 1);
    harness.answer(b, 2);
    assert_eq!(harness.drain_actions(), [cooperative(flow, 4), cooperative(a, 9)]);
}

#[test]
fn a_decoded_packet_is_kept_for_who_asks_later() {
    let mut harness = EgressHarness::new();
    let [flow, a, b] = harness.flows();
    harness.batch(0, &[(flow, 4), (a, 9), (b, 2)], 2);
    harness.nack(flow, 4, 4);
    harness.answer(a, 9);
    assert_eq!(harness.drain_actions().last(), Some(&cooperative(flow, 4)));
    harness.advance(30);
    harness.nack(b, 2, 2);
    assert_eq!(harness.drain_actions(), [cooperative(b, 2)]);
    assert_eq!((harness.egress.counters.decode_attempts, harness.egress.counters.cooperative), (1, 2));
}

#[test]
fn a_repair_packet_that_arrives_after_the_nack_completes_the_decode_attempt() {
    let mut harness = EgressHarness::new();
    let [flow, a, b] = harness.flows();
    let coded = code(&[(flow, 4), (a, 9), (b, 2)], 2);
    harness.repair(0, &coded, 0);
    harness.nack(flow, 4, 4);
    harness.answer(a, 9);
    harness.drain_actions();
    harness.repair(0, &coded, 1);
    assert_eq!(harness.drain_actions(), [cooperative(flow, 4)]);
}

#[test]
fn a_flow_without_a_receiver_here_does_not_break_a_decode_attempt() {
    let mut harness = EgressHarness::new();
    let [flow, a] = harness.flows();
    let nobody = FlowSlot(77);
    let coded = code(&[(flow, 4), (nobody, 1), (a, 9)], 2);
    harness.repair(0, &coded, 0);
    harness.nack(flow, 4, 4);
    assert_eq!(harness.drain_actions(), [requested(a, 9)]);
    harness.answer(a, 9);
    assert_eq!(harness.drain_actions(), [], "one repair packet cannot stand for two");
    harness.repair(0, &coded, 1);
    assert_eq!(harness.drain_actions(), [cooperative(flow, 4)]);
}

#[test]
fn a_batch_of_flows_without_receivers_is_not_kept() {
    let mut harness = EgressHarness::new();
    harness.batch(0, &[(FlowSlot(70), 4), (FlowSlot(71), 9)], 1);
    assert_eq!((harness.egress.counters.repairs_unknown, harness.egress.counters.repairs_stored), (1, 0));
}

#[test]
fn a_receiver_that_left_is_not_asked() {
    let mut harness = EgressHarness::new();
    let [flow, a, b] = harness.flows();
    harness.batch(0, &[(flow, 4), (a, 9), (b, 2)], 2);
    harness.egress.unregister(a);
    harness.nack(flow, 4, 4);
    assert_eq!(harness.drain_actions(), [requested(b, 2)]);
    harness.answer(b, 2);
    assert_eq!(harness.drain_actions(), [cooperative(flow, 4)]);
}

#[test]
fn a_new_flow_is_not_asked_for_what_another_left_behind() {
    let mut harness = EgressHarness::new();
    let [flow, a, b] = harness.flows();
    harness.batch(0, &[(flow, 4), (a, 9), (b, 2)], 2);
    harness.egress.unregister(a);
    let newcomer = harness.flow(Service::Coding);
    harness.nack(flow, 4, 4);
    assert_eq!(harness.drain_actions(), [requested(b, 2)]);
    assert!(newcomer != a && newcomer.index() == a.index(), "the flow gets the index of the removed one");
}

#[test]
fn answers_to_nothing_are_counted_and_change_nothing() {
    let mut harness = EgressHarness::new();
    let [flow, a] = harness.flows();
    harness.batch(0, &[(flow, 4), (a, 9)], 1);
    harness.answer(a, 9);
    harness.answer(a, 1_000);
    assert_eq!((harness.drain_actions().len(), harness.egress.counters.answers_unsolicited), (0, 2));
}

#[test]
fn an_answer_counts_once() {
    let mut harness = EgressHarness::new();
    let [flow, a, b] = harness.flows();
    harness.batch(0, &[(flow, 4), (a, 9), (b, 2)], 1);
    harness.nack(flow, 4, 4);
    harness.drain_actions();
    harness.answer(a, 9);
    harness.answer(a, 9);
    assert_eq!(harness.drain_actions(), []);
    assert_eq!((harness.egress.counters.answers, harness.egress.counters.answers_unsolicited), (1, 1));
}

#[test]
fn who_did_not_answer_is_asked_again_after_one_and_a_half_round_trips() {
    let mut harness = EgressHarness::new();
    harness.repair_lifetime = ms(500);
    let [flow, a, b] = harness.flows();
    harness.egress.set_round_trip(a, ms(40));
    harness.egress.set_round_trip(b, ms(40));
    harness.batch(0, &[(flow, 4), (a, 9), (b, 2)], 1);
    harness.nack(flow, 4, 4);
    assert_eq!(harness.drain_actions().len(), 2);
    harness.answer(a, 9);
    harness.advance(59);
    harness.nack(flow, 4, 4);
    assert_eq!(harness.drain_actions(), []);
    harness.advance(1);
    harness.nack(flow, 4, 4);
    assert_eq!(harness.drain_actions(), [requested(b, 2)]);
}

#[test]
fn a_late_decode_attempt_expires_and_is_counted() {
    let mut harness = EgressHarness::new();
    let [flow, a] = harness.flows();
    harness.batch(0, &[(flow, 4), (a, 9)], 1);
    harness.nack(flow, 4, 4);
    harness.drain_actions();
    harness.advance(220);
    harness.sweep();
    assert_eq!((harness.egress.counters.decode_attempts_expired, harness.egress.counters.abandoned), (1, 1));
    assert_eq!(harness.egress.attempts.active_count(), 0);
    harness.answer(a, 9);
    assert_eq!(harness.drain_actions(), [], "late is lost");
    assert_eq!(harness.egress.counters.answers_unsolicited, 1);
}

#[test]
fn a_false_answer_repairs_nothing_and_decoding_can_be_attempted_again() {
    let mut harness = EgressHarness::new();
    let [flow, a, b] = harness.flows();
    harness.batch(0, &[(flow, 4), (a, 9), (b, 2)], 2);
    harness.nack(flow, 4, 4);
    harness.drain_actions();
    // It is longer than the repair packets, which therefore cannot cover it.
    harness.answer_with(a, 9, &[7; 200]);
    assert_eq!(
        (harness.drain_actions(), harness.egress.counters.decode_attempts_inconsistent),
        (Vec::new(), 1)
    );
    harness.advance(60);
    harness.nack(flow, 4, 4);
    assert_eq!(harness.drain_actions(), [requested(a, 9), requested(b, 2)]);
    harness.answer(b, 2);
    assert_eq!(harness.drain_actions(), [cooperative(flow, 4)]);
}

#[test]
fn a_quarantined_receiver_is_asked_no_more() {
    let mut harness = EgressHarness::new();
    let [flow, a, b] = harness.flows();
    harness.egress.quarantine(a);
    harness.batch(0, &[(flow, 4), (a, 9), (b, 2)], 2);
    harness.nack(flow, 4, 4);
    assert_eq!(harness.drain_actions(), [requested(b, 2)]);
    assert_eq!(harness.egress.counters.answers_false, 1);
}

#[test]
fn a_receiver_gives_no_more_than_it_consented_to() {
    let mut harness = EgressHarness::new();
    let [flow, b] = harness.flows();
    let unwilling = harness.flow_of(Service::Coding, RATE, NOTHING);
    harness.batch(0, &[(flow, 4), (unwilling, 9), (b, 2)], 2);
    harness.nack(flow, 4, 4);
    assert_eq!(harness.drain_actions(), [requested(b, 2)]);
    assert_eq!(harness.egress.counters.requests_beyond_consent, 1);
}

#[test]
fn consent_is_an_account_of_bytes_that_fills_with_time() {
    let mut harness = EgressHarness::new();
    // 1 % of 1,000 bytes/s for 100 s is a burst of a thousand bytes, refilled with 10 bytes/s.
    let consent = Consent { burst_percent: 1, average_per_mille: 10, seconds: 100 };
    let giver = harness.flow_of(Service::Coding, Rate::from_kilobits_per_second(8), consent);
    let requests = |harness: &mut EgressHarness, batches: core::ops::Range<u32>| {
        for number in batches {
            let flow = harness.flow(Service::Coding);
            harness.batch(number, &[(giver, u64::from(number)), (flow, 0)], 1);
            harness.nack(flow, 0, 0);
        }
        harness.drain_actions().len()
    };
    let at_first = requests(&mut harness, 0..50);
    assert!((10..=14).contains(&at_first), "{at_first} packets of 70 to 100 bytes are about a thousand");
    harness.advance(50_000);
    let later = requests(&mut harness, 50..100);
    assert!((5..=7).contains(&later), "{later} of them are about 500 bytes");
}

#[test]
fn a_packet_in_two_batches_is_repaired_by_the_newer_one() {
    let mut harness = EgressHarness::new();
    let [flow, a, b] = harness.flows();
    harness.batch(0, &[(flow, 4), (a, 9)], 1);
    harness.batch(1, &[(flow, 4), (b, 2)], 1);
    harness.nack(flow, 4, 4);
    assert_eq!(harness.drain_actions(), [requested(b, 2)]);
}

#[test]
fn an_answer_serves_every_decode_attempt_that_requested_it() {
    let mut harness = EgressHarness::new();
    let [flow, other, giver] = harness.flows();
    harness.batch(0, &[(flow, 4), (giver, 9)], 1);
    harness.batch(1, &[(other, 7), (giver, 9)], 1);
    harness.nack(flow, 4, 4);
    harness.nack(other, 7, 7);
    assert_eq!(harness.drain_actions(), [requested(giver, 9); 2]);
    harness.answer(giver, 9);
    assert_eq!(harness.drain_actions(), [cooperative(other, 7), cooperative(flow, 4)]);
}

#[test]
fn the_batches_of_two_ingress_relays_are_told_apart() {
    let mut harness = EgressHarness::new();
    let [flow, a, b] = harness.flows();
    harness.batch(0, &[(flow, 4), (a, 9)], 1);
    let coded = code(&[(flow, 5), (b, 2)], 1);
    let entries: BatchEntries = coded
        .packets
        .iter()
        .map(|(flow, sequence)| BatchEntry {
            flow: Some(*flow),
            alias: Alias::new(1).expect("not zero"),
            sequence: SequenceNumber::new(*sequence),
            digest: None,
        })
        .collect();
    let (length_symbol, payload) = (coded.repairs[0].0, &coded.repairs[0].1);
    let repair = CrossStreamPacket {
        ingress: 1,
        batch: 0,
        index: 0,
        repair_count: 1,
        covered_count: 2,
        length_symbol,
        payload,
    };
    harness.egress.on_cross_stream_repair(&repair, |_| entries, harness.now, &mut harness.actions);
    harness.nack(flow, 4, 5);
    assert_eq!(harness.drain_actions(), [requested(a, 9), requested(b, 2)]);
}

#[test]
fn what_is_decoded_too_late_for_one_is_given_to_the_other() {
    let mut harness = EgressHarness::new();
    let [flow, a, b] = harness.flows();
    harness.batch(0, &[(flow, 4), (a, 9), (b, 2)], 2);
    harness.repair_lifetime = ms(50);
    harness.nack(flow, 4, 4);
    harness.repair_lifetime = ms(500);
    harness.nack(a, 9, 9);
    harness.drain_actions();
    harness.advance(50);
    harness.answer(b, 2);
    assert_eq!(harness.drain_actions(), [cooperative(a, 9)]);
}

#[test]
fn digests_that_were_overtaken_vouch_for_answers_all_the_same() {
    let mut harness = EgressHarness::new();
    let [flow, a] = harness.flows();
    let coded = code(&[(flow, 0), (a, 0)], 2);
    harness.repair(0, &coded, 1);
    assert!(harness.egress.expected_digest(a, SequenceNumber::new(0)).is_none());
    let digest = [1, 2, 3, 4];
    harness.repair_with_digest(0, &coded, 0, Some(digest));
    let (_, entry) = harness.egress.expected_digest(a, SequenceNumber::new(0)).expect("there is one");
    assert_eq!(entry.digest, Some(digest));
}

#[test]
fn a_batch_that_names_a_flow_twice_asks_it_for_no_more_than_it_consents_to() {
    let mut harness = EgressHarness::new();
    let [flow] = harness.flows();
    // The consent is 110 bytes, of which the relay reserves an eighth: one packet.
    let consent = Consent { burst_percent: 11, average_per_mille: 0, seconds: 1 };
    let giver = harness.flow_of(Service::Coding, Rate::from_kilobits_per_second(8), consent);
    harness.batch(0, &[(flow, 0), (giver, 0), (giver, 1)], 2);
    harness.nack(flow, 0, 0);
    assert_eq!(harness.drain_actions(), [requested(giver, 0)]);
    assert_eq!(harness.egress.counters.requests_beyond_consent, 1);
}
