//! Pairs of agents, each with a direct path of its own, and two relays between all of them.
//!
//! ```text
//!   sender 0 ──────────── direct ───────────► receiver 0
//!   sender 1 ──────────── direct ───────────► receiver 1
//!       └─ access ─► ingress ── between ─► egress ─ access ─┘
//! ```

use alloc::vec;
use alloc::vec::Vec;

use byway_code::Engine;
use byway_proto::agent::{
    Agent, AgentInput, Delivery, FlowSettings, ReceiveFlowId, SendFlowId, flow_between,
};
use byway_proto::relay::{Authority, Relay};
use byway_units::{AgentId, Duration, FlowId, RelayId, Time};
use byway_wire::seal::{PortableProvider, StaticSecret, Suite};
use byway_wire::{FlowKey, Grant, Service, TrafficClass};

use super::topology::{self, AgentNode, RelayNode, address, secret_bytes};
use super::{DeliveryLedger, OverlayHost};
use crate::checkers::{Deliveries, RepairSummary, Repairs};
use crate::link::Link;
use crate::node::NodeId;
use crate::random::Seed;
use crate::world::{Scenario, World};

/// Times at which the senders of [`Pairs`] send packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendSchedule {
    /// One packet each interval; the phases of the senders are spread over the interval.
    Paced(Duration),
    /// Frames of 1 to `packets_max` packets back to back, one each interval.
    Frames {
        /// Interval between frames.
        interval: Duration,
        /// Longest frame in packets.
        packets_max: u64,
    },
}

impl SendSchedule {
    /// Returns the interval between packets or frames.
    #[must_use]
    pub const fn interval(self) -> Duration {
        match self {
            Self::Paced(interval) | Self::Frames { interval, .. } => interval,
        }
    }

    /// Returns the number of packets that sender number `sender` sends now.
    #[must_use]
    pub fn burst(self, seed: Seed, sender: usize, now: Time) -> u64 {
        match self {
            Self::Paced(_) => 1,
            Self::Frames { packets_max, .. } => {
                let mut random = seed.named("frame").numbered(sender as u64).at(now, 0);
                1 + random.below(packets_max)
            }
        }
    }
}

/// Set-up of [`PairsRun`]: pairs of agents, their flows and links.
#[derive(Clone, Debug)]
pub struct Pairs {
    /// Number of pairs of a sender and a receiver.
    pub pairs: usize,
    /// Send schedule of all senders.
    pub sending: SendSchedule,
    /// Length of the flows' datagrams in bytes, at least 16.
    pub datagram_bytes: usize,
    /// Settings of all flows; the set-up adds their paths.
    pub flow: FlowSettings,
    /// Direct path of each pair, from sender to receiver.
    pub direct: Vec<Link>,
    /// Reverse path of each pair, from receiver to sender.
    pub back: Link,
    /// Links between agents and their relays, in both directions.
    pub access: Link,
    /// Link between the relays, in both directions.
    pub between: Link,
    /// Time at which the senders start; sessions and flows are set up before it.
    pub begin: Duration,
    /// Time for which the senders send.
    pub length: Duration,
}

/// World that runs the agents and relays of a [`Pairs`] set-up.
pub type PairsWorld = World<PairsRun>;

/// Run of a [`Pairs`] set-up: its applications, and its ledgers.
#[derive(Debug)]
pub struct PairsRun {
    set_up: Pairs,
    seed: Seed,
    /// Nodes of the sending agents, by pair.
    pub senders: Vec<NodeId>,
    /// Nodes of the receiving agents, by pair.
    pub receivers: Vec<NodeId>,
    /// Node of the relay near the senders.
    pub ingress: NodeId,
    /// Node of the relay near the receivers.
    pub egress: NodeId,
    flows: Vec<SendFlowId>,
    accepted: Vec<ReceiveFlowId>,
    numbers: Vec<u64>,
    /// Checker of the datagrams sent and delivered.
    pub deliveries: Deliveries<usize>,
    repairs: Repairs<(usize, u64)>,
    /// Number of datagrams by kind of delivery.
    pub by_delivery: Vec<(Delivery, u64)>,
    /// Repair times by kind of delivery, from the expected arrival of the direct copy.
    pub repair_times: Vec<(Delivery, Duration)>,
    datagram: Vec<u8>,
}

/// Time from sending after which a delivery counts as late.
const DELIVERY_DEADLINE: Duration = Duration::from_secs(1);

const INGRESS: RelayId = RelayId::new(1);
const EGRESS: RelayId = RelayId::new(2);

/// Returns the identifier, secret and address of the ingress or egress relay. The secret derives
/// from the seed.
fn relay_node(seed: Seed, is_ingress: bool) -> RelayNode {
    let (number, network, secret_number) = if is_ingress { (INGRESS, 1, 0) } else { (EGRESS, 2, 1) };
    let secret = StaticSecret::from_bytes(secret_bytes(seed, "relay", secret_number));
    RelayNode { number, secret, address: address(network, 0) }
}

