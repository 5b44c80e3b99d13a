//! Scheduler of a relay's uplink: a Rate-Delay queue at the configured rate. Packets queue at the
//! relay, which knows their class, and not in a modem.
//!
//! The low-delay class has packets of flows with a small latency budget, and the messages that
//! sessions need: handshakes, probes, registrations and requests. A repair packet has the class of
//! the packets that it covers.

mod store;
#[cfg(test)]
mod tests;

use alloc::collections::VecDeque;
use core::hash::Hasher;
use core::net::SocketAddr;

use byway_sched::{Arrival, Class, Departure, Discipline, DropReason, FlowHash, RateDelay, Settings, Status};
use byway_units::{AgentId, Bytes, Duration, Rate, Time};
use byway_wire::Ecn;
use siphasher::sip::SipHasher13;

use store::{PacketLocation, Store};

use crate::counters::counters;
use crate::limits::{LOW_DELAY_BUDGET, UPLINK_CREDIT, UPLINK_QUANTUM};
use crate::network_path::NetworkPath;
use crate::outbox::{Outbox, Owner, Priority, Transmit, TransmitMeta};
use crate::random::Generator;

/// Settings of a shard's uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UplinkSettings {
    /// Rate, delay bound and longest packet. A longer packet counts as the longest;
    /// [`UPLINK_PACKET`](crate::limits::UPLINK_PACKET) is enough.
    pub link: Settings,
    /// Largest latency budget of low-delay flows.
    pub low_delay_budget: Duration,
}

impl UplinkSettings {
    /// Creates settings with low delay for flows whose latency budget is at most
    /// [`LOW_DELAY_BUDGET`].
    #[must_use]
    pub const fn new(link: Settings) -> Self {
        Self { link, low_delay_budget: LOW_DELAY_BUDGET }
    }
}

counters! {
/// Departures and drops of an uplink's queue. Bytes are those of IP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct UplinkCounters {
    /// High-rate packets sent.
    pub high_rate: u64,
    /// Bytes of the packets that [`Self::high_rate`] counts.
    pub high_rate_bytes: u64,
    /// Low-delay packets sent.
    pub low_delay: u64,
    /// Bytes of the packets that [`Self::low_delay`] counts.
    pub low_delay_bytes: u64,
    /// Packets sent with an ECN mark that the queue set.
    pub marked: u64,
    /// Packets dropped because the queue of their class was full.
    pub full: u64,
    /// Repair packets and other scavenger traffic, dropped because the queue of their class was
    /// half full.
    pub scavengers: u64,
    /// Low-delay packets dropped because the buffer of their class shrank.
    pub flushed: u64,
    /// High-rate packets dropped because the low-delay class's buffer grew at their expense.
    pub trimmed: u64,
    /// Low-delay packets dropped because their flow exceeds its fair share.
    pub greedy: u64,
    /// Low-delay packets dropped because the queue was long and they could not be marked.
    pub early: u64,
}
}

impl UplinkCounters {
    const fn count_drop(&mut self, why: DropReason) {
        let counter = match why {
            DropReason::Full | DropReason::TooLong => &mut self.full,
            DropReason::Flushed => &mut self.flushed,
            DropReason::Trimmed => &mut self.trimmed,
            DropReason::Greedy => &mut self.greedy,
            DropReason::Early | DropReason::SojournTooLong => &mut self.early,
        };
        *counter += 1;
    }

    const fn count_departure(&mut self, class: Class, bytes: u64) {
        let (packets, total_bytes) = match class {
            Class::HighRate | Class::LowAverage => (&mut self.high_rate, &mut self.high_rate_bytes),
            Class::LowDelay => (&mut self.low_delay, &mut self.low_delay_bytes),
        };
        *packets += 1;
        *total_bytes += bytes;
    }
}

/// Current state of an uplink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UplinkStatus {
    /// Rate of the uplink.
    pub rate: Rate,
    /// Status of the queue: backlogs, buffers and delay bound, which includes the wait for a burst.
    pub queue: Status,
    /// Memory of the blocks that store queued packets, including free blocks.
    pub buffer_bytes: Bytes,
}

/// A queued packet: its bytes are in the store.
#[derive(Clone, Copy, Debug)]
struct QueuedPacket {
    path: NetworkPath,
    ecn: Ecn,
    priority: Priority,
    class: Class,
    location: PacketLocation,
}

/// Uplink of one shard: queue, store of packets, and pace of the link.
#[derive(Debug)]
pub(super) struct Uplink {
    settings: UplinkSettings,
    queue: RateDelay<QueuedPacket>,
    store: Store,
    /// Packets released to the driver, in order.
    ready: VecDeque<QueuedPacket>,
    /// Time at which the link has transmitted all released packets.
    free_at: Time,
    /// Transmission time of a burst that is released at once.
    quantum: Duration,
    /// End of the current burst: packets that the link transmits before it are released on arrival.
    burst_until: Time,
    hasher: FlowHasher,
    pub(super) counters: UplinkCounters,
}

