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
use byway_wire::seal::{Portable, StaticSecret, Suite};
use byway_wire::{FlowKey, Grant, Service, TrafficClass};

use super::cast::{self, AgentCard, RelayCard, address, bytes};
use super::{Books, OverlayHost};
use crate::checkers::{Deliveries, RepairSummary, Repairs};
use crate::link::Link;
use crate::node::NodeId;
use crate::random::Seed;
use crate::world::{Scenario, World};

/// When the senders send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    /// One packet each interval; the senders' phases are spread over it.
    Paced(Duration),
    /// Frames of 1 to so many packets back to back, one each interval.
    Frames {
        /// The time between frames.
        interval: Duration,
        /// The longest frame in packets.
        packets_max: u64,
    },
}

impl Sending {
    /// The time between packets or frames.
    #[must_use]
    pub const fn interval(self) -> Duration {
        match self {
            Self::Paced(interval) | Self::Frames { interval, .. } => interval,
        }
    }

    /// How many packets sender number `sender` sends now.
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

/// The set-up.
#[derive(Clone, Debug)]
pub struct Pairs {
    /// How many pairs.
    pub pairs: usize,
    /// When they send.
    pub sending: Sending,
    /// The datagrams' length in bytes, at least 16.
    pub datagram_bytes: usize,
    /// What the flows ask for; the paths are filled in.
    pub flow: FlowSettings,
    /// The direct path of each pair, from sender to receiver.
    pub direct: Vec<Link>,
    /// The way back from receivers to senders.
    pub back: Link,
    /// Between agents and their relays, both directions.
    pub access: Link,
    /// Between the relays, both directions.
    pub between: Link,
    /// When the senders begin; before, sessions and flows are set up.
    pub begin: Duration,
    /// How long they send.
    pub length: Duration,
}

/// The world that a set-up makes.
pub type PairsWorld = World<PairsRun>;

/// The run of a set-up: its applications, and the books about them.
#[derive(Debug)]
pub struct PairsRun {
    set_up: Pairs,
    seed: Seed,
    /// The nodes, by pair.
    pub senders: Vec<NodeId>,
    /// See [`PairsRun::senders`].
    pub receivers: Vec<NodeId>,
    /// The relays.
    pub ingress: NodeId,
    /// See [`PairsRun::ingress`].
    pub egress: NodeId,
    flows: Vec<SendFlowId>,
    accepted: Vec<ReceiveFlowId>,
    numbers: Vec<u64>,
    /// What was sent and delivered.
    pub deliveries: Deliveries<usize>,
    repairs: Repairs<(usize, u64)>,
    /// How many datagrams came each way.
    pub by_delivery: Vec<(Delivery, u64)>,
    /// The repair times by way, from when the direct copy was due.
    pub repair_times: Vec<(Delivery, Duration)>,
    datagram: Vec<u8>,
}

/// What comes later than this after it was sent counts as late in the books.
const DELIVERY_DEADLINE: Duration = Duration::from_secs(1);

const INGRESS: RelayId = RelayId::new(1);
const EGRESS: RelayId = RelayId::new(2);

/// The card of a relay; all its secrets come from the seed.
fn relay_card(seed: Seed, is_ingress: bool) -> RelayCard {
    let (number, network, place) = if is_ingress { (INGRESS, 1, 0) } else { (EGRESS, 2, 1) };
    let secret = StaticSecret::from_bytes(bytes(seed, "relay", place));
    RelayCard { number, secret, address: address(network, 0) }
}

/// The card of a sender or a receiver.
fn agent_card(seed: Seed, is_sender: bool, pair: usize) -> AgentCard {
    let (name, network) = if is_sender { ("sender", 3) } else { ("receiver", 4) };
    let secret = StaticSecret::from_bytes(bytes(seed, name, pair));
    AgentCard { number: agent_number(is_sender, pair), secret, address: Some(address(network, pair)) }
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
        let mut world = World::new(seed, Books::default());
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
        let (ingress, egress) = (relay_card(seed, true), relay_card(seed, false));
        let grant = |pair| {
            let agents = (&agent_card(seed, true, pair), &agent_card(seed, false, pair));
            cast::grant(agents, (&ingress, &egress), FlowId::new(1)..=FlowId::new(9))
        };
        (0..self.pairs).map(grant).collect()
    }

