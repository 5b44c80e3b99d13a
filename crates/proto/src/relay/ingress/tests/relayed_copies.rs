//! Retransmission of relayed copies to egress relays, within limits.

use byway_units::Bytes;
use byway_wire::{RangeSet, Ranges};

use super::*;
use crate::limits::{COPY_BURST, RELAYED_COPY_NACKS_MAX};

const ROUND_TRIP: Duration = ms(80);

fn cached() -> FlowConfig {
    FlowConfig { service: Service::Caching, ..coded() }
}

impl IngressHarness {
    /// Requests copies as an egress relay. Returns the sequence numbers of the retransmitted ones.
    fn nack_copies(&mut self, flow: FlowSlot, peer: u16, ranges: &Ranges<'_>) -> Vec<u64> {
        self.sink.relayed.clear();
        self.ingress.on_copy_nack((flow, RelayPeerId(peer)), ranges, ROUND_TRIP, &mut self.sink, self.now);
        self.sink.relayed.iter().map(|(_, sequence, _)| *sequence).collect()
    }

    fn nack_copy_numbers(&mut self, flow: FlowSlot, numbers: &[u64]) -> Vec<u64> {
        let mut set = RangeSet::new();
        for number in numbers {
            assert!(set.insert(SequenceNumber::new(*number)));
        }
        self.nack_copies(flow, 0, &set.ranges())
    }
}

#[test]
fn what_an_egress_relay_missed_is_sent_again_as_it_was() {
    let mut harness = IngressHarness::new();
    let flow = harness.flow(cached());
    (0..5).for_each(|sequence| harness.copy(flow, sequence));
    harness.advance(90);
    assert_eq!(harness.nack_copy_numbers(flow, &[1, 3]), [1, 3]);
    let alias = alias(flow).number();
    assert_eq!(harness.sink.relayed, [(alias, 1, packet(alias, 1)), (alias, 3, packet(alias, 3))]);
    let counters = harness.ingress.counters;
    assert_eq!((counters.retransmitted, counters.copies_relayed, counters.retransmits_expired), (2, 5, 0));
    assert_eq!(counters.retransmitted_bytes, (packet(alias, 1).len() + packet(alias, 3).len()) as u64);
}

#[test]
fn each_copy_is_sent_again_twice_at_most_and_not_while_it_is_on_its_way() {
    let mut harness = IngressHarness::new();
    let flow = harness.flow(cached());
    harness.copy(flow, 0);
    let mut sent = 0;
    for _ in 0..90 {
        sent += harness.nack_copy_numbers(flow, &[0]).len();
        harness.advance(10);
    }
    assert_eq!(sent, usize::from(RELAYED_COPY_NACKS_MAX));
    // Copies are in flight for 70 ms after each transmission: requests before 70, 140 and 210 ms
    // are ignored.
    assert_eq!(harness.ingress.counters.retransmits_refused, 90 - 21);
}

#[test]
fn a_relay_that_asks_for_everything_gets_no_more_than_the_flows_rate() {
    let mut harness = IngressHarness::new();
    let rate = Rate::from_kilobits_per_second(800);
    let flow = harness.flow(FlowConfig { rate, ..cached() });
    let mut sent = 0;
    for sequence in 0..1_000 {
        harness.copy_of(flow, sequence, &packet_of(1, sequence, 900));
        let mut all = RangeSet::new();
        for number in sequence.saturating_sub(200)..=sequence {
            assert!(all.insert(SequenceNumber::new(number)));
        }
        sent += harness.nack_copies(flow, 0, &all.ranges()).len();
        harness.advance(10);
    }
    let burst = rate.bytes_in(COPY_BURST).expect("small").count() / 900;
    let at_most = usize::try_from(burst).expect("small") + 1_112;
    assert!((900..=at_most).contains(&sent), "{sent} of 1,000, of which each may be sent twice");
    assert!(harness.ingress.counters.retransmits_refused > 0);
}

