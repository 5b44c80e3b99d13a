//! Copies fetched from the ingress relay.

use super::relayed_copies::COPY_SOURCE;
use super::*;
use crate::limits::{COVERED_FOR, OPEN_ENDED_BACKLOG_MAX, PULL_WAIT_MAX};

/// Copies requested from the ingress relay now.
fn fetched(harness: &mut EgressHarness) -> Vec<(u16, u32)> {
    let mut fetched = Vec::new();
    while let Some(request) = harness.egress.next_copy_request(harness.now) {
        let alias = request.source.alias.number();
        fetched.extend(request.missing.ranges().numbers_low().map(|low| (alias, low)));
        harness.egress.schedule_copy_retry(&request, ms(80), harness.now);
    }
    fetched
}

fn caught(flow: FlowSlot, sequence: u64) -> TestAction {
    TestAction::SendRepair { flow, sequence, source: RepairSource::Cached }
}

#[test]
fn one_packet_more_than_can_be_restored_is_fetched_and_the_others_are_decoded() {
    let mut harness = EgressHarness::new();
    let [one, two, three, helper] = harness.flows();
    harness.batch(0, &[(one, 1), (two, 2), (three, 3), (helper, 4)], 2);
    harness.advance(20);
    harness.nack(one, 1, 1);
    harness.nack(two, 2, 2);
    assert_eq!(fetched(&mut harness), [], "two repair packets are enough for two");
    harness.nack(three, 3, 3);
    assert_eq!(fetched(&mut harness), [(1, 1)]);
    harness.answer(helper, 4);
    harness.drain_actions();
    harness.advance(80);
    harness.relay_copy_from(None, one, 1);
    assert_eq!(harness.drain_actions(), [caught(one, 1), cooperative(two, 2), cooperative(three, 3)]);
    assert_eq!(harness.egress.counters.fetched, 1);
}

#[test]
fn who_cannot_wait_so_long_is_not_fetched_for() {
    let mut harness = EgressHarness::new();
    let [one, two] = harness.flows();
    harness.egress.set_ingress_round_trip(0, ms(160));
    for (number, repair_lifetime, expected) in [(0, 209, 0), (1, 211, 1)] {
        harness.repair_lifetime = ms(repair_lifetime);
        harness.batch(number, &[(one, number.into()), (two, number.into())], 1);
        harness.advance(20);
        harness.nack(one, number.into(), number.into());
        harness.nack(two, number.into(), number.into());
        assert_eq!(fetched(&mut harness).len(), expected, "the receiver is 50 ms away");
    }
}

#[test]
fn what_only_a_timer_misses_is_not_fetched() {
    let mut harness = EgressHarness::new();
    let [one, two] = harness.flows();
    harness.batch(0, &[(one, 0), (two, 0)], 1);
    harness.advance(20);
    harness.nack_by_timer(one, 0, 0);
    harness.nack_by_timer(two, 0, 0);
    assert_eq!(fetched(&mut harness), []);
}

#[test]
fn where_others_have_given_enough_nobody_is_asked_but_the_ingress_relay() {
    let mut harness = EgressHarness::new();
    let [flow, willing] = harness.flows();
    let done = harness.flow_of(Service::Coding, RATE, NOTHING);
    harness.batch(0, &[(flow, 0), (willing, 0), (done, 0)], 1);
    harness.advance(20);
    harness.nack(flow, 0, 0);
    assert_eq!(harness.drain_actions(), [], "the helper's packet would be of no use");
    assert_eq!(fetched(&mut harness), [(1, 0)]);
    harness.advance(80);
    harness.relay_copy_from(None, flow, 0);
    assert_eq!(harness.drain_actions(), [caught(flow, 0)]);
}

#[test]
fn a_fetched_copy_does_not_stand_for_a_row_of_relayed_ones() {
    let mut harness = EgressHarness::new();
    let [flow] = harness.flows();
    let refuses = harness.flow_of(Service::Coding, RATE, NOTHING);
    for number in [10, 14] {
        harness.batch(u32::try_from(number).expect("small"), &[(flow, number), (refuses, number)], 1);
        harness.advance(20);
        harness.nack(flow, number, number);
        assert_eq!(fetched(&mut harness).len(), 1);
        harness.relay_copy_from(Some(CopySource { ingress: 0, alias: ALIAS }), flow, number);
        harness.advance(20);
    }
    assert_eq!(fetched(&mut harness), [], "11 to 13 are not missed");
}

