//! Grants of the controller: their rights and expiry, and the treatment of forged ones.

use super::groups::{FURTHER, group_flow, sending};
use super::*;
use crate::limits::{COPY_BURST, EGRESS_RELAYS_MAX, FORGED_GRANTS_MAX, HANDSHAKE_GRANTS_MAX, INPUT_WORK_MAX};
use byway_wire::messages::RelayedPacket;
use byway_wire::seal::{SigningKey, Statement};

/// Unix time at the start, in seconds.
const STARTED: u64 = 1_000_000;

fn controller() -> SigningKey {
    SigningKey::from_seed(&[77; 32])
}

/// Returns the grant with the controller's signature, valid for ten seconds.
fn signed(grant: Grant) -> Grant {
    signed_until(grant, STARTED + 10)
}

fn signed_until(grant: Grant, not_after_unix_seconds: u64) -> Grant {
    let grant = Grant { not_after_unix_seconds, ..grant };
    Grant { signature: controller().sign(Statement::Grant, &grant.fields()), ..grant }
}

fn harness() -> RelayHarness {
    RelayHarness::of(Authority::Controller(controller().verifying_key()), STARTED * 1_000_000_000, 1)
}

/// Returns messages with these registrations.
fn greeting(registers: &[(FlowKey, FlowRole, Grant)]) -> Vec<u8> {
    let mut bytes = alloc::vec![0; 4_096];
    let mut writer = byway_wire::Writer::new(&mut bytes);
    for (key, role, grant) in registers {
        let far_relay = if *role == FlowRole::Sender { grant.egress } else { grant.ingress };
        let grant = grant.to_bytes();
        let register =
            Register { grant: &grant, far_relay, ..register(*key, *role, Service::Coding, CONSENT) };
        Message::Register(register).emit(&mut writer).expect("it fits");
    }
    writer.as_bytes().to_vec()
}

impl RelayHarness {
    fn is_in(&mut self, who: u8) -> bool {
        let now = self.now;
        let client = self.client(who);
        client.sessions.is_established(client.session, now)
    }

    /// Enters as an agent with a grant that entitles it.
    fn enter_with(&mut self, who: u8, key: FlowKey, role: FlowRole, grant: Grant) -> Result<u16, Refusal> {
        self.enter_with_messages(who, &greeting(&[(key, role, grant)]));
        assert!(self.is_in(who));
        self.registers_with(who, key, role, &grant.to_bytes())
    }

    fn registers_with(
        &mut self,
        who: u8,
        key: FlowKey,
        role: FlowRole,
        grant: &[u8],
    ) -> Result<u16, Refusal> {
        self.request_registration(who, &Register { grant, ..register(key, role, Service::Coding, CONSENT) })
    }
}

#[test]
fn a_grant_of_the_controller_lets_an_agent_in_and_its_flow_be_registered() {
    let mut harness = harness();
    let alias = harness.enter_with(2, flow(1, 2, 1), FlowRole::Receiver, signed(grant(1, 2)));
    assert_eq!((alias, harness.relay.counters().strangers_refused), (Ok(1), 0));
}

#[test]
fn a_stranger_with_a_grant_that_does_not_hold_gets_no_session() {
    let good = grant(1, 2);
    let shard = Shard::new(1);
    let elsewhere = GrantedRelay { relay: RelayId::new(77), shard: Shard::new(0) };
    let other_shard = GrantedRelay { shard, ..good.egress };
    let other_flows = Grant { first_flow: FlowId::new(2), last_flow: FlowId::new(9), ..good };
    let cases = [
        ("not signed", good),
        ("changed after it was signed", Grant { rate: KilobitsPerSecond::new(1 << 30), ..signed(good) }),
        ("expired", signed_until(good, STARTED - 1)),
        ("of another agent", signed(grant(1, 3))),
        ("for another relay", signed(Grant { egress: elsewhere, ..good })),
        ("for another shard", signed(Grant { egress: other_shard, ..good })),
        ("for other flows", signed(other_flows)),
        ("for another service", signed(Grant { services: Services::NONE.with(Service::Caching), ..good })),
        ("of another sender", signed(Grant { sender: AgentId::new(9), ..good })),
    ];
    let mut harness = harness();
    for (refused, (why, grant)) in (1..).zip(cases) {
        harness.enter_with_messages(2, &greeting(&[(flow(1, 2, 1), FlowRole::Receiver, grant)]));
        assert!(!harness.is_in(2), "{why}");
        assert_eq!(harness.relay.counters().strangers_refused, refused, "{why}");
    }
    harness.enter_with_messages(2, &greeting(&[(flow(1, 2, 1), FlowRole::Receiver, signed(good))]));
    assert!(harness.is_in(2));
}

