//! Who gets a session when there is hardly room.

use super::*;
use crate::limits::{
    EGRESS_FLOWS_MAX, INGRESS_FLOWS_MAX, SESSION_SILENT_AFTER, SESSION_UNUSED_AFTER, SESSIONS_MAX,
};
use crate::relay::egress::Holder;
use crate::relay::links::FlowRef;
use crate::session::Session;
use byway_wire::seal::PublicKey;

/// The key of an agent that only stands for many.
fn stand_in(number: u32) -> PublicKey {
    let mut key = [9; 32];
    key[..4].copy_from_slice(&number.to_be_bytes());
    PublicKey::from_bytes(key)
}

impl Desk {
    /// Sessions of others until there is no room, with a flow each or without.
    fn fill(&mut self, has_flows: bool) {
        let now = self.now;
        let relay = &mut self.relay;
        for number in 0.. {
            if relay.sessions.count() == SESSIONS_MAX {
                return;
            }
            let remote = Remote {
                key: stand_in(number),
                purpose: Purpose::AgentToRelay,
                shard: Shard::new(0),
                pre_shared: PreSharedKey::default(),
                addresses: Vec::new(),
                keep: false,
            };
            let session = relay.sessions.add(remote, now);
            if has_flows {
                let receiver = Receiver::Agent(AgentId::new(1_000 + number));
                let key = FlowKey::new(AgentId::new(999), receiver, FlowId::new(0));
                let rate = KilobitsPerSecond::new(1).rate();
                let slot =
                    relay.egress.register((key, Holder::default()), Service::Caching, rate, CONSENT, now);
                let here = (relay.number, relay.shard);
                relay.links.add(session, key, FlowRef::Received(slot), here, Time::MAX);
            }
        }
    }

    fn stand_ins(&self) -> usize {
        let keys = (0..20_000).map(stand_in);
        keys.filter(|key| self.relay.sessions.find(*key, Purpose::AgentToRelay, Shard::new(0)).is_some())
            .count()
    }

    fn is_welcome(&mut self, who: u8) -> bool {
        self.enter(who);
        let now = self.now;
        let client = self.client(who);
        let is_in = client.sessions.is_established(client.session, now);
        // Who is refused tries no further.
        self.clients.retain(|client| client.who != who || is_in);
        is_in
    }
}

/// A relay with an agent that has a flow, for whom 2 is a newcomer.
fn desk() -> Desk {
    let mut desk = Desk::new(alloc::vec![grant(1, 2), grant(3, 4)]);
    desk.enter(4);
    assert_eq!(desk.registers(4, flow(3, 4, 1), FlowRole::Receiver), Ok(1));
    desk
}

#[test]
fn a_full_relay_refuses_newcomers_and_keeps_whom_it_has() {
    let mut desk = desk();
    desk.fill(true);
    desk.pass(ms(50_000));
    let stand_ins = desk.stand_ins();
    assert!(!desk.is_welcome(2));
    let counters = *desk.relay.counters();
    assert_eq!((counters.sessions_refused, counters.sessions_shed, counters.strangers_refused), (1, 0, 0));
    assert_eq!((desk.relay.sessions.count(), desk.stand_ins()), (SESSIONS_MAX, stand_ins));
    desk.announces(&[flow(3, 4, 1)]);
    assert_eq!(desk.heard(OTHER), [Heard::Known(1, true)]);
}

