//! A tenant that wants more than its share, beside one that wants little.

use super::*;
use crate::limits::{RELAY_MEMORY_MIN, REPAIR_RETENTION, SESSION_UNUSED_AFTER};
use crate::relay::ingress::{FlowSlot, RelayPeerId};
use byway_wire::Writer;
use byway_wire::messages::Unregister;

const GREEDY: TenantId = TenantId::new(1);
const MODEST: TenantId = TenantId::new(2);

/// First agents of both tenants.
const MODEST_AGENTS: [u8; 3] = [2, 3, 4];
const FIRST_GREEDY: u8 = 10;

/// A relay with the least permitted memory, and many agents of one tenant. Each agent receives from
/// a sender that is absent.
fn harness(limits: TenantLimits) -> RelayHarness {
    let of = |tenant| move |who: u8| Grant { tenant, ..grant(1, who) };
    let greedy = (FIRST_GREEDY..RELAY).map(of(GREEDY));
    let grants = greedy.chain(MODEST_AGENTS.map(of(MODEST))).collect();
    let mut harness =
        RelayHarness::within(RELAY_MEMORY_MIN, limits, Authority::Static(grants), 1_000, 1, None);
    harness.has_thousands = true;
    harness
}

impl RelayHarness {
    /// Begins a session with a registration as an agent. Returns `true` if it gets the session.
    fn try_enter(&mut self, who: u8) -> bool {
        let register =
            self.as_granted(&register(flow(1, who, 1), FlowRole::Receiver, Service::Caching, CONSENT));
        let mut bytes = [0; 200];
        let mut writer = Writer::new(&mut bytes);
        Message::Register(register).emit(&mut writer).expect("it fits");
        self.enter_with_messages(who, writer.as_bytes());
        self.relay.sessions.find(secret(who).public_key(), Purpose::AgentToRelay, Shard::new(0)).is_some()
    }

    /// Registers flows as an agent until one is refused. Returns their number, and the reason of
    /// the refusal.
    fn registers_all(&mut self, who: u8, numbers: core::ops::Range<u16>) -> (u16, Option<Refusal>) {
        let mut count = 0;
        for number in numbers {
            match self.registers_for(who, flow(1, who, number), FlowRole::Receiver, Service::Caching) {
                Ok(_) => count += 1,
                Err(refusal) => return (count, Some(refusal)),
            }
            self.advance(ms(1));
        }
        (count, None)
    }

    fn ends(&mut self, who: u8, number: u16) {
        let flow_key = flow(1, who, number);
        let end = Unregister { flow_key, role: FlowRole::Receiver, far_relay: None };
        self.send_message(who, &Message::Unregister(end));
    }
}

#[test]
fn a_tenant_with_more_keys_than_there_are_sessions_keeps_no_other_out() {
    let mut harness = harness(TenantLimits::default());
    harness.has_agents_of(60, |_| GREEDY);
    let keys = FIRST_GREEDY..RELAY;
    let wanted = keys.len();
    let got = keys.clone().filter(|who| harness.try_enter(*who)).count();
    assert!((100..wanted).contains(&got), "{got} of {wanted}");
    assert_eq!(harness.relay.counters().sessions_refused, (wanted - got) as u64);
    for who in MODEST_AGENTS {
        assert!(harness.try_enter(who));
        assert!(harness.registers(who, flow(1, who, 1), FlowRole::Receiver).is_ok());
    }
    assert_eq!(harness.relay.counters().sessions_evicted, 3);
    // A refused agent of a tenant above its share gets no session at another tenant's expense.
    let refused = keys.rev().find(|who| {
        harness.relay.sessions.find(secret(*who).public_key(), Purpose::AgentToRelay, Shard::new(0)).is_none()
    });
    let refused = refused.expect("not all got in");
    assert!(!harness.try_enter(refused));
    assert_eq!(
        harness.drain_events(refused),
        [ClientEvent::Registered(Err(Refusal::QuotaReached))],
        "and gets the reason"
    );
    assert_eq!(harness.relay.counters().quota_sessions, 1);
    let modest = MODEST_AGENTS.map(|who| harness.session_of(who).is_some());
    assert_eq!(modest, [true; 3]);
}