#[test]
fn refusals_of_grants_say_why() {
    let mut harness = harness();
    let (key, role, good) = (flow(1, 2, 1), FlowRole::Receiver, grant(1, 2));
    assert_eq!(harness.enter_with(2, key, role, signed(good)), Ok(1));
    let other = flow(1, 2, 9);
    let elsewhere = GrantedRelay { relay: RelayId::new(77), shard: Shard::new(0) };
    let cases = [
        (alloc::vec![], Refusal::NoGrant),
        (alloc::vec![1; 20], Refusal::GrantInvalid),
        (signed(grant(1, 3)).to_bytes().to_vec(), Refusal::GrantInvalid),
        (signed(Grant { last_flow: FlowId::new(8), ..good }).to_bytes().to_vec(), Refusal::GrantInvalid),
        (good.to_bytes().to_vec(), Refusal::GrantExpired),
        (signed_until(good, STARTED - 1).to_bytes().to_vec(), Refusal::GrantExpired),
        (
            Grant { rate: KilobitsPerSecond::new(9), ..signed(good) }.to_bytes().to_vec(),
            Refusal::GrantInvalid,
        ),
        (signed(Grant { egress: elsewhere, ..good }).to_bytes().to_vec(), Refusal::OtherRelay),
        (
            signed(Grant { services: Services::NONE.with(Service::Caching), ..good }).to_bytes().to_vec(),
            Refusal::ServiceNotGranted,
        ),
    ];
    for (refused, (bytes, refusal)) in (1..).zip(cases) {
        assert_eq!(harness.registers_with(2, other, role, &bytes), Err(refusal));
        assert_eq!(harness.relay.counters().registrations_refused, refused);
    }
    assert_eq!(
        harness.registers_with(2, other, role, &signed(good).to_bytes()),
        Ok(2),
        "and nothing was spoilt"
    );
}

#[test]
fn another_agents_grant_registers_nothing() {
    let mut harness = harness();
    assert_eq!(harness.enter_with(2, flow(1, 2, 1), FlowRole::Receiver, signed(grant(1, 2))), Ok(1));
    let stolen = signed(grant(3, 4)).to_bytes();
    assert_eq!(
        harness.registers_with(2, flow(3, 4, 1), FlowRole::Receiver, &stolen),
        Err(Refusal::GrantInvalid)
    );
}

#[test]
fn flows_end_with_their_grant_and_go_on_with_another() {
    let mut harness = harness();
    let (one, other) = (flow(1, 2, 1), flow(1, 2, 2));
    assert_eq!(harness.enter_with(2, one, FlowRole::Receiver, signed(grant(1, 2))), Ok(1));
    assert_eq!(harness.registers_with(2, other, FlowRole::Receiver, &signed(grant(1, 2)).to_bytes()), Ok(2));
    harness.announces(&[one, other]);
    let renewed = signed_until(grant(1, 2), STARTED + 60).to_bytes();
    assert_eq!(harness.registers_with(2, other, FlowRole::Receiver, &renewed), Ok(2));
    harness.advance(ms(10_999));
    assert_eq!(harness.drain_events(2), []);
    harness.advance(ms(1));
    assert_eq!(harness.drain_events(2), [ClientEvent::Registered(Err(Refusal::GrantExpired))]);
    assert_eq!(harness.relay.counters().grants_ended, 1);
    harness.nacks(2, 1, 5);
    assert_eq!(harness.relay.counters().aliases_unknown, 1);
    harness.nacks(2, 2, 5);
    assert_eq!(harness.relay.counters().aliases_unknown, 1);
    harness.drain_events(OTHER);
    harness.announces(&[one]);
    assert_eq!(harness.drain_events(OTHER), [ClientEvent::Known(1, false)]);
    assert_eq!(
        harness.registers_with(2, one, FlowRole::Receiver, &signed(grant(1, 2)).to_bytes()),
        Err(Refusal::GrantExpired)
    );
    assert_eq!(harness.registers_with(2, one, FlowRole::Receiver, &renewed), Ok(1));
    harness.advance(ms(50_000));
    assert_eq!(harness.relay.counters().grants_ended, 3);
}

