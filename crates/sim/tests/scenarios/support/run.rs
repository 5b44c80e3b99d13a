//! The run of a plan: applications, faults, and the books.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use byway_proto::agent::{
    AgentInput, Delivery, Event, ReceiveFlowId, ReceiveStatistics, Reported, SendFlowId,
};
use byway_proto::relay::{EgressCounters, IngressCounters};
use byway_sim::checkers::{Deliveries, Repairs, check_agent_input};
use byway_sim::overlay::OverlayHost;
use byway_sim::overlay::cast::address;
use byway_sim::{NodeId, Scenario, World};
use byway_units::{Duration, Time};
use byway_wire::Ecn;

use super::books::Books;
use super::identities::{AGENTS, RELAYS};
use super::node::Node;
use super::plan::Plan;
use super::secs;
use super::spy::Seen;

pub(crate) type OverlayWorld = World<Run>;

type Act = Box<dyn FnOnce(&mut Run, &mut OverlayWorld)>;

/// What is scheduled.
pub(crate) enum Task {
    /// A flow's application sends.
    Send(usize),
    /// Something of the test's own.
    Act(Act),
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a task")
    }
}

/// A delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Got {
    pub(crate) at: Time,
    pub(crate) flow: usize,
    pub(crate) number: u64,
    pub(crate) way: Delivery,
    pub(crate) ecn: Ecn,
}

/// What became of the packets of one flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fate {
    pub(crate) sent: u64,
    /// Lost on the direct path.
    pub(crate) lost: u64,
    /// Of these, delivered all the same within the flow's latency budget.
    pub(crate) repaired: u64,
    /// Of all sent, never delivered.
    pub(crate) missing: u64,
    /// Delivered, by way.
    pub(crate) by: BTreeMap<Delivery, u64>,
}

impl Fate {
    pub(crate) fn by(&self, way: Delivery) -> u64 {
        self.by.get(&way).copied().unwrap_or(0)
    }
}

#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) plan: Plan,
    pub(crate) agents: Vec<NodeId>,
    pub(crate) relays: Vec<NodeId>,
    pub(crate) sending: Vec<Option<SendFlowId>>,
    pub(crate) receiving: Vec<Option<ReceiveFlowId>>,
    /// When each datagram of each flow was sent.
    pub(crate) sent: Vec<Vec<Time>>,
    pub(crate) deliveries: Deliveries<usize>,
    repairs: Vec<Repairs<u64>>,
    pub(crate) got: Vec<Got>,
    pub(crate) events: Vec<(Time, usize, Event)>,
    lives: u64,
    /// The agents that have restarted.
    restarted: BTreeSet<usize>,
    /// Flows of which an end restarted, and when the first original came since: what was sent before may have waited for a
    /// session with its sender, which no receiver knows.
    restarted_flows: BTreeMap<usize, Option<Time>>,
}

impl Plan {
    pub(crate) fn build(self) -> (OverlayWorld, Run) {
        let mut world = World::new(self.seed(), Books::default());
        let start = Time::START;
        let relays: Vec<_> = (0..self.relays)
            .map(|relay| {
                let host = OverlayHost::relay(self.relay(relay, 0, start));
                world.add(Node::of(host, self.lying_relays()), address(RELAYS, relay))
            })
            .collect();
        let mut run = Run::new(self, relays);
        for agent in 0..run.plan.agents.len() {
            let host = run.plan.agent(agent, 0, start);
            let host = run.give_flows(agent, host, start);
            let node = Node::of(OverlayHost::agent(host), run.plan.lying_agent(agent));
            run.agents.push(world.add(node, address(AGENTS, agent)));
        }
        run.connect(&mut world);
        for flow in 0..run.plan.flows.len() {
            world.schedule(run.plan.sends_at(flow, 0), Task::Send(flow));
        }
        (world, run)
    }

    /// Builds and runs until all was sent and has had three more seconds.
    pub(crate) fn run(self) -> (OverlayWorld, Run) {
        let (mut world, mut run) = self.build();
        run.finish(&mut world);
        (world, run)
    }
}

impl Run {
    fn new(plan: Plan, relays: Vec<NodeId>) -> Self {
        let flows = plan.flows.len();
        Self {
            plan,
            agents: Vec::new(),
            relays,
            sending: vec![None; flows],
            receiving: vec![None; flows],
            sent: vec![Vec::new(); flows],
            deliveries: Deliveries::new(secs(1)),
            repairs: vec![Repairs::default(); flows],
            got: Vec::new(),
            events: Vec::new(),
            lives: 0,
            restarted: BTreeSet::new(),
            restarted_flows: BTreeMap::new(),
        }
    }