#[test]
fn a_fetched_copy_that_does_not_come_is_asked_for_once_more() {
    let mut harness = EgressHarness::new();
    let [flow] = harness.flows();
    let refuses = harness.flow_of(Service::Coding, RATE, NOTHING);
    harness.batch(0, &[(flow, 0), (refuses, 0)], 1);
    harness.advance(20);
    harness.nack(flow, 0, 0);
    assert_eq!(fetched(&mut harness), [(1, 0)]);
    harness.advance(119);
    assert_eq!(fetched(&mut harness), []);
    harness.advance(10);
    assert_eq!(fetched(&mut harness), [(1, 0)]);
    harness.advance(200);
    assert_eq!(fetched(&mut harness), []);
}

#[test]
fn a_fetch_that_came_to_nothing_is_no_hindrance_to_the_next() {
    let mut harness = EgressHarness::new();
    let [flow] = harness.flows();
    let refuses = harness.flow_of(Service::Coding, RATE, NOTHING);
    harness.repair_lifetime = ms(2_000);
    harness.batch(0, &[(flow, 0), (refuses, 0)], 1);
    harness.advance(20);
    harness.nack(flow, 0, 0);
    for _ in 0..3 {
        fetched(&mut harness);
        harness.advance(200);
    }
    harness.nack(flow, 0, 0);
    assert_eq!(fetched(&mut harness), [(1, 0)]);
}

#[test]
fn a_fetched_copy_that_nobody_waits_for_any_more_begins_no_row() {
    let mut harness = EgressHarness::new();
    let [flow] = harness.flows();
    let refuses = harness.flow_of(Service::Coding, RATE, NOTHING);
    for number in [10, 14] {
        harness.batch(u32::try_from(number).expect("small"), &[(flow, number), (refuses, number)], 1);
        harness.advance(20);
        harness.nack(flow, number, number);
        assert_eq!(fetched(&mut harness).len(), 1);
        harness.advance(300);
        harness.sweep();
        harness.relay_copy_from(Some(CopySource { ingress: 0, alias: ALIAS }), flow, number);
        harness.advance(20);
    }
    assert_eq!(fetched(&mut harness), [], "11 to 13 are not missed");
}

/// Reviews at each of some milliseconds.
fn advance(harness: &mut EgressHarness, millis: u64) {
    for _ in 0..millis {
        harness.advance(1);
        harness.egress.review(harness.now, &mut harness.actions);
    }
}

#[test]
fn who_answers_late_is_asked_again_and_the_packet_is_fetched_meanwhile() {
    let mut harness = EgressHarness::new();
    let [flow, helper] = harness.flows();
    harness.repair_lifetime = ms(300);
    harness.batch(0, &[(flow, 100), (helper, 100)], 1);
    advance(&mut harness, 10);
    harness.nack(flow, 100, 100);
    assert_eq!(harness.drain_actions(), [requested(helper, 100)]);
    advance(&mut harness, 155);
    assert_eq!(
        (harness.drain_actions(), fetched(&mut harness)),
        (Vec::new(), Vec::new()),
        "round trips begin with 100 ms"
    );
    advance(&mut harness, 1);
    assert_eq!(
        (harness.drain_actions(), fetched(&mut harness)),
        (alloc::vec![requested(helper, 100)], alloc::vec![(1, 100)])
    );
    harness.answer(helper, 100);
    assert_eq!(harness.drain_actions(), [cooperative(flow, 100)], "whichever comes first");
    advance(&mut harness, 300);
    assert_eq!((harness.drain_actions(), harness.egress.review_at()), (Vec::new(), None));
}

#[test]
fn who_cannot_answer_in_time_any_more_is_not_asked_again() {
    let mut harness = EgressHarness::new();
    let [flow, helper] = harness.flows();
    harness.repair_lifetime = ms(250);
    harness.batch(0, &[(flow, 100), (helper, 100)], 1);
    harness.nack(flow, 100, 100);
    assert_eq!(harness.drain_actions(), [requested(helper, 100)]);
    advance(&mut harness, 300);
    assert_eq!(harness.drain_actions(), [], "94 ms are left when it is late, and it is 100 ms away");
    assert_eq!(harness.egress.review_at(), None);
}

