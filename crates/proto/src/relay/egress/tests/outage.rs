//! Open-ended NACKs, until an ACK.

use super::*;

const OUTAGE_REPORTED: bool = true;

#[test]
fn later_batches_are_repaired_without_asking_once_the_receiver_confirmed() {
    let mut harness = EgressHarness::new();
    let [flow, a] = harness.flows();
    harness.nack_open_ended(flow, 10);
    harness.batch(0, &[(flow, 10), (a, 0)], 1);
    assert_eq!(harness.drain_actions(), [TestAction::SendConfirm { flow, sequence: 10 }]);
    harness.advance(15);
    harness.send_nack(flow, &[(10, 10)], Some(10), true);
    assert_eq!(harness.drain_actions(), [requested(a, 0)]);
    for sequence in 11..20 {
        harness.advance(10);
        harness.batch(
            u32::try_from(sequence - 10).expect("small"),
            &[(flow, sequence), (a, sequence - 10)],
            1,
        );
        let actions = harness.drain_actions();
        assert!(actions.contains(&requested(a, sequence - 10)), "{actions:?}");
        assert!(!actions.contains(&TestAction::SendConfirm { flow, sequence }));
    }
}

#[test]
fn what_was_sent_when_the_question_came_is_repaired_at_once() {
    let mut harness = EgressHarness::new();
    let [flow, a] = harness.flows();
    for sequence in 0..4 {
        harness.batch(u32::try_from(sequence).expect("small"), &[(flow, sequence), (a, sequence)], 1);
    }
    harness.nack_open_ended(flow, 2);
    assert_eq!(harness.drain_actions(), [requested(a, 2), requested(a, 3)]);
    harness.batch(4, &[(flow, 4), (a, 4)], 1);
    assert_eq!(harness.drain_actions(), [requested(a, 4)], "evidently nothing arrives");
}

#[test]
fn an_ack_bounds_the_outage_by_its_number() {
    let mut harness = EgressHarness::new();
    let [flow, a] = harness.flows();
    harness.batch(0, &[(flow, 0), (a, 0)], 1);
    harness.nack_open_ended(flow, 0);
    harness.drain_actions();
    harness.ack(flow, 5);
    harness.batch(1, &[(flow, 4), (a, 4)], 1);
    assert_eq!(harness.drain_actions(), [requested(a, 4)], "sent before the path delivered again");
    harness.batch(2, &[(flow, 5), (a, 5)], 1);
    harness.batch(3, &[(flow, 6), (a, 6)], 1);
    assert_eq!(harness.drain_actions(), []);
}

#[test]
fn a_silence_after_an_outage_is_as_doubtful_as_one_before() {
    let mut harness = EgressHarness::new();
    let [flow, a] = harness.flows();
    harness.batch(0, &[(flow, 0), (a, 0)], 1);
    harness.nack_open_ended(flow, 0);
    harness.ack(flow, 5);
    harness.drain_actions();
    harness.nack_open_ended(flow, 8);
    harness.batch(1, &[(flow, 8), (a, 8)], 1);
    assert_eq!(harness.drain_actions(), [TestAction::SendConfirm { flow, sequence: 8 }]);
}

#[test]
fn an_ack_of_the_first_packet_ends_it_altogether() {
    let mut harness = EgressHarness::new();
    let [flow, a] = harness.flows();
    harness.nack_open_ended(flow, 3);
    harness.ack(flow, 3);
    harness.batch(0, &[(flow, 3), (a, 0)], 1);
    assert_eq!(harness.drain_actions(), []);
}

#[test]
fn an_outage_that_others_do_not_bridge_is_told_every_quarter_second_and_its_end_once() {
    let mut harness = EgressHarness::new();
    let [flow] = harness.flows();
    let a = harness.flow_of(Service::Coding, RATE, NOTHING);
    harness.batch(0, &[(flow, 0), (a, 0)], 1);
    harness.nack_open_ended(flow, 0);
    harness.drain_actions();
    let mut reports = Vec::new();
    for sequence in 1..100 {
        harness.advance(10);
        harness.batch(u32::try_from(sequence).expect("small"), &[(flow, sequence), (a, sequence)], 1);
        if harness.drain_actions().contains(&TestAction::ReportOutage { flow, is_active: OUTAGE_REPORTED }) {
            reports.push(sequence * 10);
        }
    }
    assert_eq!(reports, [200, 450, 700, 950], "a shorter silence may be a burst");
    harness.ack(flow, 100);
    assert_eq!(harness.drain_actions(), [TestAction::ReportOutage { flow, is_active: false }]);
    harness.ack(flow, 100);
    assert_eq!(harness.drain_actions(), []);
}