    fn relay(seed: Seed, is_ingress: bool, grants: &[Grant]) -> Relay {
        let other = relay_card(seed, !is_ingress).for_relays();
        let settings = relay_card(seed, is_ingress).settings(
            Suite::Aes256Gcm,
            Authority::Static(grants.to_vec()),
            vec![other],
        );
        let own_seed = bytes(seed, "relay's seed", usize::from(!is_ingress));
        Relay::new(settings, Engine::fastest(), &Portable, own_seed, Time::START)
    }

    fn agent(seed: Seed, is_sender: bool, pair: usize) -> Agent {
        let identity = agent_card(seed, is_sender, pair).identity(Suite::Aes256Gcm);
        let own_seed = bytes(seed, if is_sender { "sender's seed" } else { "receiver's seed" }, pair);
        let mut agent = Agent::new(identity, Engine::fastest(), &Portable, own_seed, Time::START);
        agent.add_relay(&relay_card(seed, is_sender).for_agents(), Time::START);
        agent.add_peer(agent_card(seed, !is_sender, pair).for_peers(), Time::START);
        agent
    }

    fn settings(&self, seed: Seed) -> FlowSettings {
        let path = cast::path(&relay_card(seed, true), &relay_card(seed, false));
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
        world.observer_mut().watch(sender, receiver, pair);
        self.senders.push(sender);
        self.receivers.push(receiver);
        self.numbers.push(0);
        world.schedule_in(self.set_up.begin + self.phase(pair), pair);
    }

    /// The senders do not send in step.
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
        let filling = (16..self.set_up.datagram_bytes).map(|place| (place as u64 ^ number).to_le_bytes()[0]);
        self.datagram.extend(filling);
        let now = world.now();
        let due = self.set_up.direct[pair].delay;
        self.repairs.sent((pair, number), now, due).expect("numbers are given once");
        self.deliveries.sent(pair, &self.datagram, now).expect("datagrams differ by their number");
        let (flow, datagram) = (self.flows[pair], &self.datagram);
        world.input(self.senders[pair], |host, now| {
            let input =
                AgentInput::Send { flow, datagram, traffic_class: TrafficClass::DEFAULT, marked: false };
            host.as_agent_mut().handle(input, now);
        });
    }

    /// What became of all packets: `deadline` after sending they are late; those repaired `within` a time of when
    /// their direct copy was due are counted apart.
    ///
    /// # Panics
    /// If the world lost packets that were not sent.
    #[must_use]
    pub fn summary(&mut self, world: &mut PairsWorld, deadline: Duration, within: Duration) -> RepairSummary {
        for (pair, number) in world.observer_mut().lost.drain(..) {
            self.repairs.lost((pair, u64::from(number))).expect("what is lost was sent");
        }
        self.repairs.summary(deadline, within)
    }

    /// The packets that were never delivered.
    #[must_use]
    pub fn unrepaired(&self) -> Vec<(usize, u64)> {
        self.repairs.missing().collect()
    }

    /// The flow of a pair, as its receiver knows it.
    #[must_use]
    pub fn received(&self, pair: usize) -> ReceiveFlowId {
        self.accepted[pair]
    }

    /// The flow of a pair, as its sender knows it.
    #[must_use]
    pub fn sent(&self, pair: usize) -> SendFlowId {
        self.flows[pair]
    }

    fn count(&mut self, delivery: Delivery) {
        match self.by_delivery.iter_mut().find(|(known, _)| *known == delivery) {
            Some((_, count)) => *count += 1,
            None => self.by_delivery.push((delivery, 1)),
        }
    }

    /// How many datagrams came this way.
    #[must_use]
    pub fn delivered_by(&self, delivery: Delivery) -> u64 {
        self.by_delivery.iter().find(|(known, _)| *known == delivery).map_or(0, |(_, count)| *count)
    }
}

impl Scenario for PairsRun {
    type Host = OverlayHost;
    /// A pair whose sender sends.
    type Event = usize;
    type Observer = Books;

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
        for delivered in world.host_mut(node).take_delivered() {
            let number = delivered.datagram.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
            let number = number.expect("datagrams begin with their number");
            self.deliveries
                .delivered(pair, &delivered.datagram, now)
                .expect("what is delivered was sent, once");
            self.repairs.delivered((pair, number), now).expect("what is delivered was sent");
            self.count(delivered.delivery);
            let lateness = self.repairs.lateness((pair, number)).unwrap_or_default();
            let budget = self.set_up.flow.latency_budget;
            assert!(!delivered.delivery.is_repair() || lateness <= budget, "{lateness}: late is lost");
            self.repair_times.push((delivered.delivery, lateness));
        }
    }
}
