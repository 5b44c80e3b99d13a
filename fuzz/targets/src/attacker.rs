//! Fuzz target: a whole overlay with an attacker on every path. The attacker can modify, drop and
//! delay packets, but has no keys.

use byway_proto::agent::{Duplication, FlowSettings, ReceiveFlowId, SendFlowId};
use byway_units::{Duration, Time};
use byway_wire::Service;

use crate::harness::input::Input;
use crate::harness::machine::Machine;
use crate::harness::net::{DELAY, Net, Packet};
use crate::harness::topology::{self, EGRESS, INGRESS, NodeId};

const SENDER: NodeId = NodeId::Agent(1);
const RECEIVER: NodeId = NodeId::Agent(2);

/// Interval between the sender's datagrams.
const INTERVAL: Duration = Duration::from_millis(10);

/// Most datagrams of the hostile phase.
const HOSTILE_SENDS_MAX: usize = 600;

/// Time after the attack until the direct path must deliver again.
const RECOVERY: Duration = Duration::from_secs(5);

/// Time after the attack until the relays must deliver again. It includes the longest waits of
/// handshakes and registrations.
const RELAYS_RECOVERY: Duration = Duration::from_secs(15);

/// Most packets that the attacker stores.
const STORED_PACKETS_MAX: usize = 64;

/// Simulated overlay, with the datagrams that its applications sent.
struct World {
    net: Net,
    flows: Vec<(SendFlowId, ReceiveFlowId, Service)>,
    /// Sent datagrams: index of the flow, bytes, and true if the datagram was delivered.
    sent: Vec<(usize, Vec<u8>, bool)>,
}

/// Runs the overlay with an attacker on all paths, and then without.
///
/// # Panics
/// - If a datagram is delivered twice, altered, or to another flow.
/// - If a node exceeds the amplification limit to an unvalidated address.
/// - If the paths do not deliver again after the attack.
pub fn attacker(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut world = World::new(&mut input);
    let mut stored = Vec::new();
    for turn in 0..HOSTILE_SENDS_MAX {
        if input.is_empty() {
            break;
        }
        let wait = if input.byte() < 248 { INTERVAL } else { input.step() };
        let until = world.net.now + wait;
        world.net.run(until, |net, packet| tamper(net, packet, &mut input, &mut stored));
        world.send(turn, input.length());
        world.check();
    }
    world.recover();
}

impl World {
    fn new(input: &mut Input<'_>) -> Self {
        let (mut sending, mut receiving) =
            (topology::agent(SENDER, INGRESS, RECEIVER), topology::agent(RECEIVER, EGRESS, SENDER));
        let mut flows = Vec::new();
        for number in 1..=2 {
            let settings = settings(input);
            let key = topology::flow(1, 2, number);
            let sent = sending.open_flow(key, settings.clone(), Time::START).expect("the peer is known");
            let service = settings.service;
            let received = receiving.accept_flow(key, settings, Time::START).expect("the peer is known");
            flows.push((sent, received, service));
        }
        let nodes = vec![
            (SENDER, Machine::agent(sending)),
            (RECEIVER, Machine::agent(receiving)),
            (INGRESS, Machine::relay(topology::relay(INGRESS))),
            (EGRESS, Machine::relay(topology::relay(EGRESS))),
        ];
        let mut world = Self { net: Net::new(nodes), flows, sent: Vec::new() };
        // For half of the inputs, the attack begins after the handshakes and registrations.
        if input.byte() < 128 {
            world.net.run_calm(Time::START + Duration::from_millis(500));
        }
        world
    }

    fn send(&mut self, turn: usize, length: usize) {
        let index = turn % self.flows.len();
        let number = self.sent.len();
        let mut datagram = number.to_be_bytes().to_vec();
        let filling = |at: usize| at.to_le_bytes()[0] ^ number.to_le_bytes()[0];
        datagram.extend((datagram.len()..length.min(1_472)).map(filling));
        let flow = self.flows[index].0;
        self.sent.push((index, datagram.clone(), false));
        self.net.with(SENDER, |machine, now| machine.send(flow, &datagram, true, now));
    }

    /// Checks that each delivered datagram is unaltered, in its flow, and not a duplicate.
    fn check(&mut self) {
        for (node, flow, datagram) in self.net.delivered.drain(..) {
            assert_eq!(node, RECEIVER);
            let number =
                datagram.first_chunk().map(|bytes| usize::from_be_bytes(*bytes)).expect("it is numbered");
            let (index, sent, delivered) = &mut self.sent[number];
            assert_eq!(self.flows[*index].1, flow, "datagram {number} is delivered to another flow");
            assert!(*sent == datagram, "datagram {number} is altered");
            assert!(!*delivered, "datagram {number} is delivered twice");
            *delivered = true;
        }
    }