/// Returns the identifier, secret and address of a pair's sender or receiver. The secret derives
/// from the seed.
fn agent_node(seed: Seed, is_sender: bool, pair: usize) -> AgentNode {
    let (name, network) = if is_sender { ("sender", 3) } else { ("receiver", 4) };
    let secret = StaticSecret::from_bytes(secret_bytes(seed, name, pair));
    AgentNode { number: agent_number(is_sender, pair), secret, address: Some(address(network, pair)) }
}

fn agent_number(is_sender: bool, pair: usize) -> AgentId {
    let base = if is_sender { 1 } else { 1_001 };
    AgentId::new(base + u32::try_from(pair).expect("there are few pairs"))
}

fn key_of(pair: usize) -> FlowKey {
    flow_between(agent_number(true, pair), agent_number(false, pair), FlowId::new(1))
}

impl Pairs {
    /// Builds the world and its applications.
    #[must_use]
    pub fn build(self, seed: Seed) -> (PairsWorld, PairsRun) {
        let mut world = World::new(seed, DeliveryLedger::default());
        let grants = self.grants(seed);
        let ingress = world.add(OverlayHost::relay(Self::relay(seed, true, &grants)), address(1, 0));
        let egress = world.add(OverlayHost::relay(Self::relay(seed, false, &grants)), address(2, 0));
        world.connect_both(ingress, egress, &self.between);
        let mut run = PairsRun::new(self, seed, ingress, egress);
        for pair in 0..run.set_up.pairs {
            run.add_pair(pair, &mut world);
        }
        (world, run)
    }

    fn grants(&self, seed: Seed) -> Vec<Grant> {
        let (ingress, egress) = (relay_node(seed, true), relay_node(seed, false));
        let grant = |pair| {
            let agents = (&agent_node(seed, true, pair), &agent_node(seed, false, pair));
            topology::grant(agents, (&ingress, &egress), FlowId::new(1)..=FlowId::new(9))
        };
        (0..self.pairs).map(grant).collect()
    }

    fn relay(seed: Seed, is_ingress: bool, grants: &[Grant]) -> Relay {
        let other = relay_node(seed, !is_ingress).peer_relay();
        let settings = relay_node(seed, is_ingress).settings(
            Suite::Aes256Gcm,
            Authority::Static(grants.to_vec()),
            vec![other],
        );
        let own_seed = secret_bytes(seed, "relay's seed", usize::from(!is_ingress));
        Relay::new(settings, Engine::fastest(), &PortableProvider, own_seed, Time::START)
    }

    fn agent(seed: Seed, is_sender: bool, pair: usize) -> Agent {
        let identity = agent_node(seed, is_sender, pair).identity(Suite::Aes256Gcm);
        let own_seed = secret_bytes(seed, if is_sender { "sender's seed" } else { "receiver's seed" }, pair);
        let mut agent = Agent::new(identity, Engine::fastest(), &PortableProvider, own_seed, Time::START);
        agent.add_relay(&relay_node(seed, is_sender).relay_peer(), Time::START);
        agent.add_peer(agent_node(seed, !is_sender, pair).peer(), Time::START);
        agent
    }

    fn settings(&self, seed: Seed) -> FlowSettings {
        let path = topology::path(&relay_node(seed, true), &relay_node(seed, false));
        let paths = if self.flow.service == Service::Internet { vec![] } else { vec![path] };
        FlowSettings { paths, ..self.flow.clone() }
    }
}

impl PairsRun {
    fn new(set_up: Pairs, seed: Seed, ingress: NodeId, egress: NodeId) -> Self {
        Self {
            set_up,
            seed,
            senders: Vec::new(),
            receivers: Vec::new(),
            ingress,
            egress,
            flows: Vec::new(),
            accepted: Vec::new(),
            numbers: Vec::new(),
            deliveries: Deliveries::new(DELIVERY_DEADLINE),
            repairs: Repairs::default(),
            by_delivery: Vec::new(),
            repair_times: Vec::new(),
            datagram: Vec::new(),
        }
    }

    fn add_pair(&mut self, pair: usize, world: &mut PairsWorld) {
        let (seed, settings) = (self.seed, self.set_up.settings(self.seed));
        let mut sender = Pairs::agent(seed, true, pair);
        let mut receiver = Pairs::agent(seed, false, pair);
        let flow = sender.open_flow(key_of(pair), settings.clone(), Time::START);
        let accepted = receiver.accept_flow(key_of(pair), settings, Time::START);
        self.flows.push(flow.expect("the peer was added"));
        self.accepted.push(accepted.expect("the peer was added"));
        let sender = world.add(OverlayHost::agent(sender), address(3, pair));
        let receiver = world.add(OverlayHost::agent(receiver), address(4, pair));
        world.connect(sender, receiver, self.set_up.direct[pair].clone());
        world.connect(receiver, sender, self.set_up.back.clone());
        world.connect_both(sender, self.ingress, &self.set_up.access);
        world.connect_both(receiver, self.egress, &self.set_up.access);
        world.observer_mut().observe_path(sender, receiver, pair);
        self.senders.push(sender);
        self.receivers.push(receiver);
        self.numbers.push(0);
        world.schedule_in(self.set_up.begin + self.phase(pair), pair);
    }

