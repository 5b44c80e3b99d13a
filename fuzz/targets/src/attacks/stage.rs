//! Relays that take time for what they do, an honest flow through them, and an attacker with a mate.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use byway_code::Engine;
use byway_proto::agent::{Agent, AgentIdentity, FlowSettings, SendFlowId};
use byway_proto::relay::{Authority, Relay};
use byway_sim::overlay::cast::{grant, path};
use byway_units::{Bytes, Duration, FlowId, Time};
use byway_wire::packets::Kind as PacketKind;
use byway_wire::seal::{Portable, Suite};
use byway_wire::{Grant, GrantedRelay, KilobitsPerSecond, Service, Shard, TenantId};

use super::adversary::{Adversary, RESTARTED as RECEIVER};
use super::arrangement::Arrangement;
use super::{Attack, Attacker, DATAGRAM_TIME, Outcome, Part, Scene, Size, UNIT_TIME};
use crate::harness::machine::{Kind, Machine, Output};
use crate::harness::net::Packet;
use crate::harness::topology::{self, EGRESS, NodeId};

const SENDER: NodeId = NodeId::Agent(1);
/// The attacker is at the relay where the honest flow leaves the overlay, and its mate where that enters it.
pub(super) const MATE: NodeId = NodeId::Agent(3);
pub(super) const MALLORY: NodeId = NodeId::Agent(4);

/// How long packets take between any two nodes.
pub(super) const DELAY: Duration = Duration::from_millis(5);

/// The honest flow sends 500 packets a second.
const HONEST_INTERVAL: Duration = Duration::from_millis(2);

/// Datagrams that wait for a relay at most: what a socket's buffer of 4 MB takes.
const BACKLOG_MAX: usize = 2_048;

/// Bytes of a packet of the honest flow: what is shorter says something of the session or asks for repairs.
const HONEST_BYTES: usize = 200;

/// The attacked relay's place among all.
const ATTACKED: usize = 0;

/// How long an observer's packets take to whoever sent what it saw: less than the true answers.
const FORGERY_DELAY: Duration = Duration::from_millis(1);

/// One in so many packets of the honest flow is lost on the direct path, where its service uses that.
const DIRECT_LOSS_PART: u64 = 10;

/// A relay, and the processor that it runs on.
struct Server {
    who: NodeId,
    machine: Machine,
    backlog: VecDeque<Packet>,
    free_at: Time,
}

impl Server {
    fn new(who: NodeId, arrangement: Arrangement) -> Self {
        let others = arrangement.nodes().into_iter().filter(|other| *other != who);
        let others = others.map(|other| other.relay_card().for_relays()).collect();
        let authority = Authority::Static(grants(arrangement));
        let settings = who.relay_card().settings(Suite::ChaCha20Poly1305, authority, others);
        let relay = Relay::new(settings, Engine::fastest(), &Portable, who.seed(), Time::START);
        let (machine, backlog) = (Machine::relay(relay), VecDeque::new());
        Self { who, machine, backlog, free_at: Time::START }
    }

    fn relay(&self) -> &Relay {
        match &self.machine.kind {
            Kind::Relay(relay) => relay,
            Kind::Agent(_) => panic!("a server is a relay"),
        }
    }

    /// When it does something next.
    fn next(&self) -> Option<Time> {
        let waiting = if self.backlog.is_empty() { None } else { Some(Time::START) };
        let next = [waiting, self.machine.deadline()].into_iter().flatten().min();
        next.map(|at| at.max(self.free_at))
    }

