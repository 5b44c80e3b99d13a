//! Run of a scenario in virtual time.

mod driver;
mod summary;
mod tcp_flows;

use std::collections::BTreeMap;

use byway_code::prefetch_value;
use byway_proto::agent::{AgentInput, Delivery, ReceiveFlowId, SendFlowId, explain};
use byway_sim::{Freeze, Link, NodeId, Span, World};
use byway_units::{Bytes, Duration, Time};
use byway_wire::Ecn;

use crate::build::addresses::agent_address;
use crate::build::{FlowEnd, Plan, ResolvedLink};
use crate::conversation::{Conversation, End};
use crate::costs::{CostOutcome, RelayMeter};
use crate::delivery_counts::DeliveryCounts;
use crate::delivery_ledger::DeliveryLedger;
use crate::explanation::ExplainedFlow;
use crate::machine::Machine;
use crate::observer::{LABEL_BYTES, LostDatagram, RunObserver, WakeUps, parse_label};
use crate::record::LossLocation;
use crate::scenario::{Action, Role, Step};
use crate::send_schedule::{Burst, SendSchedule};

/// Progress of a run, which its caller gets after each tenth of a second of virtual time.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Virtual time that has passed.
    pub now: Duration,
    /// Duration of the run.
    pub length: Duration,
    /// Memory of the run's packets in flight, ledgers, histograms and records. Agents and relays
    /// have limits of their own, and are not included.
    pub memory: Bytes,
    /// Text of the trace since the last call; empty unless a trace is enabled.
    pub lines: String,
    /// Part of the capture since the last call, in the pcapng format; empty unless a capture is
    /// enabled.
    pub capture: Vec<u8>,
}

/// Reason for which the caller stops a run before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The caller cancelled the run.
    Cancelled,
    /// The run took this much real time. A repetition stops at another virtual time.
    RealTime(Duration),
    /// The run uses more memory than this.
    Memory(Bytes),
}

/// Options of a run: the trace, the capture and the packet records.
#[derive(Clone, Debug, Default)]
pub struct RecordOptions {
    /// Level of the trace in words.
    pub trace: TraceLevel,
    /// Links whose packets are captured.
    pub capture: CaptureFilter,
    /// True to record the outcome of each packet: [`Outcome::records`](crate::Outcome::records).
    /// Each takes 32 bytes.
    pub records: bool,
}

/// Selection of links to capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CaptureFilter {
    /// No links: no capture.
    #[default]
    Nothing,
    /// All links, in both directions.
    Everything,
    /// Links between these machines, in both directions.
    Links(Vec<[String; 2]>),
}

/// Level of detail of a run's trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TraceLevel {
    /// No trace.
    #[default]
    Nothing,
    /// Changes of machines, sessions and flows, and steps.
    Changes,
    /// Changes of machines, sessions and flows, steps, and each step of each packet.
    Packets,
}

/// Most packets in flight when an application sends: half of the world's limit, because each packet
/// may be answered.
const IN_FLIGHT_MAX: usize = byway_sim::limits::IN_FLIGHT_PACKETS_MAX / 2;

/// Interval at which received bytes of bulk transfers are counted.
const SECOND: Duration = Duration::from_secs(1);

/// Period before the end in which wake-ups of machines are counted.
const MINUTE: Duration = Duration::from_secs(60);

/// Scheduled event of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// An application sends this many packets back to back, the last with this length.
    Send { flow: usize, packets: u32, last_bytes: usize },
    /// A timer of an application over TCP is due.
    Wake { conversation: usize },
    /// A second of a bulk transfer ends: its received bytes are recorded.
    Second { conversation: usize },
    /// A step of the scenario is due, by its index.
    Step(usize),
    /// Agents measure all delays for the explanations.
    PrepareExplanation,
    /// The services of all flows are explained.
    Explain,
    /// The last minute begins, in which wake-ups of machines are counted.
    LastMinute,
}

