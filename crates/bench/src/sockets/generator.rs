//! Generator of packets for relays under test: plain datagrams, or authenticated copies of real
//! agents.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use byway_aws_lc::AwsLc;
use byway_code::Engine;
use byway_net::{Arrival, Clock, Handle, Io, OverlaySockets, Role, SocketId, spawn};
use byway_proto::agent::{Agent, AgentInput, AgentOutput, FlowSettings, SendFlowId, flow_between};
use byway_proto::relay::{Relay, RelayInput};
use byway_proto::{LocalAddress, Priority, Transmit};
use byway_sim::overlay::topology::{AgentNode, RelayNode};
use byway_units::{Duration, FlowId, Time};
use byway_wire::packets::Kind;
use byway_wire::seal::Suite;
use byway_wire::{Ecn, TrafficClass};
use socket2::Socket;

use super::{Cores, Progress, SocketsOptions};

/// Packets that the generator sends at once: as many as one GSO call sends.
const BURST: u64 = 64;

/// Most packets in flight through the relay. They fit into a receive buffer of 4 MiB, including the
/// kernel's overhead.
const WINDOW: u64 = 1_024;

/// Time without progress of the relay after which the generator declares the packets in flight
/// lost.
const LOSS_TIMEOUT: Duration = Duration::from_millis(50);

/// Command to a generator's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GeneratorCommand {
    Run,
    Rest,
}

/// Role of the generator's thread: sends a load of packets, and limits the packets in flight to a
/// window.
struct Generator<L> {
    load: L,
    cores: Cores,
    is_running: bool,
    progress: Arc<Progress>,
    /// Number of packets that the generator declared lost.
    lost: u64,
    /// Number of packets that the relay had handled at its last progress, and the time of that.
    last_progress: (u64, Time),
}

/// Load of a generator: the source of the packets that it sends.
trait Load: Send + 'static {
    fn start(&mut self, io: &mut Io);

    /// Sends this number of packets to the relay under test.
    fn send(&mut self, packets: u64, io: &mut Io);

    /// Returns the number of packets sent since the start.
    fn packets_sent(&self) -> u64;

    fn received(&mut self, arrival: Arrival<'_>, is_running: bool, io: &mut Io);

    /// Handles the deadlines of agents and relays.
    fn wake(&mut self, io: &mut Io);

    fn deadline(&self) -> Option<Time>;
}

impl<L: Load> Role for Generator<L> {
    type Control = GeneratorCommand;

    fn start(&mut self, io: &mut Io) {
        core_affinity::set_for_current(self.cores.generator);
        self.load.start(io);
    }

    fn on_datagram(&mut self, arrival: Arrival<'_>, io: &mut Io) {
        self.load.received(arrival, self.is_running, io);
    }

    fn on_deadline(&mut self, io: &mut Io) {
        if self.load.deadline().is_some_and(|deadline| deadline <= io.now()) {
            self.load.wake(io);
        }
        if !self.is_running {
            return;
        }
        let relayed = self.progress.packets();
        let in_flight = self.load.packets_sent().saturating_sub(relayed + self.lost);
        if relayed != self.last_progress.0 {
            self.last_progress = (relayed, io.now());
        } else if io.now().saturating_since(self.last_progress.1) > LOSS_TIMEOUT {
            self.lost += in_flight;
            self.last_progress.1 = io.now();
        }
        if in_flight + BURST <= WINDOW {
            self.load.send(BURST, io);
        }
    }

    fn on_control(&mut self, command: GeneratorCommand, _: &mut Io) {
        self.is_running = command == GeneratorCommand::Run;
    }

    fn deadline(&self) -> Option<Time> {
        if self.is_running { Some(Time::START) } else { self.load.deadline() }
    }

    fn is_finished(&self) -> bool {
        false
    }
}

