//! Counts of losses for reports to ingress relays.

use super::super::losses::{begin_loss_report, loss_report_at, pop_losses};
use super::*;
use crate::limits::{IN_FLIGHT_FOR, LOSS_REPORT_INTERVAL};

/// Returns the losses of all flows in the report that is due, and their flags.
fn report(harness: &mut EgressHarness) -> ([i16; 4], bool, bool) {
    let is_due = begin_loss_report(&mut harness.egress, harness.now);
    let now = harness.now;
    let pop = || is_due.then(|| pop_losses(&mut harness.egress, now)).flatten();
    let counts: Vec<_> = core::iter::from_fn(pop).map(|(_, count)| count).collect();
    let sum = |class: usize| counts.iter().map(|count| count.losses[class]).sum();
    let is_open = counts.iter().any(|count| count.is_open_ended);
    (core::array::from_fn(sum), is_open, counts.iter().any(|count| count.queue_grows))
}

/// Egress half whose ingress relay adapts the redundancy.
fn adaptive() -> EgressHarness {
    let mut harness = EgressHarness::new();
    harness.is_adaptive = true;
    harness
}

fn losses(harness: &mut EgressHarness) -> [i16; 4] {
    harness.advance(LOSS_REPORT_INTERVAL.as_millis());
    report(harness).0
}

#[test]
fn lost_packets_count_by_the_losses_of_their_batch() {
    let mut harness = adaptive();
    let flows: [FlowSlot; 4] = harness.flows();
    harness.batch(0, &flows.map(|flow| (flow, 5)), 2);
    harness.nack(flows[0], 5, 5);
    assert_eq!(report(&mut harness), ([1, 0, 0, 0], false, false));
    harness.nack(flows[1], 5, 5);
    harness.nack(flows[2], 5, 5);
    assert_eq!(losses(&mut harness), [-1, 0, 3, 0]);
    harness.nack(flows[2], 5, 5);
    assert_eq!(losses(&mut harness), [0; 4], "a repeated NACK counts once");
}

#[test]
fn a_packet_without_a_batch_counts_alone_until_its_batch_arrives() {
    let mut harness = adaptive();
    let flows: [FlowSlot; 4] = harness.flows();
    harness.batch(0, &flows.map(|flow| (flow, 5)), 2);
    harness.nack(flows[0], 6, 6);
    harness.nack(flows[1], 6, 7);
    assert_eq!(report(&mut harness).0, [3, 0, 0, 0]);
    harness.batch(1, &flows.map(|flow| (flow, 6)), 2);
    assert_eq!(losses(&mut harness), [-2, 2, 0, 0]);
}

#[test]
fn packets_under_an_open_ended_nack_count_once_they_cannot_be_in_flight() {
    let mut harness = adaptive();
    let flows: [FlowSlot; 4] = harness.flows();
    harness.batch(0, &flows.map(|flow| (flow, 5)), 2);
    harness.advance(20);
    harness.nack_open_ended(flows[0], 5);
    harness.batch(1, &flows.map(|flow| (flow, 6)), 2);
    assert_eq!(report(&mut harness), ([1, 0, 0, 0], true, false));
    harness.advance(IN_FLIGHT_FOR.as_millis());
    harness.egress.expire_in_flight(harness.now, &mut harness.actions);
    assert_eq!(losses(&mut harness), [1, 0, 0, 0]);
    harness.ack(flows[0], 7);
    harness.nack(flows[0], 5, 6);
    assert_eq!(losses(&mut harness), [0; 4], "ranges name them again");
}

#[test]
fn packets_of_a_long_outage_do_not_count() {
    let mut harness = adaptive();
    let flows: [FlowSlot; 4] = harness.flows();
    harness.batch(0, &flows.map(|flow| (flow, 5)), 2);
    harness.nack_open_ended(flows[0], 6);
    assert_eq!(losses(&mut harness), [0; 4]);
    harness.batch(1, &flows.map(|flow| (flow, 6)), 2);
    assert_eq!(losses(&mut harness), [0; 4]);
    harness.ack(flows[0], 7);
    harness.nack(flows[0], 6, 6);
    assert_eq!(losses(&mut harness), [0; 4]);
    harness.nack(flows[0], 7, 7);
    assert_eq!(losses(&mut harness), [1, 0, 0, 0], "a loss after it counts");
}

