//! Tenants that want more than their share, beside one that wants little.

use super::*;
use crate::limits::{RELAY_MEMORY_MIN, REPAIR_RETENTION, SESSION_UNUSED_AFTER};
use crate::relay::ingress::{EgressPort, FlowSlot};
use byway_wire::Writer;
use byway_wire::messages::Unregister;

const GREEDY: TenantId = TenantId::new(1);
const MODEST: TenantId = TenantId::new(2);

/// The first agents of both tenants.
const MODEST_AGENTS: [u8; 3] = [2, 3, 4];
const FIRST_GREEDY: u8 = 10;

/// A relay with the least memory that it may have, and many agents of one tenant, each of which receives from one that is not there.
fn desk(limits: TenantLimits) -> Desk {
    let of = |tenant| move |who: u8| Grant { tenant, ..grant(1, who) };
    let greedy = (FIRST_GREEDY..RELAY).map(of(GREEDY));
    let grants = greedy.chain(MODEST_AGENTS.map(of(MODEST))).collect();
    let mut desk = Desk::within(RELAY_MEMORY_MIN, limits, Authority::Static(grants), 1_000, 1, None);
    desk.has_thousands = true;
    desk
}

impl Desk {
    /// An agent comes that would register a flow; whether it gets a session.
    fn comes(&mut self, who: u8) -> bool {
        let register =
            self.as_granted(&register(flow(1, who, 1), FlowRole::Receiver, Service::Caching, CONSENT));
        let mut bytes = [0; 200];
        let mut writer = Writer::new(&mut bytes);
        Message::Register(register).emit(&mut writer).expect("it fits");
        self.enter_saying(who, writer.written());
        self.relay.sessions.find(secret(who).public_key(), Purpose::AgentToRelay, Shard::new(0)).is_some()
    }

    /// An agent registers flows until one is refused; how many, and why.
    fn registers_all(&mut self, who: u8, numbers: core::ops::Range<u16>) -> (u16, Option<Refusal>) {
        let mut count = 0;
        for number in numbers {
            match self.registers_for(who, flow(1, who, number), FlowRole::Receiver, Service::Caching) {
                Ok(_) => count += 1,
                Err(refusal) => return (count, Some(refusal)),
            }
            self.pass(ms(1));
        }
        (count, None)
    }

    fn ends(&mut self, who: u8, number: u16) {
        let flow_key = flow(1, who, number);
        let end = Unregister { flow_key, role: FlowRole::Receiver, far_relay: None };
        self.says(who, &Message::Unregister(end));
    }
}

#[test]
fn a_tenant_with_more_keys_than_there_are_sessions_keeps_no_other_out() {
    let mut desk = desk(TenantLimits::default());
    desk.has_agents_of(60, |_| GREEDY);
    let keys = FIRST_GREEDY..RELAY;
    let wanted = keys.len();
    let got = keys.clone().filter(|who| desk.comes(*who)).count();
    assert!((100..wanted).contains(&got), "{got} of {wanted}");
    assert_eq!(desk.relay.counters().sessions_refused, (wanted - got) as u64);
    for who in MODEST_AGENTS {
        assert!(desk.comes(who));
        assert!(desk.registers(who, flow(1, who, 1), FlowRole::Receiver).is_ok());
    }
    assert_eq!(desk.relay.counters().sessions_evicted, 3);
    // Who has more than its share, and was refused once, gets no session instead of another tenant's.
    let refused = keys.rev().find(|who| {
        desk.relay.sessions.find(secret(*who).public_key(), Purpose::AgentToRelay, Shard::new(0)).is_none()
    });
    let refused = refused.expect("not all got in");
    assert!(!desk.comes(refused));
    assert_eq!(desk.heard(refused), [Heard::Registered(Err(Refusal::QuotaReached))], "and hears why");
    assert_eq!(desk.relay.counters().quota_sessions, 1);
    let modest = MODEST_AGENTS.map(|who| desk.session_of(who).is_some());
    assert_eq!(modest, [true; 3]);
}

