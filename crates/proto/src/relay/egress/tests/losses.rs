//! Counts of losses for reports to ingress relays.

use super::super::losses::{begin_loss_report, pop_losses};
use super::*;
use crate::limits::LOSS_REPORT_INTERVAL;

/// Returns the losses of all flows in the report that is due, and their flags.
fn report(harness: &mut EgressHarness) -> ([i16; 4], bool, bool) {
    let is_due = begin_loss_report(&mut harness.egress, harness.now);
    let pop = || is_due.then(|| pop_losses(&mut harness.egress)).flatten();
    let counts: Vec<_> = core::iter::from_fn(pop).map(|(_, count)| count).collect();
    let sum = |class: usize| counts.iter().map(|count| count.losses[class]).sum();
    let is_open = counts.iter().any(|count| count.is_open_ended);
    (core::array::from_fn(sum), is_open, counts.iter().any(|count| count.queue_grows))
}

fn losses(harness: &mut EgressHarness) -> [i16; 4] {
    harness.advance(LOSS_REPORT_INTERVAL.as_millis());
    report(harness).0
}

#[test]
fn lost_packets_count_by_the_losses_of_their_batch() {
    let mut harness = EgressHarness::new();
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
    let mut harness = EgressHarness::new();
    let flows: [FlowSlot; 4] = harness.flows();
    harness.batch(0, &flows.map(|flow| (flow, 5)), 2);
    harness.nack(flows[0], 6, 6);
    harness.nack(flows[1], 6, 7);
    assert_eq!(report(&mut harness).0, [3, 0, 0, 0]);
    harness.batch(1, &flows.map(|flow| (flow, 6)), 2);
    assert_eq!(losses(&mut harness), [-2, 2, 0, 0]);
}

#[test]
fn packets_under_an_open_ended_nack_count_when_their_batch_arrives() {
    let mut harness = EgressHarness::new();
    let flows: [FlowSlot; 4] = harness.flows();
    harness.batch(0, &flows.map(|flow| (flow, 5)), 2);
    harness.nack_open_ended(flows[0], 6);
    assert_eq!(report(&mut harness), ([0; 4], true, false));
    harness.batch(1, &flows.map(|flow| (flow, 6)), 2);
    assert_eq!(losses(&mut harness), [1, 0, 0, 0]);
}

#[test]
fn losses_while_the_queue_grows_are_reported_but_not_counted() {
    let mut harness = EgressHarness::new();
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
    let mut harness = EgressHarness::new();
    let flow = harness.flow(Service::Coding);
    harness.advance(1_000);
    assert_eq!(super::super::losses::loss_report_at(&harness.egress), None);
    harness.nack(flow, 5, 5);
    assert!(super::super::losses::loss_report_at(&harness.egress).is_some_and(|at| at <= harness.now));
    report(&mut harness);
    assert_eq!(super::super::losses::loss_report_at(&harness.egress), None);
    harness.nack(flow, 6, 6);
    assert_eq!(
        super::super::losses::loss_report_at(&harness.egress),
        Some(harness.now + LOSS_REPORT_INTERVAL)
    );
    assert_eq!(report(&mut harness).0, [0; 4], "not due");
}

#[test]
fn flows_of_other_services_are_not_reported() {
    let mut harness = EgressHarness::new();
    let flow = harness.flow(Service::Caching);
    harness.relay_copy(flow, 5);
    harness.nack(flow, 5, 5);
    assert_eq!(super::super::losses::loss_report_at(&harness.egress), None);
}