#[test]
fn a_thousand_flows_whose_grants_end_at_once_are_forgotten_in_parts() {
    const FLOWS: u16 = 1_000;
    let mut harness = harness();
    harness.has_thousands = true;
    let grant = signed(grant(1, 2));
    assert_eq!(harness.enter_with(2, flow(1, 2, 1), FlowRole::Receiver, grant), Ok(1));
    for nth in 2..=FLOWS {
        let alias = harness.registers_with(2, flow(1, 2, nth), FlowRole::Receiver, &grant.to_bytes());
        assert_eq!(alias, Ok(nth));
    }
    harness.advance(ms(10_999));
    harness.now += ms(1);
    let mut parts = 0;
    while harness.relay.deadline().is_some_and(|(at, _)| at <= harness.now) {
        let before = harness.relay.work().units();
        harness.relay.handle(RelayInput::Deadline, harness.now);
        harness.drain();
        let work = harness.relay.work().units() - before;
        assert!(work <= INPUT_WORK_MAX, "{work} units at once");
        parts += 1;
    }
    assert!((2..10).contains(&parts), "{parts} parts");
    assert_eq!(harness.relay.counters().grants_ended, u64::from(FLOWS));
}

#[test]
fn a_sender_whose_grant_ended_copies_nothing_more_and_reaches_nobody_through_the_relay() {
    let mut harness = harness();
    let grant = signed(grant_here(1, 2));
    assert_eq!(harness.enter_with(1, flow(1, 2, 1), FlowRole::Sender, grant), Ok(1));
    assert_eq!(harness.enter_with(2, flow(1, 2, 1), FlowRole::Receiver, grant), Ok(1));
    let relayed = |harness: &mut RelayHarness| {
        let bytes = [8; 100];
        harness.send_message(
            1,
            &Message::RelayedPacket(RelayedPacket::new(AgentId::new(2), &bytes).expect("a message packet")),
        );
        harness.drain_events(2)
    };
    assert_eq!(relayed(&mut harness), [ClientEvent::Relayed(1, 100)]);
    harness.copies(1, 1, 0, &packet(1, 0));
    assert_eq!(harness.relay.ingress_counters().copies, 1);
    harness.advance(ms(11_000));
    assert_eq!(harness.relay.counters().grants_ended, 2);
    harness.drain_events(2);
    harness.copies(1, 1, 1, &packet(1, 1));
    assert_eq!((harness.relay.ingress_counters().copies, harness.relay.counters().aliases_unknown), (1, 1));
    assert_eq!(relayed(&mut harness), []);
    assert_eq!(harness.relay.counters().relayed_refused, 1);
}

#[test]
fn few_grants_of_a_stranger_are_looked_at() {
    let mut harness = harness();
    let registers = |forged: usize| {
        let (key, role) = (flow(1, 2, 1), FlowRole::Receiver);
        let good = signed(grant(1, 2));
        let false_one = Grant { rate: KilobitsPerSecond::new(1), ..good };
        let mut registers = alloc::vec![(key, role, false_one); forged];
        registers.push((key, role, good));
        greeting(&registers)
    };
    harness.enter_with_messages(2, &registers(HANDSHAKE_GRANTS_MAX));
    assert!(!harness.is_in(2));
    harness.enter_with_messages(2, &registers(HANDSHAKE_GRANTS_MAX - 1));
    assert!(harness.is_in(2));
}

#[test]
fn who_forges_grants_loses_its_session_and_nobody_else_does() {
    let mut harness = harness();
    for (who, key) in [(2, flow(1, 2, 1)), (4, flow(3, 4, 1))] {
        let grant = signed(grant(who - 1, who));
        assert_eq!(harness.enter_with(who, key, FlowRole::Receiver, grant), Ok(1));
    }
    let forged = Grant { rate: KilobitsPerSecond::new(1), ..signed(grant(1, 2)) }.to_bytes();
    let forged =
        Register { grant: &forged, ..register(flow(1, 2, 2), FlowRole::Receiver, Service::Coding, CONSENT) };
    for _ in 0..FORGED_GRANTS_MAX - 1 {
        assert_eq!(harness.request_registration(2, &forged), Err(Refusal::GrantInvalid));
    }
    assert_eq!(harness.relay.counters().expelled, 0);
    harness.send_message(2, &Message::Register(harness.as_granted(&forged)));
    assert_eq!(harness.relay.counters().expelled, 1);
    let sessions = harness.relay.sessions.count();
    assert_eq!(sessions, 2, "the other agent's and the other relay's");
    let unknown = harness.relay.session_counters().unknown_index;
    harness.nacks(2, 1, 5);
    assert!(harness.relay.session_counters().unknown_index > unknown || !harness.is_in(2));
    harness.nacks(4, 1, 5);
    assert_eq!(
        harness.relay.egress_counters().refused_range + harness.relay.egress_counters().packets_nacked,
        1
    );
}

