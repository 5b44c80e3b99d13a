//! Packets between agents that cannot reach each other directly.

use super::*;
use crate::limits::RELAYED_BURST;
use byway_wire::messages::{InterRelayPacket, RelayedPacket};

/// Returns a message packet of this length.
fn packet_of(length: usize) -> Vec<u8> {
    let mut bytes = alloc::vec![0; length];
    bytes[0] = 8;
    bytes
}

impl RelayHarness {
    /// Forwards a packet as an agent at this relay.
    fn relay_from_agent(&mut self, from: u8, to: u8, length: usize) {
        let packet = packet_of(length);
        let relayed = RelayedPacket::new(AgentId::new(to.into()), &packet).expect("a message packet");
        self.send_message(from, &Message::RelayedPacket(relayed));
    }

    /// Forwards a packet as the other relay.
    fn relay_from_peer(&mut self, from: u8, to: u8, length: usize) {
        let packet = packet_of(length);
        let (from, to) = (AgentId::new(from.into()), AgentId::new(to.into()));
        let relayed = InterRelayPacket::new(from, to, &packet).expect("a message packet");
        self.send_message(OTHER, &Message::InterRelayPacket(relayed));
    }

    fn refused_count(&self) -> u64 {
        self.relay.counters().relayed_refused
    }
}

/// A relay with the pair 3 and 4, and with receiver 2, whose sender 1 is at the other relay.
fn harness() -> RelayHarness {
    let mut harness = RelayHarness::new(alloc::vec![grant(1, 2), grant_here(3, 4)]);
    for who in [2, 3, 4] {
        harness.enter(who);
    }
    assert!(harness.registers(2, flow(1, 2, 1), FlowRole::Receiver).is_ok());
    assert!(harness.registers(3, flow(3, 4, 1), FlowRole::Sender).is_ok());
    assert!(harness.registers(4, flow(3, 4, 1), FlowRole::Receiver).is_ok());
    harness.drain_events(OTHER);
    harness
}

#[test]
fn packets_are_passed_on_between_agents_that_a_grant_connects_however_long() {
    let mut harness = RelayHarness::new(alloc::vec![grant_here(1, 2), grant(3, 4)]);
    harness.enter(1);
    harness.enter(2);
    harness.enter(4);
    assert!(harness.registers(1, flow(1, 2, 1), FlowRole::Sender).is_ok());
    assert!(harness.registers(2, flow(1, 2, 1), FlowRole::Receiver).is_ok());
    assert!(harness.registers(4, flow(3, 4, 1), FlowRole::Receiver).is_ok());
    for length in [100, 1_173, 1_174, 1_400] {
        let mut bytes = alloc::vec![0; length];
        bytes[0] = 8;
        harness.send_message(
            1,
            &Message::RelayedPacket(RelayedPacket::new(AgentId::new(2), &bytes).expect("a message packet")),
        );
        assert_eq!(harness.drain_events(2), [ClientEvent::Relayed(1, length)]);
    }
    let bytes = [8; 100];
    for stranger in [4, 77] {
        harness.send_message(
            1,
            &Message::RelayedPacket(
                RelayedPacket::new(AgentId::new(stranger), &bytes).expect("a message packet"),
            ),
        );
    }
    assert_eq!((harness.drain_events(4), harness.relay.counters().relayed_refused), (Vec::new(), 2));
}

#[test]
fn a_packet_for_an_agent_at_another_relay_goes_there_and_the_answer_comes_from_there() {
    let mut harness = harness();
    for length in [100, 1_173, 1_400] {
        harness.relay_from_peer(1, 2, length);
        assert_eq!(harness.drain_events(2), [ClientEvent::Relayed(1, length)]);
        harness.relay_from_agent(2, 1, length);
        assert_eq!(harness.drain_events(OTHER), [ClientEvent::RelayedOn(2, 1, length)]);
    }
    assert_eq!((harness.relay.counters().relayed, harness.refused_count()), (6, 0));
}

#[test]
fn another_relay_reaches_only_agents_here_that_a_grant_connects_with_the_sender() {
    let mut harness = harness();
    // No grant connects 1 and 3, nor 3 and 2; 1 is an agent of the other relay; 9 is unknown.
    for (from, to) in [(1, 3), (3, 2), (2, 1), (9, 9)] {
        harness.relay_from_peer(from, to, 100);
    }
    assert_eq!(harness.refused_count(), 4);
    assert!([2, 3, 4, OTHER].into_iter().all(|who| harness.drain_events(who).is_empty()));
    // An agent must not send messages of relays.
    let packet = packet_of(100);
    let relayed = InterRelayPacket::new(AgentId::new(3), AgentId::new(4), &packet).expect("a message packet");
    harness.send_message(3, &Message::InterRelayPacket(relayed));
    assert_eq!((harness.drain_events(4), harness.relay.counters().out_of_role), (Vec::new(), 1));
}

#[test]
fn no_more_is_passed_on_than_handshakes_and_messages_need() {
    for (sends, receives) in [(OTHER, 2), (2, OTHER), (3, 4)] {
        let mut harness = harness();
        let flood = |harness: &mut RelayHarness| {
            for _ in 0..200 {
                match sends {
                    OTHER => harness.relay_from_peer(1, 2, 1_000),
                    2 => harness.relay_from_agent(2, 1, 1_000),
                    _ => harness.relay_from_agent(3, 4, 1_000),
                }
            }
            harness.drain_events(receives).len()
        };
        assert_eq!(flood(&mut harness) as u64, RELAYED_BURST.count() / 1_000);
        harness.now += ms(80);
        assert_eq!(flood(&mut harness), 10, "1 Mbit/s");
    }
}

#[test]
fn where_the_relay_of_the_other_agent_is_out_of_reach_the_answer_goes_where_the_packet_came_from() {
    let lost = GrantedRelay { relay: RelayId::new(OTHER.into()), shard: Shard::new(3) };
    let mut harness = RelayHarness::new(alloc::vec![Grant { ingress: lost, ..grant(1, 2) }]);
    harness.enter(2);
    assert!(harness.registers(2, flow(1, 2, 1), FlowRole::Receiver).is_ok());
    harness.relay_from_agent(2, 1, 100);
    assert_eq!(harness.refused_count(), 1, "a shard that this relay does not know");
    harness.relay_from_peer(1, 2, 100);
    harness.relay_from_agent(2, 1, 100);
    assert_eq!(harness.drain_events(OTHER).last(), Some(&ClientEvent::RelayedOn(2, 1, 100)));
}
