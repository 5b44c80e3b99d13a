//! Virtual testbed: relays with processing times, an honest flow through them, and an attacker with
//! an accomplice.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use byway_code::Engine;
use byway_proto::agent::{Agent, AgentIdentity, FlowSettings, SendFlowId};
use byway_proto::relay::{Authority, Relay};
use byway_sim::overlay::topology::{grant, path};
use byway_units::{Bytes, Duration, FlowId, Time};
use byway_wire::packets::Kind as PacketKind;
use byway_wire::seal::{PortableProvider, Suite};
use byway_wire::{Grant, GrantedRelay, KilobitsPerSecond, Service, Shard, TenantId};

use super::adversary::{Adversary, RESTARTED as RECEIVER};
use super::arrangement::Arrangement;
use super::{Attack, Attacker, DATAGRAM_TIME, Outcome, Role, Size, Testbed, UNIT_TIME};
use crate::harness::machine::{Kind, Machine, Output};
use crate::harness::net::Packet;
use crate::harness::topology::{self, EGRESS, NodeId};

const SENDER: NodeId = NodeId::Agent(1);
/// The attacker uses the egress relay of the honest flow, and its accomplice the ingress relay.
pub(super) const ACCOMPLICE: NodeId = NodeId::Agent(3);
pub(super) const MALLORY: NodeId = NodeId::Agent(4);

/// One-way delay between any two nodes.
pub(super) const DELAY: Duration = Duration::from_millis(5);

/// Interval of the honest flow's packets: 500 a second.
const HONEST_INTERVAL: Duration = Duration::from_millis(2);

/// Most queued datagrams of a relay: the content of a socket buffer of 4 MB.
const BACKLOG_MAX: usize = 2_048;

/// Length of the honest flow's packets in bytes. Shorter packets belong to the session, or request
/// repairs.
const HONEST_BYTES: usize = 200;

/// Index of the attacked relay.
const ATTACKED: usize = 0;

/// One-way delay of an observer's forgeries, less than that of the true answers.
const FORGERY_DELAY: Duration = Duration::from_millis(1);

/// One in this many packets of the honest flow is lost on the direct path, if its service uses that
/// path.
const DIRECT_LOSS_PART: u64 = 10;

/// A relay, its queue of datagrams, and the time at which its processor is free.
struct RelayServer {
    node: NodeId,
    machine: Machine,
    backlog: VecDeque<Packet>,
    free_at: Time,
}

impl RelayServer {
    fn new(node: NodeId, arrangement: Arrangement) -> Self {
        let others = arrangement.nodes().into_iter().filter(|other| *other != node);
        let others = others.map(|other| other.relay_node().peer_relay()).collect();
        let authority = Authority::Static(grants(arrangement));
        let settings = node.relay_node().settings(Suite::ChaCha20Poly1305, authority, others);
        let relay = Relay::new(settings, Engine::fastest(), &PortableProvider, node.seed(), Time::START);
        let (machine, backlog) = (Machine::relay(relay), VecDeque::new());
        Self { node, machine, backlog, free_at: Time::START }
    }

    fn relay(&self) -> &Relay {
        match &self.machine.kind {
            Kind::Relay(relay) => relay,
            Kind::Agent(_) => panic!("a server is a relay"),
        }
    }

    /// Returns the time of the relay's next step: its deadline, or the next datagram.
    fn next(&self) -> Option<Time> {
        let waiting = if self.backlog.is_empty() { None } else { Some(Time::START) };
        let next = [waiting, self.machine.deadline()].into_iter().flatten().min();
        next.map(|at| at.max(self.free_at))
    }

    /// Handles the deadline or the next datagram, and advances the processor's time.
    fn step(&mut self, now: Time) -> Output {
        let before = self.relay().work().units();
        let (output, time) = if self.machine.deadline().is_some_and(|at| at <= now) {
            (self.machine.wake(now), Duration::ZERO)
        } else {
            let packet = self.backlog.pop_front().expect("a packet waits");
            (self.machine.receive(packet.from, &packet.bytes, now), DATAGRAM_TIME)
        };
        let work = self.relay().work().units() - before;
        self.free_at = now + time + UNIT_TIME * work;
        output
    }
}

