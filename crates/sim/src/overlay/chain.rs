//! Senders, two relays and receivers, wired directly and run one stage after the other: for what has to be measured.
//!
//! ```text
//!   senders ──────────── direct ──────────────► receivers
//!      └───► ingress relay ───► egress relay ◄──► ┘
//! ```
//!
//! Time passes in steps. What a node sends in one step arrives in the next one, a step's length later, so that each
//! node handles a step's datagrams in one go, which its caller can time or count.

mod mail;
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

use mail::Post;
pub use set_up::ChainSettings;

/// The nodes that are handled together.
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
    /// In the order in which packets pass them.
    pub const ALL: [Self; 4] = [Self::Senders, Self::Ingress, Self::Egress, Self::Receivers];
}

#[derive(Debug)]
enum Node {
    Agent(Box<Agent>),
    Relay(Box<Relay>),
}

/// The chain.
#[derive(Debug)]
pub struct Chain {
    settings: ChainSettings,
    /// The relays, then the senders, then the receivers.
    nodes: Vec<Node>,
    post: Post,
    /// The flows in the order in which they send: the sender's node, and what it calls the flow.
    flows: Vec<(usize, SendFlowId)>,
    accepted: Vec<(usize, ReceiveFlowId)>,
    next_flow: usize,
    datagram: Vec<u8>,
    /// When the step under way began.
    now: Time,
    delivered: u64,
    delivered_bytes: u64,
}

const INGRESS: usize = 0;
const EGRESS: usize = 1;
const AGENTS: usize = 2;

