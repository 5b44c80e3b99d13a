//! Tests of flow setup: the delay of the first packets during offer and consent.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use byway_proto::agent::{Event, Offer, ReceiveFlowId, SendFlowId, Terms};
use byway_sim::overlay::OverlayHost;
use byway_sim::overlay::topology::address;
use byway_sim::{GilbertElliott, Loss, NodeId, Scenario, World};
use byway_units::{Duration, FlowId, Time};
use byway_wire::{Service, TrafficClass};

use crate::support::{AGENTS, Plan, RELAYS, TestNode, TrafficRecorder, agent_number, ms, secs, share};

/// The number of the offered flows, which the agent with the smaller number may offer.
const OFFERED: FlowId = FlowId::new(2);

/// Indexes in the plan: a flow in each direction without datagrams, by which relays know the
/// agents, and the offered flows.
const CONTACTS: [usize; 2] = [0, 1];
const FORTH: usize = 2;
const BACK: usize = 3;

/// The application sends this number of datagrams, one every 10 ms.
const INTERVAL: Duration = Duration::from_millis(10);
const DATAGRAMS: u64 = 100;

/// Latency budget.
const BUDGET: Duration = Duration::from_millis(300);

/// Round trip of the direct path, 50 ms in each direction.
const ROUND_TRIP: Duration = Duration::from_millis(100);

/// A network for flow setup.
#[derive(Clone, Debug)]
struct FlowSetupNetwork {
    /// Losses of the direct path, from sender to receiver and back.
    forth: Vec<Loss>,
    back: Vec<Loss>,
    /// Losses of each segment to, from and between relays.
    segments: Vec<Loss>,
    /// The ingress and egress relay of each path, in both directions.
    paths: Vec<(usize, usize)>,
    /// The relay that stops a second before the flow begins.
    dead: Option<usize>,
    /// True if relays do not know the two agents, and therefore forward nothing between them.
    are_strangers: bool,
    is_managed: bool,
    /// Time from the start of its agents to the start of the flow.
    begin: Duration,
    service: Service,
}

impl FlowSetupNetwork {
    /// Two relays; 30 % of all packets are lost on the direct path, in both directions.
    fn lossy() -> Self {
        let loss = vec![Loss::Independent(share(0.3))];
        Self {
            forth: loss.clone(),
            back: loss,
            segments: Vec::new(),
            paths: vec![(0, 1)],
            dead: None,
            are_strangers: false,
            is_managed: false,
            begin: secs(3),
            service: Service::Caching,
        }
    }

    /// 27 % of all packets are lost on the direct path, in bursts of four.
    fn bursty() -> Self {
        let bursts = GilbertElliott::bursts(share(0.27), 4.0, INTERVAL).expect("there are such bursts");
        let loss = vec![Loss::GilbertElliott(bursts)];
        Self { forth: loss.clone(), back: loss, ..Self::lossy() }
    }

    fn plan(&self, seed: u64) -> Plan {
        let mut plan = Plan::pairs(1, self.service);
        let relays = self.paths.iter().flat_map(|(ingress, egress)| [*ingress, *egress]);
        let near: [BTreeSet<usize>; 2] = [
            self.paths.iter().map(|(ingress, _)| *ingress).collect(),
            self.paths.iter().map(|(_, egress)| *egress).collect(),
        ];
        (plan.seed, plan.relays) = (seed, relays.max().map_or(0, |last| last + 1));
        plan.has_controller = self.is_managed;
        plan.between.loss.clone_from(&self.segments);
        for (agent, near) in plan.agents.iter_mut().zip(near) {
            let mut access = crate::support::access();
            access.loss.clone_from(&self.segments);
            agent.relays = near.into_iter().map(|relay| (relay, access.clone())).collect();
        }
        let mut forth = plan.flows.remove(0);
        (forth.direct.loss, forth.back.loss) = (self.forth.clone(), self.back.clone());
        (forth.paths, forth.settings.latency_budget) = (self.paths.clone(), BUDGET);
        let mut back = forth.clone();
        (back.from, back.to) = (forth.to, forth.from);
        (back.direct, back.back) = (forth.back.clone(), forth.direct.clone());
        back.paths = self.paths.iter().map(|(ingress, egress)| (*egress, *ingress)).collect();
        plan.flows = vec![forth.clone(), back.clone(), forth, back];
        for (index, flow) in plan.flows.iter_mut().enumerate() {
            flow.number_of = Some(index / 2);
            if CONTACTS.contains(&index) {
                flow.settings.service = Service::Internet;
            }
        }
        if self.are_strangers {
            for contact in CONTACTS {
                plan.flows[contact].paths.clear();
            }
        }
        plan
    }

