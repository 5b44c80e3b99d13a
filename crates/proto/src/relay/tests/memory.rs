//! Floods together and one after the other, at a relay with little memory: its memory accounting is
//! accurate and stays below the limit.

use super::floods::{filled, nack, range};
use super::*;
use crate::limits::{FLOW_IDLE_TIMEOUT, RELAY_MEMORY_MIN};
use crate::relay::{REGISTRATION_TABLE_BYTES, egress, ingress};
use byway_units::Bytes;
use byway_wire::messages::Unregister;

const MEMORY: Bytes = RELAY_MEMORY_MIN;

/// The attackers send and receive at this relay; an honest tenant's flow arrives from the other
/// relay.
const SENDERS: [u8; 3] = [10, 11, 12];
const RECEIVERS: [u8; 3] = [20, 21, 22];
const HONEST_SENDER: u8 = 1;
const HONEST: u8 = 2;
/// Flows that each attacker sends.
const SENT: u32 = 40;
const HONEST_ALIAS: u16 = 60_000;

/// A flood, for one round.
type Flood = fn(&mut RelayHarness, u32);

const FLOODS: [Flood; 8] = [
    register_receivers,
    register_senders,
    announce_flows,
    send_copies,
    send_repairs,
    relay_sparse_numbers,
    nack_everything,
    join_and_leave,
];

fn harness() -> RelayHarness {
    let attackers = SENDERS.into_iter().zip(RECEIVERS).flat_map(|(sender, receiver)| {
        let tenant = TenantId::new(1);
        let services = Services::NONE.with(Service::Coding).with(Service::Caching);
        let away = GrantedRelay { relay: RelayId::new(OTHER.into()), shard: Shard::new(0) };
        let rate = KilobitsPerSecond::new(1_000_000);
        let to_here = Grant { tenant, services, rate, ..grant(sender, receiver) };
        [to_here, Grant { ingress: to_here.egress, egress: away, ..grant_to(to_here, receiver, sender) }]
    });
    let honest = Grant { tenant: TenantId::new(2), ..grant(HONEST_SENDER, HONEST) };
    let grants = attackers.chain([honest]).collect();
    let limits = TenantLimits::default();
    let mut harness = RelayHarness::within(MEMORY, limits, Authority::Static(grants), 1_000, 1, None);
    harness.has_thousands = true;
    harness.enter(HONEST);
    let key = flow(HONEST_SENDER, HONEST, 1);
    assert!(harness.registers_for(HONEST, key, FlowRole::Receiver, Service::Caching).is_ok());
    harness.announces_at(HONEST_ALIAS, &[key]);
    for who in RECEIVERS {
        harness.enter(who);
    }
    // The attackers register some sent flows while the quota still permits it.
    (0..SENT / 8).for_each(|nth| register_senders(&mut harness, nth));
    harness
}

/// Returns the grant of flows in the reverse direction.
fn grant_to(grant: Grant, sender: u8, receiver: u8) -> Grant {
    Grant {
        sender: AgentId::new(sender.into()),
        receiver: Receiver::Agent(AgentId::new(receiver.into())),
        sender_key: *secret(sender).public_key().bytes(),
        receiver_key: *secret(receiver).public_key().bytes(),
        ..grant
    }
}

/// Returns a number that differs from round to round.
fn pseudo_random(nth: u32, salt: u32) -> u32 {
    (nth.wrapping_mul(2_654_435_761) ^ salt.wrapping_mul(0x9E37_79B1)).wrapping_mul(0x85EB_CA6B) >> 8
}

fn low(number: u32, below: u32) -> u16 {
    u16::try_from(number % below).expect("reduced")
}

fn register_receivers(harness: &mut RelayHarness, nth: u32) {
    for (sender, who) in SENDERS.into_iter().zip(RECEIVERS) {
        let key = |step| flow(sender, who, low(nth * 8 + step, 3_000));
        let registers: Vec<_> = (0..8)
            .map(|step| {
                let service = if step % 2 == 0 { Service::Caching } else { Service::Coding };
                let register = register(key(step), FlowRole::Receiver, service, CONSENT);
                Message::Register(harness.as_granted(&register))
            })
            .collect();
        harness.process(who, &filled(registers));
    }
}