#[test]
fn nobody_is_asked_again_for_a_packet_that_was_repaired_meanwhile() {
    let mut harness = EgressHarness::new();
    let [flow, helper] = harness.flows();
    harness.repair_lifetime = ms(500);
    harness.batch(0, &[(flow, 100), (helper, 100)], 1);
    harness.nack(flow, 100, 100);
    assert_eq!(harness.drain_actions(), [requested(helper, 100)]);
    harness.advance(20);
    harness.block(flow, 100, 5, 1);
    assert_eq!(harness.drain_actions(), [TestAction::SendInStreamRepair { flow, first: 100 }]);
    advance(&mut harness, 400);
    assert_eq!((harness.drain_actions(), fetched(&mut harness)), (Vec::new(), Vec::new()));
}

#[test]
fn those_that_become_late_after_a_fetched_copy_came_are_left_alone() {
    let mut harness = EgressHarness::new();
    let [flow, near, far] = harness.flows();
    harness.egress.set_round_trip(near, ms(20));
    harness.repair_lifetime = ms(500);
    harness.batch(0, &[(flow, 100), (near, 100), (far, 100)], 1);
    harness.nack(flow, 100, 100);
    assert_eq!(harness.drain_actions().len(), 2);
    advance(&mut harness, 36);
    assert_eq!(
        (harness.drain_actions(), fetched(&mut harness)),
        (alloc::vec![requested(near, 100)], alloc::vec![(1, 100)])
    );
    harness.relay_copy_from(None, flow, 100);
    assert_eq!(harness.drain_actions(), [caught(flow, 100)]);
    advance(&mut harness, 400);
    assert_eq!(harness.drain_actions(), []);
}

#[test]
fn a_decode_attempt_that_ended_is_not_reviewed_in_the_slot_of_another() {
    let mut harness = EgressHarness::new();
    let [flow, helper] = harness.flows();
    harness.batch(0, &[(flow, 100), (helper, 100)], 1);
    harness.nack(flow, 100, 100);
    harness.answer(helper, 100);
    assert_eq!(harness.egress.review_at(), None);
    harness.advance(100);
    harness.batch(1, &[(flow, 101), (helper, 101)], 1);
    harness.nack(flow, 101, 101);
    harness.drain_actions();
    advance(&mut harness, 155);
    assert_eq!(harness.drain_actions(), []);
}

#[test]
fn a_late_answer_that_a_spare_repair_packet_stands_for_is_not_asked_for_again() {
    let mut harness = EgressHarness::new();
    let [flow, a, b] = harness.flows();
    harness.batch(0, &[(flow, 100), (a, 100), (b, 100)], 2);
    advance(&mut harness, 10);
    harness.nack(flow, 100, 100);
    assert_eq!(harness.drain_actions(), [requested(a, 100), requested(b, 100)]);
    advance(&mut harness, 100);
    harness.answer(a, 100);
    assert_eq!(harness.drain_actions(), [cooperative(flow, 100)]);
    advance(&mut harness, 100);
    assert_eq!((harness.drain_actions(), fetched(&mut harness)), (Vec::new(), Vec::new()));
}

#[test]
fn where_answers_are_late_again_and_again_nobody_waits_for_them() {
    let mut harness = EgressHarness::new();
    let [flow, late] = harness.flows();
    let mut at_once = 0;
    for number in 0..8_u32 {
        harness.batch(number, &[(flow, number.into()), (late, number.into())], 1);
        advance(&mut harness, 10);
        harness.nack(flow, number.into(), number.into());
        at_once += fetched(&mut harness).len();
        advance(&mut harness, 160);
        fetched(&mut harness);
        harness.answer(late, number.into());
        assert!(harness.drain_actions().contains(&cooperative(flow, number.into())));
    }
    assert_eq!(at_once, 5, "after the third late answer more than one of eight is expected");
    harness.batch(9, &[(flow, 9), (late, 9)], 2);
    advance(&mut harness, 10);
    harness.nack(flow, 9, 9);
    assert_eq!(fetched(&mut harness), [], "two repair packets need nobody");
}

#[test]
fn where_the_second_repair_packet_does_not_come_its_packet_is_fetched() {
    let mut harness = EgressHarness::new();
    let [one, two] = harness.flows();
    let coded = code(&[(one, 0), (two, 0)], 2);
    harness.nack(one, 0, 0);
    harness.nack(two, 0, 0);
    harness.repair(0, &coded, 0);
    assert_eq!(fetched(&mut harness), [], "the other repair packet is on its way");
    advance(&mut harness, 5);
    assert_eq!(fetched(&mut harness), []);
    advance(&mut harness, 1);
    assert_eq!(fetched(&mut harness), [(1, 0)]);
}