fn generate(
    load: impl Load,
    sockets: OverlaySockets,
    cores: Cores,
    progress: Arc<Progress>,
    clock: Clock,
) -> Result<Handle<GeneratorCommand>> {
    let generator =
        Generator { load, cores, is_running: false, progress, lost: 0, last_progress: (0, Time::START) };
    spawn("generator", sockets, generator, clock).context("the generator's thread")
}

/// Starts a generator of plain datagrams to `to`.
pub(super) fn plain(
    to: SocketAddr,
    options: &SocketsOptions,
    cores: Cores,
    progress: Arc<Progress>,
) -> Result<Handle<GeneratorCommand>> {
    let load = PlainLoad { to, datagram: vec![0xA5; options.bytes.into()], sent: 0 };
    generate(load, OverlaySockets::bind(&[super::relays::LOOPBACK])?, cores, progress, Clock::start())
}

struct PlainLoad {
    to: SocketAddr,
    datagram: Vec<u8>,
    sent: u64,
}

impl Load for PlainLoad {
    fn start(&mut self, _: &mut Io) {}

    fn send(&mut self, packets: u64, io: &mut Io) {
        for _ in 0..packets {
            let transmit = Transmit {
                to: self.to,
                from: LocalAddress::ANY,
                ecn: Ecn::NotCapable,
                priority: Priority::Source,
                bytes: &self.datagram,
            };
            io.send(SocketId::OVERLAY, &transmit);
        }
        self.sent += packets;
    }

    fn packets_sent(&self) -> u64 {
        self.sent
    }

    fn received(&mut self, _: Arrival<'_>, _: bool, _: &mut Io) {}

    fn wake(&mut self, _: &mut Io) {}

    fn deadline(&self) -> Option<Time> {
        None
    }
}

/// Agents and relays of the measurement, and the settings of its flows.
pub(super) struct Topology {
    pub(super) sender: AgentNode,
    pub(super) receiver: AgentNode,
    pub(super) ingress: RelayNode,
    pub(super) egress: RelayNode,
    pub(super) flows: u16,
    pub(super) flow: FlowSettings,
}

/// Starts a generator of copies: a sending agent, with an egress relay and a receiving agent that
/// answer the ingress relay under test.
///
/// The agent sends no source packets, and during a turn the egress relay ignores forwarded packets,
/// because only the ingress relay is measured and the generator has one core.
pub(super) fn overlay(
    topology: Topology,
    egress: Relay,
    egress_sockets: OverlaySockets,
    options: &SocketsOptions,
    (cores, clock): (Cores, Clock),
    progress: Arc<Progress>,
) -> Result<Handle<GeneratorCommand>> {
    let datagram = vec![0xA5; options.bytes.into()];
    let load = OverlayLoad { topology, egress, agents: None, flows: Vec::new(), next_flow: 0, datagram };
    generate(load, egress_sockets, cores, progress, clock)
}

struct OverlayLoad {
    topology: Topology,
    /// Egress relay, at the driver's overlay socket.
    egress: Relay,
    /// Sending and receiving agent, each with a socket of its own; `None` before the start.
    agents: Option<[(SocketId, Box<Agent>); 2]>,
    flows: Vec<SendFlowId>,
    next_flow: usize,
    datagram: Vec<u8>,
}

impl OverlayLoad {
    fn open_flows(&mut self, sender: &mut Agent, receiver: &mut Agent, now: Time) {
        for number in 0..self.topology.flows {
            let key =
                flow_between(self.topology.sender.number, self.topology.receiver.number, FlowId::new(number));
            let flow = sender.open_flow(key, self.topology.flow.clone(), now);
            self.flows.push(flow.expect("the receiver is known"));
            receiver.accept_flow(key, self.topology.flow.clone(), now).expect("the sender is known");
        }
    }
}

impl Load for OverlayLoad {
    fn start(&mut self, io: &mut Io) {
        let now = io.now();
        let sockets = [(); 2].map(|()| io.open(super::relays::LOOPBACK).expect("a port is free"));
        let identities = [&self.topology.sender, &self.topology.receiver];
        let mut nodes = identities
            .iter()
            .zip(sockets)
            .map(|(node, socket)| AgentNode { address: io.local_address(socket), ..(*node).clone() });
        let [Some(sender), Some(receiver)] = [nodes.next(), nodes.next()] else {
            unreachable!("there are two");
        };
        let agent = |node: &AgentNode, peer: &AgentNode, relay: &RelayNode, seed: u8| {
            let identity = node.identity(Suite::Aes256Gcm);
            let mut agent = Agent::new(identity, Engine::fastest(), &AwsLc, [seed; 32], now);
            agent.add_relay(&relay.relay_peer(), now);
            agent.add_peer(peer.peer(), now);
            Box::new(agent)
        };
        let mut sending = agent(&sender, &receiver, &self.topology.ingress, 11);
        let mut receiving = agent(&receiver, &sender, &self.topology.egress, 12);
        self.open_flows(&mut sending, &mut receiving, now);
        self.agents = Some([(sockets[0], sending), (sockets[1], receiving)]);
        self.wake(io);
    }

