//! Emulation of links, each in virtual time that follows the real one.
//!
//! A packet arrives at the time that its link computes, even if the emulator handles it later. A
//! late machine therefore adds no delay and reduces no rate within the network. Its lateness only
//! affects the time at which a program gets the packet.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};

use byway_scenario::{Network, NetworkLink};
use byway_sched::Class;
use byway_sim::{ClassCounters, FlowHasher, Link, LinkState, PacketCopy, PacketOutcome, Seed};
use byway_units::{Bytes, Time};
use byway_wire::Ecn;
use byway_wire::ip::{Packet, Transport};

use crate::delay_queue::{DelayQueue, QueuedPacket, arriving_packet};
use crate::limits::{IN_FLIGHT_MAX, PACKET_BYTES_MAX};
use crate::nat::Nat;

/// Direction of a link, as the indices of the machines at its ends.
type Ends = (usize, usize);

/// Emulated network between the machines of a lab: links, queues, NAT routers and packets in
/// flight.
#[derive(Debug)]
pub struct Emulation {
    links: BTreeMap<Ends, LinkState>,
    network: Network,
    seed: Seed,
    machine_by_address: BTreeMap<IpAddr, usize>,
    /// NAT routers by index of the machine.
    nats: BTreeMap<usize, Nat>,
    events: BinaryHeap<Reverse<Event>>,
    /// Packets in the queues of links with classes.
    queued: DelayQueue,
    flows: FlowHasher,
    /// Buffers of delivered or dropped packets, for reuse.
    spare: Vec<Vec<u8>>,
    numbered: u64,
    counters: EmulationCounters,
    /// Packets that each machine's programs sent, by index.
    machines: Vec<MachineCounters>,
}

/// Packets that the programs of a machine sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineCounters {
    /// Number of IP packets that the machine's programs sent.
    pub packets: u64,
    /// Bytes of the IP packets that the machine's programs sent.
    pub bytes: u64,
}

/// Counters of the emulated network's packets, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EmulationCounters {
    /// Packets that programs of all machines sent.
    pub sent: u64,
    /// Packets that links lost or their queues dropped.
    pub lost: u64,
    /// Packets that arrived at a machine, including duplicates made by links.
    pub delivered: u64,
    /// Packets to unknown or unreachable addresses, and invalid IP packets.
    pub unroutable: u64,
    /// Packets that NAT routers dropped without translating them.
    pub not_translated: u64,
    /// Packets dropped because [`IN_FLIGHT_MAX`] packets were in flight.
    pub overflowed: u64,
}

/// Forwarded UDP port of a NAT router: any sender reaches the inside endpoint through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardedPort {
    /// Index of the NAT router.
    pub router: usize,
    /// Endpoint behind the router, with the same port as the forwarded one.
    pub inside: SocketAddrV4,
}

/// Packet that has reached the device of its destination machine.
#[derive(Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Index of the destination machine.
    pub machine: usize,
    /// Time of arrival that the links computed.
    pub due: Time,
    /// Bytes of the IP packet.
    pub packet: Vec<u8>,
}

/// Scheduled event of the emulated network.
#[derive(Debug)]
struct Event {
    due: Time,
    /// Order of creation, which decides between events at the same time.
    number: u64,
    kind: EventKind,
}

/// Kind of a scheduled event.
#[derive(Debug)]
enum EventKind {
    /// Arrival of a packet at the next machine of its path.
    Arrival { at: usize, to: usize, packet: Vec<u8> },
    /// Departure of a packet from the queue of a link.
    Departure(Ends),
}