    fn start(&self, seed: u64) -> FlowStart {
        let plan = self.plan(seed);
        let mut world = World::new(plan.seed(), TrafficRecorder::default());
        let relays: Vec<NodeId> = (0..plan.relays)
            .map(|relay| {
                let host = OverlayHost::relay(plan.relay(relay, 0, Time::START));
                world.add(TestNode::Overlay(host), address(RELAYS, relay))
            })
            .collect();
        let mut agents = Vec::new();
        for agent in [0, 1] {
            let mut host = plan.agent(agent, 0, Time::START);
            open(&plan, agent, CONTACTS, &mut host, Time::START);
            agents.push(world.add(TestNode::Overlay(OverlayHost::agent(host)), address(AGENTS, agent)));
        }
        connect(&plan, &agents, &relays, &mut world);
        let begin = Time::START + self.begin;
        if let Some(dead) = self.dead {
            let relay = relays[dead];
            world.schedule(begin.saturating_sub(secs(1)), StartEvent::Stop(relay));
        }
        world.schedule(begin, StartEvent::Offer);
        let mut start = FlowStart::new(plan, agents, begin);
        world.run_until(begin + INTERVAL * DATAGRAMS + secs(3), &mut start);
        start.count(&world);
        start
    }

    /// Starts this many flows, each in a network of its own.
    fn starts(&self) -> FlowStarts {
        let each: Vec<FlowStart> = (1..=200).map(|seed| self.start(seed)).collect();
        let mut firsts: Vec<Duration> = each.iter().map(FlowStart::first_packet_delay).collect();
        firsts.sort_unstable();
        let sum = |part: fn(&FlowStart) -> u64| each.iter().map(part).sum();
        FlowStarts {
            firsts,
            late: sum(|start| start.late),
            missing: sum(|start| start.missing),
            uncounted: each.iter().map(|start| start.uncounted).sum(),
        }
    }
}

/// Opens the flow to the other agent and the reverse flow, at these indexes of the plan.
fn open(
    plan: &Plan,
    agent: usize,
    indexes: [usize; 2],
    host: &mut byway_proto::agent::Agent,
    now: Time,
) -> (SendFlowId, ReceiveFlowId) {
    let (sent, received) = if agent == 0 { (indexes[0], indexes[1]) } else { (indexes[1], indexes[0]) };
    let sending = host.open_flow(plan.key(sent), plan.settings(sent, true), now);
    let receiving = host.accept_flow(plan.key(received), plan.settings(received, false), now);
    sending.zip(receiving).expect("the peer was added")
}

fn connect(plan: &Plan, agents: &[NodeId], relays: &[NodeId], world: &mut World<FlowStart>) {
    for (index, one) in relays.iter().enumerate() {
        for other in &relays[index + 1..] {
            world.connect_both(*one, *other, &plan.between);
        }
    }
    for (agent, near) in agents.iter().zip(&plan.agents) {
        for (relay, link) in &near.relays {
            world.connect_both(*agent, relays[*relay], link);
        }
    }
    world.connect(agents[0], agents[1], plan.flows[FORTH].direct.clone());
    world.connect(agents[1], agents[0], plan.flows[BACK].direct.clone());
}