    fn send(&mut self, packets: u64, io: &mut Io) {
        let Some([(socket, sender), _]) = &mut self.agents else {
            return;
        };
        for _ in 0..packets {
            let flow = self.flows[self.next_flow];
            self.next_flow = (self.next_flow + 1) % self.flows.len();
            let input = AgentInput::Send {
                flow,
                datagram: &self.datagram,
                traffic_class: TrafficClass::DEFAULT,
                marked: false,
            };
            sender.handle(input, io.now());
            drain_agent(sender, *socket, io);
        }
    }

    fn packets_sent(&self) -> u64 {
        self.agents.as_ref().map_or(0, |[(_, sender), _]| sender.counters().copies)
    }

    fn received(&mut self, arrival: Arrival<'_>, is_running: bool, io: &mut Io) {
        let Arrival { socket, from, to, traffic_class, bytes } = arrival;
        let ecn = traffic_class.ecn();
        if socket == SocketId::OVERLAY {
            if !(is_running && bytes.first() == Some(&Kind::Envelope.first_byte())) {
                self.egress.handle(RelayInput::Received { from, to, ecn, bytes }, io.now());
                super::relays::drain(&mut self.egress, io);
            }
            return;
        }
        let agents = self.agents.iter_mut().flatten();
        for (own, agent) in agents.filter(|(own, _)| *own == socket) {
            agent.handle(AgentInput::Received { from, to, ecn, bytes: &mut *bytes }, io.now());
            drain_agent(agent, *own, io);
        }
    }

    fn wake(&mut self, io: &mut Io) {
        let now = io.now();
        self.egress.handle(RelayInput::Deadline, now);
        super::relays::drain(&mut self.egress, io);
        for (socket, agent) in self.agents.iter_mut().flatten() {
            agent.handle(AgentInput::Deadline, now);
            drain_agent(agent, *socket, io);
        }
    }

    fn deadline(&self) -> Option<Time> {
        let egress = self.egress.deadline().map(|(at, _)| at);
        let agents = self.agents.iter().flatten().filter_map(|(_, agent)| agent.deadline().map(|(at, _)| at));
        agents.chain(egress).min()
    }
}

/// Sends the packets that an agent has queued, except source packets.
fn drain_agent(agent: &mut Agent, socket: SocketId, io: &mut Io) {
    while let Some(output) = agent.poll() {
        match output {
            AgentOutput::Transmit(transmit) => {
                if transmit.bytes.first() != Some(&Kind::Source.first_byte()) {
                    io.send(socket, &transmit);
                }
            }
            AgentOutput::Deliver { .. } | AgentOutput::Offered { .. } | AgentOutput::Event(_) => {}
        }
    }
}

/// Returns the local address and port of a socket.
pub(super) fn address(socket: &Socket) -> Result<SocketAddr> {
    socket.local_addr()?.as_socket().context("an address of the Internet")
}
