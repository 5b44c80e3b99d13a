//! Registrations: accepted and refused.

use super::*;
use crate::limits::{
    ALIASES_PER_MESSAGE, ANNOUNCE_INTERVAL, EPOCH_OPENS_FOR, FLOWS_PER_SESSION_MAX, GROUP_SHAPES_MAX,
    GROUPS_MAX, RELAYED_BURST, RELAYED_RATE,
};
use byway_wire::messages::{Close, CloseReason, RelayedPacket, UnknownMessage, Unregister};

use byway_wire::Services;

use crate::relay::flow_table::FlowRef;

#[test]
fn a_stranger_gets_no_session() {
    let mut harness = RelayHarness::new(alloc::vec![grant(1, 2)]);
    harness.enter(9);
    assert_eq!(harness.relay.counters().strangers_refused, 1);
    let now = harness.now;
    let client = harness.client(9);
    assert!(!client.sessions.is_established(client.session, now));
}

#[test]
fn refusals_say_why() {
    let mut harness = RelayHarness::new(alloc::vec![grant(1, 2), grant_here(3, 4)]);
    for who in [1, 2, 3, 4] {
        harness.enter(who);
    }
    // The grant names the other relay for the sender.
    assert_eq!(harness.registers(1, flow(1, 2, 1), FlowRole::Sender), Err(Refusal::NoGrant));
    assert_eq!(harness.registers(2, flow(1, 9, 1), FlowRole::Receiver), Err(Refusal::NoGrant));
    // The flow belongs to other agents.
    assert_eq!(harness.registers(3, flow(1, 2, 1), FlowRole::Receiver), Err(Refusal::GrantInvalid));
    // The agent is the flow's receiver.
    assert_eq!(harness.registers(4, flow(3, 4, 1), FlowRole::Sender), Err(Refusal::GrantInvalid));
    let forwarding = harness.registers_for(2, flow(1, 2, 1), FlowRole::Receiver, Service::Forwarding);
    assert_eq!(forwarding, Err(Refusal::ServiceNotGranted));
    assert_eq!(harness.relay.counters().registrations_refused, 5);
}

#[test]
fn a_message_of_an_unknown_type_is_skipped_and_counted() {
    let mut harness = RelayHarness::new(alloc::vec![grant(1, 2)]);
    harness.enter(2);
    let before = harness.relay.counters().messages_unknown;
    let unknown = Message::Unknown(UnknownMessage::new(200, b"of a later version").expect("nobody knows it"));
    for message in [
        unknown,
        Message::Register(harness.as_granted(&register(
            flow(1, 2, 1),
            FlowRole::Receiver,
            Service::Coding,
            CONSENT,
        ))),
        unknown,
    ] {
        let now = harness.now;
        let client = harness.client(2);
        client.sessions.queue_message(client.session, &message, now);
    }
    harness.client(2).events.clear();
    harness.exchange();
    assert!(
        harness.client(2).events.contains(&ClientEvent::Registered(Ok(1))),
        "{:?}",
        harness.client(2).events
    );
    let after = harness.relay.counters();
    assert_eq!((after.messages_unknown - before, after.out_of_role), (2, 0));
}

