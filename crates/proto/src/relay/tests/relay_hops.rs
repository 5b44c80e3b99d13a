//! Relayed copies that another relay misses, or that this one misses.

use byway_wire::messages::CopyNack;

use super::floods::range;
use super::groups::{group_flow, sending};
use super::*;
use crate::limits::{COPY_REORDERING, DATAGRAM_WORK_MAX, INPUT_WORK_MAX, RELAYED_COPY_NACKS_MAX};

/// A relay with a flow from agent 1, forwarded to the other relay as alias 1.
fn relay_with_outbound_flow() -> RelayHarness {
    let mut harness = RelayHarness::new(alloc::vec![sending(OTHER)]);
    harness.enter(1);
    assert_eq!(harness.registers_for(1, group_flow(1), FlowRole::Sender, Service::Caching), Ok(1));
    harness.send_receivers(&[1]);
    harness
}

impl RelayHarness {
    /// Requests relayed copies as the other relay.
    fn send_copy_nack(&mut self, alias: u16, numbers: impl IntoIterator<Item = u64>) -> Vec<ClientEvent> {
        let mut set = RangeSet::new();
        for number in numbers {
            assert!(set.insert(SequenceNumber::new(number)), "it fits");
        }
        let alias = Alias::new(alias).expect("not zero");
        self.drain_events(OTHER);
        self.send_message(OTHER, &Message::CopyNack(CopyNack { alias, ranges: set.ranges() }));
        self.drain_events(OTHER)
    }

    /// Sends copies of alias 1 as the other relay.
    fn receive_relayed(&mut self, sequences: impl IntoIterator<Item = u32>) {
        for sequence in sequences {
            self.envelops(OTHER, EnvelopeRole::RelayedCopy, 1, sequence, &packet(1, sequence));
        }
    }
}

fn relayed_copy(sequence: u32) -> ClientEvent {
    ClientEvent::Envelope(EnvelopeRole::RelayedCopy, 1, sequence, packet(1, sequence))
}

#[test]
fn a_copy_that_another_relay_misses_is_relayed_again() {
    let mut harness = relay_with_outbound_flow();
    (0..5).for_each(|sequence| harness.copies(1, 1, sequence, &packet(1, sequence)));
    harness.advance(ms(100));
    assert_eq!(harness.send_copy_nack(1, [1, 3]), [relayed_copy(1), relayed_copy(3)]);
    assert_eq!(harness.send_copy_nack(1, [7]), [], "it never arrived here");
    assert_eq!(harness.send_copy_nack(2, [1]), [], "that alias has no flow");
    assert_eq!(harness.relay.counters().aliases_unknown, 1);
}

#[test]
fn a_relay_that_asks_for_everything_all_the_time_gets_each_copy_twice_more() {
    let mut harness = relay_with_outbound_flow();
    let (mut again, mut sent) = (0, 0);
    for _ in 0..12 {
        for _ in 0..5 {
            harness.copies(1, 1, sent, &packet(1, sent));
            sent += 1;
        }
        for _ in 0..4 {
            harness.advance(ms(25));
            again += harness.send_copy_nack(1, 0..20_000).len();
        }
    }
    assert!(again <= usize::from(RELAYED_COPY_NACKS_MAX) * 60, "{again} of 60 copies");
    assert!(harness.relay.ingress_counters().retransmits_refused > 0);
}

#[test]
fn another_relay_that_asks_for_everything_in_the_longest_datagram_has_it_read_in_part() {
    let mut harness = relay_with_outbound_flow();
    (0..5).for_each(|sequence| harness.copies(1, 1, sequence, &packet(1, sequence)));
    let everything = range(0, 8_192);
    let alias = Alias::new(1).expect("not zero");
    let nack = Message::CopyNack(CopyNack { alias, ranges: everything.ranges() });
    let mut messages = alloc::vec![0; 65_000];
    let mut writer = byway_wire::Writer::new(&mut messages);
    while nack.emit(&mut writer).is_ok() {}
    let work = harness.work_of(OTHER, writer.as_bytes());
    assert!((DATAGRAM_WORK_MAX..=INPUT_WORK_MAX).contains(&work), "{work} units");
    assert!(harness.relay.counters().work_refused > 1_000);
}

#[test]
fn agents_have_no_relayed_copies_to_nack() {
    let mut harness = relay_with_outbound_flow();
    harness.copies(1, 1, 0, &packet(1, 0));
    harness.advance(ms(100));
    let mut set = RangeSet::new();
    assert!(set.insert(SequenceNumber::new(0)));
    let alias = Alias::new(1).expect("not zero");
    harness.send_message(1, &Message::CopyNack(CopyNack { alias, ranges: set.ranges() }));
    assert_eq!(
        (harness.relay.counters().out_of_role, harness.relay.ingress_counters().retransmitted),
        (1, 0)
    );
}

/// A relay with a flow from agent 1 to agent 2 that arrives from the other relay.
fn relay_with_inbound_flow(selective: bool) -> RelayHarness {
    let mut harness = RelayHarness::new(alloc::vec![grant(1, 2)]);
    harness.enter(2);
    let key = FlowKey::new(AgentId::new(1), Receiver::Agent(AgentId::new(2)), FlowId::new(1));
    assert_eq!(harness.registers_for(2, key, FlowRole::Receiver, Service::Caching), Ok(1));
    harness.announces_as(&[key], selective, false);
    harness.drain_events(OTHER);
    harness
}

#[test]
fn relayed_copies_missed_here_are_nacked() {
    let mut harness = relay_with_inbound_flow(false);
    harness.receive_relayed([0, 1, 4, 5]);
    assert_eq!(harness.drain_events(OTHER), []);
    harness.advance(COPY_REORDERING);
    assert_eq!(harness.drain_events(OTHER), [ClientEvent::CopyNack(1, alloc::vec![2, 3])]);
    harness.receive_relayed([2, 3]);
    harness.advance(ms(1_000));
    assert_eq!(harness.drain_events(OTHER), []);
    harness.nacks(2, 1, 2);
    assert_eq!(
        harness.drain_events(2),
        [ClientEvent::Envelope(EnvelopeRole::CachedRepair, 1, 2, packet(1, 2))]
    );
}

#[test]
fn what_a_sender_did_not_copy_is_not_asked_for() {
    let mut harness = relay_with_inbound_flow(true);
    harness.receive_relayed([0, 1, 4, 5]);
    harness.advance(ms(1_000));
    assert_eq!(harness.drain_events(OTHER), []);
}