impl Uplink {
    /// Creates an idle uplink. `seed` is secret.
    pub(super) fn new(settings: UplinkSettings, seed: &[u8; 32], now: Time) -> Self {
        let (quantum, inner) = split_delay_bound(settings.link);
        Self {
            settings,
            queue: RateDelay::new(inner, now),
            store: Store::default(),
            ready: VecDeque::new(),
            free_at: now,
            quantum,
            burst_until: now,
            hasher: FlowHasher::new(seed),
            counters: UplinkCounters::default(),
        }
    }

    /// Applies new settings. Packets stay queued if they fit the new buffers and delay bounds; the
    /// others are dropped.
    pub(super) fn reconfigure(&mut self, settings: UplinkSettings, now: Time) {
        let (quantum, inner) = split_delay_bound(settings.link);
        (self.settings, self.quantum) = (settings, quantum);
        let Self { queue, store, counters, .. } = self;
        queue.reconfigure(inner, now, &mut |packet, why| drop_packet(packet, why, store, counters));
    }

    /// Moves all queued packets to the outbox, in the order of their departure, because the relay
    /// no longer schedules its uplink.
    pub(super) fn release_to(mut self, outbox: &mut Outbox<TransmitMeta>, now: Time) {
        let Self { queue, store, counters, ready, .. } = &mut self;
        while let Some(Departure { mut packet, is_marked, .. }) =
            queue.dequeue(now, &mut |packet, why| drop_packet(packet, why, store, counters))
        {
            packet.ecn = if is_marked { Ecn::CongestionExperienced } else { packet.ecn };
            ready.push_back(packet);
        }
        while let Some(Transmit { to, from, ecn, priority, bytes }) = self.poll() {
            let path = NetworkPath { remote: to, local: from };
            outbox.add(TransmitMeta { path, ecn, priority, owner: None }, |out| out.extend_from_slice(bytes));
        }
    }

    /// Returns the largest latency budget of low-delay flows.
    pub(super) const fn low_delay_budget(&self) -> Duration {
        self.settings.low_delay_budget
    }

    /// Moves all packets of the outbox into the queue, and releases those that the link transmits
    /// now.
    pub(super) fn drain_outbox(&mut self, outbox: &mut Outbox<TransmitMeta>, now: Time) {
        let was_idle = self.queue.backlog().is_zero();
        if was_idle && self.ready.is_empty() {
            self.store.clear();
        }
        // An idle link accumulates no credit. A late wake-up with a backlog does, because the link
        // sent nothing meanwhile.
        let credit = if was_idle { Duration::ZERO } else { UPLINK_CREDIT };
        self.free_at = self.free_at.max(now.saturating_sub(credit));
        while let Some((meta, bytes)) = outbox.pop() {
            self.enqueue(&meta, bytes, now);
        }
        if self.free_at <= now {
            self.burst_until = now + self.quantum;
        }
        self.dequeue_ready(now);
    }

    fn enqueue(&mut self, meta: &TransmitMeta, bytes: &[u8], now: Time) {
        let TransmitMeta { path, ecn, priority, owner } = *meta;
        let class = class_of(owner);
        let (backlog, capacity) = self.queue.class_backlog(class);
        let length = self.wire_bytes(path.remote, bytes.len());
        // A repair packet must not displace the packets that it would repair.
        if priority == Priority::Scavenger && backlog + backlog > capacity {
            self.counters.scavengers += 1;
            return;
        }
        let packet = QueuedPacket { path, ecn, priority, class, location: self.store.push(class, bytes) };
        let arrival = Arrival {
            packet,
            bytes: u32::try_from(length.count()).expect("a packet is short"),
            class,
            flow: self.hasher.of_flow(owner),
            source: self.hasher.of_source(owner),
            is_ecn_capable: ecn != Ecn::NotCapable,
        };
        let Self { queue, store, counters, .. } = self;
        queue.enqueue(arrival, now, &mut |packet, why| drop_packet(packet, why, store, counters));
    }

    /// Returns the bytes that a packet counts on the link: with IP and UDP headers, and no more
    /// than the longest packet of the settings.
    fn wire_bytes(&self, to: SocketAddr, bytes: usize) -> Bytes {
        let headers = if to.is_ipv4() { 28 } else { 48 };
        (Bytes::from(bytes) + Bytes::new(headers)).min(self.settings.link.packet())
    }

    /// Moves packets from the queue to `ready` until the end of the current burst, and counts them.
    fn dequeue_ready(&mut self, now: Time) {
        while self.free_at <= self.burst_until {
            let Self { queue, store, counters, .. } = self;
            let departure = queue.dequeue(now, &mut |packet, why| drop_packet(packet, why, store, counters));
            let Some(Departure { mut packet, class, is_marked, .. }) = departure else {
                break;
            };
            let length = self.wire_bytes(packet.path.remote, packet.location.bytes());
            self.free_at += length / self.settings.link.capacity();
            self.counters.count_departure(class, length.count());
            if is_marked {
                self.counters.marked += 1;
                packet.ecn = Ecn::CongestionExperienced;
            }
            self.ready.push_back(packet);
        }
    }