#[test]
fn an_outage_of_a_flow_without_batches_is_told_as_soon_as_it_is_long() {
    for (repairs, expected) in [(1, Some(200)), (5, None)] {
        let mut harness = EgressHarness::new();
        let [flow] = harness.flows();
        harness.block(flow, 0, 5, repairs);
        harness.nack_open_ended(flow, 0);
        let mut reported = None;
        for block in 1..20_u64 {
            harness.advance(50);
            harness.block(flow, block * 5, 5, repairs);
            let report = TestAction::ReportOutage { flow, is_active: OUTAGE_REPORTED };
            let is_reported = harness.drain_actions().contains(&report);
            reported = reported.or(is_reported.then_some(block * 50));
        }
        assert_eq!(reported, expected, "{repairs} repair packets of each block");
    }
}

/// Simulates an outage of a second, in which the other receiver of each batch returns its packet or
/// has lost it. Returns `true` if the egress half reports the outage.
fn is_outage_reported(helps: impl Fn(u64) -> bool) -> bool {
    let mut harness = EgressHarness::new();
    let [flow, a] = harness.flows();
    harness.batch(0, &[(flow, 0), (a, 0)], 1);
    harness.nack_open_ended(flow, 0);
    let mut answer_count = 0;
    let mut is_reported = false;
    for sequence in 1..100 {
        harness.advance(10);
        harness.batch(u32::try_from(sequence).expect("small"), &[(flow, sequence), (a, sequence)], 1);
        if helps(sequence) {
            harness.answer(a, sequence);
            answer_count += 1;
        } else {
            harness.lost(a, sequence, sequence);
        }
        let actions = harness.drain_actions();
        assert_eq!(actions.contains(&cooperative(flow, sequence)), helps(sequence), "{actions:?}");
        is_reported |= actions.contains(&TestAction::ReportOutage { flow, is_active: OUTAGE_REPORTED });
    }
    assert!(answer_count > 80);
    is_reported
}

#[test]
fn an_outage_that_others_bridge_is_not_told() {
    assert!(!is_outage_reported(|_| true));
    assert!(!is_outage_reported(|sequence| sequence % 30 != 0), "they may lose some themselves");
    assert!(is_outage_reported(|sequence| sequence % 10 != 0));
}

#[test]
fn an_outage_that_was_never_told_needs_no_end() {
    let mut harness = EgressHarness::new();
    let [flow] = harness.flows();
    harness.nack_open_ended(flow, 3);
    harness.ack(flow, 5);
    assert_eq!(harness.drain_actions(), []);
}

#[test]
fn an_early_open_ended_nack_of_a_timer_is_no_outage() {
    let mut harness = EgressHarness::new();
    let [flow, a] = harness.flows();
    harness.nack_open_ended(flow, 3);
    harness.batch(0, &[(flow, 3), (a, 0)], 1);
    assert_eq!(harness.drain_actions(), [TestAction::SendConfirm { flow, sequence: 3 }]);
}

#[test]
fn a_packet_is_of_use_from_when_it_could_be_repaired_first() {
    let mut harness = EgressHarness::new();
    let [flow, a] = harness.flows();
    harness.batch(0, &[(flow, 0), (a, 0)], 1);
    harness.nack_open_ended(flow, 0);
    harness.advance(1_000);
    harness.sweep();
    harness.drain_actions();
    harness.batch(1, &[(flow, 50), (a, 1)], 1);
    assert!(harness.drain_actions().contains(&requested(a, 1)));
    harness.advance(199);
    harness.answer(a, 1);
    assert_eq!(harness.drain_actions(), [cooperative(flow, 50)]);
}

#[test]
fn a_repeated_open_ended_nack_asks_nobody_twice() {
    let mut harness = EgressHarness::new();
    let [flow, a, b] = harness.flows();
    harness.batch(0, &[(flow, 0), (a, 0), (b, 0)], 1);
    harness.nack_open_ended(flow, 0);
    assert_eq!(harness.drain_actions().len(), 2);
    harness.advance(40);
    harness.nack_open_ended(flow, 0);
    assert_eq!(harness.drain_actions(), []);
    assert_eq!(harness.egress.counters.nacks_open_ended, 2);
}

#[test]
fn in_stream_repair_packets_do_not_suffice_for_a_block_within_an_outage() {
    let mut harness = EgressHarness::new();
    let [flow, a] = harness.flows();
    harness.batch(0, &[(flow, 4), (a, 0)], 1);
    harness.block(flow, 0, 5, 1);
    harness.nack_open_ended(flow, 0);
    let actions = harness.drain_actions();
    assert!(actions.contains(&requested(a, 0)), "{actions:?}");
    assert_eq!(harness.egress.counters.in_stream, 0);
}