#[derive(Debug)]
enum StartEvent {
    Stop(NodeId),
    /// The application sends its first datagram: its flows are opened and offered.
    Offer,
    /// The application sends its next datagram.
    Send,
    /// The receiving agent's driver answers an offer.
    Answer,
    /// The agent sends the datagrams that waited for the peer's consent.
    Release,
}

/// A flow setup, with the driver at both ends.
#[derive(Debug)]
struct FlowStart {
    plan: Plan,
    agents: Vec<NodeId>,
    begin: Time,
    sending: Option<SendFlowId>,
    receiving: Option<ReceiveFlowId>,
    is_accepted: bool,
    pending: Vec<(Time, Vec<u8>)>,
    sent: Vec<Time>,
    received: BTreeMap<u64, Time>,
    late: u64,
    missing: u64,
    uncounted: i64,
}

impl FlowStart {
    fn new(plan: Plan, agents: Vec<NodeId>, begin: Time) -> Self {
        Self {
            plan,
            agents,
            begin,
            sending: None,
            receiving: None,
            is_accepted: false,
            pending: Vec::new(),
            sent: Vec::new(),
            received: BTreeMap::new(),
            late: 0,
            missing: 0,
            uncounted: 0,
        }
    }

    /// Returns the time from the application's first datagram to the first arrival.
    fn first_packet_delay(&self) -> Duration {
        self.received.values().min().map_or(Duration::MAX, |first| *first - self.begin)
    }

    fn offer(&mut self, world: &mut World<Self>) {
        let plan = &self.plan;
        let sent = world.input(self.agents[0], |host, now| {
            let agent = host.overlay_mut().as_agent_mut();
            let (sent, _) = open(plan, 0, [FORTH, BACK], agent, now);
            assert!(agent.offer(agent_number(1), OFFERED, offered(plan), now));
            sent
        });
        self.sending = sent;
        world.schedule_in(Duration::ZERO, StartEvent::Send);
    }

    fn send(&mut self, world: &mut World<Self>) {
        let number = self.sent.len() as u64;
        self.sent.push(world.now());
        let mut datagram = number.to_be_bytes().to_vec();
        datagram.resize(300, 0);
        if !self.sends_early(&datagram, world) {
            self.pending.push((world.now(), datagram));
        }
        if self.is_accepted {
            self.release(world);
        }
        if number + 1 < DATAGRAMS {
            world.schedule_in(INTERVAL, StartEvent::Send);
        }
    }

    /// Sends a datagram with its flow's offer, unless others wait for the answer.
    fn sends_early(&self, datagram: &[u8], world: &mut World<Self>) -> bool {
        let flow = self.sending.expect("the flow was opened");
        let may = !self.is_accepted && self.pending.is_empty();
        let sent = may.then(|| {
            world.input(self.agents[0], |host, now| {
                host.overlay_mut().as_agent_mut().send_early(
                    flow,
                    datagram,
                    TrafficClass::DEFAULT,
                    false,
                    now,
                )
            })
        });
        sent.flatten().unwrap_or(false)
    }

    fn release(&mut self, world: &mut World<Self>) {
        let flow = self.sending.expect("the flow was opened");
        for (came, datagram) in core::mem::take(&mut self.pending) {
            world.input(self.agents[0], |host, now| {
                let agent = host.overlay_mut().as_agent_mut();
                agent.send_buffered(flow, &datagram, TrafficClass::DEFAULT, false, came, now);
            });
        }
    }

    fn answer(&mut self, world: &mut World<Self>) {
        let (plan, receiving) = (&self.plan, self.receiving);
        let received = world.input(self.agents[1], |host, now| {
            let agent = host.overlay_mut().as_agent_mut();
            let received = receiving.unwrap_or_else(|| open(plan, 1, [FORTH, BACK], agent, now).1);
            agent.answer_offer(agent_number(0), OFFERED, Ok(()), now);
            received
        });
        self.receiving = received;
    }

