//! Chain of senders, two relays and receivers for measurements, connected directly and run one
//! stage after the other.
//!
//! ```text
//!   senders ──────────── direct ──────────────► receivers
//!      └───► ingress relay ───► egress relay ◄──► ┘
//! ```
//!
//! Time advances in steps. A datagram sent in one step arrives in the next one, a step's length
//! later. Therefore each node handles all datagrams of a step together, and its caller can time or
//! count that.

mod in_flight;
mod set_up;

use alloc::boxed::Box;
use alloc::vec::Vec;

use byway_code::Engine;
use byway_proto::LocalAddress;
use byway_proto::agent::{Agent, AgentInput, AgentOutput, ReceiveFlowId, SendFlowId};
use byway_proto::relay::{Relay, RelayInput};
use byway_units::{Duration, Time};
use byway_wire::seal::Provider;
use byway_wire::{Ecn, TrafficClass};

use in_flight::InFlight;
pub use set_up::ChainSettings;

/// Nodes of a chain that [`Chain::run_stage`] runs together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// All sending agents.
    Senders,
    /// The relay near the senders.
    Ingress,
    /// The relay near the receivers.
    Egress,
    /// All receiving agents.
    Receivers,
}

impl Stage {
    /// All stages, in the order in which packets pass them.
    pub const ALL: [Self; 4] = [Self::Senders, Self::Ingress, Self::Egress, Self::Receivers];
}

#[derive(Debug)]
enum ChainNode {
    Agent(Box<Agent>),
    Relay(Box<Relay>),
}

/// Chain of senders, two relays and receivers, with the datagrams between them.
#[derive(Debug)]
pub struct Chain {
    settings: ChainSettings,
    /// The relays, then the senders, then the receivers.
    nodes: Vec<ChainNode>,
    in_flight: InFlight,
    /// The flows in the order in which they send: the sender's node, and its identifier of the
    /// flow.
    flows: Vec<(usize, SendFlowId)>,
    accepted: Vec<(usize, ReceiveFlowId)>,
    next_flow: usize,
    datagram: Vec<u8>,
    /// Beginning of the current step.
    now: Time,
    delivered: u64,
    delivered_bytes: u64,
}

const INGRESS: usize = 0;
const EGRESS: usize = 1;
const AGENTS: usize = 2;

impl Chain {
    /// Builds the nodes; no messages are exchanged yet.
    #[must_use]
    pub fn new(settings: ChainSettings, engine: Engine, provider: &'static (dyn Provider + Sync)) -> Self {
        let mut chain = Self {
            nodes: settings.relays(engine, provider).map(|relay| ChainNode::Relay(Box::new(relay))).into(),
            in_flight: InFlight::new(AGENTS + 2 * settings.pairs, settings.step),
            flows: Vec::new(),
            accepted: Vec::new(),
            next_flow: 0,
            datagram: alloc::vec![0xA5; settings.datagram_bytes],
            now: Time::START,
            delivered: 0,
            delivered_bytes: 0,
            settings,
        };
        for is_sender in [true, false] {
            for pair in 0..chain.settings.pairs {
                let agent = chain.settings.agent(is_sender, pair, engine, provider);
                chain.nodes.push(ChainNode::Agent(Box::new(agent)));
            }
        }
        chain
    }

    /// Opens and accepts the flow with this number between each pair's agents.
    ///
    /// # Panics
    /// If the relays' settings grant no flow with this number.
    pub fn open_flows(&mut self, number: u16) {
        assert!(number < self.settings.flows, "flow {number} is not granted");
        for pair in 0..self.settings.pairs {
            let (key, now) = (self.settings.key_of(pair, number), self.now);
            let (sender, receiver) = (AGENTS + pair, AGENTS + self.settings.pairs + pair);
            let settings = self.settings.flow_settings();
            if let ChainNode::Agent(agent) = &mut self.nodes[sender] {
                let flow = agent.open_flow(key, settings.clone(), now).expect("the peer was added");
                self.flows.push((sender, flow));
            }
            if let ChainNode::Agent(agent) = &mut self.nodes[receiver] {
                let flow = agent.accept_flow(key, settings, now).expect("the peer was added");
                self.accepted.push((receiver, flow));
            }
        }
    }