impl Desk {
    /// There are so many other agents, each of this tenant, beside those that keys of one byte stand for.
    fn has_agents_of(&mut self, count: u8, tenant: impl Fn(u8) -> TenantId) {
        for number in 0..count {
            let mut key = [255; 32];
            key[0] = number;
            let remote = Remote {
                key: byway_wire::seal::PublicKey::from_bytes(key),
                purpose: Purpose::AgentToRelay,
                shard: Shard::new(0),
                pre_shared: PreSharedKey::default(),
                addresses: Vec::new(),
                keep: false,
            };
            let session = self.relay.sessions.add(remote, self.now);
            self.relay.quotas.tenant_of(session, tenant(number));
        }
    }

    fn session_of(&self, who: u8) -> Option<SessionId> {
        self.relay.sessions.find(secret(who).public_key(), Purpose::AgentToRelay, Shard::new(0))
    }
}

#[test]
fn a_tenant_with_more_flows_than_there_may_be_keeps_no_other_from_its_share() {
    let mut desk = desk(TenantLimits::default());
    let [one, other] = [FIRST_GREEDY, FIRST_GREEDY + 1];
    assert!(desk.comes(one) && desk.comes(other) && desk.comes(2));
    let (first, why) = desk.registers_all(one, 1..300);
    assert_eq!((first, why), (299, None));
    let (second, why) = desk.registers_all(other, 1..1_000);
    assert_eq!(why, Some(Refusal::NoRoom), "it is alone, and has all");
    let all = first + second;
    let (share, why) = desk.registers_all(2, 1..1_000);
    assert_eq!((share, why), (all / 2, Some(Refusal::QuotaReached)));
    assert_eq!(desk.relay.counters().flows_evicted, u64::from(share));
    let evicted = [one, other].map(|who| {
        let heard = desk.client(who).heard.iter();
        heard.filter(|heard| **heard == Heard::Registered(Err(Refusal::QuotaReached))).count()
    });
    assert_eq!(evicted[0] + evicted[1], usize::from(share), "those who had them hear of it");
    assert_eq!(desk.registers_all(one, 900..901).1, Some(Refusal::QuotaReached));
}

#[test]
fn sessions_without_flows_hide_none_of_those_whose_flows_make_room() {
    let mut desk = desk(TenantLimits::default());
    assert!(desk.comes(FIRST_GREEDY) && desk.comes(2));
    let (_, why) = desk.registers_all(FIRST_GREEDY, 1..1_000);
    assert_eq!(why, Some(Refusal::NoRoom));
    for who in FIRST_GREEDY + 1..FIRST_GREEDY + 60 {
        assert!(desk.comes(who));
    }
    assert_eq!(desk.registers_all(2, 1..11), (10, None));
}

#[test]
fn places_before_the_last_registration_count_as_long_as_that_stands() {
    let mut desk = desk(TenantLimits { flows: Some(100), ..TenantLimits::default() });
    let [one, other] = [FIRST_GREEDY, FIRST_GREEDY + 1];
    assert!(desk.comes(one) && desk.comes(other));
    assert_eq!(desk.registers_all(one, 1..200), (100, Some(Refusal::QuotaReached)));
    (1..100).for_each(|number| desk.ends(one, number));
    assert_eq!(desk.relay.quotas.flows.of(GREEDY), 100);
    assert_eq!(desk.registers_all(other, 1..2).1, Some(Refusal::QuotaReached));
    assert_eq!(desk.registers_all(one, 300..301), (1, None), "its own places it may use");
    desk.ends(one, 100);
    assert_eq!(desk.relay.quotas.flows.of(GREEDY), 1);
    desk.ends(one, 300);
    assert_eq!(desk.relay.quotas.flows.of(GREEDY), 0);
    assert_eq!(desk.registers_all(other, 1..200).0, 100);
}