    fn give_flows(
        &mut self,
        agent: usize,
        mut host: byway_proto::agent::Agent,
        now: Time,
    ) -> byway_proto::agent::Agent {
        for flow in 0..self.plan.flows.len() {
            let key = self.plan.key(flow);
            if self.plan.flows[flow].from == agent {
                self.sending[flow] = host.open_flow(key, self.plan.settings(flow, true), now);
            } else if self.plan.flows[flow].to == agent {
                self.receiving[flow] = host.accept_flow(key, self.plan.settings(flow, false), now);
            }
        }
        host
    }

    /// Makes the links of the plan, or changes them to what the plan says now.
    pub(crate) fn connect(&self, world: &mut OverlayWorld) {
        for (place, one) in self.relays.iter().enumerate() {
            for other in &self.relays[place + 1..] {
                world.connect_both(*one, *other, &self.plan.between);
            }
        }
        for (agent, plan) in self.agents.iter().zip(&self.plan.agents) {
            for (relay, link) in &plan.relays {
                world.connect_both(*agent, self.relays[*relay], link);
            }
        }
        for flow in &self.plan.flows {
            world.connect(self.agents[flow.from], self.agents[flow.to], flow.direct.clone());
            world.connect(self.agents[flow.to], self.agents[flow.from], flow.back.clone());
        }
    }

    /// The links of the plan, each once for both directions.
    pub(crate) fn links(&self) -> Vec<(NodeId, NodeId)> {
        let direct = self.plan.flows.iter().map(|flow| (self.agents[flow.from], self.agents[flow.to]));
        let access = self
            .agents
            .iter()
            .zip(&self.plan.agents)
            .flat_map(|(agent, plan)| plan.relays.iter().map(|(relay, _)| (*agent, self.relays[*relay])));
        let pairs = self.relays.iter().flat_map(|one| self.relays.iter().map(|other| (*one, *other)));
        direct.chain(access).chain(pairs.filter(|(one, other)| one < other)).collect()
    }

    /// Has something done at an instant.
    pub(crate) fn when(
        world: &mut OverlayWorld,
        time: Time,
        act: impl FnOnce(&mut Self, &mut OverlayWorld) + 'static,
    ) {
        world.schedule(time, Task::Act(Box::new(act)));
    }

    /// Puts a fresh relay in the place of one, at this moment.
    pub(crate) fn restart_relay(&mut self, relay: usize, world: &mut OverlayWorld) {
        self.lives += 1;
        let host = self.plan.relay(relay, self.lives, world.now());
        world.restart(self.relays[relay], Node::of(OverlayHost::relay(host), self.plan.lying_relays()));
    }

    /// Puts a fresh agent in the place of one, with the flows it had.
    pub(crate) fn restart_agent(&mut self, agent: usize, world: &mut OverlayWorld) {
        self.lives += 1;
        self.restarted.insert(agent);
        let flows = self.plan.flows.iter().enumerate();
        let its = flows.filter(|(_, flow)| [flow.from, flow.to].contains(&agent));
        self.restarted_flows.extend(its.map(|(flow, _)| (flow, None)));
        let host = self.plan.agent(agent, self.lives, world.now());
        let host = self.give_flows(agent, host, world.now());
        world.restart(self.agents[agent], Node::Overlay(OverlayHost::agent(host)));
    }

    /// Whether an agent has never restarted.
    pub(crate) fn is_first_life(&self, agent: usize) -> bool {
        !self.restarted.contains(&agent)
    }

    /// Whether a datagram may have waited with its sender: it was sent before a flow of which an end restarted went on.
    fn may_have_waited(&self, flow: usize, number: u64) -> bool {
        let sent = usize::try_from(number).ok().and_then(|number| self.sent[flow].get(number));
        self.restarted_flows.get(&flow).is_some_and(|first| first.is_none_or(|first| sent < Some(&first)))
    }

    /// When the last flow ends.
    pub(crate) fn end(&self) -> Time {
        let ends = self.plan.flows.iter().map(|flow| Time::START + flow.begin + flow.length);
        ends.max().expect("there are flows")
    }

