//! Packets of flows whose direct path is dark are carried on.

use super::*;
use crate::limits::{OUTAGE_BELIEVED_FOR, OUTAGE_CARRIED_FOR, OUTAGE_PERIOD};

impl Talk {
    /// Copies a packet of each flow; how many of them were carried on, and how many the batches cover.
    fn carries(&mut self, flows: &[FlowSlot], sequence: u64) -> (usize, usize) {
        self.made.carried.clear();
        for flow in flows {
            self.copy(*flow, sequence);
        }
        let covered = self.batches().iter().map(|batch| batch.covered.len()).sum();
        (self.made.carried.len(), covered)
    }
}

#[test]
fn packets_of_a_dark_path_are_carried_on_and_coded_as_ever() {
    let mut talk = Talk::new();
    let flows = [0; 2].map(|_| talk.flow(batched(2, 2)));
    talk.ingress.set_dark(flows[1], said(true), talk.now);
    assert_eq!(talk.carries(&flows, 0), (1, 2));
    let alias = alias(flows[1]).number();
    assert_eq!(talk.made.carried, [(alias, 0, packet(alias, 0))]);
    assert_eq!(talk.ingress.counters.carried, 1);
    talk.ingress.set_dark(flows[1], said(false), talk.now);
    assert_eq!(talk.carries(&flows, 1), (0, 2));
}

#[test]
fn packets_are_carried_until_the_sender_says_that_the_path_delivers() {
    let mut talk = Talk::new();
    let flows = [0; 2].map(|_| talk.flow(batched(2, 2)));
    let by_sender = |is_dark| PathOutage { is_dark, by_sender: true };
    for outage in [by_sender(true), said(true), said(false)] {
        talk.ingress.set_dark(flows[0], outage, talk.now);
    }
    assert_eq!(talk.carries(&flows, 0), (1, 2));
    talk.ingress.set_dark(flows[0], by_sender(false), talk.now);
    assert_eq!(talk.carries(&flows, 1), (0, 2));
    for outage in [by_sender(true), said(true), by_sender(false)] {
        talk.ingress.set_dark(flows[0], outage, talk.now);
    }
    assert_eq!(talk.carries(&flows, 2), (1, 2), "the egress relay's word stays");
}

#[test]
fn an_outage_that_is_told_no_more_is_over() {
    let mut talk = Talk::new();
    let flows = [0; 2].map(|_| talk.flow(batched(2, 2)));
    talk.ingress.set_dark(flows[0], said(true), talk.now);
    talk.wait(OUTAGE_BELIEVED_FOR.as_millis() - 1);
    assert_eq!(talk.carries(&flows, 0), (1, 2));
    talk.wait(1);
    assert_eq!(talk.carries(&flows, 1), (0, 2));
}

#[test]
fn a_slot_that_is_used_again_is_not_dark() {
    let mut talk = Talk::new();
    let flow = talk.flow(batched(2, 2));
    talk.ingress.set_dark(flow, said(true), talk.now);
    talk.ingress.unregister(flow, talk.now);
    let flows = [0; 2].map(|_| talk.flow(batched(2, 2)));
    assert!(flows.contains(&flow));
    assert_eq!(talk.carries(&flows, 0), (0, 2));
}

#[test]
fn who_claims_to_get_nothing_has_its_packets_carried_for_a_while_and_again_a_minute_after_it_began() {
    let mut talk = Talk::new();
    let flows = [0; 2].map(|_| talk.flow(batched(2, 2)));
    let step = OUTAGE_BELIEVED_FOR / 2;
    let (mut sequence, mut carried) = (0, Duration::ZERO);
    let began = talk.now;
    while talk.now < began + OUTAGE_PERIOD * 2 {
        talk.ingress.set_dark(flows[0], said(true), talk.now);
        carried += step * u64::try_from(talk.carries(&flows, sequence).0).expect("one or none");
        sequence += 1;
        talk.wait(step.as_millis());
    }
    assert_eq!(carried, OUTAGE_CARRIED_FOR * 2);
}

#[test]
fn what_the_egress_relay_does_not_know_is_not_carried_and_counted_once() {
    let mut talk = Talk::new();
    let flow = talk.unknown_flow(batched(2, 2));
    talk.ingress.set_dark(flow, said(true), talk.now);
    assert_eq!(talk.carries(&[flow], 0), (0, 0));
    assert_eq!((talk.ingress.counters.uncovered_unknown, talk.ingress.counters.carried), (1, 0));
}

#[test]
fn a_flow_with_several_egress_relays_stays_coded() {
    let mut talk = Talk::new();
    let flow = talk.flow(batched(2, 2));
    talk.ingress.add_onward(flow, Onward { port: EgressPort(1), alias: alias(flow), known: true });
    talk.ingress.set_dark(flow, said(true), talk.now);
    assert_eq!(talk.carries(&[flow], 0).0, 0);
}