#[test]
fn what_is_registered_and_ended_again_and_again_leaves_nothing_behind() {
    let mut desk = desk(TenantLimits::default());
    assert!(desk.comes(FIRST_GREEDY));
    for number in 0..500 {
        assert_eq!(desk.registers_all(FIRST_GREEDY, number..number + 1).0, 1);
        desk.ends(FIRST_GREEDY, number);
    }
    let quotas = &desk.relay.quotas;
    assert_eq!((quotas.flows.of(GREEDY), quotas.sessions.of(GREEDY)), (0, 1));
    let session = desk.session_of(FIRST_GREEDY).expect("it is in");
    let now = desk.now;
    desk.relay.ended(session, now);
    assert_eq!(desk.relay.quotas.sessions.of(GREEDY), 0);
}

#[test]
fn a_tenant_at_its_limit_loses_its_own_sessions_without_flows_and_no_others() {
    let mut desk = desk(TenantLimits { sessions: Some(2), ..TenantLimits::default() });
    assert!(desk.comes(2));
    assert!(desk.comes(FIRST_GREEDY) && desk.comes(FIRST_GREEDY + 1));
    assert!(desk.registers(FIRST_GREEDY, flow(1, FIRST_GREEDY, 1), FlowRole::Receiver).is_ok());
    desk.pass(SESSION_UNUSED_AFTER);
    assert!(desk.comes(FIRST_GREEDY + 2));
    let left = [2, FIRST_GREEDY, FIRST_GREEDY + 1].map(|who| desk.session_of(who).is_some());
    assert_eq!(left, [true, true, false]);
}

#[test]
fn newcomers_of_a_tenant_at_its_limit_do_not_keep_useless_sessions_in_a_full_relay() {
    let mut desk = desk(TenantLimits { sessions: Some(2), ..TenantLimits::default() });
    for who in [FIRST_GREEDY, FIRST_GREEDY + 1] {
        assert!(desk.comes(who));
        assert!(desk.registers(who, flow(1, who, 1), FlowRole::Receiver).is_ok());
    }
    let free = desk.relay.quotas.sessions.max() - desk.relay.sessions.count() as u64;
    desk.has_agents_of(u8::try_from(free).expect("a small relay"), |number| {
        TenantId::new(1_000 + u32::from(number))
    });
    desk.pass(SESSION_UNUSED_AFTER);
    assert!(!desk.comes(FIRST_GREEDY + 2), "it is refused, and its own sessions are looked through");
    assert!(desk.comes(2));
    let counters = desk.relay.counters();
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
    let mut desk = Desk::within(RELAY_MEMORY_MIN, TenantLimits::default(), authority, 1_000, 1, None);
    desk.has_thousands = true;
    assert!(desk.comes(FIRST_GREEDY) && desk.comes(2));
    assert_eq!(desk.registers_all(FIRST_GREEDY, 1..1_000).1, Some(Refusal::NoRoom));
    let towards_nobody = flow(2, 1, 1);
    assert_eq!(desk.registers(2, towards_nobody, FlowRole::Sender), Err(Refusal::OtherRelay));
    assert_eq!(desk.relay.counters().flows_evicted, 0);
    assert_eq!(desk.registers_all(2, 1..2), (1, None));
    assert_eq!(desk.relay.counters().flows_evicted, 1);
}

#[test]
fn a_quota_of_sessions_holds_for_each_tenant() {
    let mut desk = desk(TenantLimits { sessions: Some(2), ..TenantLimits::default() });
    let got = (FIRST_GREEDY..FIRST_GREEDY + 5).filter(|who| desk.comes(*who)).count();
    assert_eq!((got, desk.relay.counters().quota_sessions), (2, 3));
    assert!(desk.comes(2) && desk.comes(3) && !desk.comes(4));
}

