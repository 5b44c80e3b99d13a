//! Packets on emulated links: each link in virtual time, whenever this machine gets to it.
//!
//! A packet is at the next machine at the instant that its link says, also where that is looked at later: how late the machine
//! is adds to no delay and lowers no rate, and shows only in when a program gets the packet.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};

use byway_scenario::{Network, NetworkLink};
use byway_sim::{Fate, LinkState, Passage, Seed};
use byway_units::{Bytes, Time};
use byway_wire::ip::{Packet, Transport};

use crate::limits::{PACKET_BYTES_MAX, UNDER_WAY_MAX};
use crate::nat::Nat;

/// A network under way.
#[derive(Debug)]
pub struct Emulation {
    links: BTreeMap<(usize, usize), LinkState>,
    network: Network,
    seed: Seed,
    places: BTreeMap<IpAddr, usize>,
    /// The routers that translate addresses, by place.
    nats: BTreeMap<usize, Nat>,
    under_way: BinaryHeap<Reverse<UnderWay>>,
    /// What was delivered: the next packets take its memory.
    spare: Vec<Vec<u8>>,
    numbered: u64,
    counters: EmulationCounters,
    /// By place.
    machines: Vec<MachineCounters>,
}

/// What the programs of a machine sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineCounters {
    /// IP packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What became of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EmulationCounters {
    /// Packets that programs sent.
    pub sent: u64,
    /// Packets that links lost.
    pub lost: u64,
    /// Packets that came, copies that links made among them.
    pub delivered: u64,
    /// Packets to addresses that nobody has, or to which no way leads; and what is no IP packet.
    pub unroutable: u64,
    /// Packets that routers which translate addresses did not let pass.
    pub not_translated: u64,
    /// Packets given up because too many were under way.
    pub overflowed: u64,
}

/// A UDP port of a router that translates addresses, behind which whoever sends reaches an end inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardedPort {
    /// The router.
    pub router: usize,
    /// The end inside, which has the same port.
    pub inside: SocketAddrV4,
}

/// A packet that is where it was to be.
#[derive(Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The machine.
    pub machine: usize,
    /// When it was to be there.
    pub due: Time,
    /// The packet.
    pub packet: Vec<u8>,
}

/// A packet on its way to the next machine.
#[derive(Debug)]
struct UnderWay {
    due: Time,
    /// Packets that are due at one instant come in the order in which they were sent.
    number: u64,
    at: usize,
    to: usize,
    packet: Vec<u8>,
}

impl Emulation {
    /// The idle network, whose machines have these addresses, by their places.
    #[must_use]
    pub fn new(network: Network, addresses: &[Vec<IpAddr>], seed: u64) -> Self {
        let places = addresses.iter().enumerate();
        let places = places.flat_map(|(place, of)| of.iter().map(move |address| (*address, place))).collect();
        let mut emulation = Self {
            links: BTreeMap::new(),
            seed: Seed::new(seed),
            places,
            nats: nats(&network, addresses),
            under_way: BinaryHeap::new(),
            spare: Vec::new(),
            numbered: 0,
            counters: EmulationCounters::default(),
            machines: Vec::new(),
            network,
        };
        emulation.restart(Time::START);
        emulation
    }

    /// Opens a port to an end behind a router that translates addresses.
    pub fn forward(&mut self, ForwardedPort { router, inside }: ForwardedPort) {
        if let Some(nat) = self.nats.get_mut(&router) {
            nat.forward(Transport::Udp, inside.port(), inside);
        }
    }

    /// The time of the scenario begins, where it was this instant before: nothing is under way, and links are as at the begin of the
    /// scenario. Routers that translate addresses go on, as what speaks through them does.
    pub fn restart(&mut self, before: Time) {
        for nat in self.nats.values_mut() {
            nat.restart_clock(before);
        }
        self.links.clear();
        self.under_way.clear();
        self.counters = EmulationCounters::default();
        self.machines = vec![MachineCounters::default(); self.network.machines.len()];
        for link in self.network.links.clone() {
            self.set_link(link, Time::START);
        }
    }