    /// Counts outcomes of the datagrams, and lost ones that no node has counted.
    fn count(&mut self, world: &World<Self>) {
        let late =
            |(number, at): (&u64, &Time)| *at - self.sent[usize::try_from(*number).unwrap_or(0)] > BUDGET;
        self.late = self.received.iter().filter(|got| late(*got)).count() as u64;
        self.missing = DATAGRAMS - self.received.len() as u64;
        let sender = world.host(self.agents[0]).agent().counters();
        let lost = self.receiving.and_then(|flow| world.host(self.agents[1]).agent().statistics(flow));
        let lost = lost.map_or(0, |is| is.lost - is.in_stream - is.cooperative - is.cached);
        // No node detects losses at the flow's end.
        let end = self.received.keys().next_back().map_or(0, |last| DATAGRAMS - 1 - last);
        // A datagram that waits for consent is not lost.
        let waiting = self.pending.len() as u64;
        let counted = sender.datagrams_unsendable + lost + end + waiting;
        self.uncounted = self.missing.cast_signed() - counted.cast_signed();
    }
}

fn offered(plan: &Plan) -> Offer {
    let settings = &plan.flows[FORTH].settings;
    let (service, rates, rate) = (settings.service, settings.rates, settings.rate);
    let terms = Terms { service, rates, rate, latency_budget: BUDGET, ..Terms::default() };
    Offer { forth: terms, back: terms, subject: b"video".to_vec() }
}

impl Scenario for FlowStart {
    type Host = TestNode;
    type Event = StartEvent;
    type Observer = TrafficRecorder;

    fn event(&mut self, task: StartEvent, world: &mut World<Self>) {
        match task {
            StartEvent::Stop(relay) => world.stop(relay),
            StartEvent::Offer => self.offer(world),
            StartEvent::Send => self.send(world),
            StartEvent::Answer => self.answer(world),
            StartEvent::Release => self.release(world),
        }
    }

    fn drained(&mut self, node: NodeId, world: &mut World<Self>) {
        let now = world.now();
        if node == self.agents[0] {
            let accepted = Event::OfferAnswered { peer: agent_number(1), flow: OFFERED, outcome: Ok(()) };
            if world.host_mut(node).overlay_mut().drain_events().contains(&accepted) {
                self.is_accepted = true;
                world.schedule_in(Duration::ZERO, StartEvent::Release);
            }
        } else if node == self.agents[1] {
            let host = world.host_mut(node).overlay_mut();
            for delivered in host.drain_delivered() {
                let number = delivered.datagram.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
                let before = self.received.insert(number.expect("datagrams begin with their number"), now);
                assert_eq!(before, None, "what is delivered is delivered once");
            }
            if !host.drain_offers().is_empty() {
                world.schedule_in(Duration::ZERO, StartEvent::Answer);
            }
        }
    }
}

/// Outcomes of the setup of many flows.
#[derive(Debug)]
struct FlowStarts {
    /// Delays of the first packets, in ascending order.
    firsts: Vec<Duration>,
    late: u64,
    missing: u64,
    uncounted: i64,
}

impl fmt::Display for FlowStarts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [half, most, nearly, all] = [50, 90, 99, 100].map(|per_cent| self.quantile(per_cent));
        let Self { late, missing, uncounted, .. } = self;
        write!(
            f,
            "p50 {half}, p90 {most}, p99 {nearly}, all {all}; {late} late, {missing} missing, {uncounted} uncounted"
        )
    }
}

impl FlowStarts {
    fn is_prompt(&self) -> bool {
        self.quantile(50) <= ROUND_TRIP && self.quantile(99) <= ms(200)
    }

    fn quantile(&self, per_cent: usize) -> Duration {
        self.firsts[(self.firsts.len() * per_cent).div_ceil(100) - 1]
    }
}

/// Runs 200 starts and prints their figures.
#[allow(clippy::print_stdout, reason = "the figures, for whoever runs the tests with --nocapture")]
fn measured(name: &str, network: &FlowSetupNetwork) -> FlowStarts {
    let starts = network.starts();
    println!("{name}: {starts}");
    starts
}