#[test]
fn an_open_ended_nack_is_in_each_report_until_its_ack_or_a_pause() {
    for acknowledges in [true, false] {
        let mut harness = adaptive();
        let [flow, other] = harness.flows();
        harness.nack_open_ended(flow, 6);
        for number in 0..20 {
            harness.batch(number, &[(flow, 6 + u64::from(number)), (other, 0)], 2);
            harness.advance(LOSS_REPORT_INTERVAL.as_millis());
            assert!(report(&mut harness).1, "{number}");
        }
        if acknowledges {
            harness.ack(flow, 50);
        }
        let reported = (0..40).take_while(|_| {
            harness.advance(LOSS_REPORT_INTERVAL.as_millis());
            report(&mut harness).1
        });
        assert_eq!(reported.count(), if acknowledges { 0 } else { 2 });
        assert_eq!(loss_report_at(&harness.egress), None);
    }
}

#[test]
fn fixed_redundancy_is_not_reported_and_fetches_nothing() {
    let mut harness = EgressHarness::new();
    let [flow, other] = harness.flows();
    harness.batch(0, &[(flow, 5), (other, 5)], 2);
    harness.nack(flow, 5, 5);
    harness.advance(1_000);
    harness.nack(flow, 500, 500);
    harness.nack_open_ended(flow, 501);
    harness.advance(1_000);
    assert_eq!(loss_report_at(&harness.egress), None);
    assert!(harness.egress.next_copy_request(harness.now).is_none());
}

#[test]
fn losses_while_the_queue_grows_are_reported_but_not_counted() {
    let mut harness = adaptive();
    let flows: [FlowSlot; 4] = harness.flows();
    harness.batch(0, &flows.map(|flow| (flow, 5)), 2);
    harness.queue_grows = true;
    harness.nack(flows[0], 5, 6);
    assert_eq!(report(&mut harness), ([0; 4], false, true));
    harness.batch(1, &flows.map(|flow| (flow, 6)), 2);
    assert_eq!(losses(&mut harness), [0; 4]);
}

#[test]
fn reports_are_a_quarter_of_a_second_apart_and_none_comes_without_losses() {
    let mut harness = adaptive();
    let flow = harness.flow(Service::Coding);
    harness.advance(1_000);
    assert_eq!(loss_report_at(&harness.egress), None);
    harness.nack(flow, 5, 5);
    assert!(loss_report_at(&harness.egress).is_some_and(|at| at <= harness.now));
    report(&mut harness);
    assert_eq!(loss_report_at(&harness.egress), None);
    harness.nack(flow, 6, 6);
    assert_eq!(loss_report_at(&harness.egress), Some(harness.now + LOSS_REPORT_INTERVAL));
    assert_eq!(report(&mut harness).0, [0; 4], "not due");
}

#[test]
fn a_report_in_parts_is_complete_before_the_next_one() {
    let mut harness = adaptive();
    let flows: [FlowSlot; 3] = harness.flows();
    for flow in flows {
        harness.nack(flow, 5, 5);
    }
    let now = harness.now;
    assert!(begin_loss_report(&mut harness.egress, now));
    let (first, _) = pop_losses(&mut harness.egress, now).expect("three flows have losses");
    harness.nack(first, 6, 6);
    assert!(loss_report_at(&harness.egress).is_some_and(|at| at <= now), "two flows are left");
    assert!(begin_loss_report(&mut harness.egress, now));
    let rest = core::iter::from_fn(|| pop_losses(&mut harness.egress, now));
    assert!(rest.map(|(flow, _)| flow).eq(flows.into_iter().filter(|flow| *flow != first).rev()));
    assert_eq!(loss_report_at(&harness.egress), Some(now + LOSS_REPORT_INTERVAL));
    assert_eq!(losses(&mut harness), [1, 0, 0, 0]);
}

#[test]
fn flows_of_other_services_are_not_reported() {
    let mut harness = adaptive();
    let flow = harness.flow(Service::Caching);
    harness.relay_copy(flow, 5);
    harness.nack(flow, 5, 5);
    assert_eq!(loss_report_at(&harness.egress), None);
}