    /// Returns the next packet for the driver to send; `None` if no packet is released yet.
    pub(super) fn poll(&mut self) -> Option<Transmit<'_>> {
        let QueuedPacket { path, ecn, priority, class, location } = self.ready.pop_front()?;
        let bytes = self.store.read(class, location);
        Some(Transmit { to: path.remote, from: path.local, ecn, priority, bytes })
    }

    /// Returns the time of the next departure, if a packet is queued.
    pub(super) fn deadline(&self) -> Option<Time> {
        (!self.queue.backlog().is_zero()).then_some(self.free_at)
    }

    pub(super) fn status(&self) -> UplinkStatus {
        let mut queue = self.queue.status();
        queue.share.delay += self.quantum;
        UplinkStatus {
            rate: self.settings.link.capacity(),
            queue,
            buffer_bytes: self.store.allocated_bytes(),
        }
    }
}

/// Splits the delay bound of the settings: returns the transmission time of a burst, and settings
/// for the queue with the rest.
fn split_delay_bound(link: Settings) -> (Duration, Settings) {
    // A low-delay packet that arrives right after a burst waits for it.
    let spare = link.delay().saturating_sub((link.packet() + link.packet()) / link.capacity());
    let quantum = UPLINK_QUANTUM.min(spare / 2);
    (quantum, link.with_delay(link.delay().saturating_sub(quantum)).unwrap_or(link))
}

fn drop_packet(packet: QueuedPacket, why: DropReason, store: &mut Store, counters: &mut UplinkCounters) {
    counters.count_drop(why);
    store.discard(packet.class, packet.location);
}

const fn class_of(owner: Option<Owner>) -> Class {
    match owner {
        None | Some(Owner::Session(_) | Owner::Relayed(_)) => Class::LowDelay,
        Some(Owner::Transit(_)) => Class::HighRate,
        Some(Owner::Flow(_, class) | Owner::Group(_, _, class)) => class,
    }
}

/// Keyed hash of flows and their sources: outsiders cannot predict which flows share a slot.
#[derive(Debug)]
struct FlowHasher(SipHasher13);

impl FlowHasher {
    const STRANGERS: u8 = 0;
    const FLOW: u8 = 1;
    const GROUP: u8 = 2;
    const AGENT: u8 = 3;
    const SESSION: u8 = 4;
    const RELAYED: u8 = 5;
    const TRANSIT: u8 = 6;

    fn new(seed: &[u8; 32]) -> Self {
        Self(SipHasher13::new_with_key(&Generator::second_stream(*seed).bytes()))
    }

    /// Returns the hash of a packet's flow. Each session is a flow of its own, with a share beside
    /// any number of flows; so are the packets forwarded for an agent. Replies to strangers are one
    /// flow, whatever addresses the strangers use.
    fn of_flow(&self, owner: Option<Owner>) -> FlowHash {
        match owner {
            Some(Owner::Flow(key, _)) => self.hash(Self::FLOW, &key.to_bytes()),
            Some(Owner::Relayed(agent)) => self.hash(Self::RELAYED, &agent.number().to_be_bytes()),
            None | Some(Owner::Group(..) | Owner::Session(_) | Owner::Transit(_)) => self.of_source(owner),
        }
    }

    /// Returns the hash of a packet's source: the agent that sends it, a coding group, or a
    /// session. All strangers are one source.
    fn of_source(&self, owner: Option<Owner>) -> FlowHash {
        match owner {
            Some(Owner::Flow(key, _)) => self.of_agent(key.sender()),
            Some(Owner::Relayed(agent)) => self.of_agent(agent),
            Some(Owner::Group(peer, group, _)) => self.of_group(peer, group),
            Some(Owner::Session(number)) => self.hash(Self::SESSION, &number.to_be_bytes()),
            Some(Owner::Transit(number)) => self.hash(Self::TRANSIT, &number.to_be_bytes()),
            None => self.hash(Self::STRANGERS, &[]),
        }
    }

    fn of_agent(&self, agent: AgentId) -> FlowHash {
        self.hash(Self::AGENT, &agent.number().to_be_bytes())
    }

    fn of_group(&self, peer: u16, group: u32) -> FlowHash {
        let [p0, p1] = peer.to_be_bytes();
        let [g0, g1, g2, g3] = group.to_be_bytes();
        self.hash(Self::GROUP, &[p0, p1, g0, g1, g2, g3])
    }

    fn hash(&self, kind: u8, identity: &[u8]) -> FlowHash {
        let mut hasher = self.0;
        hasher.write_u8(kind);
        hasher.write(identity);
        FlowHash::new(hasher.finish())
    }
}