fn register_senders(harness: &mut RelayHarness, nth: u32) {
    for (receiver, who) in SENDERS.into_iter().zip(RECEIVERS) {
        let registers: Vec<_> = (0..8)
            .map(|step| {
                let key = flow(who, receiver, low(nth * 8 + step, SENT));
                let register = Register {
                    in_stream: BlockShape::new(5, 2),
                    batch: BlockShape::new(10, 4),
                    rate: KilobitsPerSecond::new(1_000_000),
                    ..register(key, FlowRole::Sender, Service::Coding, CONSENT)
                };
                Message::Register(harness.as_granted(&register))
            })
            .collect();
        harness.process(who, &filled(registers));
    }
}

fn announce_flows(harness: &mut RelayHarness, nth: u32) {
    let (sender, receiver) = (SENDERS[nth as usize % 3], RECEIVERS[nth as usize % 3]);
    let first = low(nth * 40, 50_000) + 1;
    let keys: Vec<_> =
        (0..40).map(|step| flow(sender, receiver, low(u32::from(first) + step, 3_000))).collect();
    harness.announces_at(first, &keys);
}

fn send_copies(harness: &mut RelayHarness, nth: u32) {
    for who in RECEIVERS {
        for step in 0..8 {
            let alias = low(pseudo_random(nth, step), SENT) + 1;
            harness.envelops(who, EnvelopeRole::Copy, alias, nth * 3, &[7; 1_200]);
        }
    }
    let aliases: Vec<u16> = (0..16).map(|step| low(nth * 16 + step, 3 * SENT) + 1).collect();
    harness.send_receivers(&aliases);
}

fn send_repairs(harness: &mut RelayHarness, nth: u32) {
    for step in 0..8 {
        harness.repairs(nth * 8 + step, nth * 5 + step, 8);
    }
}

fn relay_sparse_numbers(harness: &mut RelayHarness, nth: u32) {
    for step in 0..24 {
        let alias = low(pseudo_random(nth, step), 3_000) + 1;
        let sequence = pseudo_random(nth, step + 50) % 2_000;
        harness.envelops(OTHER, EnvelopeRole::RelayedCopy, alias, sequence, &[9; 1_200]);
    }
}

fn nack_everything(harness: &mut RelayHarness, nth: u32) {
    let everything = range(0, 2_000);
    for who in RECEIVERS {
        let alias = |step| Alias::new(low(nth * 50 + step, 1_500) + 1).expect("not zero");
        harness.process(who, &filled((0..50).map(|step| nack(alias(step), everything.ranges()))));
    }
}

fn join_and_leave(harness: &mut RelayHarness, nth: u32) {
    for (sender, who) in SENDERS.into_iter().zip(RECEIVERS) {
        let key = flow(sender, who, 5_000 + low(nth, 4_000));
        let role = FlowRole::Receiver;
        let begin = harness.as_granted(&register(key, role, Service::Caching, CONSENT));
        let end = Unregister { flow_key: key, role, far_relay: None };
        harness.process(
            who,
            &filled((0..20).flat_map(|_| [Message::Register(begin), Message::Unregister(end)])),
        );
    }
}

impl RelayHarness {
    /// Advertises flows as the other relay, from this alias on.
    fn announces_at(&mut self, first: u16, keys: &[FlowKey]) {
        let mut scratch = [[0; AliasAnnouncement::BYTES]; 64];
        let mut announced = (first..).zip(keys).map(|(alias, key)| AliasAnnouncement {
            alias: Alias::new(alias).expect("not zero"),
            flow_key: *key,
            service: Service::Caching,
            selective: false,
            adaptive_redundancy: false,
            rate: KilobitsPerSecond::new(2_000),
        });
        let flows = AliasAnnouncements::collect(&mut announced, &mut scratch);
        self.send_message(OTHER, &Message::Aliases(Aliases { flows }));
    }

    /// Relays a copy of the honest flow to this relay, and checks that a NACK of its receiver gets
    /// it.
    fn repairs_the_honest_flow(&mut self, sequence: u32) {
        self.envelops(OTHER, EnvelopeRole::RelayedCopy, HONEST_ALIAS, sequence, &[5; 200]);
        self.client(HONEST).events.clear();
        self.nacks(HONEST, 1, sequence.into());
        let repair = ClientEvent::Envelope(EnvelopeRole::CachedRepair, 1, sequence, alloc::vec![5; 200]);
        assert!(self.client(HONEST).events.contains(&repair), "packet {sequence} is repaired");
    }