    /// A link is so from now on.
    ///
    /// # Panics
    /// If it ends at a place that no scenario has, above 2^32.
    pub fn set_link(&mut self, NetworkLink { from, to, link }: NetworkLink, now: Time) {
        if let Some(known) = self.links.get_mut(&(from, to)) {
            known.change(link, now);
        } else {
            let number = |place| u32::try_from(place).expect("a scenario has few machines");
            let state = LinkState::between(number(from), number(to), link, self.seed, now);
            self.links.insert((from, to), state);
        }
    }

    /// What became of packets.
    #[must_use]
    pub const fn counters(&self) -> EmulationCounters {
        self.counters
    }

    /// What the programs of each machine sent, by place.
    #[must_use]
    pub fn machines(&self) -> &[MachineCounters] {
        &self.machines
    }

    /// When [`Emulation::next`] has something.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.under_way.peek().map(|Reverse(next)| next.due)
    }

    /// A program at a machine sends an IP packet. All that was due before has to be taken first, with [`Emulation::next`].
    pub fn send(&mut self, at: usize, bytes: &[u8], now: Time) {
        self.counters.sent += 1;
        if let Some(machine) = self.machines.get_mut(at) {
            machine.packets += 1;
            machine.bytes += bytes.len() as u64;
        }
        let mut packet = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(PACKET_BYTES_MAX));
        packet.clear();
        packet.extend_from_slice(bytes);
        let to = Packet::new(&mut packet).and_then(|packet| self.places.get(&packet.destination()).copied());
        match to.filter(|to| self.is_address(*to, at)) {
            Some(to) => self.pass_on(at, to, packet, now),
            None => self.give_up(packet),
        }
    }

    /// Whether the address of a machine is one for another: those behind a router that translates addresses mean nothing elsewhere.
    fn is_address(&self, of: usize, at: usize) -> bool {
        let behind = |place: usize| self.network.machines.get(place).and_then(|machine| machine.behind);
        behind(of).is_none_or(|router| behind(at) == Some(router))
    }

    /// The next packet that is where it was to be, if one is due.
    pub fn next(&mut self, now: Time) -> Option<Arrival> {
        while self.deadline().is_some_and(|due| due <= now) {
            let Reverse(UnderWay { due, at, to, packet, .. }) = self.under_way.pop()?;
            if self.nats.contains_key(&at) {
                self.translate(at, to, packet, due);
                continue;
            }
            if at == to {
                self.counters.delivered += 1;
                return Some(Arrival { machine: at, due, packet });
            }
            self.pass_on(at, to, packet, due);
        }
        None
    }

    /// A packet is at a router that translates addresses, for itself from outside, or for another from inside.
    fn translate(&mut self, at: usize, to: usize, mut packet: Vec<u8>, now: Time) {
        // Between machines inside, it is a router like others.
        if at != to && self.network.machines[to].behind == Some(at) {
            return self.pass_on(at, to, packet, now);
        }
        let Some(nat) = self.nats.get_mut(&at) else {
            return self.give_up(packet);
        };
        let next = if at == to {
            nat.enter(&mut packet, now).map(|inside| self.places.get(&inside.into()).copied())
        } else {
            nat.leave(&mut packet, now).map(|()| Some(to))
        };
        match next {
            Ok(Some(to)) => self.pass_on(at, to, packet, now),
            Ok(None) => self.give_up(packet),
            Err(_) => {
                self.counters.not_translated += 1;
                self.recycle(packet);
            }
        }
    }

    /// Takes the memory of a packet back.
    pub fn recycle(&mut self, packet: Vec<u8>) {
        self.spare.push(packet);
    }

    fn give_up(&mut self, packet: Vec<u8>) {
        self.counters.unroutable += 1;
        self.recycle(packet);
    }

    /// Offers a packet to the link towards the machine that it is for.
    fn pass_on(&mut self, at: usize, to: usize, mut packet: Vec<u8>, now: Time) {
        let next = self.network.next_hop(at, to);
        let Some((next, link)) = next.and_then(|next| Some((next, self.links.get_mut(&(at, next))?))) else {
            return self.give_up(packet);
        };
        let Some(mut parsed) = Packet::new(&mut packet) else {
            return self.give_up(packet);
        };
        let length = Bytes::from(parsed.bytes());
        match link.offer(now, length, parsed.payload_bytes()) {
            Fate::Lost(_) => {
                self.counters.lost += 1;
                self.recycle(packet);
            }
            Fate::Carried { original, duplicate } => {
                parsed.set_ecn(link.ecn_behind(parsed.ecn()));
                if let Some(passage) = duplicate {
                    let copy = packet.clone();
                    self.carry(passage, next, to, copy);
                }
                self.carry(original, next, to, packet);
            }
        }
    }

    fn carry(&mut self, passage: Passage, at: usize, to: usize, mut packet: Vec<u8>) {
        if self.under_way.len() == UNDER_WAY_MAX {
            self.counters.overflowed += 1;
            return self.recycle(packet);
        }
        if let (Some(bit), Some(mut parsed)) = (passage.flipped_bit, Packet::new(&mut packet)) {
            parsed.flip(bit);
        }
        self.numbered += 1;
        self.under_way.push(Reverse(UnderWay {
            due: passage.arrival,
            number: self.numbered,
            at,
            to,
            packet,
        }));
    }
}

