//! Run of a plan: applications, faults, and ledgers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use byway_proto::Uplinks;
use byway_proto::agent::{
    Agent, AgentInput, Delivery, Event, ReceiveFlowId, ReceiveStatistics, ReportedTotals, SendFlowId,
};
use byway_proto::relay::{EgressCounters, IngressCounters};
use byway_sim::checkers::{Deliveries, Repairs, check_agent_input};
use byway_sim::overlay::OverlayHost;
use byway_sim::overlay::topology::address;
use byway_sim::{NodeId, Scenario, World};
use byway_units::{Duration, Time};
use byway_wire::Ecn;

use super::identities::RELAYS;
use super::node::TestNode;
use super::plan::Plan;
use super::recording_ciphers::CipherLog;
use super::secs;
use super::traffic_recorder::TrafficRecorder;

pub(crate) type OverlayWorld = World<Run>;

type Act = Box<dyn FnOnce(&mut Run, &mut OverlayWorld)>;

/// Scheduled event.
pub(crate) enum RunEvent {
    /// A flow's application sends.
    Send(usize),
    /// An action of the test.
    Act(Act),
}

impl fmt::Debug for RunEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a task")
    }
}

/// A delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeliveredPacket {
    pub(crate) at: Time,
    pub(crate) flow: usize,
    pub(crate) number: u64,
    pub(crate) delivery: Delivery,
    pub(crate) ecn: Ecn,
}

/// Outcomes of the packets of one flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlowSummary {
    pub(crate) sent: u64,
    /// Lost on the direct path.
    pub(crate) lost: u64,
    /// Of these, delivered by a repair within the flow's latency budget.
    pub(crate) repaired: u64,
    /// Of all sent, never delivered.
    pub(crate) missing: u64,
    /// Delivered packets, by kind of delivery.
    pub(crate) by: BTreeMap<Delivery, u64>,
}

impl FlowSummary {
    pub(crate) fn by(&self, delivery: Delivery) -> u64 {
        self.by.get(&delivery).copied().unwrap_or(0)
    }
}

#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) plan: Plan,
    pub(crate) agents: Vec<NodeId>,
    pub(crate) relays: Vec<NodeId>,
    pub(crate) sending: Vec<Option<SendFlowId>>,
    pub(crate) receiving: Vec<Option<ReceiveFlowId>>,
    /// Time of sending of each datagram of each flow.
    pub(crate) sent: Vec<Vec<Time>>,
    pub(crate) deliveries: Deliveries<usize>,
    repairs: Vec<Repairs<u64>>,
    pub(crate) delivered: Vec<DeliveredPacket>,
    pub(crate) events: Vec<(Time, usize, Event)>,
    incarnations: u64,
    /// The agents that have restarted.
    restarted: BTreeSet<usize>,
    /// Flows with a restarted end, and the time of the first delivery after the restart that is not
    /// a repair. Datagrams sent before it may have waited for a session at their sender, which no
    /// receiver can detect.
    restarted_flows: BTreeMap<usize, Option<Time>>,
}

impl Plan {
    pub(crate) fn build(self) -> (OverlayWorld, Run) {
        let mut world = World::new(self.seed(), TrafficRecorder::default());
        let start = Time::START;
        let relays: Vec<_> = (0..self.relays)
            .map(|relay| {
                let host = OverlayHost::relay(self.relay(relay, 0, start));
                world.add(TestNode::of(host, self.lying_relays()), address(RELAYS, relay))
            })
            .collect();
        let mut run = Run::new(self, relays);
        for agent in 0..run.plan.agents.len() {
            let host = run.plan.agent(agent, 0, start);
            let host = run.open_flows(agent, host, start);
            let node = run.agent_node(agent, host);
            let network = run.plan.agents[agent].network;
            run.agents.push(world.add(node, address(network, agent)));
        }
        run.connect(&mut world);
        for flow in 0..run.plan.flows.len() {
            world.schedule(run.plan.sends_at(flow, 0), RunEvent::Send(flow));
        }
        (world, run)
    }