#[test]
fn a_flow_registered_twice_keeps_its_alias_and_one_that_left_gives_it_back() {
    let mut harness = RelayHarness::new(alloc::vec![grant(1, 2)]);
    harness.enter(2);
    assert_eq!(harness.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
    assert_eq!(harness.registers(2, flow(1, 2, 2), FlowRole::Receiver), Ok(2));
    assert_eq!(harness.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
    harness.send_message(
        2,
        &Message::Unregister(Unregister {
            flow_key: flow(1, 2, 1),
            role: FlowRole::Receiver,
            far_relay: None,
        }),
    );
    assert_eq!(harness.registers(2, flow(1, 2, 3), FlowRole::Receiver), Ok(1));
}

#[test]
fn one_agent_registers_only_so_many_flows() {
    let mut harness = RelayHarness::new(alloc::vec![grant(1, 2)]);
    harness.has_thousands = true;
    harness.enter(2);
    let flows = u16::try_from(FLOWS_PER_SESSION_MAX).expect("fewer than there are aliases");
    for number in 0..flows {
        assert!(harness.registers(2, flow(1, 2, number), FlowRole::Receiver).is_ok());
    }
    assert_eq!(harness.registers(2, flow(1, 2, flows), FlowRole::Receiver), Err(Refusal::Full));
    harness.send_message(
        2,
        &Message::Unregister(Unregister {
            flow_key: flow(1, 2, 5),
            role: FlowRole::Receiver,
            far_relay: None,
        }),
    );
    assert_eq!(harness.registers(2, flow(1, 2, flows), FlowRole::Receiver), Ok(6));
}

#[test]
fn what_an_agent_registered_in_an_earlier_run_is_void() {
    let mut harness = RelayHarness::new(alloc::vec![grant(1, 2)]);
    harness.enter(2);
    assert_eq!(harness.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
    harness.announces(&[flow(1, 2, 1)]);
    assert_eq!(harness.drain_events(OTHER), [ClientEvent::Known(1, true)]);
    harness.now += ms(5);
    harness.enter(2);
    assert_eq!(
        harness.drain_events(OTHER),
        [ClientEvent::Known(1, false)],
        "reported as soon as there is none"
    );
    harness.announces(&[flow(1, 2, 1)]);
    assert_eq!(harness.drain_events(OTHER), [ClientEvent::Known(1, false)]);
    assert_eq!(harness.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
    assert_eq!(
        harness.drain_events(OTHER),
        [ClientEvent::Known(1, true)],
        "reported as soon as there is a receiver"
    );
}

#[test]
fn a_registration_that_was_overtaken_changes_nothing() {
    let mut harness =
        RelayHarness::new(alloc::vec![Grant { services: Services::from_bits(31), ..grant_here(1, 2) }]);
    harness.enter(1);
    let of = |revision, service| Register {
        revision: Some(revision),
        ..register(flow(1, 2, 1), FlowRole::Sender, service, CONSENT)
    };
    let expected = [
        (255, Service::Forwarding, Service::Forwarding),
        (0, Service::Caching, Service::Caching),
        (255, Service::Forwarding, Service::Caching),
        (127, Service::Forwarding, Service::Forwarding),
    ];
    for (revision, service, in_force) in expected {
        let alias = harness.request_registration(1, &of(revision, service)).expect("it is granted");
        let peer = secret(1).public_key();
        let session =
            harness.relay.sessions.find(peer, Purpose::AgentToRelay, Shard::new(0)).expect("it entered");
        let Some(FlowRef::Sent(slot)) =
            harness.relay.flow_table.flow(session, Alias::new(alias).expect("not zero"))
        else {
            panic!("the flow is registered")
        };
        let known = harness.relay.ingress.service_of(slot).map(|(service, _)| service);
        assert_eq!(known, Some(in_force), "revision {revision}");
    }
}

#[test]
fn flows_that_are_coded_together_have_only_so_many_shapes() {
    let mut harness = RelayHarness::new(alloc::vec![grant_here(1, 2)]);
    harness.enter(1);
    for (number, packets) in (0..).zip(4..20) {
        let register = register(flow(1, 2, number), FlowRole::Sender, Service::Coding, CONSENT);
        let register = Register { batch: BlockShape::new(packets, 2), ..register };
        harness.send_message(1, &Message::Register(harness.as_granted(&register)));
    }
    let accepted = |event: &ClientEvent| matches!(event, ClientEvent::Registered(Ok(_)));
    let events = harness.drain_events(1);
    assert_eq!((events.iter().filter(|event| accepted(event)).count(), events.len()), (GROUP_SHAPES_MAX, 16));
    assert!(events[..GROUP_SHAPES_MAX].iter().all(accepted), "the first ones");
}

#[test]
fn only_so_many_coding_groups_are_begun() {
    let count = u16::try_from(GROUPS_MAX).expect("few");
    let of_group = |number: u16| Grant {
        coding_group: CodingGroupId::new(number.into()),
        first_flow: FlowId::new(number),
        last_flow: FlowId::new(number),
        ..grant_here(1, 2)
    };
    let (coding_group, tenant) = (CodingGroupId::new(count.into()), TenantId::new(9));
    let elsewhere = Grant { coding_group, tenant, ..grant_here(1, 3) };
    let mut harness = RelayHarness::new((0..count).map(of_group).chain([elsewhere]).collect());
    harness.has_thousands = true;
    harness.enter(1);
    // A tenant may begin as many groups as it leaves to others.
    for number in 0..count / 2 {
        assert!(harness.registers(1, flow(1, 2, number), FlowRole::Sender).is_ok());
    }
    let one_more = flow(1, 2, count / 2);
    assert_eq!(harness.registers(1, one_more, FlowRole::Sender), Err(Refusal::QuotaReached));
    assert_eq!(harness.relay.counters().quota_flows, 1);
    assert!(harness.registers(1, flow(1, 3, 0), FlowRole::Sender).is_ok());
    harness.send_message(1, &end_of(0, FlowRole::Sender));
    harness.send_message(1, &end_of(1, FlowRole::Sender));
    assert_eq!(harness.registers(1, one_more, FlowRole::Sender), Ok(1));
}

fn end_of(number: u16, role: FlowRole) -> Message<'static> {
    Message::Unregister(Unregister { flow_key: flow(1, 2, number), role, far_relay: None })
}

#[test]
fn an_end_is_answered_as_often_as_it_is_said_and_the_ingress_relay_is_told() {
    let mut harness = RelayHarness::new(alloc::vec![grant(1, 2)]);
    harness.enter(2);
    assert_eq!(harness.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
    harness.announces(&[flow(1, 2, 1)]);
    harness.drain_events(OTHER);
    for _ in 0..2 {
        harness.send_message(2, &end_of(1, FlowRole::Receiver));
        assert_eq!(harness.drain_events(2), [ClientEvent::Unregistered(1)]);
    }
    assert_eq!(harness.drain_events(OTHER), [ClientEvent::Known(1, false)]);
}

#[test]
fn where_both_relays_are_one_nothing_is_made_for_a_receiver_that_left() {
    let mut harness = RelayHarness::new(alloc::vec![grant_here(1, 2)]);
    harness.enter(1);
    harness.enter(2);
    assert_eq!(harness.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
    assert_eq!(harness.registers_for(1, flow(1, 2, 1), FlowRole::Sender, Service::Caching), Ok(1));
    harness.copies(1, 1, 0, &packet(1, 0));
    assert_eq!(harness.relay.ingress_counters().copies_relayed, 1);
    harness.send_message(2, &end_of(1, FlowRole::Receiver));
    harness.copies(1, 1, 1, &packet(1, 1));
    let counters = harness.relay.ingress_counters();
    assert_eq!((counters.copies, counters.copies_relayed), (2, 1));
}

#[test]
fn nobody_ends_what_another_registered() {
    let mut harness = RelayHarness::new(alloc::vec![grant_here(1, 2), grant_here(3, 4)]);
    for who in [1, 2, 3] {
        harness.enter(who);
    }
    assert_eq!(harness.registers(1, flow(1, 2, 1), FlowRole::Sender), Ok(1));
    assert_eq!(harness.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
    for role in [FlowRole::Sender, FlowRole::Receiver] {
        harness.send_message(3, &end_of(1, role));
    }
    harness.send_message(2, &end_of(1, FlowRole::Sender));
    harness.send_message(1, &end_of(1, FlowRole::Receiver));
    // A known registration gets the same alias again; a new one would get another.
    assert_eq!(harness.registers(1, flow(1, 2, 2), FlowRole::Sender), Ok(2));
    assert_eq!(harness.registers(1, flow(1, 2, 1), FlowRole::Sender), Ok(1));
    assert_eq!(harness.registers(2, flow(1, 2, 2), FlowRole::Receiver), Ok(2));
    assert_eq!(harness.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
}

#[test]
fn flows_that_come_and_go_leave_nothing_behind() {
    let mut harness = RelayHarness::new(alloc::vec![grant(1, 2)]);
    harness.enter(2);
    for number in 0..10_000 {
        assert_eq!(harness.registers(2, flow(1, 2, number), FlowRole::Receiver), Ok(1));
        harness.send_message(2, &end_of(number, FlowRole::Receiver));
        harness.now += ms(1);
    }
    assert_eq!(harness.relay.egress.slots(), 1);
}

#[test]
fn an_agent_that_leaves_is_forgotten_with_all_it_registered() {
    let mut harness = RelayHarness::new(alloc::vec![grant(1, 2)]);
    harness.enter(2);
    let sessions = harness.relay.sessions.count();
    assert_eq!(harness.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
    harness.announces(&[flow(1, 2, 1)]);
    harness.drain_events(OTHER);
    harness.send_message(2, &Message::Close(Close { reason: CloseReason::Leaving }));
    assert_eq!(harness.drain_events(OTHER), [ClientEvent::Known(1, false)]);
    assert_eq!(harness.relay.sessions.count(), sessions - 1);
    assert!(harness.relay.flow_table.receivers_of(flow(1, 2, 1)).is_empty());
    // The agent may return.
    harness.now += ms(5);
    harness.enter(2);
    assert_eq!(harness.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
}

#[test]
fn an_agent_that_went_without_a_word_is_forgotten_when_its_keys_are_too_old() {
    let mut harness = RelayHarness::new(alloc::vec![grant(1, 2)]);
    harness.enter(2);
    let sessions = harness.relay.sessions.count();
    assert_eq!(harness.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
    harness.clients.retain(|client| client.who != 2);
    harness.now += EPOCH_OPENS_FOR;
    harness.exchange();
    assert_eq!(harness.relay.sessions.count(), sessions - 1);
    assert!(harness.relay.flow_table.receivers_of(flow(1, 2, 1)).is_empty());
}

#[test]
fn flows_are_announced_a_message_full_at_a_time_until_they_are_known() {
    let egress = GrantedRelay { relay: RelayId::new(OTHER.into()), shard: Shard::new(0) };
    let mut harness = RelayHarness::new(alloc::vec![Grant { egress, ..grant_here(1, 2) }]);
    harness.enter(1);
    let count = u16::try_from(ALIASES_PER_MESSAGE).expect("few") + 1;
    for number in 1..=count {
        assert_eq!(harness.registers(1, flow(1, 2, number), FlowRole::Sender), Ok(number));
    }
    harness.client(OTHER).announced.clear();
    harness.advance(ANNOUNCE_INTERVAL);
    assert_eq!(harness.client(OTHER).announced, [ALIASES_PER_MESSAGE, 1]);
    harness.send_receivers(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    harness.client(OTHER).announced.clear();
    harness.advance(ANNOUNCE_INTERVAL * 2);
    assert_eq!(harness.client(OTHER).announced, [usize::from(count) - 10]);
}

#[test]
fn flows_that_nobody_receives_are_announced_more_and_more_seldom() {
    let egress = GrantedRelay { relay: RelayId::new(OTHER.into()), shard: Shard::new(0) };
    let mut harness = RelayHarness::new(alloc::vec![Grant { egress, ..grant_here(1, 2) }]);
    harness.enter(1);
    assert_eq!(harness.registers(1, flow(1, 2, 1), FlowRole::Sender), Ok(1));
    let announced = |harness: &mut RelayHarness, seconds: u64| {
        harness.client(OTHER).announced.clear();
        harness.advance(ms(1_000 * seconds));
        harness.client(OTHER).announced.len()
    };
    assert_eq!((announced(&mut harness, 8), announced(&mut harness, 80)), (5, 10));
    harness.send_receivers(&[1]);
    assert_eq!(announced(&mut harness, 80), 0);
    // The receiver has left after a short stay.
    harness.send_no_receivers(&[1]);
    assert_eq!((announced(&mut harness, 8), announced(&mut harness, 80)), (6, 10));
}

#[test]
fn an_agent_that_leaves_is_forgotten_with_its_flows() {
    let mut harness = RelayHarness::new(alloc::vec![grant(1, 2), grant(3, 4)]);
    for (sender, receiver) in [(1, 2), (3, 4)] {
        harness.enter(receiver);
        assert_eq!(harness.registers(receiver, flow(sender, receiver, 1), FlowRole::Receiver), Ok(1));
    }
    let sessions = harness.relay.sessions.count();
    harness.send_message(2, &Message::Close(Close { reason: CloseReason::Leaving }));
    assert_eq!(harness.relay.sessions.count(), sessions - 1);
    harness.announces(&[flow(1, 2, 1)]);
    assert_eq!(harness.drain_events(OTHER), [ClientEvent::Known(1, false)]);
    harness.announces(&[flow(3, 4, 1)]);
    assert_eq!(harness.drain_events(OTHER), [ClientEvent::Known(1, true)]);
    harness.enter(2);
    assert_eq!(harness.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
}

#[test]
fn so_much_is_passed_on_for_one_agent_and_no_more() {
    let mut harness = RelayHarness::new(alloc::vec![grant_here(1, 2), grant_here(3, 2)]);
    for who in [1, 2, 3] {
        harness.enter(who);
    }
    assert!(harness.registers(1, flow(1, 2, 1), FlowRole::Sender).is_ok());
    assert!(harness.registers(2, flow(1, 2, 1), FlowRole::Receiver).is_ok());
    assert!(harness.registers(3, flow(3, 2, 1), FlowRole::Sender).is_ok());
    let bytes = [8; 1_024];
    let relayed = |harness: &mut RelayHarness, who| {
        harness.send_message(
            who,
            &Message::RelayedPacket(RelayedPacket::new(AgentId::new(2), &bytes).expect("a message packet")),
        );
    };
    let burst = RELAYED_BURST.count() / 1_024;
    (0..burst + 7).for_each(|_| relayed(&mut harness, 1));
    assert_eq!((harness.relay.counters().relayed, harness.relay.counters().relayed_refused), (burst, 7));
    relayed(&mut harness, 3);
    assert_eq!(harness.relay.counters().relayed, burst + 1, "others are not concerned");
    harness.advance(RELAYED_RATE.time_for(byway_units::Bytes::new(3 * 1_024)).expect("short"));
    (0..7).for_each(|_| relayed(&mut harness, 1));
    assert_eq!(harness.relay.counters().relayed, burst + 4);
}

#[test]
fn old_news_of_a_missing_receiver_are_put_right() {
    let egress = GrantedRelay { relay: RelayId::new(OTHER.into()), shard: Shard::new(0) };
    let mut harness = RelayHarness::new(alloc::vec![Grant { egress, ..grant_here(1, 2) }]);
    harness.enter(1);
    assert_eq!(harness.registers(1, flow(1, 2, 1), FlowRole::Sender), Ok(1));
    harness.send_receivers(&[1]);
    harness.advance(ANNOUNCE_INTERVAL * 2);
    harness.client(OTHER).announced.clear();
    harness.advance(ANNOUNCE_INTERVAL * 2);
    assert_eq!(harness.client(OTHER).announced, [], "it is known");
    let mut scratch = [[0; AliasStatus::BYTES]; 1];
    let late = AliasStatus { alias: Alias::new(1).expect("not zero"), has_receiver: false };
    let aliases = AliasStatuses::collect(&mut core::iter::once(late), &mut scratch);
    harness
        .send_message(OTHER, &Message::AliasesReply(AliasesReply { aliases, networks: NetworkTags::EMPTY }));
    harness.advance(ANNOUNCE_INTERVAL);
    assert_eq!(harness.client(OTHER).announced, [1]);
}