pub(super) struct VirtualTestbed {
    pub(super) now: Time,
    arrangement: Arrangement,
    agents: Vec<(NodeId, Machine)>,
    servers: Vec<RelayServer>,
    attacker: Attacker,
    accomplice: Attacker,
    in_flight: BTreeMap<(Time, u64), Packet>,
    launched: u64,
    /// Number of packets that the honest flow has sent on the direct path.
    direct: u64,
    flow: SendFlowId,
    /// Time at which the honest flow sends its next packet.
    next_honest: Time,
    /// Sending time and delay of each packet of the honest flow.
    honest: Vec<(Time, Option<Duration>)>,
    before: Before,
    pub(super) restarting: Restarting,
}

/// State of the restarting agent, and its adversary.
pub(super) struct Restarting {
    pub(super) adversary: Option<Box<dyn Adversary>>,
    /// External port that the NAT assigns to the agent.
    port: u16,
    /// Initiations of the agent to the attacked relay since its start.
    pub(super) initiations: usize,
    starts: u64,
}

/// Counters at the beginning of an attack.
#[derive(Default)]
struct Before {
    /// Packets that the honest flow had sent.
    honest: usize,
    /// Units of work of the attacked relay.
    work: u64,
    /// Memory of the attacked relay.
    memory: Bytes,
}

/// Returns grants for all flows between the honest agents, of one tenant, and between the
/// attackers, of another.
fn grants(arrangement: Arrangement) -> Vec<Grant> {
    let granted = |(sender, receiver, ingress, egress, tenant): (NodeId, NodeId, NodeId, NodeId, u32)| {
        let [sender, receiver] = [sender, receiver].map(NodeId::agent_node);
        let [ingress, egress] = [ingress, egress].map(NodeId::relay_node);
        let flows = FlowId::new(0)..=FlowId::new(u16::MAX);
        let (tenant, rate) = (TenantId::new(tenant), KilobitsPerSecond::new(topology::GRANTED_KBITS));
        Grant { tenant, rate, ..grant((&sender, &receiver), (&ingress, &egress), flows) }
    };
    let paths = arrangement.paths();
    let honest = paths.iter().map(|[ingress, egress]| (SENDER, RECEIVER, *ingress, *egress, 1));
    let near_mate = arrangement.mate_relay();
    let attackers =
        [(ACCOMPLICE, MALLORY, near_mate, EGRESS, 2), (MALLORY, ACCOMPLICE, EGRESS, near_mate, 2)];
    honest.chain(attackers).map(granted).collect()
}

/// Returns an honest agent, connected to the relays at its end of each path.
fn honest_agent(arrangement: Arrangement, node: NodeId, started_unix_nanos: u64, now: Time) -> Agent {
    let (end, peer) = if node == SENDER { (0, RECEIVER) } else { (1, SENDER) };
    let identity =
        AgentIdentity { started_unix_nanos, ..node.agent_node().identity(Suite::ChaCha20Poly1305) };
    let mut seed = node.seed();
    seed[..8].copy_from_slice(&started_unix_nanos.to_be_bytes());
    let mut agent = Agent::new(identity, Engine::fastest(), &PortableProvider, seed, now);
    for path in arrangement.paths() {
        agent.add_relay(&path[end].relay_node().relay_peer(), now);
    }
    agent.add_peer(peer.agent_node().peer(), now);
    agent
}

fn honest_settings(arrangement: Arrangement) -> FlowSettings {
    let paths = arrangement.paths();
    let paths = paths.iter().map(|[ingress, egress]| path(&ingress.relay_node(), &egress.relay_node()));
    FlowSettings { service: arrangement.service, paths: paths.collect(), ..FlowSettings::default() }
}