#[test]
fn a_relay_that_does_not_follow_up_waits() {
    let mut harness = EgressHarness::new();
    harness.egress = Egress::new(Engine::fastest(), false, LOG, FLOWS);
    let [one, two, helper] = harness.flows();
    harness.batch(0, &[(one, 0), (two, 0), (helper, 0)], 1);
    advance(&mut harness, 10);
    harness.nack(one, 0, 0);
    harness.nack(two, 0, 0);
    harness.drain_actions();
    advance(&mut harness, 150);
    assert_eq!((harness.drain_actions(), fetched(&mut harness)), (Vec::new(), Vec::new()));
}

#[test]
fn what_no_repair_packet_covers_is_fetched_however_long_that_lasts() {
    let mut harness = EgressHarness::new();
    harness.is_adaptive = true;
    let [flow, other] = harness.flows();
    harness.batch(0, &[(flow, 5), (other, 5)], 2);
    harness.advance(20);
    harness.nack(flow, 6, 6);
    assert_eq!(fetched(&mut harness), [], "its batch may come");
    harness.advance(COVERED_FOR.as_millis());
    for sequence in [40, 60, 5_000, 50_000] {
        harness.nack(flow, sequence, sequence);
        let low = u32::try_from(sequence).expect("small");
        assert_eq!(fetched(&mut harness), [(COPY_SOURCE.alias.number(), low)]);
        harness.advance(80);
        harness.relay_copy_from(None, flow, sequence);
        assert_eq!(harness.drain_actions(), [caught(flow, sequence)]);
    }
    assert_eq!(harness.egress.counters.refused_range, 0);
    harness.nack(flow, 50_300, 50_900);
    let numbers: Vec<u32> = fetched(&mut harness).into_iter().map(|(_, low)| low).collect();
    assert!(numbers.into_iter().eq(50_300..=50_900), "a long burst");
    harness.batch(1, &[(flow, 51_000), (other, 6)], 2);
    harness.nack(flow, 51_002, 51_002);
    assert_eq!(fetched(&mut harness), [], "its batch may come");
    harness.nack(flow, 50_995, 50_996);
    let behind = [50_995, 50_996].map(|low| (COPY_SOURCE.alias.number(), low));
    assert_eq!(fetched(&mut harness), behind, "later packets have repair packets");
}

#[test]
fn in_a_silence_without_redundancy_what_repair_packets_do_not_cover_is_fetched_once_it_lasts() {
    for ends in [false, true] {
        let mut harness = EgressHarness::new();
        harness.is_adaptive = true;
        let [flow, other] = harness.flows();
        harness.batch(0, &[(flow, 5), (other, 5)], 2);
        harness.advance(COVERED_FOR.as_millis());
        harness.nack_open_ended(flow, 100);
        assert_eq!(fetched(&mut harness), [], "it may be a burst of losses");
        if ends {
            harness.ack(flow, 102);
        }
        harness.batch(1, &[(flow, 101), (other, 6)], 2);
        harness.advance(PULL_WAIT_MAX.as_millis());
        let fetched: Vec<u32> = fetched(&mut harness).into_iter().map(|(_, low)| low).collect();
        let expected = if ends { 1 } else { usize::try_from(OPEN_ENDED_BACKLOG_MAX).expect("small") - 1 };
        assert_eq!((fetched.len(), fetched[0], fetched.contains(&101)), (expected, 100, false));
        harness.drain_actions();
        harness.relay_copy_from(None, flow, 100);
        let asked = TestAction::SendConfirm { flow, sequence: 100 };
        assert_eq!(harness.drain_actions(), [if ends { caught(flow, 100) } else { asked }]);
    }
}

/// A pulled flow, from whose ingress relay a copy takes 80 ms to request.
fn pulled(harness: &mut EgressHarness) -> FlowSlot {
    harness.egress.set_ingress_round_trip(COPY_SOURCE.ingress, ms(80));
    harness.flow(Service::Pull)
}