    /// Runs all stages for this many steps. The flows send source packets only if `sending` is
    /// true.
    pub fn run(&mut self, steps: usize, sending: bool) {
        for _ in 0..steps {
            if sending {
                self.run_stage(Stage::Senders);
            } else {
                self.run_timers(Stage::Senders);
            }
            for stage in [Stage::Ingress, Stage::Egress, Stage::Receivers] {
                self.run_stage(stage);
            }
            self.advance();
        }
    }

    /// Runs the nodes of one stage for a step: received datagrams, deadlines, and datagrams that
    /// the flows send.
    pub fn run_stage(&mut self, stage: Stage) {
        if stage == Stage::Senders {
            self.send();
        }
        self.run_timers(stage);
    }

    /// Begins the next step, once all stages have handled this one.
    pub fn advance(&mut self) {
        self.now += self.settings.step;
        self.in_flight.advance();
    }

    /// Returns the number of source packets that the flows send in a step.
    #[must_use]
    pub fn packets_per_step(&self) -> u64 {
        self.settings.step.as_nanos() / self.settings.interval.as_nanos()
    }

    /// Returns the number of datagrams that the receivers have delivered, and their bytes.
    #[must_use]
    pub const fn delivered(&self) -> (u64, u64) {
        (self.delivered, self.delivered_bytes)
    }

    /// Returns the beginning of the current step.
    #[must_use]
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Loses one in this many packets from now on, of those on the direct path, copies between
    /// relays and forwarded packets; 0: none.
    pub const fn lose_one_in(&mut self, packets: u64) {
        self.in_flight.lose_one_in = packets;
    }

    /// Returns the relay near the senders.
    #[must_use]
    pub fn ingress(&self) -> &Relay {
        self.relay(INGRESS)
    }

    /// Returns the relay near the receivers.
    #[must_use]
    pub fn egress(&self) -> &Relay {
        self.relay(EGRESS)
    }

    /// Returns the sending or receiving agent of a pair.
    #[must_use]
    pub fn agent(&self, is_sender: bool, pair: usize) -> &Agent {
        let index = if is_sender { AGENTS + pair } else { AGENTS + self.settings.pairs + pair };
        match &self.nodes[index] {
            ChainNode::Agent(agent) => agent,
            ChainNode::Relay(_) => unreachable!("agents follow the relays"),
        }
    }

    /// Returns the nodes for separate inspection: the ingress and the egress relay, then the
    /// sending agents, then the receiving ones.
    #[must_use]
    pub fn into_nodes(self) -> (Vec<Box<Relay>>, Vec<Box<Agent>>) {
        let (mut relays, mut agents) = (Vec::new(), Vec::new());
        for node in self.nodes {
            match node {
                ChainNode::Relay(relay) => relays.push(relay),
                ChainNode::Agent(agent) => agents.push(agent),
            }
        }
        (relays, agents)
    }

    /// Returns the receiving ends of all flows: the pair's number, and its agent's identifier of
    /// the flow.
    pub fn accepted(&self) -> impl Iterator<Item = (usize, ReceiveFlowId)> {
        self.accepted.iter().map(|(node, flow)| (node - AGENTS - self.settings.pairs, *flow))
    }

    fn relay(&self, index: usize) -> &Relay {
        match &self.nodes[index] {
            ChainNode::Relay(relay) => relay,
            ChainNode::Agent(_) => unreachable!("the relays are the first nodes"),
        }
    }

