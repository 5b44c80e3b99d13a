//! All floods at once, and one after the other, at a relay with little memory: what it counts stays below its limit, and is what it takes.

use super::floods::{filled, nack, range};
use super::*;
use crate::limits::{FLOW_REST, RELAY_MEMORY_MIN};
use crate::relay::{REGISTRATION_TABLE_BYTES, egress, ingress};
use byway_units::Bytes;
use byway_wire::messages::Unregister;

const MEMORY: Bytes = RELAY_MEMORY_MIN;

/// The attackers send from here and receive here; an honest tenant's flow comes from the other relay.
const SENDERS: [u8; 3] = [10, 11, 12];
const RECEIVERS: [u8; 3] = [20, 21, 22];
const HONEST_SENDER: u8 = 1;
const HONEST: u8 = 2;
/// Flows that each attacker sends.
const SENT: u32 = 40;
const HONEST_ALIAS: u16 = 60_000;

/// A way to flood the relay, for one round.
type Flood = fn(&mut Desk, u32);

const FLOODS: [Flood; 8] = [
    register_receivers,
    register_senders,
    announce_flows,
    send_copies,
    send_repairs,
    carry_sparse_numbers,
    ask_for_all,
    come_and_go,
];

fn desk() -> Desk {
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
    let mut desk = Desk::within(MEMORY, limits, Authority::Static(grants), 1_000, 1, None);
    desk.has_thousands = true;
    desk.enter(HONEST);
    let key = flow(HONEST_SENDER, HONEST, 1);
    assert!(desk.registers_for(HONEST, key, FlowRole::Receiver, Service::Caching).is_ok());
    desk.announces_at(HONEST_ALIAS, &[key]);
    for who in RECEIVERS {
        desk.enter(who);
    }
    // Before there is no room for them: flows that the attackers send.
    (0..SENT / 8).for_each(|nth| register_senders(&mut desk, nth));
    desk
}

/// The grant of flows the other way.
fn grant_to(grant: Grant, sender: u8, receiver: u8) -> Grant {
    Grant {
        sender: AgentId::new(sender.into()),
        receiver: Receiver::Agent(AgentId::new(receiver.into())),
        sender_key: *secret(sender).public_key().bytes(),
        receiver_key: *secret(receiver).public_key().bytes(),
        ..grant
    }
}

/// A number that differs from round to round.
fn drawn(nth: u32, salt: u32) -> u32 {
    (nth.wrapping_mul(2_654_435_761) ^ salt.wrapping_mul(0x9E37_79B1)).wrapping_mul(0x85EB_CA6B) >> 8
}

fn low(number: u32, below: u32) -> u16 {
    u16::try_from(number % below).expect("reduced")
}

fn register_receivers(desk: &mut Desk, nth: u32) {
    for (sender, who) in SENDERS.into_iter().zip(RECEIVERS) {
        let key = |step| flow(sender, who, low(nth * 8 + step, 3_000));
        let registers: Vec<_> = (0..8)
            .map(|step| {
                let service = if step % 2 == 0 { Service::Caching } else { Service::Coding };
                let register = register(key(step), FlowRole::Receiver, service, CONSENT);
                Message::Register(desk.as_granted(&register))
            })
            .collect();
        desk.takes(who, &filled(registers));
    }
}

fn register_senders(desk: &mut Desk, nth: u32) {
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
                Message::Register(desk.as_granted(&register))
            })
            .collect();
        desk.takes(who, &filled(registers));
    }
}

fn announce_flows(desk: &mut Desk, nth: u32) {
    let (sender, receiver) = (SENDERS[nth as usize % 3], RECEIVERS[nth as usize % 3]);
    let first = low(nth * 40, 50_000) + 1;
    let keys: Vec<_> =
        (0..40).map(|step| flow(sender, receiver, low(u32::from(first) + step, 3_000))).collect();
    desk.announces_at(first, &keys);
}

fn send_copies(desk: &mut Desk, nth: u32) {
    for who in RECEIVERS {
        for step in 0..8 {
            let alias = low(drawn(nth, step), SENT) + 1;
            desk.envelops(who, EnvelopeRole::Copy, alias, nth * 3, &[7; 1_200]);
        }
    }
    let aliases: Vec<u16> = (0..16).map(|step| low(nth * 16 + step, 3 * SENT) + 1).collect();
    desk.knows(&aliases);
}

fn send_repairs(desk: &mut Desk, nth: u32) {
    for step in 0..8 {
        desk.repairs(nth * 8 + step, nth * 5 + step, 8);
    }
}

fn carry_sparse_numbers(desk: &mut Desk, nth: u32) {
    for step in 0..24 {
        let alias = low(drawn(nth, step), 3_000) + 1;
        let sequence = drawn(nth, step + 50) % 2_000;
        desk.envelops(OTHER, EnvelopeRole::Carried, alias, sequence, &[9; 1_200]);
    }
}

fn ask_for_all(desk: &mut Desk, nth: u32) {
    let everything = range(0, 2_000);
    for who in RECEIVERS {
        let alias = |step| Alias::new(low(nth * 50 + step, 1_500) + 1).expect("not zero");
        desk.takes(who, &filled((0..50).map(|step| nack(alias(step), everything.ranges()))));
    }
}