/// State of a flow in a run.
#[derive(Debug)]
struct Flow {
    /// Send schedule of the flow's application; `None` for TCP and programs.
    schedule: Option<SendSchedule>,
    /// Of TCP: the conversation's index, and its end that receives the flow's segments.
    receiving_end: Option<(usize, End)>,
    ledger: DeliveryLedger,
    /// Bytes of the datagrams that were sent.
    bytes: u64,
    sent: Option<SendFlowId>,
    received: Option<ReceiveFlowId>,
}

/// State of a scenario's run: applications, ledgers, and the current links.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    plan: Plan<'a>,
    flows: Vec<Flow>,
    conversations: Vec<Conversation>,
    /// Properties of the links between machines, without cuts.
    links: BTreeMap<(usize, usize), ResolvedLink<'a>>,
    /// Counts of packet outcomes, by index of the flows' name.
    counts: Vec<DeliveryCounts>,
    /// Reason for which the run stopped early; `None` otherwise.
    stopped: Option<&'static str>,
    /// Flows that begin or end at each machine.
    of_machine: BTreeMap<usize, Vec<usize>>,
    /// Costs at the time of the explanations; `None` before, and without prices.
    costs_at_explanation: Option<CostOutcome>,
    datagram: Vec<u8>,
    segment: Vec<u8>,
}

impl byway_sim::Scenario for Run<'_> {
    type Host = Machine;
    type Event = Event;
    type Observer = RunObserver;

    fn event(&mut self, event: Event, world: &mut World<Self>) {
        match event {
            Event::Send { flow, packets, last_bytes } => {
                if !self.has_capacity(world) {
                    return;
                }
                self.note_losses(world);
                for left in (0..packets).rev() {
                    let bytes = if left == 0 { Some(last_bytes) } else { None };
                    self.send(flow, bytes, world);
                }
                self.schedule(flow, world);
            }
            Event::Wake { conversation } => {
                self.conversations[conversation].wake(world.now());
                self.poll_conversation(conversation, world);
            }
            Event::Second { conversation } => {
                self.conversations[conversation].note_second();
                world.schedule_in(SECOND, Event::Second { conversation });
            }
            Event::LastMinute => {
                let machines = self.plan.scenario.nodes.len();
                world.observer_mut().wake_ups = Some(vec![WakeUps::default(); machines]);
            }
            Event::Step(step) => self.step(step, world),
            Event::PrepareExplanation => self.prepare_explanation(world),
            Event::Explain => self.explain(world),
        }
    }

    fn prepare(&self, event: &Event, world: &World<Self>) -> Option<NodeId> {
        let Event::Send { flow, .. } = event else {
            return None;
        };
        prefetch_value(&self.flows[*flow]);
        Some(world.node(self.plan.scenario.flows[*flow].from))
    }

    fn drained(&mut self, node: NodeId, world: &mut World<Self>) {
        let host = match world.host_mut(node) {
            Machine::Overlay(host) => host,
            Machine::Bare(host) => {
                let delivered = host.drain_delivered();
                return self.deliver_bare(node, delivered, world);
            }
            Machine::Router => return,
        };
        let (delivered, events) = (host.drain_delivered(), host.drain_events());
        // Flows are opened at both ends without offers.
        host.drain_offers();
        let now = world.now();
        if let Some(lines) = &mut world.observer_mut().trace {
            for event in &events {
                lines.event(now, node, event);
            }
        }
        for mut delivered in delivered {
            let (index, number) = parse_label(&delivered.datagram).expect("datagrams begin with their label");
            let (flow, plan) = (&mut self.flows[index], &self.plan.scenario.flows[index]);
            let is_accepted = flow.received == Some(delivered.flow) && plan.to == node.number() as usize;
            assert!(is_accepted, "a datagram is delivered in the flow that it was sent in");
            flow.ledger.on_delivered(number, delivered.delivery, now, &mut self.counts[plan.group]);
            if let Some((conversation, end)) = flow.receiving_end {
                let segment = &mut delivered.datagram[LABEL_BYTES..];
                self.conversations[conversation].receive(end, segment, delivered.ecn, now);
                // Segment by segment, as a kernel does: an acknowledgment is sent as if delayed
                // segments had arrived one by one.
                self.poll_conversation(conversation, world);
            }
        }
    }
}

