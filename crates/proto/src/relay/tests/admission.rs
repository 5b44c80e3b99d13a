//! Admission to a relay whose session table is almost full.

use super::*;
use crate::limits::{
    EGRESS_FLOWS_MAX, INGRESS_FLOWS_MAX, SESSION_SILENT_AFTER, SESSION_UNUSED_AFTER, SESSIONS_MAX,
};
use crate::relay::egress::Holder;
use crate::relay::flow_table::FlowRef;
use crate::session::Session;
use byway_wire::seal::PublicKey;

/// Key of a stand-in agent.
fn stand_in(number: u32) -> PublicKey {
    let mut key = [9; 32];
    key[..4].copy_from_slice(&number.to_be_bytes());
    PublicKey::from_bytes(key)
}

impl RelayHarness {
    /// Fills the session table with stand-ins, with one flow each or none.
    fn fill(&mut self, has_flows: bool) {
        let now = self.now;
        let relay = &mut self.relay;
        for number in 0.. {
            if relay.sessions.count() == SESSIONS_MAX {
                return;
            }
            let remote = RemoteIdentity {
                key: stand_in(number),
                purpose: Purpose::AgentToRelay,
                shard: Shard::new(0),
                pre_shared: PreSharedKey::default(),
                addresses: Vec::new(),
                is_persistent: false,
            };
            let session = relay.sessions.add(remote, now);
            if has_flows {
                let receiver = Receiver::Agent(AgentId::new(1_000 + number));
                let key = FlowKey::new(AgentId::new(999), receiver, FlowId::new(0));
                let rate = KilobitsPerSecond::new(1).rate();
                let slot =
                    relay.egress.register((key, Holder::default()), Service::Caching, rate, CONSENT, now);
                let here = (relay.number, relay.shard);
                relay.flow_table.add(session, key, FlowRef::Received(slot), here, Time::MAX);
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
        // A refused agent does not retry.
        self.clients.retain(|client| client.who != who || is_in);
        is_in
    }
}

/// A relay with one agent that has a flow; agent 2 is a newcomer.
fn harness() -> RelayHarness {
    let mut harness = RelayHarness::new(alloc::vec![grant(1, 2), grant(3, 4)]);
    harness.enter(4);
    assert_eq!(harness.registers(4, flow(3, 4, 1), FlowRole::Receiver), Ok(1));
    harness
}

#[test]
fn a_full_relay_refuses_newcomers_and_keeps_whom_it_has() {
    let mut harness = harness();
    harness.fill(true);
    harness.advance(ms(50_000));
    let stand_ins = harness.stand_ins();
    assert!(!harness.is_welcome(2));
    let counters = *harness.relay.counters();
    assert_eq!((counters.sessions_refused, counters.sessions_shed, counters.strangers_refused), (1, 0, 0));
    assert_eq!((harness.relay.sessions.count(), harness.stand_ins()), (SESSIONS_MAX, stand_ins));
    harness.announces(&[flow(3, 4, 1)]);
    assert_eq!(harness.drain_events(OTHER), [ClientEvent::Known(1, true)]);
}

#[test]
fn sessions_without_flows_make_room_for_newcomers() {
    let mut harness = harness();
    harness.has_thousands = true;
    harness.fill(false);
    harness.advance(SESSION_UNUSED_AFTER - ms(1));
    assert!(!harness.is_welcome(2));
    harness.advance(ms(101));
    assert!(harness.is_welcome(2));
    assert_eq!(
        harness.relay.counters().sessions_shed,
        SESSIONS_MAX as u64 - 2,
        "all but the relay and the agent with a flow"
    );
    assert_eq!(harness.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
    harness.announces(&[flow(3, 4, 1)]);
    assert_eq!(harness.drain_events(OTHER), [ClientEvent::Known(1, true)]);
}

#[test]
fn silent_sessions_make_room_and_those_that_are_kept_alive_stay() {
    let mut harness = harness();
    harness.has_thousands = true;
    harness.fill(true);
    harness.advance(SESSION_SILENT_AFTER - ms(30_000));
    assert!(!harness.is_welcome(2));
    harness.advance(ms(30_001));
    // The agent sends keepalives every 25 s; the stand-ins do not.
    assert!(harness.is_welcome(2));
    assert_eq!(harness.relay.counters().sessions_shed, SESSIONS_MAX as u64 - 2);
    harness.announces(&[flow(3, 4, 1)]);
    assert_eq!(harness.drain_events(OTHER), [ClientEvent::Known(1, true)]);
}

#[test]
fn who_is_not_entitled_pushes_nobody_out() {
    let mut harness = harness();
    harness.fill(false);
    harness.advance(SESSION_UNUSED_AFTER + ms(1_000));
    assert!(!harness.is_welcome(9));
    assert_eq!(harness.relay.counters().strangers_refused, 1);
    assert_eq!(harness.relay.sessions.count(), SESSIONS_MAX);
}

#[test]
fn sessions_are_looked_through_once_in_a_while_however_many_newcomers_there_are() {
    let mut harness = harness();
    harness.fill(true);
    harness.advance(ms(1_000));
    assert!(!harness.is_welcome(2));
    // One session is idle from now on, but the next scan is not due yet.
    let session =
        harness.relay.sessions.find(stand_in(7), Purpose::AgentToRelay, Shard::new(0)).expect("it is in");
    let alias = harness.relay.flow_table.aliases(session)[0];
    harness.relay.remove_flow(session, alias, Time::START);
    harness.advance(SESSION_UNUSED_AFTER);
    assert!(harness.is_welcome(2));
    assert_eq!(harness.relay.counters().sessions_shed, 1);
    harness.fill(true);
    harness.advance(ms(99));
    let session =
        harness.relay.sessions.find(stand_in(8), Purpose::AgentToRelay, Shard::new(0)).expect("it is in");
    let alias = harness.relay.flow_table.aliases(session)[0];
    harness.relay.remove_flow(session, alias, Time::START);
    assert!(!harness.is_welcome(1));
    harness.advance(ms(1));
    assert!(harness.is_welcome(1));
}

#[test]
fn a_session_is_as_small_as_the_limit_says() {
    assert!(size_of::<Option<Session>>() <= 4_096 + 512, "{}", size_of::<Option<Session>>());
}

#[test]
fn a_full_egress_half_refuses_another_flow_and_serves_those_it_has() {
    let mut harness = harness();
    harness.has_thousands = true;
    harness.enter(2);
    let rate = KilobitsPerSecond::new(1).rate();
    let mut last = None;
    for _ in 1..EGRESS_FLOWS_MAX {
        last = Some(harness.relay.egress.register(
            (flow(8, 9, 1), Holder::default()),
            Service::Caching,
            rate,
            CONSENT,
            harness.now,
        ));
    }
    assert_eq!(harness.registers(2, flow(1, 2, 1), FlowRole::Receiver), Err(Refusal::Full));
    assert_eq!(harness.registers(4, flow(3, 4, 1), FlowRole::Receiver), Ok(1));
    assert_eq!(harness.relay.counters().registrations_refused, 1);
    harness.relay.egress.unregister(last.expect("some were registered"));
    assert_eq!(harness.registers(2, flow(1, 2, 1), FlowRole::Receiver), Ok(1));
}

#[test]
fn aliases_towards_another_relay_run_out_before_flows_do() {
    let towards_other = |sender, receiver| {
        let grant = grant_here(sender, receiver);
        let egress = GrantedRelay { relay: RelayId::new(OTHER.into()), shard: Shard::new(0) };
        Grant { egress, ..grant }
    };
    let mut harness = RelayHarness::new(alloc::vec![towards_other(1, 2)]);
    harness.enter(1);
    assert_eq!(harness.registers(1, flow(1, 2, 1), FlowRole::Sender), Ok(1));
    assert_eq!(harness.registers(1, flow(1, 2, 2), FlowRole::Sender), Ok(2));
    let peer = harness.relay.peers.ids().next().expect("the other relay's");
    let slot = super::super::ingress::FlowSlot(0);
    let mut aliases = 2;
    let tenant = grant(1, 2).tenant;
    while harness.relay.peers.advertise(peer, (slot, tenant), flow(1, 2, 1), harness.now).is_ok() {
        aliases += 1;
    }
    assert_eq!(aliases, u32::from(u16::MAX));
    assert!(usize::from(u16::MAX) < INGRESS_FLOWS_MAX);
    assert_eq!(harness.registers(1, flow(1, 2, 3), FlowRole::Sender), Err(Refusal::Full));
    harness.send_message(
        1,
        &Message::Unregister(byway_wire::messages::Unregister {
            flow_key: flow(1, 2, 2),
            role: FlowRole::Sender,
            far_relay: None,
        }),
    );
    assert_eq!(harness.registers(1, flow(1, 2, 3), FlowRole::Sender), Err(Refusal::Full), "it rests");
    harness.advance(crate::limits::REPAIR_RETENTION);
    assert_eq!(harness.registers(1, flow(1, 2, 3), FlowRole::Sender), Ok(2));
}