#[test]
fn in_stream_repair_packets_suffice_where_the_outage_begins_with_a_blocks_last_packet() {
    let mut harness = EgressHarness::new();
    let [flow, a] = harness.flows();
    harness.batch(0, &[(flow, 4), (a, 0)], 1);
    harness.block(flow, 0, 5, 1);
    harness.nack_open_ended(flow, 4);
    assert_eq!(harness.drain_actions(), [TestAction::SendInStreamRepair { flow, first: 0 }]);
}

#[test]
fn what_nobody_misses_after_all_is_not_counted_as_given_up() {
    let mut harness = EgressHarness::new();
    let [flow, a] = harness.flows();
    harness.nack_open_ended(flow, 3);
    harness.batch(0, &[(flow, 3), (a, 0)], 1);
    harness.ack(flow, 3);
    harness.advance(300);
    harness.sweep();
    assert_eq!(harness.egress.counters.abandoned, 0);
}

#[test]
fn what_an_ack_shows_to_be_missing_alone_is_repaired_with_what_there_is() {
    let mut harness = EgressHarness::new();
    let [flow] = harness.flows();
    harness.block(flow, 4, 2, 1);
    harness.nack_open_ended(flow, 4);
    assert_eq!(harness.drain_actions(), [], "one repair packet cannot stand for two");
    harness.ack(flow, 5);
    assert_eq!(harness.drain_actions(), [TestAction::SendInStreamRepair { flow, first: 4 }]);
}

/// Cooperative requests, with the millisecond of each.
fn requests_each_millisecond(harness: &mut EgressHarness, millis: u64) -> Vec<(u64, u64)> {
    let mut requests = Vec::new();
    for passed in 1..=millis {
        harness.advance(1);
        harness.egress.expire_in_flight(harness.now, &mut harness.actions);
        requests.extend(harness.drain_actions().into_iter().filter_map(|action| match action {
            TestAction::RequestPacket { sequence, .. } => Some((passed, sequence)),
            _ => None,
        }));
    }
    requests
}

/// Sends batches over a flow and another one every 10 ms. The last three arrive after the loss.
fn overtaken(harness: &mut EgressHarness) -> FlowSlot {
    let [flow, a] = harness.flows();
    for sequence in 0..4 {
        harness.batch(u32::try_from(sequence).expect("small"), &[(flow, sequence), (a, sequence)], 1);
        harness.advance(10);
    }
    harness.nack_open_ended(flow, 0);
    assert_eq!(harness.drain_actions(), [requested(a, 0)], "the others may be in flight");
    flow
}

#[test]
fn what_overtook_the_direct_path_is_repaired_when_it_would_have_been_missed() {
    let mut harness = EgressHarness::new();
    overtaken(&mut harness);
    assert_eq!(requests_each_millisecond(&mut harness, 100), [(10, 1), (20, 2), (30, 3)]);
}

#[test]
fn what_comes_meanwhile_was_in_flight_and_what_it_passed_over_was_not() {
    let mut harness = EgressHarness::new();
    let flow = overtaken(&mut harness);
    assert_eq!(requests_each_millisecond(&mut harness, 5), []);
    harness.ack(flow, 2);
    assert!(matches!(harness.drain_actions()[..], [TestAction::RequestPacket { sequence: 1, .. }]));
    assert_eq!(requests_each_millisecond(&mut harness, 100), []);
}

#[test]
fn in_a_silence_that_lasts_nothing_waits() {
    let mut harness = EgressHarness::new();
    let flow = overtaken(&mut harness);
    requests_each_millisecond(&mut harness, 70);
    let other = FlowSlot(flow.0 + 1);
    harness.batch(9, &[(flow, 9), (other, 9)], 1);
    assert_eq!(harness.drain_actions(), []);
    assert_eq!(requests_each_millisecond(&mut harness, 40), [(10, 9)], "80 ms after the silence was noticed");
    harness.batch(10, &[(flow, 10), (other, 10)], 1);
    assert_eq!(harness.drain_actions(), [requested(other, 10)]);
}

#[test]
fn a_silence_that_is_told_again_and_again_is_watched_once() {
    let mut harness = EgressHarness::new();
    let flow = overtaken(&mut harness);
    for _ in 0..100 {
        harness.advance(1);
        harness.nack_open_ended(flow, 0);
        harness.ack(flow, 0);
    }
    assert_eq!(harness.egress.in_flight.count(), 3);
}