    /// Builds and runs the plan until three seconds after the last datagram.
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
            delivered: Vec::new(),
            events: Vec::new(),
            incarnations: 0,
            restarted: BTreeSet::new(),
            restarted_flows: BTreeMap::new(),
        }
    }

    /// Returns the node of an agent, with its uplinks.
    fn agent_node(&self, agent: usize, host: Agent) -> TestNode {
        let host = OverlayHost::agent(host);
        match self.plan.agents[agent].uplinks {
            Uplinks::One => TestNode::of(host, self.plan.lying_agent(agent)),
            Uplinks::Two { .. } => TestNode::TwoUplinks(host),
        }
    }

    fn open_flows(&mut self, agent: usize, mut host: Agent, now: Time) -> Agent {
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

    /// Creates the links of the plan, or changes them to the plan's current values.
    pub(crate) fn connect(&self, world: &mut OverlayWorld) {
        for (index, one) in self.relays.iter().enumerate() {
            for other in &self.relays[index + 1..] {
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

    /// Returns the links of the plan, each once for both directions.
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

    /// Schedules an action at an instant.
    pub(crate) fn schedule(
        world: &mut OverlayWorld,
        time: Time,
        act: impl FnOnce(&mut Self, &mut OverlayWorld) + 'static,
    ) {
        world.schedule(time, RunEvent::Act(Box::new(act)));
    }

    /// Replaces a relay by a fresh one, now.
    pub(crate) fn restart_relay(&mut self, relay: usize, world: &mut OverlayWorld) {
        self.incarnations += 1;
        let host = self.plan.relay(relay, self.incarnations, world.now());
        world.restart(self.relays[relay], TestNode::of(OverlayHost::relay(host), self.plan.lying_relays()));
    }

    /// Replaces an agent by a fresh one with the same flows.
    pub(crate) fn restart_agent(&mut self, agent: usize, world: &mut OverlayWorld) {
        self.incarnations += 1;
        self.restarted.insert(agent);
        let flows = self.plan.flows.iter().enumerate();
        let its = flows.filter(|(_, flow)| [flow.from, flow.to].contains(&agent));
        self.restarted_flows.extend(its.map(|(flow, _)| (flow, None)));
        let host = self.plan.agent(agent, self.incarnations, world.now());
        let host = self.open_flows(agent, host, world.now());
        world.restart(self.agents[agent], self.agent_node(agent, host));
    }

    /// True if an agent has never restarted.
    pub(crate) fn is_first_incarnation(&self, agent: usize) -> bool {
        !self.restarted.contains(&agent)
    }

    /// True if a datagram may have waited at its sender: an end of the flow restarted, and the
    /// datagram was sent before the flow continued.
    fn may_have_waited(&self, flow: usize, number: u64) -> bool {
        let sent = usize::try_from(number).ok().and_then(|number| self.sent[flow].get(number));
        self.restarted_flows.get(&flow).is_some_and(|first| first.is_none_or(|first| sent < Some(&first)))
    }

    /// Returns the end of the last flow.
    pub(crate) fn end(&self) -> Time {
        let ends = self.plan.flows.iter().map(|flow| Time::START + flow.begin + flow.length);
        ends.max().expect("there are flows")
    }

    /// Runs until three seconds after the last datagram, and checks the invariants of every run.
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
        self.repairs[flow].on_sent(number, now, plan.direct.delay).expect("numbers are assigned once");
        self.deliveries.on_sent(flow, &datagram, now).expect("datagrams differ by their number");
        let id = self.sending[flow].expect("the flow was opened");
        let (ecn, marked) = (plan.ecn, plan.marks_one_in.is_some_and(|one_in| number.is_multiple_of(one_in)));
        world.input(self.agents[plan.from], |host, now| {
            let input = AgentInput::Send { flow: id, datagram: &datagram, traffic_class: ecn.into(), marked };
            check_agent_input(host.overlay_mut().as_agent_mut(), |agent| agent.handle(input, now));
        });
    }

    /// Returns this datagram of a flow.
    pub(crate) fn datagram(&self, flow: usize, number: u64) -> Vec<u8> {
        let plan = &self.plan.flows[flow];
        let is_short = (2..plan.long_from).contains(&number);
        let bytes = if is_short { plan.datagram_bytes.min(300) } else { plan.datagram_bytes };
        let mut datagram = Vec::with_capacity(bytes);
        datagram.extend_from_slice(&number.to_be_bytes());
        datagram.extend_from_slice(&(flow as u64).to_be_bytes());
        datagram.extend((16..bytes).map(|index| (index as u64 ^ number).to_le_bytes()[0]));
        datagram
    }

    /// Returns the cipher record of an agent.
    pub(crate) fn agent_cipher_log(&self, agent: usize) -> CipherLog {
        self.plan.recorders.as_ref().expect("the plan is spied on").agents[agent].log()
    }

    /// See [`Run::agent_cipher_log`].
    pub(crate) fn relay_cipher_log(&self, relay: usize) -> CipherLog {
        self.plan.recorders.as_ref().expect("the plan is spied on").relays[relay].log()
    }

    /// Returns the outcomes of each flow's packets. They are valid only if sequence numbers equal
    /// those of the datagrams: every datagram in one packet, no sender restarted.
    pub(crate) fn fates(&self, world: &OverlayWorld) -> Vec<FlowSummary> {
        let mut repairs = self.repairs.clone();
        for (flow, number) in &world.observer().lost {
            repairs[*flow].on_lost(*number).expect("what is lost was sent");
        }
        let fate = |flow: usize| {
            let budget = self.plan.flows[flow].settings.latency_budget;
            let summary = repairs[flow].summary(budget, Duration::MAX);
            let mut by = BTreeMap::new();
            for got in self.delivered.iter().filter(|got| got.flow == flow) {
                *by.entry(got.delivery).or_default() += 1;
            }
            FlowSummary {
                sent: summary.sent,
                lost: summary.lost,
                repaired: summary.repaired,
                missing: summary.missing,
                by,
            }
        };
        (0..repairs.len()).map(fate).collect()
    }

    /// Returns the outcomes of all flows' packets.
    pub(crate) fn fate(&self, world: &OverlayWorld) -> FlowSummary {
        self.fates(world).into_iter().fold(FlowSummary::default(), |mut all, fate| {
            all.sent += fate.sent;
            all.lost += fate.lost;
            all.repaired += fate.repaired;
            all.missing += fate.missing;
            for (delivery, count) in fate.by {
                *all.by.entry(delivery).or_default() += count;
            }
            all
        })
    }

    pub(crate) fn statistics<'a>(&self, flow: usize, world: &'a OverlayWorld) -> &'a ReceiveStatistics {
        let receiver = self.agents[self.plan.flows[flow].to];
        let id = self.receiving[flow].expect("the flow was accepted");
        world.host(receiver).agent().statistics(id).expect("the flow is open")
    }

    /// Returns the statistics of a flow's receiver over all incarnations of its sender.
    pub(crate) fn received_total(&self, flow: usize, world: &OverlayWorld) -> ReceiveStatistics {
        let receiver = self.agents[self.plan.flows[flow].to];
        let totals = world.host(receiver).agent().totals();
        totals
            .get(&self.plan.key(flow).sender())
            .map_or_else(ReceiveStatistics::default, |totals| totals.received)
    }

    /// Returns the reported totals of a flow at its sender.
    pub(crate) fn reported(&self, flow: usize, world: &OverlayWorld) -> ReportedTotals {
        let sender = self.agents[self.plan.flows[flow].from];
        let id = self.sending[flow].expect("the flow was opened");
        world.host(sender).agent().reported_totals(id).expect("it was reported")
    }

    pub(crate) fn ingress<'a>(&self, relay: usize, world: &'a OverlayWorld) -> &'a IngressCounters {
        world.host(self.relays[relay]).relay().ingress_counters()
    }

    pub(crate) fn egress<'a>(&self, relay: usize, world: &'a OverlayWorld) -> &'a EgressCounters {
        world.host(self.relays[relay]).relay().egress_counters()
    }

    /// Returns the sequence numbers of a flow that were sent in a span of time and not delivered.
    pub(crate) fn missing(&self, flow: usize, from: Time, until: Time) -> Vec<u64> {
        let delivered: BTreeSet<u64> =
            self.delivered.iter().filter(|got| got.flow == flow).map(|got| got.number).collect();
        let sent = (0..).zip(&self.sent[flow]).filter(|(_, sent)| **sent >= from && **sent < until);
        sent.map(|(number, _)| number).filter(|number| !delivered.contains(number)).collect()
    }

    /// Returns the number of packets of all flows sent in a span of time and not delivered.
    pub(crate) fn all_missing(&self, from: Time, until: Time) -> usize {
        (0..self.plan.flows.len()).map(|flow| self.missing(flow, from, until).len()).sum()
    }

    /// Returns the deliveries of a flow in a span of time, by kind of delivery.
    pub(crate) fn delivery_counts(&self, flow: usize, from: Time, until: Time) -> BTreeMap<Delivery, u64> {
        let mut counts = BTreeMap::new();
        for got in self.delivered.iter().filter(|got| got.flow == flow && got.at >= from && got.at < until) {
            *counts.entry(got.delivery).or_default() += 1;
        }
        counts
    }
}

