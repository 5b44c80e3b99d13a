//! Who may have what registered.

use super::*;
use crate::limits::{
    ALIASES_PER_MESSAGE, ANNOUNCE_INTERVAL, EPOCH_OPENS_FOR, FLOWS_PER_SESSION_MAX, GROUP_SHAPES_MAX,
    GROUPS_MAX, RELAYED_BURST, RELAYED_RATE,
};
use byway_wire::messages::{Close, CloseReason, Relayed, Unknown, Unregister};

use byway_wire::Services;

use crate::relay::links::FlowRef;

#[test]
fn a_stranger_gets_no_session() {
    let mut desk = Desk::new(alloc::vec![grant(1, 2)]);
    desk.enter(9);
    assert_eq!(desk.relay.counters().strangers_refused, 1);
    let now = desk.now;
    let client = desk.client(9);
    assert!(!client.sessions.is_established(client.session, now));
}

#[test]
fn refusals_say_why() {
    let mut desk = Desk::new(alloc::vec![grant(1, 2), grant_here(3, 4)]);
    for who in [1, 2, 3, 4] {
        desk.enter(who);
    }
    // The sender's relay is the other one.
    assert_eq!(desk.registers(1, flow(1, 2, 1), FlowRole::Sender), Err(Refusal::NoGrant));
    assert_eq!(desk.registers(2, flow(1, 9, 1), FlowRole::Receiver), Err(Refusal::NoGrant));
    // Another's flow.
    assert_eq!(desk.registers(3, flow(1, 2, 1), FlowRole::Receiver), Err(Refusal::GrantInvalid));
    // The wrong end of it.
    assert_eq!(desk.registers(4, flow(3, 4, 1), FlowRole::Sender), Err(Refusal::GrantInvalid));
    let forwarding = desk.registers_for(2, flow(1, 2, 1), FlowRole::Receiver, Service::Forwarding);
    assert_eq!(forwarding, Err(Refusal::ServiceNotGranted));
    assert_eq!(desk.relay.counters().registrations_refused, 5);
}

#[test]
fn a_message_of_an_unknown_type_is_skipped_and_counted() {
    let mut desk = Desk::new(alloc::vec![grant(1, 2)]);
    desk.enter(2);
    let before = desk.relay.counters().messages_unknown;
    let unknown = Message::Unknown(Unknown::new(200, b"of a later version").expect("nobody knows it"));
    for message in [
        unknown,
        Message::Register(desk.as_granted(&register(
            flow(1, 2, 1),
            FlowRole::Receiver,
            Service::Coding,
            CONSENT,
        ))),
        unknown,
    ] {
        let now = desk.now;
        let client = desk.client(2);
        client.sessions.say(client.session, &message, now);
    }
    desk.client(2).heard.clear();
    desk.exchange();
    assert!(desk.client(2).heard.contains(&Heard::Registered(Ok(1))), "{:?}", desk.client(2).heard);
    let after = desk.relay.counters();
    assert_eq!((after.messages_unknown - before, after.out_of_role), (2, 0));
}