#[test]
fn only_relays_that_a_flow_goes_to_may_ask() {
    let mut harness = IngressHarness::new();
    let flow = harness.flow(cached());
    harness.copy(flow, 0);
    harness.advance(100);
    let mut set = RangeSet::new();
    assert!(set.insert(SequenceNumber::new(0)));
    assert_eq!(harness.nack_copies(flow, 1, &set.ranges()), []);
    harness.ingress.set_has_receiver(flow, RelayPeerId(0), false);
    assert_eq!(harness.nack_copies(flow, 0, &set.ranges()), [], "nor one that has no receiver any more");
    harness.ingress.set_has_receiver(flow, RelayPeerId(0), true);
    assert_eq!(harness.nack_copies(flow, 0, &set.ranges()), [0]);
}

#[test]
fn what_is_not_kept_is_not_sent_again() {
    let mut harness = IngressHarness::new();
    let flow = harness.flow(cached());
    let some = harness.flow(FlowConfig { copy_mode: CopyMode::Selective, ..cached() });
    for flow in [flow, some] {
        harness.copy(flow, 0);
    }
    harness.advance(100);
    assert_eq!(harness.nack_copy_numbers(flow, &[0, 1]), [0]);
    assert_eq!(harness.nack_copy_numbers(some, &[0]), [], "a gap is no loss");
    harness.advance(1_000);
    assert_eq!(harness.nack_copy_numbers(flow, &[0]), [], "nobody waits for it any more");
}

#[test]
fn what_was_coded_is_sent_at_once_to_whoever_cannot_restore_it() {
    let mut harness = IngressHarness::new();
    let flow = harness.flow(coded());
    harness.copy(flow, 0);
    assert_eq!(harness.nack_copy_numbers(flow, &[0]), [0], "it was not sent before");
    assert_eq!(harness.nack_copy_numbers(flow, &[0]), [], "and now it is in flight");
    harness.advance(100);
    assert_eq!(harness.nack_copy_numbers(flow, &[0]), [0]);
    harness.advance(100);
    assert_eq!(harness.nack_copy_numbers(flow, &[0]), [], "twice is enough");
}

#[test]
fn what_would_come_too_late_is_not_sent_again() {
    let mut harness = IngressHarness::new();
    // The egress relay is 40 ms away; the sender and the receiver are 10 ms from their relays.
    let flow = harness.flow(FlowConfig { latency_budget: ms(180), ..cached() });
    harness.ingress.set_round_trip(flow, ms(20));
    harness.copy(flow, 0);
    harness.copy(flow, 1);
    harness.advance(120);
    assert_eq!(harness.nack_copy_numbers(flow, &[0]), [0]);
    harness.advance(1);
    assert_eq!(harness.nack_copy_numbers(flow, &[1]), []);
    assert_eq!(harness.ingress.counters.retransmits_expired, 1);
}

#[test]
fn the_memory_of_relayed_copies_is_released() {
    let mut harness = IngressHarness::new();
    let flow = harness.flow(cached());
    (0..100).for_each(|sequence| harness.copy(flow, sequence));
    assert!(harness.ingress.buffered_bytes() > Bytes::ZERO);
    harness.advance(11_000);
    assert_eq!(harness.ingress.buffered_bytes(), Bytes::ZERO);
}

#[test]
fn copies_that_arrive_before_the_egress_relay_knows_their_flow_are_relayed_once_it_does() {
    let services = [Service::Caching, Service::Forwarding, Service::Both]
        .map(|service| FlowConfig { service, ..coded() });
    for kind in services {
        let mut harness = IngressHarness::new();
        let flow = harness.flow(kind);
        let peer = RelayPeerId(0);
        harness.ingress.set_has_receiver(flow, peer, false);
        (0..3).for_each(|sequence| harness.copy(flow, sequence));
        let budget = harness.ingress.flow(flow).expect("it is registered").registration.latency_budget;
        harness.advance(budget.as_millis() - 10);
        (3..5).for_each(|sequence| harness.copy(flow, sequence));
        harness.advance(20);
        assert_eq!(harness.sink.relayed, [], "no next hop has a receiver");
        harness.ingress.set_has_receiver(flow, peer, true);
        for _ in 0..2 {
            harness.ingress.relay_buffered_copies(flow, peer, &mut harness.sink, harness.now);
            let relayed: Vec<u64> = harness.sink.relayed.iter().map(|(_, sequence, _)| *sequence).collect();
            assert_eq!(relayed, [3, 4], "once, unless they are too late");
        }
        assert_eq!(harness.ingress.counters.copies_relayed, 2);
    }
}
