//! Who may have what registered.

use super::*;
use crate::limits::{ALIASES_PER_MESSAGE, ANNOUNCE_INTERVAL, FLOWS_PER_SESSION_MAX, GROUPS_MAX};
use crate::limits::{RELAYED_BURST, RELAYED_RATE};
use byway_wire::messages::{Close, CloseReason, Relayed, Unregister};

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
fn a_flow_registered_twice_keeps_its_alias_and_one_that_left_gives_it_back() {
    let mut desk = Desk::new(alloc::vec![grant(1, 2)]);
    desk.enter(2);
    assert_eq!(desk.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
    assert_eq!(desk.registers(2, flow(1, 2, 2), FlowRole::Receiver), Ok(2));
    assert_eq!(desk.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
    desk.says(2, &Message::Unregister(Unregister { flow_key: flow(1, 2, 1), role: FlowRole::Receiver }));
    assert_eq!(desk.registers(2, flow(1, 2, 3), FlowRole::Receiver), Ok(1));
}

#[test]
fn one_agent_registers_only_so_many_flows() {
    let mut desk = Desk::new(alloc::vec![grant(1, 2)]);
    desk.enter(2);
    let flows = u16::try_from(FLOWS_PER_SESSION_MAX).expect("fewer than there are aliases");
    for number in 0..flows {
        assert!(desk.registers(2, flow(1, 2, number), FlowRole::Receiver).is_ok());
    }
    assert_eq!(desk.registers(2, flow(1, 2, flows), FlowRole::Receiver), Err(Refusal::NoRoom));
    desk.says(2, &Message::Unregister(Unregister { flow_key: flow(1, 2, 5), role: FlowRole::Receiver }));
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
    desk.announces(&[flow(1, 2, 1)]);
    assert_eq!(desk.heard(OTHER), [Heard::Known(1, false)]);
    assert_eq!(desk.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
    assert_eq!(desk.heard(OTHER), [Heard::Known(1, true)], "told as soon as there is a receiver");
}

#[test]
fn only_so_many_coding_groups_are_begun() {
    let elsewhere = Grant { coding_group: CodingGroupId::new(1), ..grant_here(1, 3) };
    let mut desk = Desk::new(alloc::vec![grant_here(1, 2), elsewhere]);
    desk.enter(1);
    // Each with a batch shape of its own.
    let shapes = (1..=32).flat_map(|packets| (1..=4).map(move |repairs| BlockShape::new(packets, repairs)));
    for (number, batch) in (0..).zip(shapes) {
        let register = register(flow(1, 2, number), FlowRole::Sender, Service::Coding, CONSENT);
        desk.says(1, &Message::Register(Register { batch, ..register }));
    }
    let heard = desk.heard(1);
    assert_eq!(heard.len(), GROUPS_MAX);
    assert!(heard.iter().all(|heard| matches!(heard, Heard::Registered(Ok(_)))));
    assert_eq!(desk.registers(1, flow(1, 3, 0), FlowRole::Sender), Err(Refusal::NoRoom));
    desk.says(1, &Message::Unregister(Unregister { flow_key: flow(1, 2, 0), role: FlowRole::Sender }));
    assert_eq!(desk.registers(1, flow(1, 3, 0), FlowRole::Sender), Ok(1));
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
    desk.pass(ANNOUNCE_INTERVAL);
    assert_eq!(desk.client(OTHER).announced, [usize::from(count) - 10]);
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