impl Emulation {
    /// Makes an idle network whose machines have these addresses, by index. Its links have no
    /// outages until the scenario's time starts, because those are at times of the scenario.
    #[must_use]
    pub fn new(network: Network, addresses: &[Vec<IpAddr>], seed: u64) -> Self {
        let machine_by_address = addresses.iter().enumerate();
        let machine_by_address = machine_by_address
            .flat_map(|(index, of)| of.iter().map(move |address| (*address, index)))
            .collect();
        let mut emulation = Self {
            links: BTreeMap::new(),
            seed: Seed::new(seed),
            machine_by_address,
            nats: nats(&network, addresses),
            events: BinaryHeap::new(),
            queued: DelayQueue::default(),
            flows: FlowHasher::new(Seed::new(seed)),
            spare: Vec::new(),
            numbered: 0,
            counters: EmulationCounters::default(),
            machines: Vec::new(),
            network,
        };
        let idle =
            |link: NetworkLink| NetworkLink { link: Link { outages: Vec::new(), ..link.link }, ..link };
        emulation.reset(emulation.network.links.clone().into_iter().map(idle));
        emulation
    }

    /// Forwards a UDP port of a NAT router to an inside endpoint. Does nothing if the machine is no
    /// NAT router.
    pub fn forward(&mut self, ForwardedPort { router, inside }: ForwardedPort) {
        if let Some(nat) = self.nats.get_mut(&router) {
            nat.forward(Transport::Udp, inside.port(), inside);
        }
    }

    /// Starts the scenario's time at 0, where the clock was `before`. Removes all packets in flight
    /// and resets the links. NAT routers preserve their mappings, because programs continue to use
    /// them.
    pub fn restart(&mut self, before: Time) {
        for nat in self.nats.values_mut() {
            nat.restart_clock(before);
        }
        self.reset(self.network.links.clone().into_iter());
    }

    /// Removes all packets, and replaces the links by these.
    fn reset(&mut self, links: impl Iterator<Item = NetworkLink>) {
        self.links.clear();
        self.events.clear();
        self.queued.clear();
        self.counters = EmulationCounters::default();
        self.machines = vec![MachineCounters::default(); self.network.machines.len()];
        for link in links {
            self.set_link(link, Time::START);
        }
    }

    /// Adds or replaces a link. Call [`Emulation::next`] first for all earlier events.
    ///
    /// # Panics
    /// If an index is above 2^32, which no scenario has.
    pub fn set_link(&mut self, NetworkLink { from, to, link }: NetworkLink, now: Time) {
        if let Some(state) = self.links.get_mut(&(from, to)) {
            state.reconfigure(link, now);
            self.count_dropped((from, to));
        } else {
            let number = |index| u32::try_from(index).expect("a scenario has few machines");
            let state = LinkState::between(number(from), number(to), link, self.seed, now);
            self.links.insert((from, to), state);
        }
    }

    /// Returns the counters of packets since the last restart.
    #[must_use]
    pub const fn counters(&self) -> EmulationCounters {
        self.counters
    }

    /// Returns the counters of packets that each machine's programs sent, by index.
    #[must_use]
    pub fn machines(&self) -> &[MachineCounters] {
        &self.machines
    }

    /// Returns the counters of each link with classes; those of a link are in the order of
    /// [`Class::ALL`].
    pub fn class_uses(&self) -> impl Iterator<Item = (Ends, &[ClassCounters; Class::COUNT])> {
        self.links.iter().filter_map(|(ends, link)| Some((*ends, link.class_counters()?)))
    }