impl RelayHarness {
    /// Adds sessions of `count` agents of this tenant, besides those with keys of one byte.
    fn has_agents_of(&mut self, count: u8, tenant: impl Fn(u8) -> TenantId) {
        for number in 0..count {
            let mut key = [255; 32];
            key[0] = number;
            let remote = RemoteIdentity {
                key: byway_wire::seal::PublicKey::from_bytes(key),
                purpose: Purpose::AgentToRelay,
                shard: Shard::new(0),
                pre_shared: PreSharedKey::default(),
                addresses: Vec::new(),
                is_persistent: false,
            };
            let session = self.relay.sessions.add(remote, self.now);
            self.relay.quotas.assign_tenant(session, tenant(number));
        }
    }

    fn session_of(&self, who: u8) -> Option<SessionId> {
        self.relay.sessions.find(secret(who).public_key(), Purpose::AgentToRelay, Shard::new(0))
    }
}

#[test]
fn a_tenant_with_more_flows_than_there_may_be_keeps_no_other_from_its_share() {
    let mut harness = harness(TenantLimits::default());
    let [one, other] = [FIRST_GREEDY, FIRST_GREEDY + 1];
    assert!(harness.try_enter(one) && harness.try_enter(other) && harness.try_enter(2));
    let (first, why) = harness.registers_all(one, 1..300);
    assert_eq!((first, why), (299, None));
    let (second, why) = harness.registers_all(other, 1..1_000);
    assert_eq!(why, Some(Refusal::Full), "it is alone, and has all");
    let all = first + second;
    let (share, why) = harness.registers_all(2, 1..1_000);
    assert_eq!((share, why), (all / 2, Some(Refusal::QuotaReached)));
    assert_eq!(harness.relay.counters().flows_evicted, u64::from(share));
    let evicted = [one, other].map(|who| {
        let events = harness.client(who).events.iter();
        events.filter(|event| **event == ClientEvent::Registered(Err(Refusal::QuotaReached))).count()
    });
    assert_eq!(evicted[0] + evicted[1], usize::from(share), "their agents get a notice");
    assert_eq!(harness.registers_all(one, 900..901).1, Some(Refusal::QuotaReached));
}

#[test]
fn sessions_without_flows_hide_none_of_those_whose_flows_make_room() {
    let mut harness = harness(TenantLimits::default());
    assert!(harness.try_enter(FIRST_GREEDY) && harness.try_enter(2));
    let (_, why) = harness.registers_all(FIRST_GREEDY, 1..1_000);
    assert_eq!(why, Some(Refusal::Full));
    for who in FIRST_GREEDY + 1..FIRST_GREEDY + 60 {
        assert!(harness.try_enter(who));
    }
    assert_eq!(harness.registers_all(2, 1..11), (10, None));
}

#[test]
fn places_before_the_last_registration_count_as_long_as_that_stands() {
    let mut harness = harness(TenantLimits { flows: Some(100), ..TenantLimits::default() });
    let [one, other] = [FIRST_GREEDY, FIRST_GREEDY + 1];
    assert!(harness.try_enter(one) && harness.try_enter(other));
    assert_eq!(harness.registers_all(one, 1..200), (100, Some(Refusal::QuotaReached)));
    (1..100).for_each(|number| harness.ends(one, number));
    assert_eq!(harness.relay.quotas.flows.used_by(GREEDY), 100);
    assert_eq!(harness.registers_all(other, 1..2).1, Some(Refusal::QuotaReached));
    assert_eq!(harness.registers_all(one, 300..301), (1, None), "it may use its own slots");
    harness.ends(one, 100);
    assert_eq!(harness.relay.quotas.flows.used_by(GREEDY), 1);
    harness.ends(one, 300);
    assert_eq!(harness.relay.quotas.flows.used_by(GREEDY), 0);
    assert_eq!(harness.registers_all(other, 1..200).0, 100);
}

