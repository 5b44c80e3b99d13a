//! What all that a relay sends waits for, where its operator says what the uplink carries: a Rate-Delay queue, so that packets wait here, where
//! their class is known, and not in a modem.
//!
//! Packets are low-delay whose flow was registered with a small latency budget, and so is what sessions need to live: handshakes, probes,
//! registrations and requests. Repair packets have the class of what they cover.

mod store;
#[cfg(test)]
mod tests;

use alloc::collections::VecDeque;
use core::hash::Hasher;
use core::net::SocketAddr;

use byway_sched::{Arrival, Class, Departure, Discipline, Dropped, FlowHash, RateDelay, Settings, Status};
use byway_units::{AgentId, Bytes, Duration, Rate, Time};
use byway_wire::Ecn;
use siphasher::sip::SipHasher13;

use store::{Place, Store};

use crate::counters::counters;
use crate::limits::{LOW_DELAY_BUDGET, UPLINK_CREDIT, UPLINK_QUANTUM};
use crate::network_path::NetworkPath;
use crate::outbox::{Heading, Outbox, Owner, Transmit, Urgency};
use crate::random::Generator;

/// What a shard's uplink promises, and to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UplinkSettings {
    /// What it promises. Packets that are longer than its longest count as that; [`UPLINK_PACKET`](crate::limits::UPLINK_PACKET) is enough.
    pub link: Settings,
    /// Flows with a latency budget of at most this much are low-delay.
    pub low_delay_budget: Duration,
}

impl UplinkSettings {
    /// With low delay for flows whose latency budget is at most [`LOW_DELAY_BUDGET`].
    #[must_use]
    pub const fn new(link: Settings) -> Self {
        Self { link, low_delay_budget: LOW_DELAY_BUDGET }
    }
}

counters! {
/// What became of the packets that were to be sent; bytes are those of IP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UplinkCounters {
    /// High-rate packets that left.
    pub high_rate: u64,
    /// Their bytes.
    pub high_rate_bytes: u64,
    /// Low-delay packets that left.
    pub low_delay: u64,
    /// Their bytes.
    pub low_delay_bytes: u64,
    /// Packets that left with a mark of congestion that the queue gave them.
    pub marked: u64,
    /// Packets dropped as their class's queue was full.
    pub full: u64,
    /// Repair packets and the like, dropped as their class's queue was half full.
    pub scavengers: u64,
    /// Low-delay packets dropped as their class got less room.
    pub flushed: u64,
    /// High-rate packets dropped as the other class got more room.
    pub trimmed: u64,
    /// Low-delay packets dropped of flows that take more than a fair share.
    pub greedy: u64,
    /// Low-delay packets dropped as the queue grew long, and they could not be marked.
    pub early: u64,
}
}

impl UplinkCounters {
    const fn count_drop(&mut self, why: Dropped) {
        let counter = match why {
            Dropped::Full | Dropped::TooLong => &mut self.full,
            Dropped::Flushed => &mut self.flushed,
            Dropped::Trimmed => &mut self.trimmed,
            Dropped::Greedy => &mut self.greedy,
            Dropped::Early | Dropped::Waited => &mut self.early,
        };
        *counter += 1;
    }

    const fn count_departure(&mut self, class: Class, bytes: u64) {
        let (packets, all) = match class {
            Class::HighRate | Class::LowAverage => (&mut self.high_rate, &mut self.high_rate_bytes),
            Class::LowDelay => (&mut self.low_delay, &mut self.low_delay_bytes),
        };
        *packets += 1;
        *all += bytes;
    }
}

/// How an uplink is shared at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UplinkStatus {
    /// What it carries.
    pub rate: Rate,
    /// How its queue is, with the delay that is promised.
    pub queue: Status,
    /// The memory of the packets that wait, in use or not.
    pub held: Bytes,
}

/// A packet that waits.
#[derive(Clone, Copy, Debug)]
struct Packet {
    path: NetworkPath,
    ecn: Ecn,
    urgency: Urgency,
    class: Class,
    place: Place,
}

/// The uplink of one shard.
#[derive(Debug)]
pub(super) struct Uplink {
    settings: UplinkSettings,
    queue: RateDelay<Packet>,
    store: Store,
    /// What may go, in this order.
    ready: VecDeque<Packet>,
    /// When the line has carried what was let go.
    free_at: Time,
    /// What is let go at once, as the time that it takes.
    quantum: Duration,
    /// What the line carries until then goes as soon as it comes.
    row_until: Time,
    hashes: Hashes,
    pub(super) counters: UplinkCounters,
}