fn come_and_go(desk: &mut Desk, nth: u32) {
    for (sender, who) in SENDERS.into_iter().zip(RECEIVERS) {
        let key = flow(sender, who, 5_000 + low(nth, 4_000));
        let role = FlowRole::Receiver;
        let begin = desk.as_granted(&register(key, role, Service::Caching, CONSENT));
        let end = Unregister { flow_key: key, role, far_relay: None };
        desk.takes(who, &filled((0..20).flat_map(|_| [Message::Register(begin), Message::Unregister(end)])));
    }
}

impl Desk {
    /// The other relay announces flows from this alias on.
    fn announces_at(&mut self, first: u16, keys: &[FlowKey]) {
        let mut scratch = [[0; AliasAnnouncement::BYTES]; 64];
        let mut announced = (first..).zip(keys).map(|(alias, key)| AliasAnnouncement {
            alias: Alias::new(alias).expect("not zero"),
            flow_key: *key,
            service: Service::Caching,
            selective: false,
            rate: KilobitsPerSecond::new(2_000),
        });
        let flows = AliasAnnouncements::collect(&mut announced, &mut scratch);
        self.says(OTHER, &Message::Aliases(Aliases { flows }));
    }

    /// A packet of the honest flow is carried here, and its receiver, which lost it, gets it.
    fn repairs_the_honest_flow(&mut self, sequence: u32) {
        self.envelops(OTHER, EnvelopeRole::Carried, HONEST_ALIAS, sequence, &[5; 200]);
        self.client(HONEST).heard.clear();
        self.nacks(HONEST, 1, sequence.into());
        let repair = Heard::Envelope(EnvelopeRole::CachedRepair, 1, sequence, alloc::vec![5; 200]);
        assert!(self.client(HONEST).heard.contains(&repair), "packet {sequence} is repaired");
    }

    /// Floods for some rounds; the honest flow is repaired meanwhile, and the memory stays below the limit.
    fn withstands_all(&mut self, floods: &[Flood], rounds: u32, sequence: &mut u32) {
        for nth in 0..rounds {
            for flood in floods {
                flood(self, nth);
            }
            self.sent.clear();
            self.clients.iter_mut().for_each(|client| client.heard.clear());
            self.repairs_the_honest_flow(*sequence);
            *sequence += 1;
            let held = self.relay.memory_held();
            assert!(held <= MEMORY, "{held} in round {nth}");
            self.pass(ms(2));
        }
    }
}

/// Heap bytes that the relay takes.
fn heap(desk: Desk) -> u64 {
    let Desk { relay, .. } = desk;
    let freed = allocation_counter::measure(|| drop(relay));
    u64::try_from(-freed.bytes_current).expect("dropping frees")
}

#[test]
fn all_floods_at_once_stay_within_the_memory_of_a_relay() {
    let mut desk = desk();
    desk.withstands_all(&FLOODS, 400, &mut 0);
    let held = desk.relay.memory_held();
    let ingress = desk.relay.ingress_counters();
    assert!(ingress.copies > 1_000 && ingress.in_stream > 100, "{ingress:?}");
    let counters = desk.relay.counters();
    assert!(counters.quota_flows > 1_000 && counters.aliases_left_out > 1_000, "{counters:?}");
    let heap = heap(desk);
    assert!(heap <= held.count(), "{heap} bytes are taken, and {held} counted");
    assert!(heap >= held.count() / 4 * 3, "{heap} bytes are taken, and {held} counted");
}

#[test]
fn sessions_take_no_more_than_is_set_aside_for_them() {
    let agents = 1..=130;
    let grants = agents.clone().map(|who| grant(who, who)).collect();
    let mut desk = Desk::new(grants);
    desk.has_thousands = true;
    agents.for_each(|who| desk.enter(who));
    // Each has three epochs.
    desk.pass(ms(300_000));
    let held = desk.relay.memory_held();
    assert_eq!(desk.relay.sessions(), 131);
    let heap = heap(desk);
    assert!(heap <= held.count(), "{heap} bytes are taken, and {held} counted");
}

#[test]
fn registrations_at_rest_take_no_more_than_is_set_aside_for_their_tables() {
    let heap_of = |flows: u16| {
        let mut desk = Desk::new(alloc::vec![grant_here(1, 2)]);
        desk.has_thousands = true;
        desk.enter(1);
        desk.enter(2);
        desk.receives(1, 2, flows);
        for number in 1..=flows {
            let register = register(flow(1, 2, number), FlowRole::Sender, Service::Coding, CONSENT);
            desk.takes(1, &filled([Message::Register(desk.as_granted(&register))]));
            desk.now += ms(1);
        }
        assert_eq!(desk.relay.quotas.flows.used(), 2 * u64::from(flows));
        heap(desk)
    };
    // Some tables have just doubled.
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
    let mut desk = desk();
    let mut sequence = 0;
    for flood in FLOODS {
        desk.withstands_all(&[flood], 150, &mut sequence);
    }
    desk.pass(FLOW_REST);
    let held = desk.relay.memory_held();
    assert!(held <= MEMORY);
    let heap = heap(desk);
    assert!(heap <= held.count(), "{heap} bytes are taken, and {held} counted");
}