impl Chain {
    /// Builds the nodes; nothing has been said yet.
    #[must_use]
    pub fn new(settings: ChainSettings, engine: Engine, provider: &'static (dyn Provider + Sync)) -> Self {
        let mut chain = Self {
            nodes: settings.relays(engine, provider).map(|relay| Node::Relay(Box::new(relay))).into(),
            post: Post::new(AGENTS + 2 * settings.pairs, settings.step),
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
                chain.nodes.push(Node::Agent(Box::new(agent)));
            }
        }
        chain
    }

    /// Opens and accepts the flow with this number between each pair's agents.
    ///
    /// # Panics
    /// If the number is beyond what the relays' settings grant.
    pub fn open_flows(&mut self, number: u16) {
        assert!(number < self.settings.flows, "flow {number} is not granted");
        for pair in 0..self.settings.pairs {
            let (key, now) = (self.settings.key_of(pair, number), self.now);
            let (sender, receiver) = (AGENTS + pair, AGENTS + self.settings.pairs + pair);
            let settings = self.settings.flow_settings();
            if let Node::Agent(agent) = &mut self.nodes[sender] {
                let flow = agent.open_flow(key, settings.clone(), now).expect("the peer was added");
                self.flows.push((sender, flow));
            }
            if let Node::Agent(agent) = &mut self.nodes[receiver] {
                let flow = agent.accept_flow(key, settings, now).expect("the peer was added");
                self.accepted.push((receiver, flow));
            }
        }
    }

    /// Runs all nodes for so many steps, in which flows send or not.
    pub fn run(&mut self, steps: usize, sending: bool) {
        for _ in 0..steps {
            if sending {
                self.run_stage(Stage::Senders);
            } else {
                self.keep(Stage::Senders);
            }
            for stage in [Stage::Ingress, Stage::Egress, Stage::Receivers] {
                self.run_stage(stage);
            }
            self.advance();
        }
    }

    /// Lets the nodes of one stage handle a step: what came, what is due, and what the flows send.
    pub fn run_stage(&mut self, stage: Stage) {
        if stage == Stage::Senders {
            self.send();
        }
        self.keep(stage);
    }

    /// Begins the next step, once all stages have handled this one.
    pub fn advance(&mut self) {
        self.now += self.settings.step;
        self.post.advance();
    }

    /// How many source packets the flows send in a step.
    #[must_use]
    pub fn packets_per_step(&self) -> u64 {
        self.settings.step.as_nanos() / self.settings.interval.as_nanos()
    }

    /// How many datagrams the receivers have delivered, and their bytes.
    #[must_use]
    pub const fn delivered(&self) -> (u64, u64) {
        (self.delivered, self.delivered_bytes)
    }

    /// When the step under way began.
    #[must_use]
    pub const fn now(&self) -> Time {
        self.now
    }

    /// Loses one in so many packets from now on, on the direct path and of those that relays carry and forward; 0: none.
    pub const fn lose_one_in(&mut self, packets: u64) {
        self.post.lose_one_in = packets;
    }

    /// The relay near the senders.
    #[must_use]
    pub fn ingress(&self) -> &Relay {
        self.relay(INGRESS)
    }

    /// The relay near the receivers.
    #[must_use]
    pub fn egress(&self) -> &Relay {
        self.relay(EGRESS)
    }

    /// The sending or receiving agent of a pair.
    #[must_use]
    pub fn agent(&self, is_sender: bool, pair: usize) -> &Agent {
        let place = if is_sender { AGENTS + pair } else { AGENTS + self.settings.pairs + pair };
        match &self.nodes[place] {
            Node::Agent(agent) => agent,
            Node::Relay(_) => unreachable!("agents follow the relays"),
        }
    }

    /// Takes the chain apart, so that each node can be looked at alone: the ingress and the egress relay, then the
    /// sending agents, then the receiving ones.
    #[must_use]
    pub fn into_nodes(self) -> (Vec<Box<Relay>>, Vec<Box<Agent>>) {
        let (mut relays, mut agents) = (Vec::new(), Vec::new());
        for node in self.nodes {
            match node {
                Node::Relay(relay) => relays.push(relay),
                Node::Agent(agent) => agents.push(agent),
            }
        }
        (relays, agents)
    }

    /// The receiving ends of all flows: the pair's number, and what its agent calls the flow.
    pub fn accepted(&self) -> impl Iterator<Item = (usize, ReceiveFlowId)> {
        self.accepted.iter().map(|(node, flow)| (node - AGENTS - self.settings.pairs, *flow))
    }

    fn relay(&self, place: usize) -> &Relay {
        match &self.nodes[place] {
            Node::Relay(relay) => relay,
            Node::Agent(_) => unreachable!("the relays are the first nodes"),
        }
    }

    /// All flows in turn, one packet each interval.
    fn send(&mut self) {
        for packet in 0..self.packets_per_step() {
            let now = self.now + self.settings.interval * packet;
            let (place, flow) = self.flows[self.next_flow];
            self.next_flow = (self.next_flow + 1) % self.flows.len();
            self.nodes[place].wake(place, now, &mut self.post);
            if let Node::Agent(agent) = &mut self.nodes[place] {
                let input = AgentInput::Send {
                    flow,
                    datagram: &self.datagram,
                    traffic_class: TrafficClass::DEFAULT,
                    marked: false,
                };
                agent.handle(input, now);
            }
            self.nodes[place].drain(place, now, &mut self.post);
        }
    }

    /// Hands out what came, and keeps the deadlines up to the end of the step.
    fn keep(&mut self, stage: Stage) {
        let (agents, pairs) = (AGENTS, self.settings.pairs);
        let places = match stage {
            Stage::Senders => agents..agents + pairs,
            Stage::Ingress => INGRESS..EGRESS,
            Stage::Egress => EGRESS..agents,
            Stage::Receivers => agents + pairs..agents + 2 * pairs,
        };
        let end = self.now + (self.settings.step - Duration::from_nanos(1));
        for place in places {
            let node = &mut self.nodes[place];
            let mut inbox = self.post.take(place);
            for letter in 0..inbox.count() {
                let (at, from, bytes) = inbox.letter(letter);
                node.wake(place, at, &mut self.post);
                node.receive(from, bytes, at);
                let (datagrams, bytes) = node.drain(place, at, &mut self.post);
                self.delivered += datagrams;
                self.delivered_bytes += bytes;
            }
            node.wake(place, end, &mut self.post);
            self.post.put_back(place, inbox);
        }
    }
}

impl Node {
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

    /// Keeps the deadlines up to `until`.
    fn wake(&mut self, place: usize, until: Time, post: &mut Post) {
        while let Some(at) = self.deadline().filter(|at| *at <= until) {
            match self {
                Self::Agent(agent) => agent.handle(AgentInput::Deadline, at),
                Self::Relay(relay) => relay.handle(RelayInput::Deadline, at),
            }
            self.drain(place, at, post);
        }
    }

    /// Posts what is to be sent; how many datagrams were delivered, and their bytes.
    fn drain(&mut self, place: usize, now: Time, post: &mut Post) -> (u64, u64) {
        let (mut datagrams, mut bytes) = (0, 0);
        match self {
            Self::Relay(relay) => {
                while let Some(transmit) = relay.poll() {
                    post.send(place, transmit.to, transmit.bytes, now);
                }
            }
            Self::Agent(agent) => {
                while let Some(output) = agent.poll() {
                    match output {
                        AgentOutput::Transmit(transmit) => post.send(place, transmit.to, transmit.bytes, now),
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