impl VirtualTestbed {
    /// Returns a testbed in which all nodes are set up, but not the attacker's flows.
    pub(super) fn new(arrangement: Arrangement) -> Self {
        let settings = honest_settings(arrangement);
        let key = topology::flow(1, 2, 1);
        let new_agent = |node| honest_agent(arrangement, node, 1, Time::START);
        let [mut sending, mut receiving] = [SENDER, RECEIVER].map(new_agent);
        let flow = sending.open_flow(key, settings.clone(), Time::START).expect("the peer is known");
        receiving.accept_flow(key, settings, Time::START).expect("the peer is known");
        let near_mate = arrangement.mate_relay();
        let mut world = Self {
            now: Time::START,
            arrangement,
            agents: vec![(SENDER, Machine::agent(sending)), (RECEIVER, Machine::agent(receiving))],
            servers: arrangement
                .nodes()
                .into_iter()
                .map(|node| RelayServer::new(node, arrangement))
                .collect(),
            attacker: Attacker::member(MALLORY, ACCOMPLICE, EGRESS, relay_shard(near_mate)),
            accomplice: Attacker::member(ACCOMPLICE, MALLORY, near_mate, relay_shard(EGRESS)),
            in_flight: BTreeMap::new(),
            launched: 0,
            direct: 0,
            flow,
            next_honest: Time::START,
            honest: Vec::new(),
            before: Before::default(),
            restarting: Restarting {
                adversary: None,
                port: RECEIVER.address().port(),
                initiations: 0,
                starts: 1,
            },
        };
        world.begin();
        world
    }

    fn begin(&mut self) {
        for index in 0..self.agents.len() {
            let output = self.agents[index].1.drain();
            self.launch_all(self.agents[index].0, output, self.now);
        }
        for index in 0..self.servers.len() {
            let output = self.servers[index].machine.drain();
            self.launch_all(self.servers[index].node, output, self.now);
        }
        let (of_mallory, of_mate) = (self.attacker.initiate(), self.accomplice.initiate());
        self.launch(MALLORY, EGRESS.address(), of_mallory, self.now);
        self.launch(ACCOMPLICE, self.arrangement.mate_relay().address(), of_mate, self.now);
        self.run(Duration::from_millis(100));
        assert!(self.attacker.is_established() && self.accomplice.is_established(), "both have sessions");
    }

    /// Runs an attack while the honest flow continues.
    pub(super) fn attack(&mut self, attack: &Attack, size: Size) {
        let relay = self.servers[ATTACKED].relay();
        self.before = Before { honest: self.honest.len(), work: relay.work().units(), memory: memory(relay) };
        let mut first = Vec::new();
        for nth in 0..size.datagrams {
            if let Some(packet) = attack.datagram(&mut self.attacker, nth, &first) {
                if nth == 0 {
                    first.clone_from(&packet);
                }
                self.launch(MALLORY, EGRESS.address(), packet, self.now);
            }
            self.run(size.interval);
        }
    }

    pub(super) fn outcome(mut self, name: &'static str, size: Size) -> Outcome {
        let relay = self.servers[ATTACKED].relay();
        let work = relay.work().units() - self.before.work;
        let memory = Bytes::new(memory(relay).count().saturating_sub(self.before.memory.count()));
        let sent = self.honest.len() - self.before.honest;
        // Late packets may still arrive.
        self.next_honest = Time::MAX;
        self.run(Duration::from_secs(1));
        let mut delays: Vec<Duration> =
            self.honest[self.before.honest..].iter().filter_map(|(_, delay)| *delay).collect();
        delays.sort_unstable();
        let p99 = delays.get(delays.len().saturating_sub(1) * 99 / 100).copied().unwrap_or(Duration::MAX);
        let work_per_datagram = work / u64::from(size.datagrams);
        Outcome { name, sent, lost: sent - delays.len(), p99, work_per_datagram, memory, size }
    }