impl<'a> Run<'a> {
    fn new(plan: Plan<'a>) -> Self {
        let scenario = plan.scenario;
        let flow = |index: usize| Flow {
            schedule: plan.send_schedule(index),
            receiving_end: None,
            bytes: 0,
            ledger: DeliveryLedger::new(plan.flow_setups[index].terms),
            sent: None,
            received: None,
        };
        let mut flows: Vec<Flow> = (0..scenario.flows.len()).map(flow).collect();
        let mut conversations = Vec::new();
        for (index, conversation) in scenario.conversations.iter().enumerate() {
            let [forth, back] = conversation.flows;
            flows[forth].receiving_end = Some((index, End::Server));
            flows[back].receiving_end = Some((index, End::Client));
            conversations.push(Conversation::new(*conversation, plan.application_seed(forth)));
        }
        let mut of_machine: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let groups = scenario.flows.last().map_or(0, |last| last.group + 1);
        for (index, flow) in scenario.flows.iter().enumerate() {
            of_machine.entry(flow.from).or_default().push(index);
            of_machine.entry(flow.to).or_default().push(index);
        }
        let links = plan.links();
        Self {
            plan,
            flows,
            conversations,
            links,
            counts: vec![DeliveryCounts::default(); groups],
            stopped: None,
            of_machine,
            costs_at_explanation: None,
            datagram: Vec::new(),
            segment: Vec::new(),
        }
    }

    /// Opens all flows, and schedules the first events of applications and the steps.
    fn begin(&mut self, world: &mut World<Self>) {
        let machines: Vec<usize> = self.of_machine.keys().copied().collect();
        for node in machines {
            self.open(node, world);
        }
        for flow in 0..self.flows.len() {
            self.schedule(flow, world);
        }
        self.begin_conversations(world);
        if self.plan.scenario.length > MINUTE {
            world.schedule(Time::START + (self.plan.scenario.length - MINUTE), Event::LastMinute);
        }
        if let Some(at) = self.plan.scenario.explain_at {
            world.schedule(Time::START + at.saturating_sub(SECOND), Event::PrepareExplanation);
            world.schedule(Time::START + at, Event::Explain);
        }
        if self.plan.scenario.prices.iter().next().is_some() {
            world.observer_mut().meter = Some(RelayMeter::new(self.plan.scenario.relays()));
        }
        for (index, step) in self.plan.scenario.steps.iter().enumerate() {
            world.schedule(Time::START + step.at, Event::Step(index));
        }
    }

    /// Opens and accepts the flows of a machine.
    fn open(&mut self, node: usize, world: &mut World<Self>) {
        let flows = self.of_machine.get(&node).cloned().unwrap_or_default();
        let plan = &self.plan;
        let ends = world.input(world.node(node), |host, now| match host {
            Machine::Overlay(host) => plan.open_flows(host.as_agent_mut(), flows.into_iter(), node, now),
            Machine::Bare(_) | Machine::Router => Vec::new(),
        });
        for (flow, end) in ends.unwrap_or_default() {
            match end {
                FlowEnd::Sent(sent) => self.flows[flow].sent = Some(sent),
                FlowEnd::Received(received) => self.flows[flow].received = Some(received),
            }
        }
    }

    fn schedule(&mut self, flow: usize, world: &mut World<Self>) {
        if let Some(burst) = self.flows[flow].schedule.as_mut().and_then(SendSchedule::next) {
            let Burst { at, packets, last_bytes } = burst;
            world.schedule(at, Event::Send { flow, packets, last_bytes });
        }
    }

    /// True if the world can take more packets in flight. Otherwise, this records the reason to
    /// stop the run.
    fn has_capacity(&mut self, world: &World<Self>) -> bool {
        if world.in_flight() > IN_FLIGHT_MAX {
            // Half of the limit stays free for answers of hosts.
            self.stopped = Some("too many packets are in flight: reduce rates, delays or queues");
        }
        self.stopped.is_none()
    }

