//! Where packets come from: plain ones, or authenticated copies of real agents.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, Result};
use byway_aws_lc::AwsLc;
use byway_code::Engine;
use byway_net::{Arrival, Clock, Handle, Io, OverlaySockets, Role, SocketId, spawn};
use byway_proto::agent::{Agent, AgentInput, AgentOutput, FlowSettings, SendFlowId, flow_between};
use byway_proto::relay::{Relay, RelayInput};
use byway_proto::{LocalAddress, Transmit, Urgency};
use byway_sim::overlay::cast::{AgentCard, RelayCard};
use byway_units::{Duration, FlowId, Time};
use byway_wire::packets::Kind;
use byway_wire::seal::Suite;
use byway_wire::{Ecn, TrafficClass};
use socket2::Socket;

use super::{Cores, Options, Progress};

/// Packets of one turn: as many as one GSO call takes.
const BURST: u64 = 64;

/// Packets under way at most: they fit into a receive buffer of 4 MiB however the kernel counts them.
const WINDOW: u64 = 1_024;

/// After so long without progress, packets under way are given up for lost.
const PATIENCE: Duration = Duration::from_millis(50);

/// What a generator is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Run,
    Rest,
}

/// A generator that keeps a window of packets under way.
struct Generator<L> {
    load: L,
    cores: Cores,
    is_running: bool,
    progress: Arc<Progress>,
    /// Packets that are given up for lost.
    lost: u64,
    /// What had gone through when that last changed, and when it did.
    last_progress: (u64, Time),
}

/// What a generator sends.
trait Load: Send + 'static {
    fn start(&mut self, io: &mut Io);

    /// Sends so many packets.
    fn send(&mut self, packets: u64, io: &mut Io);

    /// How many it has sent.
    fn sent(&self) -> u64;

    fn received(&mut self, arrival: Arrival<'_>, is_running: bool, io: &mut Io);

    /// Keeps the deadlines of whatever it has.
    fn wake(&mut self, io: &mut Io);

    fn deadline(&self) -> Option<Time>;
}

impl<L: Load> Role for Generator<L> {
    type Control = Order;

    fn start(&mut self, io: &mut Io) {
        core_affinity::set_for_current(self.cores.generator);
        self.load.start(io);
    }

    fn received(&mut self, arrival: Arrival<'_>, io: &mut Io) {
        self.load.received(arrival, self.is_running, io);
    }

    fn woken(&mut self, io: &mut Io) {
        if self.load.deadline().is_some_and(|deadline| deadline <= io.now()) {
            self.load.wake(io);
        }
        if !self.is_running {
            return;
        }
        let through = self.progress.packets();
        let under_way = self.load.sent().saturating_sub(through + self.lost);
        if through != self.last_progress.0 {
            self.last_progress = (through, io.now());
        } else if io.now().saturating_since(self.last_progress.1) > PATIENCE {
            self.lost += under_way;
            self.last_progress.1 = io.now();
        }
        if under_way + BURST <= WINDOW {
            self.load.send(BURST, io);
        }
    }

    fn controlled(&mut self, order: Order, _: &mut Io) {
        self.is_running = order == Order::Run;
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
) -> Result<Handle<Order>> {
    let generator =
        Generator { load, cores, is_running: false, progress, lost: 0, last_progress: (0, Time::START) };
    spawn("generator", sockets, generator, clock).context("the generator's thread")
}

/// A generator of plain datagrams.
pub(super) fn plain(
    to: SocketAddr,
    options: &Options,
    cores: Cores,
    progress: Arc<Progress>,
) -> Result<Handle<Order>> {
    let load = Plain { to, datagram: vec![0xA5; options.bytes.into()], sent: 0 };
    generate(load, OverlaySockets::bind(&[super::relays::LOOPBACK])?, cores, progress, Clock::start())
}

struct Plain {
    to: SocketAddr,
    datagram: Vec<u8>,
    sent: u64,
}

impl Load for Plain {
    fn start(&mut self, _: &mut Io) {}

