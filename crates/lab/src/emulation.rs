//! Packets on emulated links: each link in virtual time, whenever this machine gets to it.
//!
//! A packet is at the next machine at the instant that its link says, also where that is looked at later: how late the machine
//! is adds to no delay and lowers no rate, and shows only in when a program gets the packet.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};
use std::net::IpAddr;

use byway_scenario::{Network, NetworkLink};
use byway_sim::{Fate, LinkState, Passage, Seed};
use byway_units::{Bytes, Time};
use byway_wire::ip::Packet;

use crate::limits::{PACKET_BYTES_MAX, UNDER_WAY_MAX};

/// A network under way.
#[derive(Debug)]
pub struct Emulation {
    links: BTreeMap<(usize, usize), LinkState>,
    network: Network,
    seed: Seed,
    places: BTreeMap<IpAddr, usize>,
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
    /// Packets given up because too many were under way.
    pub overflowed: u64,
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
            under_way: BinaryHeap::new(),
            spare: Vec::new(),
            numbered: 0,
            counters: EmulationCounters::default(),
            machines: Vec::new(),
            network,
        };
        emulation.restart();
        emulation
    }

    /// Begins anew: nothing is under way, and links are as at the begin of the scenario.
    pub fn restart(&mut self) {
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
        match to {
            Some(to) => self.pass_on(at, to, packet, now),
            None => self.give_up(packet),
        }
    }

    /// The next packet that is where it was to be, if one is due.
    pub fn next(&mut self, now: Time) -> Option<Arrival> {
        while self.deadline().is_some_and(|due| due <= now) {
            let Reverse(UnderWay { due, at, to, packet, .. }) = self.under_way.pop()?;
            if at == to {
                self.counters.delivered += 1;
                return Some(Arrival { machine: at, due, packet });
            }
            self.pass_on(at, to, packet, due);
        }
        None
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

    const ALICE: usize = 0;
    const BOB: usize = 1;

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
