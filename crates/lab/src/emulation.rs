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
mod tests {
    use std::net::Ipv4Addr;

    use byway_scenario::Scenario;
    use byway_units::Duration;

    use super::*;

    /// Alice and Bob on both sides of a router, with a link of 1 Mbit/s after it.
    const SCENARIO: &str = r#"
title = "Two machines and a router"
length = "10 s"
node = [
    { name = "alice", role = "agent" },
    { name = "bob", role = "agent" },
    { name = "gate", role = "router" },
]
link = [
    { between = ["alice", "gate"], delay = "10 ms" },
    { between = ["gate", "bob"], delay = "20 ms", rate = "1 Mbit/s", queue = "3 kB" },
]
flow = [
    { name = "call", from = "alice", to = "bob", service = "internet", sends = { kind = "steady", every = "10 ms", bytes = 500 } },
]
step = [
    { at = "5 s", do = "cut", between = ["gate", "bob"] },
]
"#;

    /// Alice and Anne behind a NAT router, and Bob outside.
    const HOME: &str = r#"
title = "A home"
length = "10 s"
node = [
    { name = "alice", role = "agent" },
    { name = "bob", role = "agent" },
    { name = "anne", role = "agent" },
    { name = "home", role = "router", nat = true },
    { name = "gate", role = "router" },
]
link = [
    { between = ["alice", "home"] },
    { between = ["anne", "home"] },
    { between = ["home", "gate"] },
    { between = ["gate", "bob"] },
]
"#;

    const ALICE: usize = 0;
    const BOB: usize = 1;
    const ANNE: usize = 2;
    const HOME_ROUTER: usize = 3;

    fn emulation() -> Emulation {
        emulation_of(SCENARIO)
    }

    fn emulation_of(scenario: &str) -> Emulation {
        let network = Scenario::parse(scenario).expect("a scenario").network(1).expect("all are joined");
        let addresses: Vec<Vec<IpAddr>> =
            (1..=3).map(|host| vec![Ipv4Addr::new(10, 77, 0, host).into()]).collect();
        Emulation::new(network, &addresses, 1)
    }

    /// Makes an IPv4 packet of this length.
    fn packet(to: u8, length: u16) -> Vec<u8> {
        let mut packet = vec![0; usize::from(length)];
        packet[0] = 0x45;
        packet[2..4].copy_from_slice(&length.to_be_bytes());
        packet[16..20].copy_from_slice(&[10, 77, 0, to]);
        packet
    }

    fn at(micros: u64) -> Time {
        Time::START + Duration::from_micros(micros)
    }

    #[test]
    fn a_packet_takes_the_time_of_all_links_however_late_it_is_looked_at() {
        for late in [0, 700, 100_000] {
            let mut emulation = emulation();
            emulation.send(ALICE, &packet(2, 1_000), at(0));
            assert_eq!(emulation.deadline(), Some(at(10_000)));
            assert_eq!(emulation.next(at(9_999)), None);
            // The delay is 10 ms to the router, 8 ms for 1,000 bytes at 1 Mbit/s, and 20 ms after
            // it.
            let arrival = loop {
                let due = emulation.deadline().expect("the packet is in flight");
                if let Some(arrival) = emulation.next(due + Duration::from_micros(late)) {
                    break arrival;
                }
            };
            assert_eq!(arrival, Arrival { machine: BOB, due: at(38_000), packet: packet(2, 1_000) });
        }
    }

    #[test]
    fn outages_are_at_their_times_of_the_scenario_and_not_before_it_begins() {
        let key = "delay = \"10 ms\"";
        let outage = format!("{key}, outage = [{{ at = \"1 s\", for = \"2 s\" }}]");
        let mut emulation = emulation_of(&SCENARIO.replacen(key, &outage, 1));
        let arrivals = |emulation: &mut Emulation, micros: u64| {
            emulation.send(ALICE, &packet(2, 1_000), at(micros));
            core::iter::from_fn(|| emulation.next(at(micros + 1_000_000))).count()
        };
        assert_eq!(arrivals(&mut emulation, 1_500_000), 1);
        emulation.restart(at(5_000_000));
        let times = [500_000, 1_500_000, 3_500_000];
        assert_eq!(times.map(|micros| arrivals(&mut emulation, micros)), [1, 0, 1]);
    }