    /// Sends the flow's next datagram, with this length; `None`: with the flow's usual length.
    fn send(&mut self, index: usize, bytes: Option<usize>, world: &mut World<Self>) {
        self.label(index, world.now());
        let bytes = bytes.unwrap_or_else(|| self.plan.scenario.flows[index].load.bytes_max());
        self.datagram.resize(bytes, 0);
        self.send_datagram(index, Ecn::NotCapable, false, world);
    }

    /// Writes the label of a flow's next datagram into the buffer, and records its sending.
    fn label(&mut self, index: usize, now: Time) {
        let group = self.plan.scenario.flows[index].group;
        let number = self.flows[index].ledger.on_sent(now, &mut self.counts[group]);
        self.datagram.clear();
        self.datagram.extend_from_slice(&number.to_be_bytes());
        self.datagram.extend_from_slice(&(index as u64).to_be_bytes());
        debug_assert_eq!(self.datagram.len(), LABEL_BYTES, "what is read is what is written");
    }

    /// Makes agents ask for the delays that explanations need.
    fn prepare_explanation(&self, world: &mut World<Self>) {
        for (index, flow) in self.flows.iter().enumerate() {
            let from = world.node(self.plan.scenario.flows[index].from);
            world.input(from, |host, now| {
                if let (Machine::Overlay(host), Some(sent)) = (host, flow.sent) {
                    host.as_agent_mut().ask_for_unknown_delay(sent, now);
                }
            });
        }
    }

    /// Explains the services of all flows, and notes the costs until now.
    fn explain(&mut self, world: &mut World<Self>) {
        for (index, flow) in self.flows.iter_mut().enumerate() {
            let from = world.node(self.plan.scenario.flows[index].from);
            let now = world.now();
            let (Machine::Overlay(host), Some(sent)) = (world.host_mut(from), flow.sent) else {
                continue;
            };
            if let Some(explanation) = explain(host.as_agent_mut(), sent, now) {
                flow.ledger.explain(ExplainedFlow::new(explanation, now));
            }
        }
        self.costs_at_explanation = self.costs(world);
    }

    /// Returns the costs of all relays until now; `None` if none has prices.
    fn costs(&self, world: &World<Self>) -> Option<CostOutcome> {
        let meter = world.observer().meter.as_ref()?;
        let (_, first) = self.plan.scenario.prices.iter().next()?;
        let nodes = self.plan.scenario.nodes.iter().map(|node| node.name.as_str()).enumerate();
        Some(meter.costs(nodes, &self.plan.relay_prices, first.currency.code()))
    }

    /// Passes the datagram in the buffer to the agent of the flow's sender, or to its machine if
    /// that runs no Byway.
    fn send_datagram(&mut self, index: usize, ecn: Ecn, marked: bool, world: &mut World<Self>) {
        self.flows[index].bytes += self.datagram.len() as u64;
        let plan = &self.plan.scenario.flows[index];
        let (sent, datagram) = (self.flows[index].sent, &self.datagram);
        if sent.is_none() && self.plan.scenario.nodes[plan.from].bare.is_none() {
            return;
        }
        world.input(world.node(plan.from), |host, now| match (host, sent) {
            (Machine::Overlay(host), Some(flow)) => {
                let input = AgentInput::Send { flow, datagram, traffic_class: ecn.into(), marked };
                host.as_agent_mut().handle(input, now);
            }
            (Machine::Bare(host), _) => host.send(agent_address(plan.to), ecn, datagram),
            (Machine::Overlay(_) | Machine::Router, _) => {}
        });
    }

    /// Delivers datagrams that arrived at a machine without Byway to its applications.
    fn deliver_bare(&mut self, node: NodeId, delivered: Vec<(Vec<u8>, Ecn)>, world: &mut World<Self>) {
        for (mut datagram, ecn) in delivered {
            let (index, number) = parse_label(&datagram).expect("datagrams begin with their label");
            let (flow, plan) = (&mut self.flows[index], &self.plan.scenario.flows[index]);
            assert!(plan.to == node.number() as usize, "a datagram arrives at its receiver");
            flow.ledger.on_delivered(number, Delivery::Direct, world.now(), &mut self.counts[plan.group]);
            if let Some((conversation, end)) = flow.receiving_end {
                let segment = &mut datagram[LABEL_BYTES..];
                self.conversations[conversation].receive(end, segment, ecn, world.now());
                self.poll_conversation(conversation, world);
            }
        }
    }