/// Returns the numbers of the copies that are requested from the ingress relay now.
fn pulled_now(harness: &mut EgressHarness) -> Vec<u32> {
    harness.copy_nacks().into_iter().flat_map(|(_, numbers)| numbers).collect()
}

#[test]
fn what_the_receiver_of_a_pulled_flow_misses_is_fetched_and_sent_once() {
    let mut harness = EgressHarness::new();
    let flow = pulled(&mut harness);
    harness.nack(flow, 100_000, 100_002);
    assert_eq!(pulled_now(&mut harness), [100_000, 100_001, 100_002]);
    harness.advance(60);
    harness.nack(flow, 100_000, 100_002);
    assert_eq!(pulled_now(&mut harness), [], "they are on their way");
    harness.advance(20);
    harness.relay_copy(flow, 100_001);
    assert_eq!(harness.drain_actions(), [caught(flow, 100_001)]);
    harness.advance(50);
    assert_eq!(pulled_now(&mut harness), [100_000, 100_002], "after one and a half round trips");
    harness.advance(130);
    assert_eq!(pulled_now(&mut harness), [], "twice are enough");
    harness.advance(100);
    harness.nack(flow, 100_000, 100_000);
    assert_eq!(pulled_now(&mut harness), [100_000], "unless the receiver asks again");
    assert_eq!(harness.egress.counters.fetched, 4);
}

#[test]
fn copies_of_a_pulled_flow_that_cannot_be_in_time_are_not_fetched() {
    for (repair_lifetime, expected) in [(130, 0), (131, 1)] {
        let mut harness = EgressHarness::new();
        let flow = pulled(&mut harness);
        harness.repair_lifetime = ms(repair_lifetime);
        harness.nack(flow, 5, 5);
        assert_eq!(pulled_now(&mut harness).len(), expected, "{repair_lifetime}: the receiver is 50 ms away");
    }
}

#[test]
fn after_a_lasting_silence_all_copies_of_a_pulled_flow_are_fetched_and_forwarded() {
    let mut harness = EgressHarness::new();
    let flow = pulled(&mut harness);
    harness.nack_open_ended(flow, 40);
    assert_eq!(pulled_now(&mut harness), []);
    harness.advance(34);
    assert_eq!(pulled_now(&mut harness), [], "half of what 200 - 80 - 50 ms leave");
    harness.advance(1);
    let request = harness.egress.next_copy_request(harness.now).expect("it is due");
    assert_eq!(request.open_ended_flow(), Some(flow));
    assert!(request.missing.ranges().numbers_low().eq(40..296));
    harness.egress.schedule_copy_retry(&request, ms(80), harness.now);
    harness.relay_copy(flow, 40);
    assert_eq!(harness.drain_actions(), [TestAction::SendConfirm { flow, sequence: 40 }]);
    harness.nack(flow, 40, 40);
    assert_eq!(harness.drain_actions(), [caught(flow, 40)]);
    harness.advance(300);
    harness.relay_copy(flow, 41);
    let report = |is_active| TestAction::ReportOutage { flow, is_active };
    assert!(harness.drain_actions().contains(&report(true)), "the report is repeated while copies arrive");
    harness.ack(flow, 60);
    assert!(harness.drain_actions().contains(&report(false)));
    harness.relay_copy(flow, 60);
    harness.advance(249);
    harness.relay_copy(flow, 61);
    assert!(!harness.drain_actions().contains(&report(false)), "they may have been on their way");
    harness.advance(1);
    harness.relay_copy(flow, 62);
    assert!(harness.drain_actions().contains(&report(false)), "the end is repeated while copies arrive");
    harness.relay_copy(flow, 63);
    assert!(!harness.drain_actions().contains(&report(false)));
    harness.advance(250);
    harness.nack(flow, 62, 64);
    harness.egress.next_copy_request(harness.now).expect("one is missing");
    harness.relay_copy(flow, 64);
    assert!(!harness.drain_actions().contains(&report(false)), "it was requested");
}

#[test]
fn a_silence_that_ends_soon_fetches_nothing_of_a_pulled_flow() {
    let mut harness = EgressHarness::new();
    let flow = pulled(&mut harness);
    harness.nack_open_ended(flow, 40);
    harness.advance(30);
    harness.ack(flow, 43);
    harness.nack(flow, 40, 42);
    assert_eq!(pulled_now(&mut harness), [40, 41, 42]);
    harness.advance(30);
    assert_eq!(pulled_now(&mut harness), []);
}