    /// Does what is due, and takes its time for that.
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

pub(super) struct World {
    pub(super) now: Time,
    arrangement: Arrangement,
    agents: Vec<(NodeId, Machine)>,
    servers: Vec<Server>,
    mallory: Attacker,
    mate: Attacker,
    under_way: BTreeMap<(Time, u64), Packet>,
    launched: u64,
    /// Packets of the honest flow on the direct path.
    direct: u64,
    flow: SendFlowId,
    /// When the honest flow sends next.
    next_honest: Time,
    /// When each packet of the honest flow was sent, and how long it took.
    honest: Vec<(Time, Option<Duration>)>,
    before: Before,
    pub(super) restarting: Restarting,
}

/// The agent that restarts, and who is to keep it out.
pub(super) struct Restarting {
    pub(super) adversary: Option<Box<dyn Adversary>>,
    /// Its outside port.
    port: u16,
    /// Its initiations to the attacked relay since its start.
    pub(super) initiations: usize,
    starts: u64,
}

/// Counts before the attack.
#[derive(Default)]
struct Before {
    /// Packets of the honest flow.
    honest: usize,
    /// The relay's units of work.
    work: u64,
    /// The relay's memory.
    memory: Bytes,
}

/// Grants for all flows between the honest agents, of one tenant, and between the attackers, of another.
fn grants(arrangement: Arrangement) -> Vec<Grant> {
    let granted = |(sender, receiver, ingress, egress, tenant): (NodeId, NodeId, NodeId, NodeId, u32)| {
        let [sender, receiver] = [sender, receiver].map(NodeId::agent_card);
        let [ingress, egress] = [ingress, egress].map(NodeId::relay_card);
        let flows = FlowId::new(0)..=FlowId::new(u16::MAX);
        let (tenant, rate) = (TenantId::new(tenant), KilobitsPerSecond::new(topology::GRANTED_KBITS));
        Grant { tenant, rate, ..grant((&sender, &receiver), (&ingress, &egress), flows) }
    };
    let paths = arrangement.paths();
    let honest = paths.iter().map(|[ingress, egress]| (SENDER, RECEIVER, *ingress, *egress, 1));
    let near_mate = arrangement.mate_relay();
    let attackers = [(MATE, MALLORY, near_mate, EGRESS, 2), (MALLORY, MATE, EGRESS, near_mate, 2)];
    honest.chain(attackers).map(granted).collect()
}

/// An honest agent at the relays of its end of each path.
fn honest_agent(arrangement: Arrangement, who: NodeId, started_unix_nanos: u64, now: Time) -> Agent {
    let (end, peer) = if who == SENDER { (0, RECEIVER) } else { (1, SENDER) };
    let identity = AgentIdentity { started_unix_nanos, ..who.agent_card().identity(Suite::ChaCha20Poly1305) };
    let mut seed = who.seed();
    seed[..8].copy_from_slice(&started_unix_nanos.to_be_bytes());
    let mut agent = Agent::new(identity, Engine::fastest(), &Portable, seed, now);
    for path in arrangement.paths() {
        agent.add_relay(&path[end].relay_card().for_agents(), now);
    }
    agent.add_peer(peer.agent_card().for_peers(), now);
    agent
}

fn honest_settings(arrangement: Arrangement) -> FlowSettings {
    let paths = arrangement.paths();
    let paths = paths.iter().map(|[ingress, egress]| path(&ingress.relay_card(), &egress.relay_card()));
    FlowSettings { service: arrangement.service, paths: paths.collect(), ..FlowSettings::default() }
}

impl World {
    /// All is set up but for the flows of the attacker.
    pub(super) fn new(arrangement: Arrangement) -> Self {
        let settings = honest_settings(arrangement);
        let key = topology::flow(1, 2, 1);
        let begun = |who| honest_agent(arrangement, who, 1, Time::START);
        let [mut sending, mut receiving] = [SENDER, RECEIVER].map(begun);
        let flow = sending.open_flow(key, settings.clone(), Time::START).expect("the peer is known");
        receiving.accept_flow(key, settings, Time::START).expect("the peer is known");
        let near_mate = arrangement.mate_relay();
        let mut world = Self {
            now: Time::START,
            arrangement,
            agents: vec![(SENDER, Machine::agent(sending)), (RECEIVER, Machine::agent(receiving))],
            servers: arrangement.nodes().into_iter().map(|who| Server::new(who, arrangement)).collect(),
            mallory: Attacker::known(MALLORY, MATE, EGRESS, place(near_mate)),
            mate: Attacker::known(MATE, MALLORY, near_mate, place(EGRESS)),
            under_way: BTreeMap::new(),
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
        for place in 0..self.agents.len() {
            let output = self.agents[place].1.drain();
            self.launch_all(self.agents[place].0, output, self.now);
        }
        for place in 0..self.servers.len() {
            let output = self.servers[place].machine.drain();
            self.launch_all(self.servers[place].who, output, self.now);
        }
        let (of_mallory, of_mate) = (self.mallory.initiate(), self.mate.initiate());
        self.launch(MALLORY, EGRESS.address(), of_mallory, self.now);
        self.launch(MATE, self.arrangement.mate_relay().address(), of_mate, self.now);
        self.run(Duration::from_millis(100));
        assert!(self.mallory.is_established() && self.mate.is_established(), "both have sessions");
    }

    /// The attacker sends its datagrams, and the honest flow goes on.
    pub(super) fn attack(&mut self, attack: &Attack, size: Size) {
        let relay = self.servers[ATTACKED].relay();
        self.before = Before { honest: self.honest.len(), work: relay.work().units(), memory: memory(relay) };
        let mut first = Vec::new();
        for nth in 0..size.datagrams {
            if let Some(packet) = attack.datagram(&mut self.mallory, nth, &first) {
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
        // What is late may still come.
        self.next_honest = Time::MAX;
        self.run(Duration::from_secs(1));
        let mut delays: Vec<Duration> =
            self.honest[self.before.honest..].iter().filter_map(|(_, delay)| *delay).collect();
        delays.sort_unstable();
        let p99 = delays.get(delays.len().saturating_sub(1) * 99 / 100).copied().unwrap_or(Duration::MAX);
        let work_per_datagram = work / u64::from(size.datagrams);
        Outcome { name, sent, lost: sent - delays.len(), p99, work_per_datagram, memory, size }
    }

    /// Lets time pass.
    pub(super) fn run(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(at) = self.next().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.step();
        }
        self.now = until;
    }

    fn next(&self) -> Option<Time> {
        let arrival = self.under_way.first_key_value().map(|((at, _), _)| *at);
        let agents = self.agents.iter().filter_map(|(_, machine)| machine.deadline());
        let servers = self.servers.iter().filter_map(Server::next);
        agents.chain(servers).chain(arrival).chain([self.next_honest]).min()
    }

    fn step(&mut self) {
        let now = self.now;
        if self.next_honest <= now {
            self.send_honest();
        } else if let Some(entry) = self.under_way.first_entry().filter(|entry| entry.key().0 <= now) {
            let packet = entry.remove();
            self.arrive(packet);
        } else if let Some(place) =
            self.servers.iter().position(|server| server.next().is_some_and(|at| at <= now))
        {
            let output = self.servers[place].step(now);
            self.launch_all(self.servers[place].who, output, self.servers[place].free_at);
        } else if let Some(place) =
            self.agents.iter().position(|(_, machine)| machine.deadline().is_some_and(|at| at <= now))
        {
            let output = self.agents[place].1.wake(now);
            self.launch_all(self.agents[place].0, output, now);
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
        if let Some(server) = self.servers.iter_mut().find(|server| server.who.address() == packet.to) {
            if server.backlog.len() < BACKLOG_MAX {
                server.backlog.push_back(packet);
            }
        } else if let Some(place) = self.agents.iter().position(|(who, _)| self.outside(*who) == packet.to) {
            let output = self.agents[place].1.receive(packet.from, &packet.bytes, now);
            self.deliver(&output);
            self.launch_all(self.agents[place].0, output, now);
        } else if packet.to == MALLORY.address() {
            self.take_as(Part::Attacker, &packet.bytes);
        } else if packet.to == MATE.address() {
            self.take_as(Part::Mate, &packet.bytes);
        } else if let Some(adversary) = &mut self.restarting.adversary {
            adversary.take(&packet);
        }
    }

    /// The address at which others see a node.
    fn outside(&self, who: NodeId) -> SocketAddr {
        let mut address = who.address();
        if who == RECEIVER {
            address.set_port(self.restarting.port);
        }
        address
    }

    /// Restarts the honest receiver, behind the same port or a new one.
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
        let (now, relay) = (self.now, place(EGRESS));
        let status = self.agents[1].1.as_agent().relay_status(relay.relay, relay.shard, now);
        status.is_some_and(|status| status.established)
    }

    /// Lets time pass beside a flood of the adversary, until something holds; returns true if it does.
    pub(super) fn run_beside_flood(
        &mut self,
        time: Duration,
        interval: Duration,
        holds: impl Fn(&mut Self) -> bool,
    ) -> bool {
        let until = self.now + time;
        while self.now < until {
            if let Some(packet) = self.restarting.adversary.as_mut().and_then(|adversary| adversary.flood()) {
                self.carry(packet, self.now + DELAY);
            }
            self.run(interval);
            if holds(self) {
                return true;
            }
        }
        false
    }

    /// What a part hears is answered: the session lives on.
    fn take_as(&mut self, part: Part, packet: &[u8]) {
        let now = self.now;
        if let Some(answer) = self.member(part).take(packet, now) {
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
            let is_to_agent = [SENDER, RECEIVER].map(|who| self.outside(who)).contains(&to);
            let is_direct = matches!(from, NodeId::Agent(_)) && is_to_agent;
            if !is_direct || self.passes_directly(&bytes) {
                self.launch(from, to, bytes, at);
            }
        }
    }

    /// The direct path of a forwarded flow is closed; others lose packets there. So the honest flow depends on the relays.
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
                self.carry(forgery, at + FORGERY_DELAY);
            }
        }
        self.carry(packet, at + DELAY);
    }

    fn carry(&mut self, packet: Packet, at: Time) {
        self.launched += 1;
        self.under_way.insert((at, self.launched), packet);
    }
}

impl Scene for World {
    fn member(&mut self, part: Part) -> &mut Attacker {
        match part {
            Part::Attacker => &mut self.mallory,
            Part::Mate => &mut self.mate,
        }
    }

    fn send(&mut self, part: Part, packet: Vec<u8>) {
        let (who, relay) = match part {
            Part::Attacker => (MALLORY, EGRESS),
            Part::Mate => (MATE, self.arrangement.mate_relay()),
        };
        self.launch(who, relay.address(), packet, self.now);
    }

    fn pass(&mut self, time: Duration) {
        self.run(time);
    }
}

/// The first shard of a relay.
fn place(relay: NodeId) -> GrantedRelay {
    GrantedRelay { relay: relay.relay_card().number, shard: Shard::new(0) }
}

fn memory(relay: &Relay) -> Bytes {
    relay.memory_held()
}