    /// Runs until all was sent and has had three more seconds, and checks what holds in every run.
    pub(crate) fn finish(&mut self, world: &mut OverlayWorld) {
        world.run_until(self.end() + secs(3), self);
        assert_eq!(world.check_conservation(), Ok(()));
    }

    fn send(&mut self, flow: usize, world: &mut OverlayWorld) {
        let number = self.sent[flow].len() as u64;
        self.sent[flow].push(world.now());
        let datagram = self.datagram(flow, number);
        let plan = &self.plan.flows[flow];
        let now = world.now();
        self.repairs[flow].sent(number, now, plan.direct.delay).expect("numbers are given once");
        self.deliveries.sent(flow, &datagram, now).expect("datagrams differ by their number");
        let id = self.sending[flow].expect("the flow was opened");
        let (ecn, marked) = (plan.ecn, plan.marks_one_in.is_some_and(|one_in| number.is_multiple_of(one_in)));
        world.input(self.agents[plan.from], |host, now| {
            let input = AgentInput::Send { flow: id, datagram: &datagram, traffic_class: ecn.into(), marked };
            check_agent_input(host.overlay_mut().as_agent_mut(), |agent| agent.handle(input, now));
        });
    }

    /// What a flow says with this datagram.
    pub(crate) fn datagram(&self, flow: usize, number: u64) -> Vec<u8> {
        let plan = &self.plan.flows[flow];
        let is_short = (2..plan.long_from).contains(&number);
        let bytes = if is_short { plan.datagram_bytes.min(300) } else { plan.datagram_bytes };
        let mut datagram = Vec::with_capacity(bytes);
        datagram.extend_from_slice(&number.to_be_bytes());
        datagram.extend_from_slice(&(flow as u64).to_be_bytes());
        datagram.extend((16..bytes).map(|place| (place as u64 ^ number).to_le_bytes()[0]));
        datagram
    }

    /// What went through the ciphers of an agent that is spied on.
    pub(crate) fn seen_by_agent(&self, agent: usize) -> Seen {
        self.plan.spies.as_ref().expect("the plan is spied on").agents[agent].seen()
    }

    /// See [`Run::seen_by_agent`].
    pub(crate) fn seen_by_relay(&self, relay: usize) -> Seen {
        self.plan.spies.as_ref().expect("the plan is spied on").relays[relay].seen()
    }

    /// What became of each flow's packets. Only where sequence numbers are those of the datagrams: every datagram
    /// in one piece, no sender restarted.
    pub(crate) fn fates(&self, world: &OverlayWorld) -> Vec<Fate> {
        let mut repairs = self.repairs.clone();
        for (flow, number) in &world.observer().lost {
            repairs[*flow].lost(*number).expect("what is lost was sent");
        }
        let fate = |flow: usize| {
            let budget = self.plan.flows[flow].settings.latency_budget;
            let summary = repairs[flow].summary(budget, Duration::MAX);
            let mut by = BTreeMap::new();
            for got in self.got.iter().filter(|got| got.flow == flow) {
                *by.entry(got.way).or_default() += 1;
            }
            Fate {
                sent: summary.sent,
                lost: summary.lost,
                repaired: summary.repaired,
                missing: summary.missing,
                by,
            }
        };
        (0..repairs.len()).map(fate).collect()
    }

    /// What became of all flows' packets.
    pub(crate) fn fate(&self, world: &OverlayWorld) -> Fate {
        self.fates(world).into_iter().fold(Fate::default(), |mut all, fate| {
            all.sent += fate.sent;
            all.lost += fate.lost;
            all.repaired += fate.repaired;
            all.missing += fate.missing;
            for (way, count) in fate.by {
                *all.by.entry(way).or_default() += count;
            }
            all
        })
    }