impl Uplink {
    /// An idle one. `seed` is secret.
    pub(super) fn new(settings: UplinkSettings, seed: &[u8; 32], now: Time) -> Self {
        let (quantum, inner) = split(settings.link);
        Self {
            settings,
            queue: RateDelay::new(inner, now),
            store: Store::default(),
            ready: VecDeque::new(),
            free_at: now,
            quantum,
            row_until: now,
            hashes: Hashes::new(seed),
            counters: UplinkCounters::default(),
        }
    }

    /// Promises something else from now on. Packets that wait stay, if they have room and will not wait too long.
    pub(super) fn change(&mut self, settings: UplinkSettings, now: Time) {
        let (quantum, inner) = split(settings.link);
        (self.settings, self.quantum) = (settings, quantum);
        let Self { queue, store, counters, .. } = self;
        queue.change(inner, now, &mut |packet, why| drop_packet(packet, why, store, counters));
    }

    /// Gives back all packets that wait, in the order in which they would leave.
    pub(super) fn release(mut self, outbox: &mut Outbox<Heading>, now: Time) {
        let Self { queue, store, counters, ready, .. } = &mut self;
        while let Some(Departure { mut packet, is_marked, .. }) =
            queue.dequeue(now, &mut |packet, why| drop_packet(packet, why, store, counters))
        {
            packet.ecn = if is_marked { Ecn::CongestionExperienced } else { packet.ecn };
            ready.push_back(packet);
        }
        while let Some(Transmit { to, from, ecn, urgency, bytes }) = self.poll() {
            let path = NetworkPath { remote: to, local: from };
            outbox.add(Heading { path, ecn, urgency, owner: None }, |out| out.extend_from_slice(bytes));
        }
    }

    /// Flows with a latency budget of at most this much are low-delay.
    pub(super) const fn low_delay_budget(&self) -> Duration {
        self.settings.low_delay_budget
    }

    /// Takes all that is to be sent, and lets go what the line carries now.
    pub(super) fn take(&mut self, outbox: &mut Outbox<Heading>, now: Time) {
        let was_idle = self.queue.backlog().is_zero();
        if was_idle && self.ready.is_empty() {
            self.store.clear();
        }
        // An idle line saves nothing up; one that is looked at late has sent nothing meanwhile.
        let credit = if was_idle { Duration::ZERO } else { UPLINK_CREDIT };
        self.free_at = self.free_at.max(now.saturating_sub(credit));
        while let Some((heading, bytes)) = outbox.take() {
            self.enqueue(&heading, bytes, now);
        }
        if self.free_at <= now {
            self.row_until = now + self.quantum;
        }
        self.let_go(now);
    }

    fn enqueue(&mut self, heading: &Heading, bytes: &[u8], now: Time) {
        let Heading { path, ecn, urgency, owner } = *heading;
        let class = class_of(owner);
        let (waits, room) = self.queue.fill(class);
        let length = self.on_line(path.remote, bytes.len());
        // A repair packet must not keep out what it would repair.
        if urgency == Urgency::Scavenger && waits + waits > room {
            self.counters.scavengers += 1;
            return;
        }
        let packet = Packet { path, ecn, urgency, class, place: self.store.push(class, bytes) };
        let arrival = Arrival {
            packet,
            bytes: u32::try_from(length.count()).expect("a packet is short"),
            class,
            flow: self.hashes.of_flow(owner),
            source: self.hashes.of_source(owner),
            is_ecn_capable: ecn != Ecn::NotCapable,
        };
        let Self { queue, store, counters, .. } = self;
        queue.enqueue(arrival, now, &mut |packet, why| drop_packet(packet, why, store, counters));
    }

    /// What a packet takes of the line, with its headers of IP and UDP.
    fn on_line(&self, to: SocketAddr, bytes: usize) -> Bytes {
        let headers = if to.is_ipv4() { 28 } else { 48 };
        (Bytes::from(bytes) + Bytes::new(headers)).min(self.settings.link.packet())
    }