#[test]
fn aliases_that_rest_count_as_those_of_the_tenant_that_had_them() {
    let mut desk = desk(TenantLimits::default());
    let now = desk.now;
    let port = desk.relay.ports.all().next().expect("the other relay's");
    let slot = FlowSlot(0);
    let ports = &mut desk.relay.ports;
    let mut begin = |tenant, now| ports.announce(port, (slot, tenant), flow(1, 2, 1), now);
    let modest = begin(MODEST, now).expect("there is room");
    let mut taken = Vec::new();
    while let Ok(alias) = begin(GREEDY, now) {
        taken.push(alias);
    }
    let half = usize::from(u16::MAX / 2);
    assert_eq!((taken.len(), begin(GREEDY, now)), (half, Err(Refusal::QuotaReached)));
    for alias in taken {
        desk.relay.ports.withdraw(port, alias, now);
    }
    let mut begin = |tenant, now| desk.relay.ports.announce(port, (slot, tenant), flow(1, 2, 1), now);
    assert_eq!(begin(GREEDY, now), Err(Refusal::QuotaReached), "they rest");
    for _ in 1..half {
        assert!(begin(MODEST, now).is_ok());
    }
    assert!(begin(GREEDY, now + REPAIR_RETENTION).is_ok());
    assert_ne!(begin(GREEDY, now + REPAIR_RETENTION), Ok(modest));
}

/// A relay that is full of aliases of one tenant, four of whose flows are registered; the flow of another that waits for one.
fn desk_full_of_aliases() -> (Desk, EgressPort, FlowKey) {
    let [greedy, modest] = [(GREEDY, FIRST_GREEDY), (MODEST, 2)].map(|(tenant, who)| {
        let egress = GrantedRelay { relay: RelayId::new(OTHER.into()), shard: Shard::new(0) };
        Grant { tenant, egress, ..grant_here(who, 1) }
    });
    let mut desk = Desk::new(alloc::vec![greedy, modest]);
    desk.has_thousands = true;
    desk.enter(FIRST_GREEDY);
    desk.enter(2);
    let port = desk.relay.ports.all().next().expect("the other relay's");
    // Those with the highest aliases, which are taken first, are flows.
    for _ in 4..u16::MAX {
        let key = flow(FIRST_GREEDY, 1, 5);
        assert!(desk.relay.ports.announce(port, (FlowSlot(0), GREEDY), key, desk.now).is_ok());
    }
    for number in 1..=4 {
        assert!(desk.registers(FIRST_GREEDY, flow(FIRST_GREEDY, 1, number), FlowRole::Sender).is_ok());
    }
    (desk, port, flow(2, 1, 1))
}

#[test]
fn one_alias_is_taken_for_a_flow_however_often_its_sender_asks() {
    let (mut desk, _, key) = desk_full_of_aliases();
    for _ in 0..3 {
        assert_eq!(desk.registers(2, key, FlowRole::Sender), Err(Refusal::NoRoom));
        desk.pass(ms(100));
    }
    assert_eq!(desk.relay.counters().flows_evicted, 1);
    desk.pass(REPAIR_RETENTION);
    assert!(desk.registers(2, key, FlowRole::Sender).is_ok());
    assert_eq!(desk.relay.counters().flows_evicted, 1);
}

#[test]
fn aliases_that_rest_are_not_taken_again_from_who_had_them() {
    let (mut desk, port, key) = desk_full_of_aliases();
    let now = desk.now;
    let ports = &mut desk.relay.ports;
    // The share is half of all, and one more is in use.
    let half = u16::MAX / 2;
    for number in 0..half {
        ports.withdraw(port, Alias::new(u16::MAX - number).expect("above 0"), now);
    }
    assert!(ports.victim_for(port, (MODEST, key), now).is_some(), "one beyond the share is in use");
    ports.withdraw(port, Alias::new(u16::MAX - half).expect("above 0"), now);
    assert_eq!(ports.victim_for(port, (MODEST, flow(2, 1, 2)), now), None);
}