#[test]
fn all_flows_of_a_grant_together_send_no_more_than_it_allows() {
    let kilobits = 800;
    let slow = Grant { rate: KilobitsPerSecond::new(kilobits), ..grant_here(1, 2) };
    let other = grant_here(3, 4);
    let mut harness = RelayHarness::new(alloc::vec![slow, other]);
    for who in [1, 2, 3] {
        harness.enter(who);
    }
    // Each flow requests 2 Mbit/s.
    for number in 1..=4 {
        assert_eq!(harness.registers(1, flow(1, 2, number), FlowRole::Sender), Ok(number));
    }
    assert_eq!(harness.registers(3, flow(3, 4, 1), FlowRole::Sender), Ok(1));
    let allowed = slow.rate.rate().bytes_in(COPY_BURST).expect("small").count();
    let coded = [3; 1_000];
    for sequence in 0..100 {
        for alias in 1..=4 {
            harness.copies(1, alias, sequence, &coded);
        }
    }
    let accepted = harness.relay.ingress_counters().copies;
    assert_eq!(accepted, allowed / 1_000);
    assert_eq!(harness.relay.ingress_counters().copies_beyond_rate, 400 - accepted);
    harness.copies(3, 1, 0, &coded);
    assert_eq!(harness.relay.ingress_counters().copies, accepted + 1, "others are not concerned");
}

#[test]
fn the_sender_of_a_group_shows_a_grant_for_each_egress_relay_up_to_four() {
    let others = u8::try_from(EGRESS_RELAYS_MAX).expect("few") + 1;
    let controller_says = Authority::Controller(controller().verifying_key());
    let mut harness = RelayHarness::of(controller_says, STARTED * 1_000_000_000, others);
    let towards = |egress| signed(sending(egress)).to_bytes();
    assert_eq!(harness.enter_with(1, group_flow(1), FlowRole::Sender, signed(sending(OTHER))), Ok(1));
    for egress in FURTHER..FURTHER + others - 2 {
        assert_eq!(harness.registers_with(1, group_flow(1), FlowRole::Sender, &towards(egress)), Ok(1));
    }
    let once_more = harness.registers_with(1, group_flow(1), FlowRole::Sender, &towards(OTHER));
    assert_eq!(once_more, Ok(1));
    let beyond = harness.registers_with(1, group_flow(1), FlowRole::Sender, &towards(FURTHER + others - 2));
    assert_eq!(beyond, Err(Refusal::Full));
    harness.send_receivers(&[1]);
    let register = register(group_flow(1), FlowRole::Sender, Service::Coding, CONSENT);
    assert_eq!(harness.request_registration(1, &Register { grant: &towards(OTHER), ..register }), Ok(1));
    (0..5).for_each(|sequence| harness.copies(1, 1, sequence, &packet(1, sequence)));
    assert_eq!(harness.relay.ingress_counters().in_stream, 1, "one relay has reported receivers");
}

#[test]
fn another_grant_for_one_flow_brings_the_others_nothing() {
    let mut harness = harness();
    let slow = Grant { rate: KilobitsPerSecond::new(160), ..grant_here(1, 2) };
    let fast = Grant { first_flow: FlowId::new(1), last_flow: FlowId::new(1), ..grant_here(1, 2) };
    assert_eq!(harness.enter_with(1, flow(1, 2, 1), FlowRole::Sender, signed(slow)), Ok(1));
    let more = signed(slow).to_bytes();
    assert_eq!(harness.registers_with(1, flow(1, 2, 2), FlowRole::Sender, &more), Ok(2));
    let longer = signed_until(fast, STARTED + 60).to_bytes();
    assert_eq!(harness.registers_with(1, flow(1, 2, 1), FlowRole::Sender, &longer), Ok(1));
    // The burst of 160 kbit/s is ten packets of 1,000 bytes.
    (0..30).for_each(|sequence| harness.copies(1, 2, sequence, &[1; 1_000]));
    assert_eq!(harness.relay.ingress_counters().copies, 10);
    harness.advance(ms(11_000));
    assert_eq!(harness.relay.counters().grants_ended, 1);
    harness.copies(1, 1, 0, &[1; 1_000]);
    assert_eq!(harness.relay.ingress_counters().copies, 11, "and lasts as long as it says");
}