    #[test]
    fn a_full_queue_loses_and_what_passes_leaves_at_the_rate_of_the_link() {
        let mut emulation = emulation();
        for _ in 0..10 {
            emulation.send(ALICE, &packet(2, 1_000), at(0));
        }
        let due: Vec<Time> =
            core::iter::from_fn(|| emulation.next(at(10_000_000))).map(|arrival| arrival.due).collect();
        assert_eq!(due, [at(38_000), at(46_000), at(54_000)]);
        let counters = emulation.counters();
        assert_eq!((counters.sent, counters.lost, counters.delivered), (10, 7, 3));
        let of_alice = MachineCounters { packets: 10, bytes: 10_000 };
        assert_eq!(emulation.machines(), [of_alice, MachineCounters::default(), MachineCounters::default()]);
    }

    #[test]
    fn a_link_that_is_cut_loses_everything() {
        let mut emulation = emulation();
        let step = emulation.network.steps[0].clone();
        let byway_scenario::NetworkChange::Links(links) = step.change else {
            panic!("a cut is one of links: {step:?}");
        };
        let now = Time::START + step.at;
        for link in links {
            emulation.set_link(link, now);
        }
        emulation.send(ALICE, &packet(2, 1_000), now);
        assert_eq!(emulation.next(now + Duration::from_secs(1)), None);
        assert_eq!(emulation.counters().lost, 1);
    }

    fn home() -> Emulation {
        let network = Scenario::parse(HOME).expect("a scenario").network(1).expect("all are joined");
        let addresses: Vec<Vec<IpAddr>> =
            (1..=5).map(|host| vec![Ipv4Addr::new(10, 77, 0, host).into()]).collect();
        Emulation::new(network, &addresses, 1)
    }

    /// Makes a datagram with these addresses and ports.
    fn datagram(from: (u8, u16), to: (u8, u16)) -> Vec<u8> {
        let mut packet = packet(to.0, 28);
        packet[9] = 17;
        packet[12..16].copy_from_slice(&[10, 77, 0, from.0]);
        packet[20..26].copy_from_slice(&[from.1.to_be_bytes(), to.1.to_be_bytes(), [0, 8]].concat());
        packet
    }

    fn arrives(emulation: &mut Emulation, from: usize, packet: &[u8]) -> Option<(usize, Vec<u8>)> {
        emulation.send(from, packet, at(0));
        emulation.next(at(10_000_000)).map(|arrival| (arrival.machine, arrival.packet))
    }

    #[test]
    fn a_router_that_translates_lets_answers_in_and_nothing_else() {
        let mut emulation = home();
        assert_eq!(arrives(&mut emulation, BOB, &datagram((2, 7), (4, 49_152))), None, "nobody asked");
        let asked = arrives(&mut emulation, ALICE, &datagram((1, 5), (2, 7)));
        let (machine, request) = asked.expect("it arrives");
        assert_eq!((machine, &request[12..16], &request[20..22]), (BOB, &[10, 77, 0, 4][..], &[192, 0][..]));
        let answered = arrives(&mut emulation, BOB, &datagram((2, 7), (4, 49_152)));
        let (machine, answer) = answered.expect("it arrives");
        assert_eq!((machine, &answer[16..20], &answer[22..24]), (ALICE, &[10, 77, 0, 1][..], &[0, 5][..]));
        let counters = emulation.counters();
        assert_eq!((counters.not_translated, counters.unroutable, counters.delivered), (1, 0, 2));
    }

    #[test]
    fn addresses_inside_mean_nothing_outside_and_stay_as_they_are_inside() {
        let mut emulation = home();
        assert_eq!(arrives(&mut emulation, BOB, &datagram((2, 7), (1, 5))), None);
        assert_eq!(emulation.counters().unroutable, 1);
        let between = datagram((1, 5), (3, 6));
        assert_eq!(arrives(&mut emulation, ALICE, &between), Some((ANNE, between)));
    }

    #[test]
    fn a_forwarded_port_lets_all_in_also_after_the_begin() {
        let mut emulation = home();
        let inside = SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, 1), 5);
        emulation.forward(ForwardedPort { router: HOME_ROUTER, inside });
        emulation.restart(at(5));
        let arrived = arrives(&mut emulation, BOB, &datagram((2, 7), (4, 5)));
        let (machine, packet) = arrived.expect("it arrives");
        assert_eq!((machine, &packet[16..20], &packet[22..24]), (ALICE, &[10, 77, 0, 1][..], &[0, 5][..]));
    }

    /// A link with classes of 2 Mbit/s from Alice to a router, and a link to Bob after it.
    const CLASSES: &str = r#"