    /// Returns the offset of a sender's schedule, because senders must not send in lockstep.
    fn phase(&self, pair: usize) -> Duration {
        let interval = self.set_up.sending.interval();
        let mut random = self.seed.named("phase").numbered(pair as u64).sequence();
        Duration::from_nanos(random.below(interval.as_nanos()))
    }

    fn send(&mut self, pair: usize, world: &mut PairsWorld) {
        let number = self.numbers[pair];
        self.numbers[pair] += 1;
        self.datagram.clear();
        self.datagram.extend_from_slice(&number.to_be_bytes());
        self.datagram.extend_from_slice(&(pair as u64).to_be_bytes());
        let filling = (16..self.set_up.datagram_bytes).map(|index| (index as u64 ^ number).to_le_bytes()[0]);
        self.datagram.extend(filling);
        let now = world.now();
        let due = self.set_up.direct[pair].delay;
        self.repairs.on_sent((pair, number), now, due).expect("numbers are assigned once");
        self.deliveries.on_sent(pair, &self.datagram, now).expect("datagrams differ by their number");
        let (flow, datagram) = (self.flows[pair], &self.datagram);
        world.input(self.senders[pair], |host, now| {
            let input =
                AgentInput::Send { flow, datagram, traffic_class: TrafficClass::DEFAULT, marked: false };
            host.as_agent_mut().handle(input, now);
        });
    }

    /// Returns the outcomes of all packets. A packet is late more than `deadline` after its
    /// sending. Repairs within `within` of the expected arrival of the direct copy are counted
    /// separately.
    ///
    /// # Panics
    /// If the world lost packets that were not sent.
    #[must_use]
    pub fn summary(&mut self, world: &mut PairsWorld, deadline: Duration, within: Duration) -> RepairSummary {
        for (pair, number) in world.observer_mut().lost.drain(..) {
            self.repairs.on_lost((pair, u64::from(number))).expect("what is lost was sent");
        }
        self.repairs.summary(deadline, within)
    }

    /// Returns the packets that were never delivered.
    #[must_use]
    pub fn unrepaired(&self) -> Vec<(usize, u64)> {
        self.repairs.missing().collect()
    }

    /// Returns the flow of a pair, as identified by its receiver.
    #[must_use]
    pub fn receive_flow(&self, pair: usize) -> ReceiveFlowId {
        self.accepted[pair]
    }

    /// Returns the flow of a pair, as identified by its sender.
    #[must_use]
    pub fn send_flow(&self, pair: usize) -> SendFlowId {
        self.flows[pair]
    }

    fn count(&mut self, delivery: Delivery) {
        match self.by_delivery.iter_mut().find(|(known, _)| *known == delivery) {
            Some((_, count)) => *count += 1,
            None => self.by_delivery.push((delivery, 1)),
        }
    }

    /// Returns the number of datagrams with this kind of delivery.
    #[must_use]
    pub fn delivered_by(&self, delivery: Delivery) -> u64 {
        self.by_delivery.iter().find(|(known, _)| *known == delivery).map_or(0, |(_, count)| *count)
    }
}

impl Scenario for PairsRun {
    type Host = OverlayHost;
    /// Number of the pair whose sender sends.
    type Event = usize;
    type Observer = DeliveryLedger;

    fn event(&mut self, pair: usize, world: &mut World<Self>) {
        for _ in 0..self.set_up.sending.burst(self.seed, pair, world.now()) {
            self.send(pair, world);
        }
        if world.now() + self.set_up.sending.interval() < Time::START + self.set_up.begin + self.set_up.length
        {
            world.schedule_in(self.set_up.sending.interval(), pair);
        }
    }

    fn drained(&mut self, node: NodeId, world: &mut World<Self>) {
        let Some(pair) = self.receivers.iter().position(|receiver| *receiver == node) else {
            return;
        };
        let now = world.now();
        for delivered in world.host_mut(node).drain_delivered() {
            let number = delivered.datagram.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
            let number = number.expect("datagrams begin with their number");
            self.deliveries
                .on_delivered(pair, &delivered.datagram, now)
                .expect("what is delivered was sent, once");
            self.repairs.on_delivered((pair, number), now).expect("what is delivered was sent");
            self.count(delivered.delivery);
            let lateness = self.repairs.lateness((pair, number)).unwrap_or_default();
            let budget = self.set_up.flow.latency_budget;
            assert!(!delivered.delivery.is_repair() || lateness <= budget, "{lateness}: late is lost");
            self.repair_times.push((delivered.delivery, lateness));
        }
    }
}