#[test]
fn what_is_registered_and_ended_again_and_again_leaves_nothing_behind() {
    let mut harness = harness(TenantLimits::default());
    assert!(harness.try_enter(FIRST_GREEDY));
    for number in 0..500 {
        assert_eq!(harness.registers_all(FIRST_GREEDY, number..number + 1).0, 1);
        harness.ends(FIRST_GREEDY, number);
    }
    let quotas = &harness.relay.quotas;
    assert_eq!((quotas.flows.used_by(GREEDY), quotas.sessions.used_by(GREEDY)), (0, 1));
    let session = harness.session_of(FIRST_GREEDY).expect("it is in");
    let now = harness.now;
    harness.relay.on_session_ended(session, now);
    assert_eq!(harness.relay.quotas.sessions.used_by(GREEDY), 0);
}

#[test]
fn a_tenant_at_its_limit_loses_its_own_sessions_without_flows_and_no_others() {
    let mut harness = harness(TenantLimits { sessions: Some(2), ..TenantLimits::default() });
    assert!(harness.try_enter(2));
    assert!(harness.try_enter(FIRST_GREEDY) && harness.try_enter(FIRST_GREEDY + 1));
    assert!(harness.registers(FIRST_GREEDY, flow(1, FIRST_GREEDY, 1), FlowRole::Receiver).is_ok());
    harness.advance(SESSION_UNUSED_AFTER);
    assert!(harness.try_enter(FIRST_GREEDY + 2));
    let remaining = [2, FIRST_GREEDY, FIRST_GREEDY + 1].map(|who| harness.session_of(who).is_some());
    assert_eq!(remaining, [true, true, false]);
}

#[test]
fn newcomers_of_a_tenant_at_its_limit_do_not_keep_useless_sessions_in_a_full_relay() {
    let mut harness = harness(TenantLimits { sessions: Some(2), ..TenantLimits::default() });
    for who in [FIRST_GREEDY, FIRST_GREEDY + 1] {
        assert!(harness.try_enter(who));
        assert!(harness.registers(who, flow(1, who, 1), FlowRole::Receiver).is_ok());
    }
    let free = harness.relay.quotas.sessions.max() - harness.relay.sessions.count() as u64;
    harness.has_agents_of(u8::try_from(free).expect("a small relay"), |number| {
        TenantId::new(1_000 + u32::from(number))
    });
    harness.advance(SESSION_UNUSED_AFTER);
    assert!(!harness.try_enter(FIRST_GREEDY + 2), "it is refused, and its own sessions are scanned");
    assert!(harness.try_enter(2));
    let counters = harness.relay.counters();
    assert_eq!((counters.sessions_shed, counters.sessions_evicted), (free, 0));
}

#[test]
fn no_registration_ends_for_one_that_fails() {
    let stranger = GrantedRelay { relay: RelayId::new(77), shard: Shard::new(0) };
    let grants = [
        Grant { tenant: GREEDY, ..grant(1, FIRST_GREEDY) },
        Grant { tenant: MODEST, ..grant(1, 2) },
        Grant { tenant: MODEST, egress: stranger, ..grant_here(2, 1) },
    ];
    let authority = Authority::Static(grants.to_vec());
    let mut harness =
        RelayHarness::within(RELAY_MEMORY_MIN, TenantLimits::default(), authority, 1_000, 1, None);
    harness.has_thousands = true;
    assert!(harness.try_enter(FIRST_GREEDY) && harness.try_enter(2));
    assert_eq!(harness.registers_all(FIRST_GREEDY, 1..1_000).1, Some(Refusal::Full));
    let towards_nobody = flow(2, 1, 1);
    assert_eq!(harness.registers(2, towards_nobody, FlowRole::Sender), Err(Refusal::OtherRelay));
    assert_eq!(harness.relay.counters().flows_evicted, 0);
    assert_eq!(harness.registers_all(2, 1..2), (1, None));
    assert_eq!(harness.relay.counters().flows_evicted, 1);
}

#[test]
fn a_quota_of_sessions_holds_for_each_tenant() {
    let mut harness = harness(TenantLimits { sessions: Some(2), ..TenantLimits::default() });
    let got = (FIRST_GREEDY..FIRST_GREEDY + 5).filter(|who| harness.try_enter(*who)).count();
    assert_eq!((got, harness.relay.counters().quota_sessions), (2, 3));
    assert!(harness.try_enter(2) && harness.try_enter(3) && !harness.try_enter(4));
}