#[test]
fn sessions_without_flows_make_room_for_newcomers() {
    let mut desk = desk();
    desk.has_thousands = true;
    desk.fill(false);
    desk.pass(SESSION_UNUSED_AFTER - ms(1));
    assert!(!desk.is_welcome(2));
    desk.pass(ms(101));
    assert!(desk.is_welcome(2));
    assert_eq!(
        desk.relay.counters().sessions_shed,
        SESSIONS_MAX as u64 - 2,
        "all but the relay and who has a flow"
    );
    assert_eq!(desk.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
    desk.announces(&[flow(3, 4, 1)]);
    assert_eq!(desk.heard(OTHER), [Heard::Known(1, true)]);
}

#[test]
fn silent_sessions_make_room_and_those_that_are_kept_alive_stay() {
    let mut desk = desk();
    desk.has_thousands = true;
    desk.fill(true);
    desk.pass(SESSION_SILENT_AFTER - ms(30_000));
    assert!(!desk.is_welcome(2));
    desk.pass(ms(30_001));
    // The agent keeps its session alive every 25 s, and nobody else does.
    assert!(desk.is_welcome(2));
    assert_eq!(desk.relay.counters().sessions_shed, SESSIONS_MAX as u64 - 2);
    desk.announces(&[flow(3, 4, 1)]);
    assert_eq!(desk.heard(OTHER), [Heard::Known(1, true)]);
}

#[test]
fn who_is_not_entitled_pushes_nobody_out() {
    let mut desk = desk();
    desk.fill(false);
    desk.pass(SESSION_UNUSED_AFTER + ms(1_000));
    assert!(!desk.is_welcome(9));
    assert_eq!(desk.relay.counters().strangers_refused, 1);
    assert_eq!(desk.relay.sessions.count(), SESSIONS_MAX);
}

#[test]
fn sessions_are_looked_through_once_in_a_while_however_many_newcomers_there_are() {
    let mut desk = desk();
    desk.fill(true);
    desk.pass(ms(1_000));
    assert!(!desk.is_welcome(2));
    // From now on there is one to be given up, but it is not looked for yet.
    let session =
        desk.relay.sessions.find(stand_in(7), Purpose::AgentToRelay, Shard::new(0)).expect("it is in");
    let alias = desk.relay.links.aliases(session)[0];
    desk.relay.forget(session, alias, Time::START);
    desk.pass(SESSION_UNUSED_AFTER);
    assert!(desk.is_welcome(2));
    assert_eq!(desk.relay.counters().sessions_shed, 1);
    desk.fill(true);
    desk.pass(ms(99));
    let session =
        desk.relay.sessions.find(stand_in(8), Purpose::AgentToRelay, Shard::new(0)).expect("it is in");
    let alias = desk.relay.links.aliases(session)[0];
    desk.relay.forget(session, alias, Time::START);
    assert!(!desk.is_welcome(1));
    desk.pass(ms(1));
    assert!(desk.is_welcome(1));
}

#[test]
fn a_session_is_as_small_as_the_limit_says() {
    assert!(size_of::<Option<Session>>() <= 4_096 + 512, "{}", size_of::<Option<Session>>());
}

#[test]
fn a_full_egress_half_refuses_another_flow_and_serves_those_it_has() {
    let mut desk = desk();
    desk.has_thousands = true;
    desk.enter(2);
    let rate = KilobitsPerSecond::new(1).rate();
    let mut last = None;
    for _ in 1..EGRESS_FLOWS_MAX {
        last = Some(desk.relay.egress.register(
            (flow(8, 9, 1), Holder::default()),
            Service::Caching,
            rate,
            CONSENT,
            desk.now,
        ));
    }
    assert_eq!(desk.registers(2, flow(1, 2, 1), FlowRole::Receiver), Err(Refusal::NoRoom));
    assert_eq!(desk.registers(4, flow(3, 4, 1), FlowRole::Receiver), Ok(1));
    assert_eq!(desk.relay.counters().registrations_refused, 1);
    desk.relay.egress.unregister(last.expect("some were registered"));
    assert_eq!(desk.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
}

#[test]
fn aliases_towards_another_relay_run_out_before_flows_do() {
    let towards_other = |sender, receiver| {
        let grant = grant_here(sender, receiver);
        let egress = GrantedRelay { relay: RelayId::new(OTHER.into()), shard: Shard::new(0) };
        Grant { egress, ..grant }
    };
    let mut desk = Desk::new(alloc::vec![towards_other(1, 2)]);
    desk.enter(1);
    assert_eq!(desk.registers(1, flow(1, 2, 1), FlowRole::Sender), Ok(1));
    assert_eq!(desk.registers(1, flow(1, 2, 2), FlowRole::Sender), Ok(2));
    let port = desk.relay.ports.all().next().expect("the other relay's");
    let slot = super::super::ingress::FlowSlot(0);
    let mut aliases = 2;
    let tenant = grant(1, 2).tenant;
    while desk.relay.ports.announce(port, (slot, tenant), flow(1, 2, 1), desk.now).is_ok() {
        aliases += 1;
    }
    assert_eq!(aliases, u32::from(u16::MAX));
    assert!(usize::from(u16::MAX) < INGRESS_FLOWS_MAX);
    assert_eq!(desk.registers(1, flow(1, 2, 3), FlowRole::Sender), Err(Refusal::NoRoom));
    desk.says(
        1,
        &Message::Unregister(byway_wire::messages::Unregister {
            flow_key: flow(1, 2, 2),
            role: FlowRole::Sender,
            far_relay: None,
        }),
    );
    assert_eq!(desk.registers(1, flow(1, 2, 3), FlowRole::Sender), Err(Refusal::NoRoom), "it rests");
    desk.pass(crate::limits::REPAIR_RETENTION);
    assert_eq!(desk.registers(1, flow(1, 2, 3), FlowRole::Sender), Ok(2));
}