    /// Returns the time of the next event, at which to call [`Emulation::next`]; `None` if nothing
    /// is in flight.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.events.peek().map(|Reverse(next)| next.due)
    }

    /// Sends an IP packet that a program of the machine with index `at` sent. Call
    /// [`Emulation::next`] first for all earlier events.
    pub fn send(&mut self, at: usize, bytes: &[u8], now: Time) {
        self.counters.sent += 1;
        if let Some(machine) = self.machines.get_mut(at) {
            machine.packets += 1;
            machine.bytes += bytes.len() as u64;
        }
        let mut packet = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(PACKET_BYTES_MAX));
        packet.clear();
        packet.extend_from_slice(bytes);
        let to = Packet::new(&mut packet)
            .and_then(|packet| self.machine_by_address.get(&packet.destination()).copied());
        match to.filter(|to| self.is_address(*to, at)) {
            Some(to) => self.forward_packet(at, to, packet, now),
            None => self.drop_unroutable(packet),
        }
    }

    /// True if a packet from machine `at` can be addressed to machine `of`. Addresses behind a NAT
    /// router are valid only behind the same one.
    fn is_address(&self, of: usize, at: usize) -> bool {
        let router_of = |index: usize| self.network.machines.get(index).and_then(|machine| machine.behind);
        router_of(of).is_none_or(|router| router_of(at) == Some(router))
    }

    /// Handles the events up to `now`, until a packet arrives at its destination, and returns this
    /// packet; `None` if none arrives by `now`.
    pub fn next(&mut self, now: Time) -> Option<Arrival> {
        while self.deadline().is_some_and(|due| due <= now) {
            let Reverse(Event { due, kind, .. }) = self.events.pop()?;
            let (at, to, packet) = match kind {
                EventKind::Arrival { at, to, packet } => (at, to, packet),
                EventKind::Departure(link) => {
                    self.on_departure(link, due);
                    continue;
                }
            };
            if self.nats.contains_key(&at) {
                self.translate(at, to, packet, due);
                continue;
            }
            if at == to {
                self.counters.delivered += 1;
                return Some(Arrival { machine: at, due, packet });
            }
            self.forward_packet(at, to, packet, due);
        }
        None
    }

    /// Translates a packet at a NAT router and forwards it: inbound if the router is its
    /// destination, otherwise outbound.
    fn translate(&mut self, at: usize, to: usize, mut packet: Vec<u8>, now: Time) {
        // Between inside machines it only forwards.
        if at != to && self.network.machines[to].behind == Some(at) {
            return self.forward_packet(at, to, packet, now);
        }
        let Some(nat) = self.nats.get_mut(&at) else {
            return self.drop_unroutable(packet);
        };
        let next = if at == to {
            nat.translate_inbound(&mut packet, now)
                .map(|inside| self.machine_by_address.get(&inside.into()).copied())
        } else {
            nat.translate_outbound(&mut packet, now).map(|()| Some(to))
        };
        match next {
            Ok(Some(to)) => self.forward_packet(at, to, packet, now),
            Ok(None) => self.drop_unroutable(packet),
            Err(_) => {
                self.counters.not_translated += 1;
                self.recycle(packet);
            }
        }
    }

    /// Stores the buffer of a delivered packet for reuse.
    pub fn recycle(&mut self, packet: Vec<u8>) {
        self.spare.push(packet);
    }

    fn drop_unroutable(&mut self, packet: Vec<u8>) {
        self.counters.unroutable += 1;
        self.recycle(packet);
    }

    /// Forwards a packet from machine `at` to the next hop towards its destination: into the link's
    /// queue, or directly onto the link.
    fn forward_packet(&mut self, at: usize, to: usize, packet: Vec<u8>, now: Time) {
        let ends = self.network.next_hop(at, to).map(|next| (at, next));
        match ends.and_then(|ends| Some((ends, self.links.get(&ends)?.is_scheduled()))) {
            None => self.drop_unroutable(packet),
            Some((ends, false)) => self.offer(ends, to, packet, false, now),
            Some((ends, true)) => self.enqueue(ends, QueuedPacket { to, packet }, now),
        }
    }

    /// Adds a packet to the queue of a link with classes. Drops it if too many packets are in
    /// flight.
    fn enqueue(&mut self, ends: Ends, mut queued: QueuedPacket, now: Time) {
        if self.in_flight() >= IN_FLIGHT_MAX {
            self.counters.overflowed += 1;
            return self.recycle(queued.packet);
        }
        let number = self.queued.next_number();
        let Some(arriving) =
            Packet::new(&mut queued.packet).map(|packet| arriving_packet(number, &packet, &self.flows))
        else {
            return self.drop_unroutable(queued.packet);
        };
        self.queued.insert(queued);
        let Some(link) = self.links.get_mut(&ends) else { return };
        let due_before = link.next_departure();
        link.enqueue(arriving, now);
        let due = link.next_departure().filter(|due| Some(*due) != due_before);
        self.schedule_departure(ends, due);
        self.count_dropped(ends);
    }

    /// Removes the packet that leaves the queue of a link now, if any, and sends it over the link.
    fn on_departure(&mut self, ends: Ends, now: Time) {
        let Some(link) = self.links.get_mut(&ends) else { return };
        let Some(sent) = link.dequeue(now) else { return };
        let due = link.next_departure();
        self.schedule_departure(ends, due);
        self.count_dropped(ends);
        if let Some(QueuedPacket { to, packet }) = self.queued.remove(sent.number) {
            self.offer(ends, to, packet, sent.is_marked, now);
        }
    }

    fn schedule_departure(&mut self, ends: Ends, due: Option<Time>) {
        if let Some(due) = due {
            self.schedule(due, EventKind::Departure(ends));
        }
    }

    /// Counts the packets that a link's queue has dropped as lost, and removes them.
    fn count_dropped(&mut self, ends: Ends) {
        while let Some(number) = self.links.get_mut(&ends).and_then(LinkState::pop_dropped) {
            if let Some(QueuedPacket { packet, .. }) = self.queued.remove(number) {
                self.counters.lost += 1;
                self.recycle(packet);
            }
        }
    }

    /// Sends a packet over a link, which may lose, duplicate or delay it. `is_marked` is true if
    /// the link's queue marked it with ECN.
    fn offer(&mut self, ends: Ends, to: usize, mut packet: Vec<u8>, is_marked: bool, now: Time) {
        let (Some(link), Some(mut parsed)) = (self.links.get_mut(&ends), Packet::new(&mut packet)) else {
            return self.drop_unroutable(packet);
        };
        if is_marked {
            parsed.set_ecn(Ecn::CongestionExperienced);
        }
        let length = Bytes::from(parsed.bytes());
        match link.offer(now, length, parsed.payload_bytes()) {
            PacketOutcome::Lost(_) => {
                self.counters.lost += 1;
                self.recycle(packet);
            }
            PacketOutcome::Passed { original, duplicate } => {
                parsed.set_ecn(link.outgoing_ecn(parsed.ecn()));
                if let Some(passage) = duplicate {
                    let copy = packet.clone();
                    self.schedule_arrival(passage, ends.1, to, copy);
                }
                self.schedule_arrival(original, ends.1, to, packet);
            }
        }
    }

    fn schedule_arrival(&mut self, passage: PacketCopy, at: usize, to: usize, mut packet: Vec<u8>) {
        if self.in_flight() >= IN_FLIGHT_MAX {
            self.counters.overflowed += 1;
            return self.recycle(packet);
        }
        if let (Some(bit), Some(mut parsed)) = (passage.flipped_bit, Packet::new(&mut packet)) {
            parsed.flip(bit);
        }
        self.schedule(passage.arrival, EventKind::Arrival { at, to, packet });
    }

    fn schedule(&mut self, due: Time, kind: EventKind) {
        self.numbered += 1;
        self.events.push(Reverse(Event { due, number: self.numbered, kind }));
    }

    /// Returns approximately the number of packets in flight. It includes one event for each queue
    /// with a scheduled departure.
    fn in_flight(&self) -> usize {
        self.events.len() + self.queued.len()
    }
}

/// Makes the NAT routers of a network with the addresses of their inside machines, by index of the
/// router.
fn nats(network: &Network, addresses: &[Vec<IpAddr>]) -> BTreeMap<usize, Nat> {
    let ipv4 = |index: usize| {
        let ipv4 = |address: &IpAddr| match address {
            IpAddr::V4(address) => Some(*address),
            IpAddr::V6(_) => None,
        };
        addresses.get(index).and_then(|of| of.iter().find_map(ipv4))
    };
    let mut inside: BTreeMap<usize, Vec<Ipv4Addr>> = BTreeMap::new();
    for (index, machine) in network.machines.iter().enumerate() {
        if let (Some(router), Some(address)) = (machine.behind, ipv4(index)) {
            inside.entry(router).or_default().push(address);
        }
    }
    let nat = |(router, inside)| Some((router, Nat::new(ipv4(router)?, inside)));
    inside.into_iter().filter_map(nat).collect()
}

impl Event {
    const fn key(&self) -> (Time, u64) {
        (self.due, self.number)
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

#[cfg(test)]
mod tests;