#[test]
fn aliases_that_rest_count_as_those_of_the_tenant_that_had_them() {
    let mut harness = harness(TenantLimits::default());
    let now = harness.now;
    let peer = harness.relay.peers.ids().next().expect("the other relay's");
    let slot = FlowSlot(0);
    let peers = &mut harness.relay.peers;
    let mut begin = |tenant, now| peers.advertise(peer, (slot, tenant), flow(1, 2, 1), now);
    let modest = begin(MODEST, now).expect("there is capacity");
    let mut aliases = Vec::new();
    while let Ok(alias) = begin(GREEDY, now) {
        aliases.push(alias);
    }
    let half = usize::from(u16::MAX / 2);
    assert_eq!((aliases.len(), begin(GREEDY, now)), (half, Err(Refusal::QuotaReached)));
    for alias in aliases {
        harness.relay.peers.withdraw(peer, alias, now);
    }
    let mut begin = |tenant, now| harness.relay.peers.advertise(peer, (slot, tenant), flow(1, 2, 1), now);
    assert_eq!(begin(GREEDY, now), Err(Refusal::QuotaReached), "they rest");
    for _ in 1..half {
        assert!(begin(MODEST, now).is_ok());
    }
    assert!(begin(GREEDY, now + REPAIR_RETENTION).is_ok());
    assert_ne!(begin(GREEDY, now + REPAIR_RETENTION), Ok(modest));
}

/// A relay whose aliases all belong to one tenant, with four registered flows, and a flow of
/// another tenant that needs an alias.
fn harness_full_of_aliases() -> (RelayHarness, RelayPeerId, FlowKey) {
    let [greedy, modest] = [(GREEDY, FIRST_GREEDY), (MODEST, 2)].map(|(tenant, who)| {
        let egress = GrantedRelay { relay: RelayId::new(OTHER.into()), shard: Shard::new(0) };
        Grant { tenant, egress, ..grant_here(who, 1) }
    });
    let mut harness = RelayHarness::new(alloc::vec![greedy, modest]);
    harness.has_thousands = true;
    harness.enter(FIRST_GREEDY);
    harness.enter(2);
    let peer = harness.relay.peers.ids().next().expect("the other relay's");
    // The four registered flows get the highest aliases, which are evicted first.
    for _ in 4..u16::MAX {
        let key = flow(FIRST_GREEDY, 1, 5);
        assert!(harness.relay.peers.advertise(peer, (FlowSlot(0), GREEDY), key, harness.now).is_ok());
    }
    for number in 1..=4 {
        assert!(harness.registers(FIRST_GREEDY, flow(FIRST_GREEDY, 1, number), FlowRole::Sender).is_ok());
    }
    (harness, peer, flow(2, 1, 1))
}

#[test]
fn one_alias_is_taken_for_a_flow_however_often_its_sender_asks() {
    let (mut harness, _, key) = harness_full_of_aliases();
    for _ in 0..3 {
        assert_eq!(harness.registers(2, key, FlowRole::Sender), Err(Refusal::Full));
        harness.advance(ms(100));
    }
    assert_eq!(harness.relay.counters().flows_evicted, 1);
    harness.advance(REPAIR_RETENTION);
    assert!(harness.registers(2, key, FlowRole::Sender).is_ok());
    assert_eq!(harness.relay.counters().flows_evicted, 1);
}

#[test]
fn aliases_that_rest_are_not_taken_again_from_who_had_them() {
    let (mut harness, peer, key) = harness_full_of_aliases();
    let now = harness.now;
    let peers = &mut harness.relay.peers;
    // The share is half of all aliases, and one more is in use.
    let half = u16::MAX / 2;
    for number in 0..half {
        peers.withdraw(peer, Alias::new(u16::MAX - number).expect("above 0"), now);
    }
    assert!(peers.eviction_victim(peer, (MODEST, key), now).is_some(), "one beyond the share is in use");
    peers.withdraw(peer, Alias::new(u16::MAX - half).expect("above 0"), now);
    assert_eq!(peers.eviction_victim(peer, (MODEST, flow(2, 1, 2)), now), None);
}
