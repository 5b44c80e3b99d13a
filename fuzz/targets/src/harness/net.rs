//! A network of a few machines. The caller determines the fate of each packet.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use byway_proto::agent::ReceiveFlowId;
use byway_units::{Duration, Time};

use super::machine::{Machine, Output};
use super::topology::NodeId;

/// A datagram in flight.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) bytes: Vec<u8>,
}

/// Bytes exchanged between a node and an address that belongs to no node.
#[derive(Clone, Copy, Debug, Default)]
struct AddressTraffic {
    received: usize,
    sent: usize,
    challenges: usize,
}

/// One-way delay of a packet that the caller does not change.
pub(crate) const DELAY: Duration = Duration::from_millis(10);

/// Length of a path challenge in a packet of its own, in bytes.
const CHALLENGE_BYTES: usize = 36;

/// Most path challenges to an address that nodes learned from others: three each time.
const CHALLENGES_MAX: usize = 100;

/// Most bytes sent to an unvalidated address, as a multiple of the bytes received from it (RFC
/// 9000).
const AMPLIFICATION_MAX: usize = 3;

#[derive(Debug)]
pub(crate) struct Net {
    nodes: Vec<(NodeId, Machine)>,
    in_flight: BTreeMap<(Time, u64), Packet>,
    launched: u64,
    pub(crate) now: Time,
    accounts: BTreeMap<(NodeId, SocketAddr), AddressTraffic>,
    /// Addresses of no node that are validated: their owner has proved with keys that it receives
    /// there.
    pub(crate) proved: BTreeSet<SocketAddr>,
    /// Packets that nodes have sent, and that the caller has not launched or dropped yet.
    pub(crate) fresh: Vec<Packet>,
    pub(crate) delivered: Vec<(NodeId, ReceiveFlowId, Vec<u8>)>,
}

impl Net {
    pub(crate) fn new(nodes: Vec<(NodeId, Machine)>) -> Self {
        let mut net = Self {
            nodes,
            in_flight: BTreeMap::new(),
            launched: 0,
            now: Time::START,
            accounts: BTreeMap::new(),
            proved: BTreeSet::new(),
            fresh: Vec::new(),
            delivered: Vec::new(),
        };
        for index in 0..net.nodes.len() {
            let (node, machine) = &mut net.nodes[index];
            let (node, output) = (*node, machine.drain());
            net.collect(node, output);
        }
        net
    }

    pub(crate) fn node(&mut self, id: NodeId) -> &mut Machine {
        let node = self.nodes.iter_mut().find(|(known, _)| *known == id);
        &mut node.expect("the node is part of the net").1
    }

    /// Returns the node with this number, modulo the number of nodes.
    pub(crate) fn nth(&self, number: usize) -> NodeId {
        self.nodes[number % self.nodes.len()].0
    }

    /// Schedules the arrival of a packet.
    pub(crate) fn launch(&mut self, packet: Packet, after: Duration) {
        self.launched += 1;
        self.in_flight.insert((self.now + after, self.launched), packet);
    }

    /// Returns the arrival time of the last packet in flight; the current time if there is none.
    pub(crate) fn last_arrival(&self) -> Time {
        self.in_flight.last_key_value().map_or(self.now, |((at, _), _)| *at)
    }

    /// Applies an input to a node now.
    pub(crate) fn with(&mut self, node: NodeId, act: impl FnOnce(&mut Machine, Time) -> Output) {
        let now = self.now;
        let output = act(self.node(node), now);
        self.collect(node, output);
    }

    /// Delivers a packet now.
    pub(crate) fn arrive(&mut self, packet: &Packet) {
        let Some((node, machine)) = self.nodes.iter_mut().find(|(node, _)| node.address() == packet.to)
        else {
            return;
        };
        let node = *node;
        let output = machine.receive(packet.from, &packet.bytes, self.now);
        if self.is_nobodys(packet.from) && !self.proved.contains(&packet.from) {
            let (received, sent) = (packet.bytes.len(), output.bytes_to(packet.from));
            assert!(
                sent <= received,
                "{sent} bytes at once in answer to {received} of an unproved address: {:?} to {node:?}, answered by {:?}",
                packet.bytes,
                output.sent,
            );
            self.accounts.entry((node, packet.from)).or_default().received += received;
        }
        self.collect(node, output);
    }

    fn is_nobodys(&self, address: SocketAddr) -> bool {
        self.nodes.iter().all(|(node, _)| node.address() != address)
    }

    fn collect(&mut self, node: NodeId, output: Output) {
        for (to, bytes) in output.sent {
            if to == NodeId::Stranger.address() && !self.proved.contains(&to) {
                let account = self.accounts.entry((node, to)).or_default();
                account.sent += bytes.len();
                if bytes.len() == CHALLENGE_BYTES {
                    account.challenges += 1;
                    assert!(account.challenges <= CHALLENGES_MAX, "{node:?} challenges {to} for ever");
                    account.sent -= CHALLENGE_BYTES;
                }
                let AddressTraffic { received, sent, .. } = *account;
                assert!(
                    sent <= received * AMPLIFICATION_MAX,
                    "{node:?} sent {sent} for {received} bytes to {to}"
                );
            }
            self.fresh.push(Packet { from: node.address(), to, bytes });
        }
        self.delivered.extend(output.delivered.into_iter().map(|(flow, datagram)| (node, flow, datagram)));
    }

    /// Advances time to `until`. Packets that nodes send go to `touch`, which may launch them.
    pub(crate) fn run(&mut self, until: Time, mut touch: impl FnMut(&mut Self, Packet)) {
        loop {
            for packet in std::mem::take(&mut self.fresh) {
                touch(self, packet);
            }
            let arrival = self.in_flight.first_key_value().map(|((at, _), _)| *at);
            let woken =
                self.nodes.iter().filter_map(|(node, machine)| Some((machine.deadline()?, *node))).min();
            let next = [arrival, woken.map(|(at, _)| at)].into_iter().flatten().min();
            let Some(at) = next.filter(|at| *at <= until) else {
                self.now = self.now.max(until);
                return;
            };
            self.now = self.now.max(at);
            if arrival == Some(at) {
                let (_, packet) = self.in_flight.pop_first().expect("a packet arrives now");
                self.arrive(&packet);
            } else if let Some((_, node)) = woken {
                self.with(node, Machine::wake);
            }
        }
    }

    /// Advances time with a network that delivers all packets unchanged.
    pub(crate) fn run_calm(&mut self, until: Time) {
        self.run(until, |net, packet| net.launch(packet, DELAY));
    }
}