    /// Floods the relay for some rounds. Meanwhile the honest flow is repaired, and the memory
    /// stays below the limit.
    fn withstands_all(&mut self, floods: &[Flood], rounds: u32, sequence: &mut u32) {
        for nth in 0..rounds {
            for flood in floods {
                flood(self, nth);
            }
            self.sent.clear();
            self.clients.iter_mut().for_each(|client| client.events.clear());
            self.repairs_the_honest_flow(*sequence);
            *sequence += 1;
            let counted = self.relay.memory_bytes();
            assert!(counted <= MEMORY, "{counted} in round {nth}");
            self.advance(ms(2));
        }
    }
}

/// Returns the heap bytes of the relay.
fn heap(harness: RelayHarness) -> u64 {
    let RelayHarness { relay, .. } = harness;
    let freed = allocation_counter::measure(|| drop(relay));
    u64::try_from(-freed.bytes_current).expect("dropping frees")
}

#[test]
fn all_floods_at_once_stay_within_the_memory_of_a_relay() {
    let mut harness = harness();
    harness.withstands_all(&FLOODS, 400, &mut 0);
    let counted = harness.relay.memory_bytes();
    let ingress = harness.relay.ingress_counters();
    assert!(ingress.copies > 1_000 && ingress.in_stream > 100, "{ingress:?}");
    let counters = harness.relay.counters();
    assert!(counters.quota_flows > 1_000 && counters.aliases_left_out > 1_000, "{counters:?}");
    let heap = heap(harness);
    assert!(heap <= counted.count(), "{heap} bytes are allocated, and {counted} counted");
    assert!(heap >= counted.count() / 4 * 3, "{heap} bytes are allocated, and {counted} counted");
}

#[test]
fn sessions_take_no_more_than_is_set_aside_for_them() {
    let agents = 1..=130;
    let grants = agents.clone().map(|who| grant(who, who)).collect();
    let mut harness = RelayHarness::new(grants);
    harness.has_thousands = true;
    agents.for_each(|who| harness.enter(who));
    // Each session has three epochs.
    harness.advance(ms(300_000));
    let counted = harness.relay.memory_bytes();
    assert_eq!(harness.relay.sessions(), 131);
    let heap = heap(harness);
    assert!(heap <= counted.count(), "{heap} bytes are allocated, and {counted} counted");
}

#[test]
fn registrations_at_rest_take_no_more_than_is_set_aside_for_their_tables() {
    let heap_of = |flows: u16| {
        let mut harness = RelayHarness::new(alloc::vec![grant_here(1, 2)]);
        harness.has_thousands = true;
        harness.enter(1);
        harness.enter(2);
        harness.receives(1, 2, flows);
        for number in 1..=flows {
            let register = register(flow(1, 2, number), FlowRole::Sender, Service::Coding, CONSENT);
            harness.process(1, &filled([Message::Register(harness.as_granted(&register))]));
            harness.now += ms(1);
        }
        assert_eq!(harness.relay.quotas.flows.used(), 2 * u64::from(flows));
        heap(harness)
    };
    // At this number, some tables have just doubled.
    let flows = 2_100;
    let both = (heap_of(flows) - heap_of(1)) / u64::from(flows - 1);
    let slots = egress::SLOT_BYTES + ingress::SLOT_BYTES;
    assert!(
        both <= 2 * REGISTRATION_TABLE_BYTES + slots,
        "{both} bytes for a flow that is sent and received"
    );
}

#[test]
fn floods_one_after_the_other_stay_within_the_memory_of_a_relay() {
    let mut harness = harness();
    let mut sequence = 0;
    for flood in FLOODS {
        harness.withstands_all(&[flood], 150, &mut sequence);
    }
    harness.advance(FLOW_IDLE_TIMEOUT);
    let counted = harness.relay.memory_bytes();
    assert!(counted <= MEMORY);
    let heap = heap(harness);
    assert!(heap <= counted.count(), "{heap} bytes are allocated, and {counted} counted");
}
