//! Multicast groups: one sender, receivers near this relay and others.

use super::*;
use crate::limits::EGRESS_RELAYS_MAX;
use byway_wire::GroupId;
use byway_wire::messages::RelayedPacket;

/// Number of the first relay besides this one and the other; none of these is reachable.
pub(super) const FURTHER: u8 = 202;

pub(super) fn group_flow(sender: u8) -> FlowKey {
    FlowKey::new(
        AgentId::new(sender.into()),
        Receiver::Group(GroupId::new(5).expect("small")),
        FlowId::new(1),
    )
}

/// Grant of a receiver for the group that agent 1 sends to.
fn membership(receiver: u8, egress: u8) -> Grant {
    let egress = GrantedRelay { relay: RelayId::new(egress.into()), shard: Shard::new(0) };
    let grant = grant_here(1, receiver);
    let services = grant.services.with(Service::Forwarding).with(Service::Both);
    Grant { receiver: group_flow(1).receiver(), egress, services, ..grant }
}

/// Grant of the group's sender.
pub(super) fn sending(egress: u8) -> Grant {
    Grant { receiver_key: [0; 32], ..membership(0, egress) }
}

/// A relay with receivers 2 and 3 of the group, one receiver at the other relay, and the sender.
fn group(service: Service) -> RelayHarness {
    let grants = alloc::vec![sending(RELAY), sending(OTHER), membership(2, RELAY), membership(3, RELAY)];
    let mut harness = RelayHarness::new(grants);
    for who in [1, 2, 3] {
        harness.enter(who);
    }
    for who in [2, 3] {
        assert_eq!(harness.registers_for(who, group_flow(1), FlowRole::Receiver, service), Ok(1));
    }
    assert_eq!(harness.registers_for(1, group_flow(1), FlowRole::Sender, service), Ok(1));
    harness.send_receivers(&[1]);
    harness
}

#[test]
fn a_copy_goes_to_all_receivers_and_to_the_other_relays_of_the_group() {
    let mut harness = group(Service::Forwarding);
    harness.copies(1, 1, 7, &packet(1, 7));
    let forwarded = ClientEvent::Envelope(EnvelopeRole::Forwarded, 1, 7, packet(1, 7));
    assert_eq!(
        (harness.drain_events(2), harness.drain_events(3)),
        (alloc::vec![forwarded.clone()], alloc::vec![forwarded])
    );
    assert_eq!(
        harness.drain_events(OTHER),
        [ClientEvent::Envelope(EnvelopeRole::RelayedCopy, 1, 7, packet(1, 7))]
    );
    assert_eq!(harness.relay.ingress_counters().copies_relayed, 2);
}

#[test]
fn who_missed_a_packet_of_the_group_gets_it_from_the_cache_and_nobody_else_does() {
    let mut harness = group(Service::Caching);
    for sequence in 0..3 {
        harness.copies(1, 1, sequence, &packet(1, sequence));
    }
    assert_eq!(
        (harness.drain_events(2), harness.drain_events(3)),
        (Vec::new(), Vec::new()),
        "no copies without a NACK"
    );
    harness.nacks(3, 1, 1);
    let cached =
        |sequence| ClientEvent::Envelope(EnvelopeRole::CachedRepair, 1, sequence, packet(1, sequence));
    assert_eq!((harness.drain_events(2), harness.drain_events(3)), (Vec::new(), alloc::vec![cached(1)]));
    harness.nacks(2, 1, 1);
    harness.nacks(2, 1, 2);
    assert_eq!(
        (harness.drain_events(2), harness.drain_events(3)),
        (alloc::vec![cached(1), cached(2)], Vec::new())
    );
    assert_eq!(harness.drain_events(OTHER).len(), 3, "which stores them for its receivers");
}

#[test]
fn a_receiver_that_leaves_the_group_gets_no_more_and_the_others_do() {
    let mut harness = group(Service::Forwarding);
    let leave = byway_wire::messages::Unregister {
        flow_key: group_flow(1),
        role: FlowRole::Receiver,
        far_relay: None,
    };
    harness.send_message(2, &Message::Unregister(leave));
    harness.copies(1, 1, 0, &packet(1, 0));
    assert_eq!(
        (harness.drain_events(2), harness.drain_events(3).len()),
        (alloc::vec![ClientEvent::Unregistered(1)], 1)
    );
}