title = "Two machines and a link with classes"
length = "10 s"
node = [
    { name = "alice", role = "agent" },
    { name = "bob", role = "agent" },
    { name = "gate", role = "router" },
]
link = [
    { between = ["alice", "gate"], rate = "2 Mbit/s", queue = "100 kB", delay = "1 ms", classes = { kind = "rate-delay", bound = "30 ms" } },
    { between = ["gate", "bob"], delay = "1 ms" },
]
step = [
    { at = "1 s", do = "change", between = ["alice", "gate"], rate = "1 Mbit/s" },
]
"#;

    /// Links between Alice and the router, in both directions.
    const CLASSES_FORTH: (usize, usize) = (0, 2);

    fn with_classes(text: &str) -> Emulation {
        let network = Scenario::parse(text).expect("a scenario").network(1).expect("all are joined");
        let addresses: Vec<Vec<IpAddr>> =
            (1..=3).map(|host| vec![Ipv4Addr::new(10, 77, 0, host).into()]).collect();
        Emulation::new(network, &addresses, 1)
    }

    /// Makes a datagram of 500 bytes from Alice to Bob with this port, TOS byte and number in its
    /// payload.
    fn classed_datagram(port: u16, class: u8, number: u16) -> Vec<u8> {
        let mut packet = packet(2, 500);
        packet[1] = class;
        packet[9] = 17;
        packet[12..16].copy_from_slice(&[10, 77, 0, 1]);
        packet[20..22].copy_from_slice(&port.to_be_bytes());
        packet[22..26].copy_from_slice(&[0, 9, 1, 224]);
        packet[28..30].copy_from_slice(&number.to_be_bytes());
        let sum: u32 = packet[..20].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
        let sum = !u16::try_from((sum & 0xFFFF) + (sum >> 16)).expect("it was folded");
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet
    }

    const LOW_DELAY: u8 = 45 << 2;

    /// Returns the arrivals by this time: the time of each and the number in its payload.
    fn arrivals(emulation: &mut Emulation, by: Time) -> Vec<(Time, u16)> {
        let number = |packet: &[u8]| u16::from_be_bytes([packet[28], packet[29]]);
        core::iter::from_fn(|| emulation.next(by))
            .map(|arrival| (arrival.due, number(&arrival.packet)))
            .collect()
    }

    #[test]
    fn low_delay_packets_overtake_and_leave_at_the_rate_of_the_link_however_late_that_is_looked_at() {
        let mut emulation = with_classes(CLASSES);
        for number in 0..5 {
            emulation.send(ALICE, &classed_datagram(1, 0, number), at(0));
        }
        emulation.send(ALICE, &classed_datagram(2, LOW_DELAY, 5), at(0));
        // 500 bytes take 2 ms at 2 Mbit/s, and 2 ms after it. The first is already in transmission.
        assert_eq!(emulation.deadline(), Some(at(2_000)));
        let order: Vec<u16> =
            arrivals(&mut emulation, at(9_000_000)).iter().map(|(_, number)| *number).collect();
        let position = order.iter().position(|number| *number == 5);
        assert!(position.is_some_and(|position| position <= 2), "{order:?}");
        let mut again = with_classes(CLASSES);
        (0..5).for_each(|number| again.send(ALICE, &classed_datagram(1, 0, number), at(0)));
        let due: Vec<_> = (1..=5).map(|nth| at(2_000 * nth + 2_000)).collect();
        let arrived = arrivals(&mut again, at(9_000_000));
        assert_eq!(arrived.iter().map(|(due, _)| *due).collect::<Vec<_>>(), due);
        assert_eq!((again.counters().delivered, again.counters().lost, again.in_flight()), (5, 0, 0));
    }

    /// Sends twice the link's rate for `millis` after an instant: one packet of each class every
    /// millisecond. Returns the arrivals during this time.
    fn overload(emulation: &mut Emulation, from: u64, millis: u16) -> Vec<(Time, u16)> {
        let mut arrived = Vec::new();
        for number in 0..millis {
            let now = at((from + u64::from(number)) * 1_000);
            arrived.extend(arrivals(emulation, now));
            for (port, class) in [(1, 0), (2, LOW_DELAY)] {
                emulation.send(ALICE, &classed_datagram(port, class, number), now);
            }
        }
        arrived
    }

    #[test]
    fn the_bound_holds_under_overload_and_drops_are_counted_as_lost() {
        let mut emulation = with_classes(CLASSES);
        let mut arrived = overload(&mut emulation, 0, 900);
        arrived.extend(arrivals(&mut emulation, at(9_000_000)));
        let (ends, [high_rate, low_delay, _]) = emulation.class_uses().next().expect("a link has classes");
        assert_eq!((ends, high_rate.offered, low_delay.offered), (CLASSES_FORTH, 900, 900));
        assert!(low_delay.sojourn_max <= Duration::from_millis(30), "{low_delay:?}");
        assert!(high_rate.sojourn_max > Duration::from_millis(100), "{high_rate:?}");
        assert!(low_delay.dropped > 0 && high_rate.dropped > 0);
        let counters = emulation.counters();
        assert_eq!(counters.lost, high_rate.dropped + low_delay.dropped);
        assert_eq!((counters.sent, counters.delivered), (1_800, 1_800 - counters.lost));
        assert_eq!((arrived.len() as u64, emulation.in_flight()), (counters.delivered, 0));
    }

    fn change(emulation: &mut Emulation) {
        let step = emulation.network.steps[0].clone();
        let byway_scenario::NetworkChange::Links(links) = step.change else {
            panic!("a change is one of links: {step:?}");
        };
        for link in links {
            emulation.set_link(link, Time::START + step.at);
        }
    }

    #[test]
    fn a_change_of_the_rate_keeps_what_waits() {
        let mut emulation = with_classes(CLASSES);
        for number in 0..10 {
            emulation.send(ALICE, &classed_datagram(1, 0, number), at(995_000));
        }
        let mut arrived = arrivals(&mut emulation, at(1_000_000));
        change(&mut emulation);
        arrived.extend(arrivals(&mut emulation, at(9_000_000)));
        // The packet in transmission leaves after its 2 ms; the others take 4 ms each.
        let left =
            [997_000, 999_000, 1_001_000].into_iter().chain((1..=7).map(|nth| 1_001_000 + 4_000 * nth));
        let expected: Vec<_> = left.map(|left| at(left + 2_000)).zip(0..).collect();
        assert_eq!(arrived, expected);
    }

    #[test]
    fn low_delay_packets_go_on_after_a_change_of_the_rate() {
        let mut emulation = with_classes(CLASSES);
        let mut arrived = overload(&mut emulation, 0, 1_000);
        arrived.extend(arrivals(&mut emulation, at(1_000_000)));
        let left = |emulation: &Emulation| {
            let (_, uses) = emulation.class_uses().next().expect("a link has classes");
            uses.map(|class| class.dequeued)
        };
        let before = left(&emulation);
        change(&mut emulation);
        arrived.extend(overload(&mut emulation, 1_000, 1_000));
        let after = left(&emulation);
        // At 1 Mbit/s, a second has 250 packets, a third of them low-delay.
        assert!((75..=90).contains(&(after[1] - before[1])), "{before:?} {after:?}");
        assert!((240..=255).contains(&(after.iter().sum::<u64>() - before.iter().sum::<u64>())));
    }

    #[test]
    fn a_class_alone_has_the_whole_link_before_and_after_a_change_of_the_rate() {
        let mut emulation = with_classes(CLASSES);
        let mut left = Vec::new();
        for second in 0..4 {
            if second == 1 {
                arrivals(&mut emulation, at(1_000_000));
                change(&mut emulation);
            }
            for number in 0..1_000 {
                let now = at(second * 1_000_000 + u64::from(number) * 1_000);
                arrivals(&mut emulation, now);
                emulation.send(ALICE, &classed_datagram(2, LOW_DELAY, number), now);
            }
            let (_, [_, low_delay, _]) = emulation.class_uses().next().expect("a link has classes");
            left.push(low_delay.dequeued);
        }
        assert!((495..=501).contains(&left[0]), "{left:?}");
        assert!(left.windows(2).all(|left| (248..=252).contains(&(left[1] - left[0]))), "{left:?}");
    }

    #[test]
    fn what_has_no_room_after_a_change_is_lost() {
        let mut emulation = with_classes(CLASSES);
        for number in 0..100 {
            emulation.send(ALICE, &classed_datagram(1, 0, number), at(0));
        }
        let mut link = emulation.network.links[0].clone();
        let (small, same) = (CLASSES.replace("100 kB", "5 kB"), (link.from, link.to));
        let links = with_classes(&small).network.links;
        link = links.into_iter().find(|link| (link.from, link.to) == same).expect("the same link");
        emulation.set_link(link, at(1_000));
        // One packet is in transmission, and the high-rate class has the part of 5 kB that the
        // other class leaves.
        assert!((89..=95).contains(&emulation.counters().lost), "{:?}", emulation.counters());
        assert_eq!(arrivals(&mut emulation, at(9_000_000)).len() as u64, 100 - emulation.counters().lost);
        let mut without_classes = with_classes(CLASSES);
        (0..100).for_each(|number| without_classes.send(ALICE, &classed_datagram(1, 0, number), at(0)));
        let mut link = without_classes.network.links[0].clone();
        link.link.scheduling = None;
        without_classes.set_link(link, at(1_000));
        without_classes.send(ALICE, &classed_datagram(1, 0, 7), at(1_500));
        assert_eq!(
            arrivals(&mut without_classes, at(9_000_000)),
            [(at(3_500), 7)],
            "there is no queue any more"
        );
        assert_eq!((without_classes.counters().lost, without_classes.in_flight()), (100, 0));
    }

    #[test]
    fn what_is_queued_is_dropped_when_the_time_of_the_scenario_begins() {
        let mut emulation = with_classes(CLASSES);
        let arrived = overload(&mut emulation, 0, 100);
        assert!(!arrived.is_empty() && emulation.queued.len() > 0);
        emulation.restart(at(100_000));
        assert_eq!(
            (emulation.in_flight(), emulation.deadline(), emulation.next(at(9_000_000))),
            (0, None, None)
        );
        assert!(emulation.class_uses().all(|(_, uses)| uses.iter().all(|class| class.offered == 0)));
        emulation.send(ALICE, &classed_datagram(1, 0, 7), at(0));
        assert_eq!(arrivals(&mut emulation, at(9_000_000)), [(at(4_000), 7)]);
    }

    #[test]
    fn what_waits_is_bounded_as_what_is_under_way_is() {
        let mut emulation = with_classes(&CLASSES.replace("100 kB", "100 MB"));
        for _ in 0..IN_FLIGHT_MAX + 10 {
            emulation.send(ALICE, &packet(2, 20), at(0));
        }
        assert!(emulation.in_flight() <= IN_FLIGHT_MAX + 1);
        assert!((10..=11).contains(&emulation.counters().overflowed), "{:?}", emulation.counters());
    }

    #[test]
    fn marks_are_written_into_headers_whose_checksum_stays_right() {
        let mut emulation = with_classes(&CLASSES.replace("\"30 ms\"", "\"200 ms\", ecn = true"));
        let mut marks = 0;
        for number in 0..400 {
            let now = at(u64::from(number) * 1_000);
            emulation.send(ALICE, &classed_datagram(2, LOW_DELAY | 2, number), now);
            while let Some(Arrival { packet, .. }) = emulation.next(now) {
                marks += u64::from(packet[1] == LOW_DELAY | 3);
                assert!([LOW_DELAY | 2, LOW_DELAY | 3].contains(&packet[1]));
                let words = packet[..20].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
                let sum: u32 = words.sum();
                assert_eq!((sum & 0xFFFF) + (sum >> 16), 0xFFFF);
            }
        }
        let (_, [_, low_delay, _]) = emulation.class_uses().next().expect("a link has classes");
        assert!(marks > 10 && low_delay.marked >= marks, "{marks} of {low_delay:?}");
    }

    mod beside_the_simulator {
        use core::net::SocketAddr;

        use byway_sim::{Datagram, Host, Link, Marks, Script, Transmit, World};

        use super::*;

        /// Host that sends scheduled packets and records arrivals.
        #[derive(Default)]
        struct TestHost {
            to_send: Vec<(u16, u8, u16)>,
            payload: Vec<u8>,
            received: Vec<(Time, u16)>,
        }

        impl Host for TestHost {
            fn receive(&mut self, datagram: Datagram<'_>, now: Time) {
                self.received.push((now, u16::from_be_bytes([datagram.payload[0], datagram.payload[1]])));
            }

            fn wake(&mut self, _now: Time) {}

            fn transmit(&mut self, _now: Time) -> Option<Transmit<'_>> {
                let (port, dscp, number) = self.to_send.pop()?;
                self.payload = vec![0; 472];
                self.payload[..2].copy_from_slice(&number.to_be_bytes());
                Some(Transmit {
                    source: Some(SocketAddr::from(([10, 77, 0, 1], port))),
                    destination: SocketAddr::from(([10, 77, 0, 2], 9)),
                    marks: Marks { dscp, flow_label: 0 },
                    ecn: Ecn::NotCapable,
                    payload: &self.payload,
                })
            }

            fn deadline(&self) -> Option<Time> {
                None
            }
        }

        /// Returns the packets to send, with time, port, DSCP and number: bursts of several flows
        /// in both classes.
        fn packets_to_send() -> Vec<(Time, u16, u8, u16)> {
            let mut steps = 0;
            let packet = |number: u16| {
                steps += u64::from(number * 7 % 5);
                let dscp = if number.is_multiple_of(3) { 45 } else { 0 };
                // Packets are never sent at a time at which another one leaves, because the order
                // of these events is undefined.
                (Time::START + Duration::from_nanos(400_001) * steps, 1 + number % 7, dscp, number)
            };
            (0..3_000).map(packet).collect()
        }

        /// Time of the link's change, at which no other event occurs.
        const CHANGES_AT: Time = Time::from_nanos(1_000_000_007);

        fn simulated(link: &Link, then: Link) -> Vec<(Time, u16)> {
            let mut world: World<Script<TestHost>> = World::new(Seed::new(1), ());
            let alice = world.add(TestHost::default(), SocketAddr::from(([10, 77, 0, 1], 1)));
            let bob = world.add(TestHost::default(), SocketAddr::from(([10, 77, 0, 2], 9)));
            world.connect(alice, bob, link.clone());
            for (time, port, dscp, number) in packets_to_send() {
                world.at(time, move |world| {
                    world.input(alice, |host, _now| host.to_send.push((port, dscp, number)));
                });
            }
            world.at(CHANGES_AT, move |world| world.connect(alice, bob, then));
            world.run_for(Duration::from_secs(20), &mut Script::new());
            world.host(bob).received.clone()
        }

        /// Returns the arrivals of an emulation whose link is replaced by another one during the
        /// run.
        fn emulated(text: &str, then: &Link) -> Vec<(Time, u16)> {
            let mut emulation = with_classes(text);
            let mut arrived = Vec::new();
            let mut then = Some(NetworkLink { from: ALICE, to: BOB, link: then.clone() });
            for (time, port, dscp, number) in packets_to_send() {
                if let Some(link) = then.take_if(|_| time > CHANGES_AT) {
                    arrived.extend(arrivals(&mut emulation, CHANGES_AT));
                    emulation.set_link(link, CHANGES_AT);
                }
                arrived.extend(arrivals(&mut emulation, time));
                emulation.send(ALICE, &classed_datagram(port, dscp << 2, number), time);
            }
            arrived.extend(arrivals(&mut emulation, at(20_000_000)));
            arrived
        }

        fn forth(text: &str) -> Link {
            let links = with_classes(text).network.links;
            let forth = links.into_iter().find(|link| (link.from, link.to) == (ALICE, BOB));
            forth.expect("they are joined").link
        }

        #[test]
        fn the_same_packets_arrive_at_the_same_instants_also_when_a_rate_changes() {
            for kind in ["drop-tail", "rate-delay", "priority", "fq-codel"] {
                let text = format!(
                    r#"
title = "Two machines"
length = "10 s"
node = [{{ name = "alice", role = "agent" }}, {{ name = "bob", role = "agent" }}]
link = [{{ between = ["alice", "bob"], rate = "4 Mbit/s", delay = "3 ms", loss = [{{ share = "1 %" }}], classes = {{ kind = "{kind}" }} }}]
"#
                );
                let then = forth(&text.replace("4 Mbit/s", "2 Mbit/s"));
                let emulated = emulated(&text, &then);
                let simulated = simulated(&forth(&text), then);
                assert!((1_000..2_990).contains(&simulated.len()), "{kind}: {}", simulated.len());
                let first = simulated.iter().zip(&emulated).position(|(one, other)| one != other);
                assert_eq!((first, simulated.len()), (None, emulated.len()), "{kind}");
            }
        }
    }

    #[test]
    fn what_is_for_nobody_is_counted() {
        let mut emulation = emulation();
        emulation.send(ALICE, &packet(9, 100), at(0));
        emulation.send(ALICE, &packet(3, 100), at(0));
        emulation.send(ALICE, b"hello", at(0));
        assert_eq!(emulation.next(at(1_000_000)), None);
        assert_eq!(emulation.counters().unroutable, 3);
    }
}