    /// Checks that without the attacker, the direct path delivers again soon, and the relays later.
    fn recover(&mut self) {
        // Packets that the attacker has delayed may still do harm, so they arrive before the
        // recovery begins.
        self.net.run_calm(self.net.last_arrival());
        let is_over_relays = |(_, _, service): &(_, _, Service)| *service == Service::Forwarding;
        let over_relays: Vec<bool> = self.flows.iter().map(is_over_relays).collect();
        self.recover_path(RECOVERY, |index| !over_relays[index]);
        if over_relays.contains(&true) {
            self.recover_path(RELAYS_RECOVERY, |index| over_relays[index]);
        }
    }

    /// Advances time until these flows deliver all datagrams.
    fn recover_path(&mut self, recovery: Duration, is_selected: impl Fn(usize) -> bool) {
        let until = self.net.now + recovery;
        while let Some(number) = self.first_lost(&is_selected) {
            assert!(self.net.now < until, "datagram {number} is lost long after the attack");
            self.send_for(INTERVAL * 50, INTERVAL * 10);
        }
    }

    fn send_for(&mut self, time: Duration, interval: Duration) {
        let until = self.net.now + time;
        let mut turn = 0;
        while self.net.now < until {
            self.send(turn, 100);
            self.net.run_calm(self.net.now + interval);
            self.check();
            turn += 1;
        }
    }

    /// Sends on all flows. Returns the first undelivered datagram of the selected flows.
    fn first_lost(&mut self, is_selected: impl Fn(usize) -> bool) -> Option<usize> {
        let first = self.sent.len();
        self.send_for(INTERVAL * 20, INTERVAL);
        self.net.run_calm(self.net.now + DELAY * 5);
        self.check();
        let mut sent = self.sent.iter().enumerate().skip(first);
        sent.find(|(_, (index, _, delivered))| !*delivered && is_selected(*index)).map(|(number, _)| number)
    }
}

fn settings(input: &mut Input<'_>) -> FlowSettings {
    let choice = input.byte();
    let service = Service::ALL[usize::from(choice) % Service::ALL.len()];
    let duplication = if choice >= 200 { Duplication::Marked } else { Duplication::All };
    FlowSettings { duplication, ..topology::settings(service, INGRESS, EGRESS) }
}

/// Modifies, drops, delays or replays a packet, as the input determines.
fn tamper(net: &mut Net, packet: Packet, input: &mut Input<'_>, stored: &mut Vec<Packet>) {
    if stored.len() < STORED_PACKETS_MAX {
        stored.push(packet.clone());
    }
    match input.byte() {
        128..160 => {}
        160..176 => {
            net.launch(packet.clone(), DELAY);
            net.launch(packet, DELAY + Duration::from_millis(input.byte().into()));
        }
        176..192 => net.launch(packet, DELAY + input.step().min(Duration::from_secs(4))),
        192..208 => net.launch(flipped(packet, input), DELAY),
        208..224 => net.launch(resized(packet, input), DELAY),
        224..240 => {
            let from = if input.byte() < 200 { NodeId::Stranger } else { net.nth(input.byte().into()) };
            net.launch(Packet { from: from.address(), ..packet }, DELAY);
        }
        240..250 => {
            net.launch(packet, DELAY);
            replay(net, input, stored);
        }
        // The attacker cannot redirect packets to the stranger's address, because it may not
        // receive there.
        250..=254 if packet.to != NodeId::Stranger.address() => {
            let to = net.nth(input.byte().into()).address();
            net.launch(Packet { to, ..packet }, DELAY);
        }
        _ => net.launch(packet, DELAY),
    }
}

fn flipped(mut packet: Packet, input: &mut Input<'_>) -> Packet {
    let [at, bit] = input.array();
    let offset = usize::from(at) * packet.bytes.len() / 256;
    packet.bytes[offset] ^= 1 << (bit % 8);
    packet
}

fn resized(mut packet: Packet, input: &mut Input<'_>) -> Packet {
    let length = packet.bytes.len() * usize::from(input.byte()) / 200;
    packet.bytes.resize(length, 0);
    packet
}

/// Replays a stored packet, or clears the store.
fn replay(net: &mut Net, input: &mut Input<'_>, stored: &mut Vec<Packet>) {
    let [choice, from] = input.array();
    if choice == 255 {
        stored.clear();
        return;
    }
    let index = usize::from(choice) % stored.len();
    let mut packet = stored[index].clone();
    if from >= 128 {
        packet.from = NodeId::Stranger.address();
    }
    net.launch(packet, DELAY);
}