#[test]
fn a_flow_registered_twice_keeps_its_alias_and_one_that_left_gives_it_back() {
    let mut desk = Desk::new(alloc::vec![grant(1, 2)]);
    desk.enter(2);
    assert_eq!(desk.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
    assert_eq!(desk.registers(2, flow(1, 2, 2), FlowRole::Receiver), Ok(2));
    assert_eq!(desk.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
    desk.says(
        2,
        &Message::Unregister(Unregister {
            flow_key: flow(1, 2, 1),
            role: FlowRole::Receiver,
            far_relay: None,
        }),
    );
    assert_eq!(desk.registers(2, flow(1, 2, 3), FlowRole::Receiver), Ok(1));
}

#[test]
fn one_agent_registers_only_so_many_flows() {
    let mut desk = Desk::new(alloc::vec![grant(1, 2)]);
    desk.has_thousands = true;
    desk.enter(2);
    let flows = u16::try_from(FLOWS_PER_SESSION_MAX).expect("fewer than there are aliases");
    for number in 0..flows {
        assert!(desk.registers(2, flow(1, 2, number), FlowRole::Receiver).is_ok());
    }
    assert_eq!(desk.registers(2, flow(1, 2, flows), FlowRole::Receiver), Err(Refusal::NoRoom));
    desk.says(
        2,
        &Message::Unregister(Unregister {
            flow_key: flow(1, 2, 5),
            role: FlowRole::Receiver,
            far_relay: None,
        }),
    );
    assert_eq!(desk.registers(2, flow(1, 2, flows), FlowRole::Receiver), Ok(6));
}

#[test]
fn what_an_agent_registered_in_an_earlier_run_is_void() {
    let mut desk = Desk::new(alloc::vec![grant(1, 2)]);
    desk.enter(2);
    assert_eq!(desk.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
    desk.announces(&[flow(1, 2, 1)]);
    assert_eq!(desk.heard(OTHER), [Heard::Known(1, true)]);
    desk.now += ms(5);
    desk.enter(2);
    assert_eq!(desk.heard(OTHER), [Heard::Known(1, false)], "told as soon as there is none");
    desk.announces(&[flow(1, 2, 1)]);
    assert_eq!(desk.heard(OTHER), [Heard::Known(1, false)]);
    assert_eq!(desk.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
    assert_eq!(desk.heard(OTHER), [Heard::Known(1, true)], "told as soon as there is a receiver");
}

#[test]
fn a_registration_that_was_overtaken_changes_nothing() {
    let mut desk = Desk::new(alloc::vec![Grant { services: Services::from_bits(31), ..grant_here(1, 2) }]);
    desk.enter(1);
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
        let alias = desk.asks(1, &of(revision, service)).expect("it is granted");
        let peer = secret(1).public_key();
        let session =
            desk.relay.sessions.find(peer, Purpose::AgentToRelay, Shard::new(0)).expect("it entered");
        let Some(FlowRef::Sent(slot)) = desk.relay.links.flow(session, Alias::new(alias).expect("not zero"))
        else {
            panic!("the flow is registered")
        };
        let known = desk.relay.ingress.service_of(slot).map(|(service, _)| service);
        assert_eq!(known, Some(in_force), "revision {revision}");
    }
}

#[test]
fn flows_that_are_coded_together_have_only_so_many_shapes() {
    let mut desk = Desk::new(alloc::vec![grant_here(1, 2)]);
    desk.enter(1);
    for (number, packets) in (0..).zip(4..20) {
        let register = register(flow(1, 2, number), FlowRole::Sender, Service::Coding, CONSENT);
        let register = Register { batch: BlockShape::new(packets, 2), ..register };
        desk.says(1, &Message::Register(desk.as_granted(&register)));
    }
    let accepted = |heard: &Heard| matches!(heard, Heard::Registered(Ok(_)));
    let heard = desk.heard(1);
    assert_eq!((heard.iter().filter(|heard| accepted(heard)).count(), heard.len()), (GROUP_SHAPES_MAX, 16));
    assert!(heard[..GROUP_SHAPES_MAX].iter().all(accepted), "the first to come");
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
    let mut desk = Desk::new((0..count).map(of_group).chain([elsewhere]).collect());
    desk.has_thousands = true;
    desk.enter(1);
    // A tenant leaves as many to others as it has.
    for number in 0..count / 2 {
        assert!(desk.registers(1, flow(1, 2, number), FlowRole::Sender).is_ok());
    }
    let one_more = flow(1, 2, count / 2);
    assert_eq!(desk.registers(1, one_more, FlowRole::Sender), Err(Refusal::QuotaReached));
    assert_eq!(desk.relay.counters().quota_flows, 1);
    assert!(desk.registers(1, flow(1, 3, 0), FlowRole::Sender).is_ok());
    desk.says(1, &end_of(0, FlowRole::Sender));
    desk.says(1, &end_of(1, FlowRole::Sender));
    assert_eq!(desk.registers(1, one_more, FlowRole::Sender), Ok(1));
}

fn end_of(number: u16, role: FlowRole) -> Message<'static> {
    Message::Unregister(Unregister { flow_key: flow(1, 2, number), role, far_relay: None })
}

#[test]
fn an_end_is_answered_as_often_as_it_is_said_and_the_ingress_relay_is_told() {
    let mut desk = Desk::new(alloc::vec![grant(1, 2)]);
    desk.enter(2);
    assert_eq!(desk.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
    desk.announces(&[flow(1, 2, 1)]);
    desk.heard(OTHER);
    for _ in 0..2 {
        desk.says(2, &end_of(1, FlowRole::Receiver));
        assert_eq!(desk.heard(2), [Heard::Unregistered(1)]);
    }
    assert_eq!(desk.heard(OTHER), [Heard::Known(1, false)]);
}

#[test]
fn where_both_relays_are_one_nothing_is_made_for_a_receiver_that_left() {
    let mut desk = Desk::new(alloc::vec![grant_here(1, 2)]);
    desk.enter(1);
    desk.enter(2);
    assert_eq!(desk.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
    assert_eq!(desk.registers_for(1, flow(1, 2, 1), FlowRole::Sender, Service::Caching), Ok(1));
    desk.copies(1, 1, 0, &packet(1, 0));
    assert_eq!(desk.relay.ingress_counters().carried, 1);
    desk.says(2, &end_of(1, FlowRole::Receiver));
    desk.copies(1, 1, 1, &packet(1, 1));
    let counters = desk.relay.ingress_counters();
    assert_eq!((counters.copies, counters.carried), (2, 1));
}

#[test]
fn nobody_ends_what_another_registered() {
    let mut desk = Desk::new(alloc::vec![grant_here(1, 2), grant_here(3, 4)]);
    for who in [1, 2, 3] {
        desk.enter(who);
    }
    assert_eq!(desk.registers(1, flow(1, 2, 1), FlowRole::Sender), Ok(1));
    assert_eq!(desk.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
    for role in [FlowRole::Sender, FlowRole::Receiver] {
        desk.says(3, &end_of(1, role));
    }
    desk.says(2, &end_of(1, FlowRole::Sender));
    desk.says(1, &end_of(1, FlowRole::Receiver));
    // Who registers what is registered gets the same alias; a new one would be another.
    assert_eq!(desk.registers(1, flow(1, 2, 2), FlowRole::Sender), Ok(2));
    assert_eq!(desk.registers(1, flow(1, 2, 1), FlowRole::Sender), Ok(1));
    assert_eq!(desk.registers(2, flow(1, 2, 2), FlowRole::Receiver), Ok(2));
    assert_eq!(desk.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
}

#[test]
fn flows_that_come_and_go_leave_nothing_behind() {
    let mut desk = Desk::new(alloc::vec![grant(1, 2)]);
    desk.enter(2);
    for number in 0..10_000 {
        assert_eq!(desk.registers(2, flow(1, 2, number), FlowRole::Receiver), Ok(1));
        desk.says(2, &end_of(number, FlowRole::Receiver));
        desk.now += ms(1);
    }
    assert_eq!(desk.relay.egress.slots(), 1);
}

#[test]
fn an_agent_that_leaves_is_forgotten_with_all_it_registered() {
    let mut desk = Desk::new(alloc::vec![grant(1, 2)]);
    desk.enter(2);
    let sessions = desk.relay.sessions.count();
    assert_eq!(desk.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
    desk.announces(&[flow(1, 2, 1)]);
    desk.heard(OTHER);
    desk.says(2, &Message::Close(Close { reason: CloseReason::Leaving }));
    assert_eq!(desk.heard(OTHER), [Heard::Known(1, false)]);
    assert_eq!(desk.relay.sessions.count(), sessions - 1);
    assert!(desk.relay.links.receivers_of(flow(1, 2, 1)).is_empty());
    // It may come back.
    desk.now += ms(5);
    desk.enter(2);
    assert_eq!(desk.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
}

#[test]
fn an_agent_that_went_without_a_word_is_forgotten_when_its_keys_are_too_old() {
    let mut desk = Desk::new(alloc::vec![grant(1, 2)]);
    desk.enter(2);
    let sessions = desk.relay.sessions.count();
    assert_eq!(desk.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
    desk.clients.retain(|client| client.who != 2);
    desk.now += EPOCH_OPENS_FOR;
    desk.exchange();
    assert_eq!(desk.relay.sessions.count(), sessions - 1);
    assert!(desk.relay.links.receivers_of(flow(1, 2, 1)).is_empty());
}

#[test]
fn flows_are_announced_a_message_full_at_a_time_until_they_are_known() {
    let egress = GrantedRelay { relay: RelayId::new(OTHER.into()), shard: Shard::new(0) };
    let mut desk = Desk::new(alloc::vec![Grant { egress, ..grant_here(1, 2) }]);
    desk.enter(1);
    let count = u16::try_from(ALIASES_PER_MESSAGE).expect("few") + 1;
    for number in 1..=count {
        assert_eq!(desk.registers(1, flow(1, 2, number), FlowRole::Sender), Ok(number));
    }
    desk.client(OTHER).announced.clear();
    desk.pass(ANNOUNCE_INTERVAL);
    assert_eq!(desk.client(OTHER).announced, [ALIASES_PER_MESSAGE, 1]);
    desk.knows(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    desk.client(OTHER).announced.clear();
    desk.pass(ANNOUNCE_INTERVAL * 2);
    assert_eq!(desk.client(OTHER).announced, [usize::from(count) - 10]);
}

#[test]
fn flows_that_nobody_receives_are_announced_more_and_more_seldom() {
    let egress = GrantedRelay { relay: RelayId::new(OTHER.into()), shard: Shard::new(0) };
    let mut desk = Desk::new(alloc::vec![Grant { egress, ..grant_here(1, 2) }]);
    desk.enter(1);
    assert_eq!(desk.registers(1, flow(1, 2, 1), FlowRole::Sender), Ok(1));
    let announced = |desk: &mut Desk, seconds: u64| {
        desk.client(OTHER).announced.clear();
        desk.pass(ms(1_000 * seconds));
        desk.client(OTHER).announced.len()
    };
    assert_eq!((announced(&mut desk, 8), announced(&mut desk, 80)), (5, 10));
    desk.knows(&[1]);
    assert_eq!(announced(&mut desk, 80), 0);
    // It was gone for a moment.
    desk.says_unknown(&[1]);
    assert_eq!((announced(&mut desk, 8), announced(&mut desk, 80)), (6, 10));
}

#[test]
fn an_agent_that_leaves_is_forgotten_with_its_flows() {
    let mut desk = Desk::new(alloc::vec![grant(1, 2), grant(3, 4)]);
    for (sender, receiver) in [(1, 2), (3, 4)] {
        desk.enter(receiver);
        assert_eq!(desk.registers(receiver, flow(sender, receiver, 1), FlowRole::Receiver), Ok(1));
    }
    let sessions = desk.relay.sessions.count();
    desk.says(2, &Message::Close(Close { reason: CloseReason::Leaving }));
    assert_eq!(desk.relay.sessions.count(), sessions - 1);
    desk.announces(&[flow(1, 2, 1)]);
    assert_eq!(desk.heard(OTHER), [Heard::Known(1, false)]);
    desk.announces(&[flow(3, 4, 1)]);
    assert_eq!(desk.heard(OTHER), [Heard::Known(1, true)]);
    desk.enter(2);
    assert_eq!(desk.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
}

#[test]
fn so_much_is_passed_on_for_one_agent_and_no_more() {
    let mut desk = Desk::new(alloc::vec![grant_here(1, 2), grant_here(3, 2)]);
    for who in [1, 2, 3] {
        desk.enter(who);
    }
    assert!(desk.registers(1, flow(1, 2, 1), FlowRole::Sender).is_ok());
    assert!(desk.registers(2, flow(1, 2, 1), FlowRole::Receiver).is_ok());
    assert!(desk.registers(3, flow(3, 2, 1), FlowRole::Sender).is_ok());
    let bytes = [8; 1_024];
    let relayed = |desk: &mut Desk, who| {
        desk.says(who, &Message::Relayed(Relayed::new(AgentId::new(2), &bytes).expect("a message packet")));
    };
    let burst = RELAYED_BURST.count() / 1_024;
    (0..burst + 7).for_each(|_| relayed(&mut desk, 1));
    assert_eq!((desk.relay.counters().relayed, desk.relay.counters().relayed_refused), (burst, 7));
    relayed(&mut desk, 3);
    assert_eq!(desk.relay.counters().relayed, burst + 1, "others are not concerned");
    desk.pass(RELAYED_RATE.time_for(byway_units::Bytes::new(3 * 1_024)).expect("short"));
    (0..7).for_each(|_| relayed(&mut desk, 1));
    assert_eq!(desk.relay.counters().relayed, burst + 4);
}

#[test]
fn old_news_of_a_missing_receiver_are_put_right() {
    let egress = GrantedRelay { relay: RelayId::new(OTHER.into()), shard: Shard::new(0) };
    let mut desk = Desk::new(alloc::vec![Grant { egress, ..grant_here(1, 2) }]);
    desk.enter(1);
    assert_eq!(desk.registers(1, flow(1, 2, 1), FlowRole::Sender), Ok(1));
    desk.knows(&[1]);
    desk.pass(ANNOUNCE_INTERVAL * 2);
    desk.client(OTHER).announced.clear();
    desk.pass(ANNOUNCE_INTERVAL * 2);
    assert_eq!(desk.client(OTHER).announced, [], "it is known");
    let mut scratch = [[0; AliasKnowledge::BYTES]; 1];
    let late = AliasKnowledge { alias: Alias::new(1).expect("not zero"), has_receiver: false };
    let aliases = AliasKnowledges::collect(&mut core::iter::once(late), &mut scratch);
    desk.says(OTHER, &Message::AliasesKnown(AliasesKnown { aliases }));
    desk.pass(ANNOUNCE_INTERVAL);
    assert_eq!(desk.client(OTHER).announced, [1]);
}