    fn send(&mut self, packets: u64, io: &mut Io) {
        for _ in 0..packets {
            let transmit = Transmit {
                to: self.to,
                from: LocalAddress::ANY,
                ecn: Ecn::NotCapable,
                urgency: Urgency::Original,
                bytes: &self.datagram,
            };
            io.send(SocketId::OVERLAY, &transmit);
        }
        self.sent += packets;
    }

    fn sent(&self) -> u64 {
        self.sent
    }

    fn received(&mut self, _: Arrival<'_>, _: bool, _: &mut Io) {}

    fn wake(&mut self, _: &mut Io) {}

    fn deadline(&self) -> Option<Time> {
        None
    }
}

/// Who takes part beside the ingress relay.
pub(super) struct Cast {
    pub(super) sender: AgentCard,
    pub(super) receiver: AgentCard,
    pub(super) ingress: RelayCard,
    pub(super) egress: RelayCard,
    pub(super) flows: u16,
    pub(super) flow: FlowSettings,
}

/// A generator of copies: a sending agent, with an egress relay and a receiving agent that answer to the ingress relay.
///
/// Originals are not sent, and while it runs the egress relay is spared what is carried to it: what is measured is the ingress
/// relay, and the generator has one core.
pub(super) fn overlay(
    cast: Cast,
    egress: Relay,
    egress_sockets: OverlaySockets,
    options: &Options,
    (cores, clock): (Cores, Clock),
    progress: Arc<Progress>,
) -> Result<Handle<Order>> {
    let datagram = vec![0xA5; options.bytes.into()];
    let load = Overlay { cast, egress, agents: None, flows: Vec::new(), next_flow: 0, datagram };
    generate(load, egress_sockets, cores, progress, clock)
}

struct Overlay {
    cast: Cast,
    /// At the overlay's socket.
    egress: Relay,
    /// Each at a socket of its own: the sender and the receiver.
    agents: Option<[(SocketId, Box<Agent>); 2]>,
    flows: Vec<SendFlowId>,
    next_flow: usize,
    datagram: Vec<u8>,
}

impl Overlay {
    fn open_flows(&mut self, sender: &mut Agent, receiver: &mut Agent, now: Time) {
        for number in 0..self.cast.flows {
            let key = flow_between(self.cast.sender.number, self.cast.receiver.number, FlowId::new(number));
            let flow = sender.open_flow(key, self.cast.flow.clone(), now);
            self.flows.push(flow.expect("the receiver is known"));
            receiver.accept_flow(key, self.cast.flow.clone(), now).expect("the sender is known");
        }
    }
}

impl Load for Overlay {
    fn start(&mut self, io: &mut Io) {
        let now = io.now();
        let sockets = [(); 2].map(|()| io.open(super::relays::LOOPBACK).expect("a port is free"));
        let cards = [&self.cast.sender, &self.cast.receiver];
        let mut places = cards
            .iter()
            .zip(sockets)
            .map(|(card, socket)| AgentCard { address: io.local_address(socket), ..(*card).clone() });
        let [Some(sender), Some(receiver)] = [places.next(), places.next()] else {
            unreachable!("there are two");
        };
        let agent = |card: &AgentCard, peer: &AgentCard, relay: &RelayCard, seed: u8| {
            let identity = card.identity(Suite::Aes256Gcm);
            let mut agent = Agent::new(identity, Engine::fastest(), &AwsLc, [seed; 32], now);
            agent.add_relay(&relay.for_agents(), now);
            agent.add_peer(peer.for_peers(), now);
            Box::new(agent)
        };
        let mut sending = agent(&sender, &receiver, &self.cast.ingress, 11);
        let mut receiving = agent(&receiver, &sender, &self.cast.egress, 12);
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

    fn sent(&self) -> u64 {
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

/// Sends what the agent wants sent, but for originals.
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

/// Where a socket is bound.
pub(super) fn address(socket: &Socket) -> Result<SocketAddr> {
    socket.local_addr()?.as_socket().context("an address of the Internet")
}
