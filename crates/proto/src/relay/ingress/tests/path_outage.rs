//! Copies of flows with an outage of their direct path are forwarded.

use super::*;
use crate::limits::{FORWARDING_PAUSE_MAX, OUTAGE_BELIEVED_FOR, OUTAGE_FORWARDING_MAX, OUTAGE_PERIOD};

impl IngressHarness {
    /// Copies a packet of each flow. Returns how many of them were forwarded, and how many the
    /// batches cover.
    fn copy_all(&mut self, flows: &[FlowSlot], sequence: u64) -> (usize, usize) {
        self.sink.relayed.clear();
        for flow in flows {
            self.copy(*flow, sequence);
        }
        let covered = self.batches().iter().map(|batch| batch.covered.len()).sum();
        (self.sink.relayed.len(), covered)
    }
}

#[test]
fn packets_are_relayed_during_an_outage_and_coded_as_ever() {
    let mut harness = IngressHarness::new();
    let flows = [0; 2].map(|_| harness.flow(batched(2, 2)));
    harness.ingress.set_outage(flows[1], egress_outage(true), harness.now);
    assert_eq!(harness.copy_all(&flows, 0), (1, 2));
    let alias = alias(flows[1]).number();
    assert_eq!(harness.sink.relayed, [(alias, 0, packet(alias, 0))]);
    assert_eq!(harness.ingress.counters.copies_relayed, 1);
    harness.ingress.set_outage(flows[1], egress_outage(false), harness.now);
    assert_eq!(harness.copy_all(&flows, 1), (0, 2));
}

#[test]
fn packets_are_relayed_until_the_sender_reports_that_the_path_delivers() {
    let mut harness = IngressHarness::new();
    let flows = [0; 2].map(|_| harness.flow(batched(2, 2)));
    let by_sender = |is_active| PathOutage { is_active, by_sender: true };
    for outage in [by_sender(true), egress_outage(true), egress_outage(false)] {
        harness.ingress.set_outage(flows[0], outage, harness.now);
    }
    assert_eq!(harness.copy_all(&flows, 0), (1, 2));
    harness.ingress.set_outage(flows[0], by_sender(false), harness.now);
    assert_eq!(harness.copy_all(&flows, 1), (0, 2));
    for outage in [by_sender(true), egress_outage(true), by_sender(false)] {
        harness.ingress.set_outage(flows[0], outage, harness.now);
    }
    assert_eq!(harness.copy_all(&flows, 2), (1, 2), "the egress relay's report stays valid");
}

#[test]
fn a_sender_whose_report_of_the_end_is_lost_is_believed_for_a_second_after_the_egress_relays() {
    let mut harness = IngressHarness::new();
    let flows = [0; 2].map(|_| harness.flow(batched(2, 2)));
    let by_sender = PathOutage { is_active: true, by_sender: true };
    for outage in [by_sender, egress_outage(false)] {
        harness.ingress.set_outage(flows[0], outage, harness.now);
    }
    harness.advance(OUTAGE_BELIEVED_FOR.as_millis() - 1);
    assert_eq!(harness.copy_all(&flows, 0), (1, 2));
    harness.ingress.set_outage(flows[0], egress_outage(false), harness.now);
    harness.advance(1);
    assert_eq!(harness.copy_all(&flows, 1), (0, 2), "a repeated report changes nothing");
}

#[test]
fn an_outage_that_is_told_no_more_is_over() {
    let mut harness = IngressHarness::new();
    let flows = [0; 2].map(|_| harness.flow(batched(2, 2)));
    harness.ingress.set_outage(flows[0], egress_outage(true), harness.now);
    harness.advance(OUTAGE_BELIEVED_FOR.as_millis() - 1);
    assert_eq!(harness.copy_all(&flows, 0), (1, 2));
    harness.advance(1);
    assert_eq!(harness.copy_all(&flows, 1), (0, 2));
}

#[test]
fn a_slot_that_is_used_again_has_no_outage() {
    let mut harness = IngressHarness::new();
    let flow = harness.flow(batched(2, 2));
    harness.ingress.set_outage(flow, egress_outage(true), harness.now);
    harness.ingress.unregister(flow, harness.now);
    let flows = [0; 2].map(|_| harness.flow(batched(2, 2)));
    assert!(flows.contains(&flow));
    assert_eq!(harness.copy_all(&flows, 0), (0, 2));
}

#[test]
fn packets_of_claimed_outages_are_relayed_for_a_while_and_again_a_minute_after_they_began() {
    let mut harness = IngressHarness::new();
    let flows = [0; 2].map(|_| harness.flow(batched(2, 2)));
    let step = FORWARDING_PAUSE_MAX;
    let (mut sequence, mut forwarded_for) = (0, Duration::ZERO);
    let began = harness.now;
    while harness.now < began + OUTAGE_PERIOD * 2 {
        harness.ingress.set_outage(flows[0], egress_outage(true), harness.now);
        forwarded_for += step * u64::try_from(harness.copy_all(&flows, sequence).0).expect("one or none");
        sequence += 1;
        harness.advance(step.as_millis());
    }
    assert_eq!(forwarded_for, OUTAGE_FORWARDING_MAX * 2);
}

#[test]
fn a_flow_unknown_to_the_egress_relay_is_not_relayed_and_counted_once() {
    let mut harness = IngressHarness::new();
    let flow = harness.unknown_flow(batched(2, 2));
    harness.ingress.set_outage(flow, egress_outage(true), harness.now);
    assert_eq!(harness.copy_all(&[flow], 0), (0, 0));
    assert_eq!((harness.ingress.counters.uncovered_unknown, harness.ingress.counters.copies_relayed), (1, 0));
}

#[test]
fn a_flow_with_several_egress_relays_stays_coded() {
    let mut harness = IngressHarness::new();
    let flow = harness.flow(batched(2, 2));
    harness
        .ingress
        .add_next_hop(flow, NextHop { peer: RelayPeerId(1), alias: alias(flow), has_receiver: true });
    harness.ingress.set_outage(flow, egress_outage(true), harness.now);
    assert_eq!(harness.copy_all(&[flow], 0).0, 0);
}