    /// Advances time, with all nodes and the honest flow.
    pub(super) fn run(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(at) = self.next().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.step();
        }
        self.now = until;
    }

    fn next(&self) -> Option<Time> {
        let arrival = self.in_flight.first_key_value().map(|((at, _), _)| *at);
        let agents = self.agents.iter().filter_map(|(_, machine)| machine.deadline());
        let servers = self.servers.iter().filter_map(RelayServer::next);
        agents.chain(servers).chain(arrival).chain([self.next_honest]).min()
    }

    fn step(&mut self) {
        let now = self.now;
        if self.next_honest <= now {
            self.send_honest();
        } else if let Some(entry) = self.in_flight.first_entry().filter(|entry| entry.key().0 <= now) {
            let packet = entry.remove();
            self.arrive(packet);
        } else if let Some(index) =
            self.servers.iter().position(|server| server.next().is_some_and(|at| at <= now))
        {
            let output = self.servers[index].step(now);
            self.launch_all(self.servers[index].node, output, self.servers[index].free_at);
        } else if let Some(index) =
            self.agents.iter().position(|(_, machine)| machine.deadline().is_some_and(|at| at <= now))
        {
            let output = self.agents[index].1.wake(now);
            self.launch_all(self.agents[index].0, output, now);
        }
    }

    fn send_honest(&mut self) {
        let mut datagram = [0; HONEST_BYTES];
        datagram[..8].copy_from_slice(&(self.honest.len() as u64).to_be_bytes());
        let (flow, now) = (self.flow, self.now);
        let output = self.agents[0].1.send(flow, &datagram, false, now);
        self.honest.push((now, None));
        self.next_honest = now + HONEST_INTERVAL;
        self.launch_all(SENDER, output, now);
    }

    fn arrive(&mut self, packet: Packet) {
        let now = self.now;
        if let Some(server) = self.servers.iter_mut().find(|server| server.node.address() == packet.to) {
            if server.backlog.len() < BACKLOG_MAX {
                server.backlog.push_back(packet);
            }
        } else if let Some(index) = self.agents.iter().position(|(node, _)| self.outside(*node) == packet.to)
        {
            let output = self.agents[index].1.receive(packet.from, &packet.bytes, now);
            self.deliver(&output);
            self.launch_all(self.agents[index].0, output, now);
        } else if packet.to == MALLORY.address() {
            self.on_packet_for(Role::Attacker, &packet.bytes);
        } else if packet.to == ACCOMPLICE.address() {
            self.on_packet_for(Role::Accomplice, &packet.bytes);
        } else if let Some(adversary) = &mut self.restarting.adversary {
            adversary.on_packet(&packet);
        }
    }

    /// Returns the address of a node as other nodes observe it, behind its NAT.
    fn outside(&self, node: NodeId) -> SocketAddr {
        let mut address = node.address();
        if node == RECEIVER {
            address.set_port(self.restarting.port);
        }
        address
    }

    /// Restarts the honest receiver, with the same external port or a new one.
    pub(super) fn restart(&mut self, has_new_port: bool) {
        self.restarting.port += u16::from(has_new_port);
        (self.restarting.starts, self.restarting.initiations) = (self.restarting.starts + 1, 0);
        let (now, started) = (self.now, self.restarting.starts * 1_000_000_000_000);
        let mut agent = honest_agent(self.arrangement, RECEIVER, started, now);
        let settings = honest_settings(self.arrangement);
        agent.accept_flow(topology::flow(1, 2, 1), settings, now).expect("the peer is known");
        self.agents[1].1 = Machine::agent(agent);
        let output = self.agents[1].1.drain();
        self.launch_all(RECEIVER, output, now);
    }

    /// Returns true if the agent that was restarted has a session with the attacked relay.
    pub(super) fn is_restarted_agent_established(&mut self) -> bool {
        let (now, relay) = (self.now, relay_shard(EGRESS));
        let status = self.agents[1].1.as_agent().relay_status(relay.relay, relay.shard, now);
        status.is_some_and(|status| status.established)
    }

    /// Advances time during a flood of the adversary, until `holds` returns true or the time ends.
    /// Returns true in the first case.
    pub(super) fn run_beside_flood(
        &mut self,
        time: Duration,
        interval: Duration,
        holds: impl Fn(&mut Self) -> bool,
    ) -> bool {
        let until = self.now + time;
        while self.now < until {
            if let Some(packet) = self.restarting.adversary.as_mut().and_then(|adversary| adversary.flood()) {
                self.transmit(packet, self.now + DELAY);
            }
            self.run(interval);
            if holds(self) {
                return true;
            }
        }
        false
    }

    /// Passes a packet to the member in this role, whose answer maintains the session.
    fn on_packet_for(&mut self, part: Role, packet: &[u8]) {
        let now = self.now;
        if let Some(answer) = self.member(part).on_packet(packet, now) {
            self.send(part, answer);
        }
    }

    fn deliver(&mut self, output: &Output) {
        for (_, datagram) in &output.delivered {
            let number =
                datagram.first_chunk().map(|bytes| u64::from_be_bytes(*bytes)).expect("it is numbered");
            let (sent, delay) = &mut self.honest[usize::try_from(number).expect("few packets")];
            assert!(delay.is_none(), "packet {number} is delivered twice");
            *delay = Some(self.now.saturating_since(*sent));
        }
    }

    fn launch_all(&mut self, from: NodeId, output: Output, at: Time) {
        for (to, bytes) in output.sent {
            let is_to_agent = [SENDER, RECEIVER].map(|node| self.outside(node)).contains(&to);
            let is_direct = matches!(from, NodeId::Agent(_)) && is_to_agent;
            if !is_direct || self.passes_directly(&bytes) {
                self.launch(from, to, bytes, at);
            }
        }
    }

    /// Returns true if the direct path delivers the packet. It is closed for a forwarded flow and
    /// lossy for others, so the honest flow depends on the relays.
    fn passes_directly(&mut self, bytes: &[u8]) -> bool {
        if self.arrangement.service == Service::Forwarding {
            return false;
        }
        let is_honest = bytes.len() >= HONEST_BYTES && bytes[0] == PacketKind::Source.first_byte();
        self.direct += u64::from(is_honest);
        !is_honest || !self.direct.is_multiple_of(DIRECT_LOSS_PART)
    }

    fn launch(&mut self, from: NodeId, to: SocketAddr, bytes: Vec<u8>, at: Time) {
        let packet = Packet { from: self.outside(from), to, bytes };
        let is_initiation = packet.bytes[0] == PacketKind::Initiation.first_byte();
        if from == RECEIVER && to == EGRESS.address() && is_initiation {
            self.restarting.initiations += 1;
            let forged = self.restarting.adversary.as_mut().map(|adversary| adversary.see(&packet, at));
            for forgery in forged.into_iter().flatten() {
                self.transmit(forgery, at + FORGERY_DELAY);
            }
        }
        self.transmit(packet, at + DELAY);
    }

    fn transmit(&mut self, packet: Packet, at: Time) {
        self.launched += 1;
        self.in_flight.insert((at, self.launched), packet);
    }
}

impl Testbed for VirtualTestbed {
    fn member(&mut self, part: Role) -> &mut Attacker {
        match part {
            Role::Attacker => &mut self.attacker,
            Role::Accomplice => &mut self.accomplice,
        }
    }

    fn send(&mut self, part: Role, packet: Vec<u8>) {
        let (node, relay) = match part {
            Role::Attacker => (MALLORY, EGRESS),
            Role::Accomplice => (ACCOMPLICE, self.arrangement.mate_relay()),
        };
        self.launch(node, relay.address(), packet, self.now);
    }

    fn pass(&mut self, time: Duration) {
        self.run(time);
    }
}

/// Returns the identifier of a relay's first shard.
fn relay_shard(relay: NodeId) -> GrantedRelay {
    GrantedRelay { relay: relay.relay_node().number, shard: Shard::new(0) }
}

fn memory(relay: &Relay) -> Bytes {
    relay.memory_bytes()
}
