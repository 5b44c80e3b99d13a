//! A few machines on a network that does to packets what it is told to.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use byway_proto::agent::ReceiveFlowId;
use byway_units::{Duration, Time};

use super::machine::{Machine, Output};
use super::topology::NodeId;

/// A datagram under way.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) from: SocketAddr,
    pub(crate) to: SocketAddr,
    pub(crate) bytes: Vec<u8>,
}

/// What went between a node and an address that is nobody's, in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    received: usize,
    sent: usize,
    challenges: usize,
}

/// How long a packet takes that nobody touches.
pub(crate) const DELAY: Duration = Duration::from_millis(10);

/// The bytes of a challenge in a packet of its own.
const CHALLENGE_BYTES: usize = 36;

/// Most challenges to an address that nodes were told of by others: three each time.
const CHALLENGES_MAX: usize = 100;

/// How many times what came from an address may go there before it has proved itself.
const AMPLIFICATION_MAX: usize = 3;

#[derive(Debug)]
pub(crate) struct Net {
    nodes: Vec<(NodeId, Machine)>,
    under_way: BTreeMap<(Time, u64), Packet>,
    launched: u64,
    pub(crate) now: Time,
    accounts: BTreeMap<(NodeId, SocketAddr), Account>,
    /// Addresses of no node that have shown, with keys, that they get what is sent there.
    pub(crate) proved: BTreeSet<SocketAddr>,
    /// What nodes sent and nobody has launched yet.
    pub(crate) fresh: Vec<Packet>,
    pub(crate) delivered: Vec<(NodeId, ReceiveFlowId, Vec<u8>)>,
}

impl Net {
    pub(crate) fn new(nodes: Vec<(NodeId, Machine)>) -> Self {
        let mut net = Self {
            nodes,
            under_way: BTreeMap::new(),
            launched: 0,
            now: Time::START,
            accounts: BTreeMap::new(),
            proved: BTreeSet::new(),
            fresh: Vec::new(),
            delivered: Vec::new(),
        };
        for place in 0..net.nodes.len() {
            let (who, machine) = &mut net.nodes[place];
            let (who, output) = (*who, machine.drain());
            net.collect(who, output);
        }
        net
    }

    pub(crate) fn node(&mut self, who: NodeId) -> &mut Machine {
        let node = self.nodes.iter_mut().find(|(known, _)| *known == who);
        &mut node.expect("the node is part of the net").1
    }

    /// The node with this number, counted round and round.
    pub(crate) fn nth(&self, number: usize) -> NodeId {
        self.nodes[number % self.nodes.len()].0
    }

    /// Lets a packet arrive after a time.
    pub(crate) fn launch(&mut self, packet: Packet, after: Duration) {
        self.launched += 1;
        self.under_way.insert((self.now + after, self.launched), packet);
    }

    /// When the last packet that is under way arrives; now if there is none.
    pub(crate) fn last_arrival(&self) -> Time {
        self.under_way.last_key_value().map_or(self.now, |((at, _), _)| *at)
    }

    /// Lets a node do something now.
    pub(crate) fn with(&mut self, who: NodeId, act: impl FnOnce(&mut Machine, Time) -> Output) {
        let now = self.now;
        let output = act(self.node(who), now);
        self.collect(who, output);
    }

    /// Lets a packet arrive now.
    pub(crate) fn arrive(&mut self, packet: &Packet) {
        let Some((who, machine)) = self.nodes.iter_mut().find(|(who, _)| who.address() == packet.to) else {
            return;
        };
        let who = *who;
        let output = machine.receive(packet.from, &packet.bytes, self.now);
        if self.is_nobodys(packet.from) && !self.proved.contains(&packet.from) {
            let (asked, answered) = (packet.bytes.len(), output.bytes_to(packet.from));
            assert!(
                answered <= asked,
                "{answered} bytes at once in answer to {asked} of an unproved address: {:?} to {who:?}, answered by {:?}",
                packet.bytes,
                output.sent,
            );
            self.accounts.entry((who, packet.from)).or_default().received += asked;
        }
        self.collect(who, output);
    }

    fn is_nobodys(&self, address: SocketAddr) -> bool {
        self.nodes.iter().all(|(who, _)| who.address() != address)
    }

    fn collect(&mut self, who: NodeId, output: Output) {
        for (to, bytes) in output.sent {
            if to == NodeId::Stranger.address() && !self.proved.contains(&to) {
                let account = self.accounts.entry((who, to)).or_default();
                account.sent += bytes.len();
                if bytes.len() == CHALLENGE_BYTES {
                    account.challenges += 1;
                    assert!(account.challenges <= CHALLENGES_MAX, "{who:?} challenges {to} for ever");
                    account.sent -= CHALLENGE_BYTES;
                }
                let Account { received, sent, .. } = *account;
                assert!(
                    sent <= received * AMPLIFICATION_MAX,
                    "{who:?} sent {sent} for {received} bytes to {to}"
                );
            }
            self.fresh.push(Packet { from: who.address(), to, bytes });
        }
        self.delivered.extend(output.delivered.into_iter().map(|(flow, datagram)| (who, flow, datagram)));
    }

    /// Lets time pass until then; what nodes send goes through `touch`, which may launch it or not.
    pub(crate) fn run(&mut self, until: Time, mut touch: impl FnMut(&mut Self, Packet)) {
        loop {
            for packet in std::mem::take(&mut self.fresh) {
                touch(self, packet);
            }
            let arrival = self.under_way.first_key_value().map(|((at, _), _)| *at);
            let woken =
                self.nodes.iter().filter_map(|(who, machine)| Some((machine.deadline()?, *who))).min();
            let next = [arrival, woken.map(|(at, _)| at)].into_iter().flatten().min();
            let Some(at) = next.filter(|at| *at <= until) else {
                self.now = self.now.max(until);
                return;
            };
            self.now = self.now.max(at);
            if arrival == Some(at) {
                let (_, packet) = self.under_way.pop_first().expect("a packet arrives now");
                self.arrive(&packet);
            } else if let Some((_, who)) = woken {
                self.with(who, Machine::wake);
            }
        }
    }

    /// Lets time pass on a network that does nothing to packets.
    pub(crate) fn run_calm(&mut self, until: Time) {
        self.run(until, |net, packet| net.launch(packet, DELAY));
    }
}
