//! Packets between agents that do not reach each other directly.

use super::*;
use crate::limits::RELAYED_BURST;
use byway_wire::messages::{Relayed, RelayedOn};

/// A message packet of so many bytes.
fn packet_of(length: usize) -> Vec<u8> {
    let mut bytes = alloc::vec![0; length];
    bytes[0] = 8;
    bytes
}

impl Desk {
    /// An agent here wants a packet passed on.
    fn passes_to(&mut self, from: u8, to: u8, length: usize) {
        let packet = packet_of(length);
        let relayed = Relayed::new(AgentId::new(to.into()), &packet).expect("a message packet");
        self.says(from, &Message::Relayed(relayed));
    }

    /// The other relay passes a packet on.
    fn passes_on(&mut self, from: u8, to: u8, length: usize) {
        let packet = packet_of(length);
        let (from, to) = (AgentId::new(from.into()), AgentId::new(to.into()));
        let relayed = RelayedOn::new(from, to, &packet).expect("a message packet");
        self.says(OTHER, &Message::RelayedOn(relayed));
    }

    fn refused(&self) -> u64 {
        self.relay.counters().relayed_refused
    }
}

/// Receiver 2 of a flow whose sender 1 is at the other relay, and pair 3 and 4 here.
fn desk() -> Desk {
    let mut desk = Desk::new(alloc::vec![grant(1, 2), grant_here(3, 4)]);
    for who in [2, 3, 4] {
        desk.enter(who);
    }
    assert!(desk.registers(2, flow(1, 2, 1), FlowRole::Receiver).is_ok());
    assert!(desk.registers(3, flow(3, 4, 1), FlowRole::Sender).is_ok());
    assert!(desk.registers(4, flow(3, 4, 1), FlowRole::Receiver).is_ok());
    desk.heard(OTHER);
    desk
}

#[test]
fn packets_are_passed_on_between_agents_that_a_grant_connects_however_long() {
    let mut desk = Desk::new(alloc::vec![grant_here(1, 2), grant(3, 4)]);
    desk.enter(1);
    desk.enter(2);
    desk.enter(4);
    assert!(desk.registers(1, flow(1, 2, 1), FlowRole::Sender).is_ok());
    assert!(desk.registers(2, flow(1, 2, 1), FlowRole::Receiver).is_ok());
    assert!(desk.registers(4, flow(3, 4, 1), FlowRole::Receiver).is_ok());
    for length in [100, 1_173, 1_174, 1_400] {
        let mut bytes = alloc::vec![0; length];
        bytes[0] = 8;
        desk.says(1, &Message::Relayed(Relayed::new(AgentId::new(2), &bytes).expect("a message packet")));
        assert_eq!(desk.heard(2), [Heard::Relayed(1, length)]);
    }
    let bytes = [8; 100];
    for stranger in [4, 77] {
        desk.says(
            1,
            &Message::Relayed(Relayed::new(AgentId::new(stranger), &bytes).expect("a message packet")),
        );
    }
    assert_eq!((desk.heard(4), desk.relay.counters().relayed_refused), (Vec::new(), 2));
}

#[test]
fn a_packet_for_an_agent_at_another_relay_goes_there_and_the_answer_comes_from_there() {
    let mut desk = desk();
    for length in [100, 1_173, 1_400] {
        desk.passes_on(1, 2, length);
        assert_eq!(desk.heard(2), [Heard::Relayed(1, length)]);
        desk.passes_to(2, 1, length);
        assert_eq!(desk.heard(OTHER), [Heard::RelayedOn(2, 1, length)]);
    }
    assert_eq!((desk.relay.counters().relayed, desk.refused()), (6, 0));
}

#[test]
fn another_relay_reaches_only_agents_here_that_a_grant_connects_with_the_sender() {
    let mut desk = desk();
    // To an agent that does not know the sender; between others; to its own agents, through here.
    for (from, to) in [(1, 3), (3, 2), (2, 1), (9, 9)] {
        desk.passes_on(from, to, 100);
    }
    assert_eq!(desk.refused(), 4);
    assert!([2, 3, 4, OTHER].into_iter().all(|who| desk.heard(who).is_empty()));
    // An agent is no relay.
    let packet = packet_of(100);
    let relayed = RelayedOn::new(AgentId::new(3), AgentId::new(4), &packet).expect("a message packet");
    desk.says(3, &Message::RelayedOn(relayed));
    assert_eq!((desk.heard(4), desk.relay.counters().out_of_role), (Vec::new(), 1));
}

#[test]
fn no_more_is_passed_on_than_handshakes_and_messages_need() {
    for (sends, receives) in [(OTHER, 2), (2, OTHER), (3, 4)] {
        let mut desk = desk();
        let flood = |desk: &mut Desk| {
            for _ in 0..200 {
                match sends {
                    OTHER => desk.passes_on(1, 2, 1_000),
                    2 => desk.passes_to(2, 1, 1_000),
                    _ => desk.passes_to(3, 4, 1_000),
                }
            }
            desk.heard(receives).len()
        };
        assert_eq!(flood(&mut desk) as u64, RELAYED_BURST.count() / 1_000);
        desk.now += ms(80);
        assert_eq!(flood(&mut desk), 10, "1 Mbit/s");
    }
}

#[test]
fn where_the_relay_of_the_other_agent_is_out_of_reach_the_answer_goes_where_the_packet_came_from() {
    let lost = GrantedRelay { relay: RelayId::new(OTHER.into()), shard: Shard::new(3) };
    let mut desk = Desk::new(alloc::vec![Grant { ingress: lost, ..grant(1, 2) }]);
    desk.enter(2);
    assert!(desk.registers(2, flow(1, 2, 1), FlowRole::Receiver).is_ok());
    desk.passes_to(2, 1, 100);
    assert_eq!(desk.refused(), 1, "a shard that this relay does not know");
    desk.passes_on(1, 2, 100);
    desk.passes_to(2, 1, 100);
    assert_eq!(desk.heard(OTHER).last(), Some(&Heard::RelayedOn(2, 1, 100)));
}