    /// Lets go what still belongs to the row that goes at once.
    fn let_go(&mut self, now: Time) {
        while self.free_at <= self.row_until {
            let Self { queue, store, counters, .. } = self;
            let departure = queue.dequeue(now, &mut |packet, why| drop_packet(packet, why, store, counters));
            let Some(Departure { mut packet, class, is_marked, .. }) = departure else {
                break;
            };
            let length = self.on_line(packet.path.remote, packet.place.bytes());
            self.free_at += length / self.settings.link.capacity();
            self.counters.count_departure(class, length.count());
            if is_marked {
                self.counters.marked += 1;
                packet.ecn = Ecn::CongestionExperienced;
            }
            self.ready.push_back(packet);
        }
    }

    /// The next packet that may go.
    pub(super) fn poll(&mut self) -> Option<Transmit<'_>> {
        let Packet { path, ecn, urgency, class, place } = self.ready.pop_front()?;
        let bytes = self.store.take(class, place);
        Some(Transmit { to: path.remote, from: path.local, ecn, urgency, bytes })
    }

    /// When the next packet may go, if one waits.
    pub(super) fn deadline(&self) -> Option<Time> {
        (!self.queue.backlog().is_zero()).then_some(self.free_at)
    }

    pub(super) fn status(&self) -> UplinkStatus {
        let mut queue = self.queue.status();
        queue.allotment.delay += self.quantum;
        UplinkStatus { rate: self.settings.link.capacity(), queue, held: self.store.held() }
    }
}

/// The time that packets let go at once may take, and the promise of the queue behind them.
fn split(link: Settings) -> (Duration, Settings) {
    // What is let go at once is ahead of a low-delay packet that comes right behind it.
    let spare = link.delay().saturating_sub((link.packet() + link.packet()) / link.capacity());
    let quantum = UPLINK_QUANTUM.min(spare / 2);
    (quantum, link.with_delay(link.delay().saturating_sub(quantum)).unwrap_or(link))
}

fn drop_packet(packet: Packet, why: Dropped, store: &mut Store, counters: &mut UplinkCounters) {
    counters.count_drop(why);
    store.forget(packet.class, packet.place);
}

const fn class_of(owner: Option<Owner>) -> Class {
    match owner {
        None | Some(Owner::Session(_) | Owner::Passed(_)) => Class::LowDelay,
        Some(Owner::Flow(_, class) | Owner::Group(_, _, class)) => class,
    }
}

/// Names flows and their sources so that nobody outside knows whose share a slot.
#[derive(Debug)]
struct Hashes(SipHasher13);

impl Hashes {
    const STRANGERS: u8 = 0;
    const FLOW: u8 = 1;
    const GROUP: u8 = 2;
    const AGENT: u8 = 3;
    const SESSION: u8 = 4;
    const PASSED: u8 = 5;

    fn new(seed: &[u8; 32]) -> Self {
        Self(SipHasher13::new_with_key(&Generator::beside(*seed).bytes()))
    }

    /// Each session counts by itself, so that all have their share beside however many flows, and what is passed on for an agent does; what strangers are
    /// answered is one flow, whoever they say they are.
    fn of_flow(&self, owner: Option<Owner>) -> FlowHash {
        match owner {
            Some(Owner::Flow(key, _)) => self.hash(Self::FLOW, &key.to_bytes()),
            Some(Owner::Passed(agent)) => self.hash(Self::PASSED, &agent.number().to_be_bytes()),
            None | Some(Owner::Group(..) | Owner::Session(_)) => self.of_source(owner),
        }
    }

    /// The agent that sends it; a coding group and a session are sources of their own, and all strangers are one.
    fn of_source(&self, owner: Option<Owner>) -> FlowHash {
        match owner {
            Some(Owner::Flow(key, _)) => self.of_agent(key.sender()),
            Some(Owner::Passed(agent)) => self.of_agent(agent),
            Some(Owner::Group(port, group, _)) => self.of_group(port, group),
            Some(Owner::Session(number)) => self.hash(Self::SESSION, &number.to_be_bytes()),
            None => self.hash(Self::STRANGERS, &[]),
        }
    }

    fn of_agent(&self, agent: AgentId) -> FlowHash {
        self.hash(Self::AGENT, &agent.number().to_be_bytes())
    }

    fn of_group(&self, port: u16, group: u32) -> FlowHash {
        let [p0, p1] = port.to_be_bytes();
        let [g0, g1, g2, g3] = group.to_be_bytes();
        self.hash(Self::GROUP, &[p0, p1, g0, g1, g2, g3])
    }

    fn hash(&self, kind: u8, name: &[u8]) -> FlowHash {
        let mut hasher = self.0;
        hasher.write_u8(kind);
        hasher.write(name);
        FlowHash::new(hasher.finish())
    }
}