#[test]
fn who_has_no_grant_of_its_own_is_not_in_the_group() {
    let grants = alloc::vec![sending(RELAY), membership(2, RELAY), grant(1, 4)];
    let mut harness = RelayHarness::new(grants);
    for who in [1, 2, 4] {
        harness.enter(who);
    }
    assert_eq!(harness.registers(2, group_flow(1), FlowRole::Receiver), Ok(1));
    assert_eq!(harness.registers(4, group_flow(1), FlowRole::Receiver), Err(Refusal::GrantInvalid));
    assert_eq!(harness.registers(4, group_flow(1), FlowRole::Sender), Err(Refusal::GrantInvalid));
    assert_eq!(harness.registers(2, group_flow(1), FlowRole::Sender), Err(Refusal::GrantInvalid));
    assert_eq!(harness.registers(1, group_flow(1), FlowRole::Receiver), Err(Refusal::GrantInvalid));
    assert_eq!(harness.registers(1, group_flow(1), FlowRole::Sender), Ok(1));
}

#[test]
fn a_receiver_of_a_group_is_not_taken_for_another_agent() {
    // The session of the group's receiver has the number of agent 2.
    let grants = alloc::vec![sending(RELAY), membership(9, RELAY), grant_here(1, 2)];
    let mut harness = RelayHarness::new(grants);
    harness.enter(1);
    harness.enter(9);
    let session = harness.relay.sessions.find(secret(9).public_key(), Purpose::AgentToRelay, Shard::new(0));
    assert_eq!(session, Some(SessionId(2)));
    harness.enter(2);
    assert_eq!(harness.registers(1, flow(1, 2, 1), FlowRole::Sender), Ok(1));
    assert_eq!(harness.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
    assert_eq!(harness.registers(9, group_flow(1), FlowRole::Receiver), Ok(1));
    let bytes = [8; 100];
    harness.send_message(
        1,
        &Message::RelayedPacket(RelayedPacket::new(AgentId::new(2), &bytes).expect("a message packet")),
    );
    assert_eq!(
        (harness.drain_events(2), harness.drain_events(9)),
        (alloc::vec![ClientEvent::Relayed(1, 100)], Vec::new())
    );
    // It is no agent for the forwarding of packets.
    harness.send_message(
        9,
        &Message::RelayedPacket(RelayedPacket::new(AgentId::new(1), &bytes).expect("a message packet")),
    );
    assert_eq!((harness.drain_events(1), harness.relay.counters().relayed_refused), (Vec::new(), 1));
}

#[test]
fn an_agent_stays_who_it_is_when_it_joins_a_group() {
    let grants = alloc::vec![grant_here(1, 2), membership(2, RELAY)];
    let mut harness = RelayHarness::new(grants);
    // The session of agent 2 has another number.
    for who in [2, 1] {
        harness.enter(who);
    }
    assert_eq!(harness.registers(1, flow(1, 2, 1), FlowRole::Sender), Ok(1));
    assert_eq!(harness.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
    assert_eq!(harness.registers(2, group_flow(1), FlowRole::Receiver), Ok(2));
    let bytes = [8; 100];
    harness.send_message(
        2,
        &Message::RelayedPacket(RelayedPacket::new(AgentId::new(1), &bytes).expect("a message packet")),
    );
    assert_eq!(harness.drain_events(1), [ClientEvent::Relayed(2, 100)]);
}

#[test]
fn a_group_is_at_only_so_many_egress_relays() {
    let relays = u8::try_from(EGRESS_RELAYS_MAX).expect("few");
    let grants = |count: u8| (0..count).map(|nth| sending(FURTHER + nth)).collect();
    let mut harness = RelayHarness::of(Authority::Static(grants(relays)), 1_000, relays + 1);
    harness.enter(1);
    assert_eq!(harness.registers(1, group_flow(1), FlowRole::Sender), Ok(1));
    let mut harness = RelayHarness::of(Authority::Static(grants(relays + 1)), 1_000, relays + 1);
    harness.enter(1);
    assert_eq!(harness.registers(1, group_flow(1), FlowRole::Sender), Err(Refusal::Full));
    assert_eq!(harness.relay.counters().registrations_refused, 1);
}

#[test]
fn packets_of_a_group_are_in_no_batch() {
    let mut harness = group(Service::Coding);
    for sequence in 0..40 {
        harness.copies(1, 1, sequence, &packet(1, sequence));
    }
    harness.advance(ms(1_000));
    let counters = harness.relay.ingress_counters();
    assert_eq!((counters.covered, counters.uncovered_alone), (0, 0));
    assert_eq!(counters.in_stream, 2 * 40 / 5, "but in blocks, for both relays");
}