/// Sends one packet each of two flows of these tenants, the first of this many bytes. Returns the
/// number of packets in batches.
fn coded_together(sharing: [bool; 2], tenants: [u32; 2], bytes: usize) -> u64 {
    let grants = [0, 1].map(|nth: u8| {
        let grant = grant_here(1 + 2 * nth, 2 + 2 * nth);
        let other = GrantedRelay { relay: RelayId::new(OTHER.into()), shard: Shard::new(0) };
        let (tenant, sharing) = (TenantId::new(tenants[usize::from(nth)]), sharing[usize::from(nth)]);
        Grant { egress: other, tenant, sharing, ..grant }
    });
    let mut harness = RelayHarness::new(grants.to_vec());
    for who in [1, 3] {
        harness.enter(who);
        let register = register(flow(who, who + 1, 1), FlowRole::Sender, Service::Coding, CONSENT);
        let batch = BlockShape::new(2, 1);
        assert_eq!(harness.request_registration(who, &Register { batch, ..register }), Ok(1));
    }
    harness.send_receivers(&[1, 2]);
    harness.copies(1, 1, 0, &alloc::vec![1; bytes]);
    harness.copies(3, 1, 0, &alloc::vec![2; bytes]);
    harness.relay.ingress_counters().covered
}

#[test]
fn tenants_are_coded_together_only_if_both_agree() {
    assert_eq!(coded_together([true, true], [1, 2], 500), 2);
    assert_eq!(coded_together([true, false], [1, 2], 500), 0);
    assert_eq!(coded_together([false, false], [1, 2], 500), 0);
    assert_eq!(coded_together([false, false], [2, 2], 500), 2);
    assert_eq!(coded_together([false, false], [0, u32::MAX], 500), 0);
}

#[test]
fn what_no_digest_vouches_for_is_coded_within_its_tenant() {
    let longest = 1_472 - crate::limits::CROSS_STREAM_OVERHEAD - 2 * 10;
    assert_eq!(coded_together([true, true], [1, 2], longest), 2);
    assert_eq!(coded_together([true, true], [1, 2], longest + 1), 0);
    assert_eq!(coded_together([true, true], [2, 2], longest + 1), 2);
}

#[test]
fn a_tenant_that_no_longer_agrees_is_coded_alone_once_its_sender_presents_the_new_grant() {
    let mut harness = harness();
    let grant_of = |who: u8, sharing: bool| {
        let egress = GrantedRelay { relay: RelayId::new(OTHER.into()), shard: Shard::new(0) };
        signed(Grant { egress, tenant: TenantId::new(who.into()), sharing, ..grant_here(who, who + 1) })
    };
    let register_with = |harness: &mut RelayHarness, who: u8, sharing: bool| {
        let grant = grant_of(who, sharing).to_bytes();
        let register = register(flow(who, who + 1, 1), FlowRole::Sender, Service::Coding, CONSENT);
        let register = Register { batch: BlockShape::new(2, 1), grant: &grant, ..register };
        harness.request_registration(who, &register).expect("it is granted")
    };
    let mut aliases = [1, 3].map(|who| {
        let first = (flow(who, who + 1, 9), FlowRole::Sender, grant_of(who, true));
        harness.enter_with_messages(who, &greeting(&[first]));
        register_with(&mut harness, who, true)
    });
    // A full batch is coded at once. A packet that stays alone may be repeated later.
    let newly_covered = |harness: &mut RelayHarness, aliases: [u16; 2], sequence: u32| {
        harness.send_receivers(&[1, 2, 3, 4, 5, 6]);
        let before = harness.relay.ingress_counters().covered;
        harness.copies(1, aliases[0], sequence, &[1; 500]);
        harness.copies(3, aliases[1], sequence, &[2; 500]);
        let covered = harness.relay.ingress_counters().covered - before;
        harness.advance(ms(100));
        covered
    };
    assert_eq!(newly_covered(&mut harness, aliases, 0), 2);
    // The grant has the end of the former one.
    aliases[1] = register_with(&mut harness, 3, false);
    assert_eq!(newly_covered(&mut harness, aliases, 1), 0);
    assert_eq!(register_with(&mut harness, 3, false), aliases[1], "and nothing begins anew");
    aliases[1] = register_with(&mut harness, 3, true);
    assert_eq!(newly_covered(&mut harness, aliases, 2), 2);
}