/// Asserts that the first packet of half of the flows arrives within a round trip, and that of 99
/// of 100 within two. Each lost datagram must be counted.
fn assert_prompt(name: &str, network: &FlowSetupNetwork) {
    let starts = measured(name, network);
    assert!(starts.is_prompt(), "{name}: {starts}");
    assert_eq!(starts.uncounted, 0, "{name}: {starts}");
}

#[test]
fn a_flow_begins_within_a_round_trip_on_a_path_that_loses_a_third() {
    assert_prompt("static", &FlowSetupNetwork::lossy());
    assert_prompt("managed", &FlowSetupNetwork { is_managed: true, ..FlowSetupNetwork::lossy() });
    assert_prompt("bursts", &FlowSetupNetwork::bursty());
    assert_prompt("coding", &FlowSetupNetwork { service: Service::Coding, ..FlowSetupNetwork::lossy() });
}

#[test]
fn relays_that_pass_nothing_on_leave_a_flow_s_beginning_to_the_direct_path() {
    let starts = FlowSetupNetwork { are_strangers: true, ..FlowSetupNetwork::lossy() }.starts();
    // With relays, 99 of 100 begin within 52 ms.
    assert!(starts.quantile(99) > ROUND_TRIP, "{starts}");
    assert_eq!(starts.uncounted, 0, "{starts}");
}

#[test]
fn one_relay_is_enough_and_of_two_one_may_be_dead() {
    assert_prompt("one relay", &FlowSetupNetwork { paths: vec![(0, 0)], ..FlowSetupNetwork::lossy() });
    let two = FlowSetupNetwork { paths: vec![(0, 0), (1, 1)], ..FlowSetupNetwork::lossy() };
    assert_prompt("two paths", &two);
    for dead in [0, 1] {
        assert_prompt("one of two dead", &FlowSetupNetwork { dead: Some(dead), ..two.clone() });
    }
}

#[test]
fn losses_in_one_direction_or_on_the_way_to_relays_are_borne() {
    assert_prompt("forth", &FlowSetupNetwork { back: vec![], ..FlowSetupNetwork::lossy() });
    assert_prompt("back", &FlowSetupNetwork { forth: vec![], ..FlowSetupNetwork::lossy() });
    let segments = vec![Loss::Independent(share(0.1))];
    assert_prompt("10 % on each segment", &FlowSetupNetwork { segments, ..FlowSetupNetwork::lossy() });
}

#[test]
fn without_relays_every_early_packet_repeats_the_offer_and_nothing_vanishes() {
    let starts = FlowSetupNetwork { paths: vec![], ..FlowSetupNetwork::lossy() }.starts();
    println!("no relays: {starts}");
    assert!(starts.quantile(50) <= ROUND_TRIP && starts.quantile(99) <= ms(300), "{starts}");
    assert_eq!(starts.uncounted, 0, "{starts}");
}

/// Asserts that the first packet of half of the flows arrives within a round trip and 100 ms, and
/// that of 99 of 100 within 400 ms. The relays have just learned of the agents, which have no
/// session with each other yet.
fn assert_prompt_after_handshake(name: &str, network: FlowSetupNetwork) {
    let starts = measured(&format!("just begun, {name}"), &FlowSetupNetwork { begin: ms(50), ..network });
    let (half, nearly) = (starts.quantile(50), starts.quantile(99));
    assert!(half <= ROUND_TRIP + ms(100) && nearly <= ms(400), "{name}: {starts}");
    assert_eq!(starts.uncounted, 0, "{name}: {starts}");
}

#[test]
fn agents_that_have_just_begun_send_their_first_packets_behind_the_handshake() {
    assert_prompt_after_handshake("static", FlowSetupNetwork::lossy());
    assert_prompt_after_handshake("bursts", FlowSetupNetwork::bursty());
    let two = FlowSetupNetwork { paths: vec![(0, 0), (1, 1)], ..FlowSetupNetwork::lossy() };
    assert_prompt_after_handshake(
        "one relay",
        FlowSetupNetwork { paths: vec![(0, 0)], ..FlowSetupNetwork::lossy() },
    );
    assert_prompt_after_handshake("two paths", two);
}