    pub(crate) fn statistics<'a>(&self, flow: usize, world: &'a OverlayWorld) -> &'a ReceiveStatistics {
        let receiver = self.agents[self.plan.flows[flow].to];
        let id = self.receiving[flow].expect("the flow was accepted");
        world.host(receiver).agent().statistics(id).expect("the flow is open")
    }

    /// What the receiver of a flow counted of all lives of its sender.
    pub(crate) fn received_total(&self, flow: usize, world: &OverlayWorld) -> ReceiveStatistics {
        let receiver = self.agents[self.plan.flows[flow].to];
        let totals = world.host(receiver).agent().totals();
        totals
            .get(&self.plan.key(flow).sender())
            .map_or_else(ReceiveStatistics::default, |totals| totals.received)
    }

    /// What its sender was told of a flow.
    pub(crate) fn reported(&self, flow: usize, world: &OverlayWorld) -> Reported {
        let sender = self.agents[self.plan.flows[flow].from];
        let id = self.sending[flow].expect("the flow was opened");
        world.host(sender).agent().reported(id).expect("it was reported")
    }

    pub(crate) fn ingress<'a>(&self, relay: usize, world: &'a OverlayWorld) -> &'a IngressCounters {
        world.host(self.relays[relay]).relay().ingress_counters()
    }

    pub(crate) fn egress<'a>(&self, relay: usize, world: &'a OverlayWorld) -> &'a EgressCounters {
        world.host(self.relays[relay]).relay().egress_counters()
    }

    /// The numbers of a flow that were sent in a span of time and not delivered.
    pub(crate) fn missing(&self, flow: usize, from: Time, until: Time) -> Vec<u64> {
        let delivered: BTreeSet<u64> =
            self.got.iter().filter(|got| got.flow == flow).map(|got| got.number).collect();
        let sent = (0..).zip(&self.sent[flow]).filter(|(_, sent)| **sent >= from && **sent < until);
        sent.map(|(number, _)| number).filter(|number| !delivered.contains(number)).collect()
    }

    /// How many packets of all flows were sent in a span of time and not delivered.
    pub(crate) fn all_missing(&self, from: Time, until: Time) -> usize {
        (0..self.plan.flows.len()).map(|flow| self.missing(flow, from, until).len()).sum()
    }

    /// Where the receiver of a flow took its packets in a span of time, by way.
    pub(crate) fn ways(&self, flow: usize, from: Time, until: Time) -> BTreeMap<Delivery, u64> {
        let mut ways = BTreeMap::new();
        for got in self.got.iter().filter(|got| got.flow == flow && got.at >= from && got.at < until) {
            *ways.entry(got.way).or_default() += 1;
        }
        ways
    }
}

impl Scenario for Run {
    type Host = Node;
    type Event = Task;
    type Observer = Books;

    fn event(&mut self, task: Task, world: &mut OverlayWorld) {
        let flow = match task {
            Task::Send(flow) => flow,
            Task::Act(act) => return act(self, world),
        };
        let now = world.now();
        let pauses = &self.plan.flows[flow].pauses;
        if !pauses.iter().any(|span| span.from <= now && now < span.until) {
            for _ in 0..self.plan.flows[flow].sending.burst(self.plan.seed(), flow, now) {
                self.send(flow, world);
            }
        }
        let plan = &self.plan.flows[flow];
        if world.now() + plan.sending.interval() < Time::START + plan.begin + plan.length {
            world.schedule_in(plan.sending.interval(), Task::Send(flow));
        }
    }

    fn drained(&mut self, node: NodeId, world: &mut OverlayWorld) {
        let Some(agent) = self.agents.iter().position(|known| *known == node) else {
            return;
        };
        let now = world.now();
        let host = world.host_mut(node).overlay_mut();
        self.events.extend(host.take_events().into_iter().map(|event| (now, agent, event)));
        for delivered in host.take_delivered() {
            let is_its = |flow: &usize| {
                self.plan.flows[*flow].to == agent && self.receiving[*flow] == Some(delivered.flow)
            };
            let flow = (0..self.plan.flows.len()).find(is_its).expect("agents deliver the flows they have");
            self.deliveries
                .delivered(flow, &delivered.datagram, now)
                .expect("what is delivered was sent, once");
            let number = delivered.datagram.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
            let number = number.expect("datagrams begin with their number");
            self.repairs[flow].delivered(number, now).expect("what is delivered was sent");
            let lateness = self.repairs[flow].lateness(number).unwrap_or_default();
            let budget = self.plan.flows[flow].settings.latency_budget;
            if let Some(first) =
                self.restarted_flows.get_mut(&flow).filter(|_| !delivered.delivery.is_repair())
            {
                first.get_or_insert(now);
            }
            assert!(
                !delivered.delivery.is_repair() || lateness <= budget || self.may_have_waited(flow, number),
                "packet {number} of flow {flow} is repaired {lateness} after it was due: late is lost"
            );
            self.got.push(Got { at: now, flow, number, way: delivered.delivery, ecn: delivered.ecn });
        }
    }
}