    fn step(&mut self, index: usize, world: &mut World<Self>) {
        let Step { action, description, .. } = &self.plan.scenario.steps[index];
        let now = world.now();
        match action {
            Action::Stop(node) => world.observer_mut().note(now, *node, "stop", description),
            Action::Start(node) => world.observer_mut().note(now, *node, "start", description),
            Action::Freeze(node) => world.observer_mut().note(now, *node, "freeze", description),
            Action::Resume(node) => world.observer_mut().note(now, *node, "resume", description),
            Action::Cut(links) => self.describe_links(links, "cut", description, world),
            Action::Mend(links) => self.describe_links(links, "mended", description, world),
            Action::Change(links, _) => self.describe_links(links, "changed", description, world),
        }
        match action {
            Action::Stop(node) => world.stop(world.node(*node)),
            Action::Freeze(node) => world.freeze(world.node(*node), Freeze::Buffer),
            Action::Resume(node) => world.resume(world.node(*node)),
            Action::Start(node) => self.start(*node, world),
            Action::Cut(links) => {
                let outage = Span { from: world.now(), until: Time::MAX };
                self.update_links(links, world, |link| Link { outages: vec![outage], ..link.clone() });
            }
            Action::Mend(links) => self.update_links(links, world, Link::clone),
            Action::Change(links, change) => {
                for ends in links {
                    if let Some(resolved) = self.links.get_mut(ends) {
                        self.plan.change(resolved, change, index);
                    }
                }
                self.update_links(links, world, Link::clone);
            }
        }
    }

    /// Sets these links of the world to their current properties, as modified by `other`.
    fn update_links(&self, links: &[(usize, usize)], world: &mut World<Self>, other: impl Fn(&Link) -> Link) {
        for ends in links {
            let (from, to) = (world.node(ends.0), world.node(ends.1));
            world.connect(from, to, other(&self.links[ends].link));
        }
    }

    fn start(&mut self, node: usize, world: &mut World<Self>) {
        let host = self.plan.machine(node, world.now());
        world.restart(world.node(node), host);
        if self.plan.scenario.nodes[node].role == Role::Agent {
            self.open(node, world);
        }
    }

    fn describe_links(
        &self,
        links: &[(usize, usize)],
        what: &str,
        description: &str,
        world: &mut World<Self>,
    ) {
        let now = world.now();
        for (from, to) in links {
            let to = &self.plan.scenario.nodes[*to].name;
            let what = format!("link to {to} {what}");
            world.observer_mut().note(now, *from, &what, description);
        }
    }

    /// Returns the memory of packets in flight, ledgers, histograms and records.
    fn memory(&self, world: &World<Self>) -> Bytes {
        let ledgers: usize = self.flows.iter().map(|flow| flow.ledger.memory_bytes()).sum();
        let conversations: usize = self.conversations.iter().map(Conversation::memory_bytes).sum();
        let tables: usize = self.counts.iter().map(DeliveryCounts::memory_bytes).sum();
        world.memory_bytes() + Bytes::from(ledgers + conversations + tables)
    }

    /// Records the losses and duplicates that the observer collected in the flows' ledgers.
    fn note_losses(&mut self, world: &mut World<Self>) {
        for LostDatagram { flow, number, link } in world.observer_mut().lost.drain(..) {
            // A damaged packet that was lost may have any label; its damage is already recorded.
            let Some(plan) = self.plan.scenario.flows.get(flow) else {
                continue;
            };
            let location = match link {
                (from, to) if from == plan.from && to != plan.to => LossLocation::SenderAccess,
                (from, to) if from != plan.from && to == plan.to => LossLocation::ReceiverAccess,
                _ => LossLocation::Middle,
            };
            self.flows[flow].ledger.on_lost(number, location);
        }
        for (flow, number) in world.observer_mut().duplicated.drain(..) {
            if let Some(flow) = self.flows.get_mut(flow) {
                flow.ledger.on_duplicated(number);
            }
        }
    }
}