impl Scenario for Run {
    type Host = TestNode;
    type Event = RunEvent;
    type Observer = TrafficRecorder;

    fn event(&mut self, task: RunEvent, world: &mut OverlayWorld) {
        let flow = match task {
            RunEvent::Send(flow) => flow,
            RunEvent::Act(act) => return act(self, world),
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
            world.schedule_in(plan.sending.interval(), RunEvent::Send(flow));
        }
    }

    fn drained(&mut self, node: NodeId, world: &mut OverlayWorld) {
        let Some(agent) = self.agents.iter().position(|known| *known == node) else {
            return;
        };
        let now = world.now();
        let host = world.host_mut(node).overlay_mut();
        self.events.extend(host.drain_events().into_iter().map(|event| (now, agent, event)));
        for delivered in host.drain_delivered() {
            let is_its = |flow: &usize| {
                self.plan.flows[*flow].to == agent && self.receiving[*flow] == Some(delivered.flow)
            };
            let flow = (0..self.plan.flows.len()).find(is_its).expect("agents deliver the flows they have");
            self.deliveries
                .on_delivered(flow, &delivered.datagram, now)
                .expect("what is delivered was sent, once");
            let number = delivered.datagram.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
            let number = number.expect("datagrams begin with their number");
            self.repairs[flow].on_delivered(number, now).expect("what is delivered was sent");
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
            self.delivered.push(DeliveredPacket {
                at: now,
                flow,
                number,
                delivery: delivered.delivery,
                ecn: delivered.ecn,
            });
        }
    }
}