    /// Sends the source packets of one step: one each interval, from all flows in turn.
    fn send(&mut self) {
        for packet in 0..self.packets_per_step() {
            let now = self.now + self.settings.interval * packet;
            let (node, flow) = self.flows[self.next_flow];
            self.next_flow = (self.next_flow + 1) % self.flows.len();
            self.nodes[node].wake(node, now, &mut self.in_flight);
            if let ChainNode::Agent(agent) = &mut self.nodes[node] {
                let input = AgentInput::Send {
                    flow,
                    datagram: &self.datagram,
                    traffic_class: TrafficClass::DEFAULT,
                    marked: false,
                };
                agent.handle(input, now);
            }
            self.nodes[node].drain(node, now, &mut self.in_flight);
        }
    }

    /// Passes the datagrams of this step to the stage's nodes, and runs their deadlines up to the
    /// end of the step.
    fn run_timers(&mut self, stage: Stage) {
        let (agents, pairs) = (AGENTS, self.settings.pairs);
        let indexes = match stage {
            Stage::Senders => agents..agents + pairs,
            Stage::Ingress => INGRESS..EGRESS,
            Stage::Egress => EGRESS..agents,
            Stage::Receivers => agents + pairs..agents + 2 * pairs,
        };
        let end = self.now + (self.settings.step - Duration::from_nanos(1));
        for index in indexes {
            let node = &mut self.nodes[index];
            let mut inbox = self.in_flight.remove_inbox(index);
            for nth in 0..inbox.count() {
                let (at, from, bytes) = inbox.datagram(nth);
                node.wake(index, at, &mut self.in_flight);
                node.receive(from, bytes, at);
                let (datagrams, bytes) = node.drain(index, at, &mut self.in_flight);
                self.delivered += datagrams;
                self.delivered_bytes += bytes;
            }
            node.wake(index, end, &mut self.in_flight);
            self.in_flight.return_inbox(index, inbox);
        }
    }
}

impl ChainNode {
    fn receive(&mut self, from: core::net::SocketAddr, bytes: &mut [u8], now: Time) {
        let ecn = Ecn::NotCapable;
        match self {
            Self::Agent(agent) => {
                agent.handle(AgentInput::Received { from, to: LocalAddress::ANY, ecn, bytes }, now);
            }
            Self::Relay(relay) => {
                relay.handle(RelayInput::Received { from, to: LocalAddress::ANY, ecn, bytes }, now);
            }
        }
    }

    fn deadline(&self) -> Option<Time> {
        match self {
            Self::Agent(agent) => agent.deadline().map(|(at, _)| at),
            Self::Relay(relay) => relay.deadline().map(|(at, _)| at),
        }
    }

    /// Runs the node's deadlines up to `until`.
    fn wake(&mut self, index: usize, until: Time, in_flight: &mut InFlight) {
        while let Some(at) = self.deadline().filter(|at| *at <= until) {
            match self {
                Self::Agent(agent) => agent.handle(AgentInput::Deadline, at),
                Self::Relay(relay) => relay.handle(RelayInput::Deadline, at),
            }
            self.drain(index, at, in_flight);
        }
    }

    /// Sends the node's datagrams. Returns the number of datagrams that it delivered, and their
    /// bytes.
    fn drain(&mut self, index: usize, now: Time, in_flight: &mut InFlight) -> (u64, u64) {
        let (mut datagrams, mut bytes) = (0, 0);
        match self {
            Self::Relay(relay) => {
                while let Some(transmit) = relay.poll() {
                    in_flight.send(index, transmit.to, transmit.bytes, now);
                }
            }
            Self::Agent(agent) => {
                while let Some(output) = agent.poll() {
                    match output {
                        AgentOutput::Transmit(transmit) => {
                            in_flight.send(index, transmit.to, transmit.bytes, now);
                        }
                        AgentOutput::Deliver { datagram, .. } => {
                            datagrams += 1;
                            bytes += datagram.len() as u64;
                        }
                        AgentOutput::Event(_) | AgentOutput::Offered { .. } => {}
                    }
                }
            }
        }
        (datagrams, bytes)
    }
}