/// The routers that translate addresses, with those of the machines inside, by place.
fn nats(network: &Network, addresses: &[Vec<IpAddr>]) -> BTreeMap<usize, Nat> {
    let ipv4 = |place: usize| {
        let ipv4 = |address: &IpAddr| match address {
            IpAddr::V4(address) => Some(*address),
            IpAddr::V6(_) => None,
        };
        addresses.get(place).and_then(|of| of.iter().find_map(ipv4))
    };
    let mut inside: BTreeMap<usize, Vec<Ipv4Addr>> = BTreeMap::new();
    for (place, machine) in network.machines.iter().enumerate() {
        if let (Some(router), Some(address)) = (machine.behind, ipv4(place)) {
            inside.entry(router).or_default().push(address);
        }
    }
    let nat = |(router, inside)| Some((router, Nat::new(ipv4(router)?, inside)));
    inside.into_iter().filter_map(nat).collect()
}

impl UnderWay {
    const fn key(&self) -> (Time, u64) {
        (self.due, self.number)
    }
}

impl PartialEq for UnderWay {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for UnderWay {}

impl PartialOrd for UnderWay {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for UnderWay {
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

    /// Alice and Bob on both sides of a gate, behind which 1 Mbit/s pass.
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

    /// Alice and Anne behind a router that translates addresses, and Bob outside.
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
    const HOME_PLACE: usize = 3;

    fn emulation() -> Emulation {
        let network = Scenario::parse(SCENARIO).expect("a scenario").network(1).expect("all are joined");
        let addresses: Vec<Vec<IpAddr>> =
            (1..=3).map(|host| vec![Ipv4Addr::new(10, 77, 0, host).into()]).collect();
        Emulation::new(network, &addresses, 1)
    }

    /// An IPv4 packet of this length.
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
            // 10 ms to the gate, 8 ms for 1,000 bytes at 1 Mbit/s, 20 ms behind it.
            let arrival = loop {
                let due = emulation.deadline().expect("the packet is under way");
                if let Some(arrival) = emulation.next(due + Duration::from_micros(late)) {
                    break arrival;
                }
            };
            assert_eq!(arrival, Arrival { machine: BOB, due: at(38_000), packet: packet(2, 1_000) });
        }
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

    /// A datagram between these addresses and ports.
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
        let (machine, question) = asked.expect("it arrives");
        assert_eq!(
            (machine, &question[12..16], &question[20..22]),
            (BOB, &[10, 77, 0, 4][..], &[192, 0][..])
        );
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
        emulation.forward(ForwardedPort { router: HOME_PLACE, inside });
        emulation.restart(at(5));
        let came = arrives(&mut emulation, BOB, &datagram((2, 7), (4, 5)));
        let (machine, packet) = came.expect("it arrives");
        assert_eq!((machine, &packet[16..20], &packet[22..24]), (ALICE, &[10, 77, 0, 1][..], &[0, 5][..]));
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
