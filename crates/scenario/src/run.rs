//! A scenario in virtual time.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use byway_proto::agent::{AgentInput, ReceiveFlowId, SendFlowId};
use byway_sim::overlay::OverlayHost;
use byway_sim::{
    Datagram, Hang, Host, Link, LossReason, NodeChange, NodeId, Observer, Record, Seed, Span,
    Step as PacketStep, Transmit, World,
};
use byway_units::{Duration, Time};
use byway_wire::Ecn;
use byway_wire::packets::{SOURCE_OVERHEAD, SourcePacket};
use byway_wire::seal::TAG_BYTES;

use crate::applications::Calendar;
use crate::books::{Book, Counts};
use crate::build::{BuildError, FlowEnd, Plan};
use crate::capture::Capture;
use crate::measure::share;
use crate::outcome::{FlowOutcome, NodeOutcome, Outcome, Stopped, Verdict};
use crate::scenario::{Action, Role, Scenario, Step};
use crate::trace::Lines;

/// A machine of the world.
#[derive(Debug)]
pub(crate) enum Machine {
    /// An agent or a relay.
    Overlay(OverlayHost),
    /// It only passes on.
    Router,
}

impl Host for Machine {
    fn receive(&mut self, datagram: Datagram<'_>, now: Time) {
        if let Self::Overlay(host) = self {
            host.receive(datagram, now);
        }
    }

    fn wake(&mut self, now: Time) {
        if let Self::Overlay(host) = self {
            host.wake(now);
        }
    }

    fn transmit(&mut self, now: Time) -> Option<Transmit<'_>> {
        match self {
            Self::Overlay(host) => host.transmit(now),
            Self::Router => None,
        }
    }

    fn deadline(&self) -> Option<Time> {
        match self {
            Self::Overlay(host) => host.deadline(),
            Self::Router => None,
        }
    }
}

/// What begins each datagram: its number in its flow, and the flow's place.
const LABEL_BYTES: usize = 16;

/// Where a datagram begins in a source packet. Simulated worlds have checksums for ciphers, so that it can be read.
const DATAGRAM_START: usize = SOURCE_OVERHEAD - TAG_BYTES;

/// The place of a flow and the number of a datagram of it.
fn label(datagram: &[u8]) -> Option<(usize, u64)> {
    let (number, rest) = datagram.split_first_chunk()?;
    let place = u64::from_be_bytes(*rest.first_chunk()?);
    Some((usize::try_from(place).ok()?, u64::from_be_bytes(*number)))
}

/// Sees everything: notes which source packets are lost on their way and, if somebody reads along, what happens.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// The datagrams of which a direct copy was lost or damaged: the place of the flow, and the number in it.
    lost: Vec<(usize, u64)>,
    lines: Option<Lines>,
    capture: Option<Capture>,
}

impl Watch {
    /// A step of the scenario happens.
    fn note(&mut self, now: Time, node: usize, what: &str, description: &str) {
        if let Some(lines) = &mut self.lines {
            let words = format!("{what}: {description}");
            lines.note(now, node, words.trim_end_matches(": "));
        }
    }
}

impl Observer for Watch {
    fn packet(&mut self, record: &Record<'_>) {
        if let Some(capture) = &mut self.capture {
            capture.packet(record);
        }
        if let Some(lines) = &mut self.lines {
            lines.packet(record);
        }
        // What finds nobody at home was not lost on the way.
        let is_lost = match record.step {
            PacketStep::Lost(LossReason::Stopped | LossReason::Hung) => false,
            PacketStep::Lost(_) | PacketStep::Corrupted { .. } => true,
            _ => false,
        };
        if is_lost && SourcePacket::parse(record.payload).is_ok() {
            self.lost.extend(record.payload.get(DATAGRAM_START..).and_then(label));
        }
    }

    fn node(&mut self, time: Time, node: NodeId, change: NodeChange) {
        if let Some(lines) = &mut self.lines {
            lines.node(time, node, change);
        }
    }
}

/// How far a run is.
#[derive(Clone, Debug)]
pub struct Progress {
    /// The time in its world.
    pub now: Duration,
    /// When it ends.
    pub length: Duration,
    /// What happened since the last time, if somebody reads along.
    pub lines: String,
    /// What was captured since the last time: the next part of a file in pcapng's format.
    pub capture: Vec<u8>,
}

/// What is written down of a run.
#[derive(Clone, Debug, Default)]
pub struct Watching {
    /// In words.
    pub trace: Trace,
    /// Byte for byte.
    pub capture: Captured,
}

/// The links of which packets are captured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Captured {
    /// None.
    #[default]
    Nothing,
    /// All, in both directions.
    Everything,
    /// Those between these machines, in both directions.
    Links(Vec<[String; 2]>),
}

/// What is written down of a run in words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trace {
    /// Nothing.
    #[default]
    Nothing,
    /// What changes: machines, sessions, flows, steps.
    Changes,
    /// The same, and each step of each packet.
    Packets,
}

/// A run is looked at after each such part: what is read along stays small, and one who interrupts is heard.
const PART: Duration = Duration::from_millis(100);

/// Most packets under way when an application sends: half of what the world bears, as each may be answered.
const IN_FLIGHT_MAX: usize = byway_sim::limits::IN_FLIGHT_PACKETS_MAX / 2;

/// What is scheduled.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// An application sends so many packets.
    Send { flow: usize, packets: u32 },
    /// A step of the scenario.
    Step(usize),
}

/// A flow under way.
#[derive(Debug)]
struct Flow {
    calendar: Calendar,
    book: Book,
    sent: Option<SendFlowId>,
    received: Option<ReceiveFlowId>,
}

/// A scenario under way.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    plan: Plan<'a>,
    flows: Vec<Flow>,
    /// What is between machines, but for cuts.
    links: BTreeMap<(usize, usize), Link>,
    /// By the place of a flow's name.
    counts: BTreeMap<usize, Counts>,
    /// Why it cannot go on.
    stopped: Option<&'static str>,
    /// By machine, the flows that begin or end there.
    of_machine: BTreeMap<usize, Vec<usize>>,
    /// By machine, the flows that end there as its agent knows them.
    by_received: BTreeMap<(usize, ReceiveFlowId), usize>,
    datagram: Vec<u8>,
}

impl byway_sim::Scenario for Run<'_> {
    type Host = Machine;
    type Event = Event;
    type Observer = Watch;

    fn event(&mut self, event: Event, world: &mut World<Self>) {
        match event {
            Event::Send { flow, packets } => {
                if world.in_flight() > IN_FLIGHT_MAX {
                    // Hosts' answers need room, too.
                    self.stopped = Some(
                        "too many packets are under way: have lower rates, shorter delays or shorter queues",
                    );
                    return;
                }
                self.note_losses(world);
                for _ in 0..packets {
                    self.send(flow, world);
                }
                self.schedule(flow, world);
            }
            Event::Step(step) => self.step(step, world),
        }
    }

    fn drained(&mut self, node: NodeId, world: &mut World<Self>) {
        let Machine::Overlay(host) = world.host_mut(node) else {
            return;
        };
        let (delivered, events) = (host.take_delivered(), host.take_events());
        // Flows are opened at both ends: nothing is offered.
        host.take_offers();
        let now = world.now();
        if let Some(lines) = &mut world.observer_mut().lines {
            for event in &events {
                lines.event(now, node, event);
            }
        }
        for delivered in delivered {
            let (place, number) = label(&delivered.datagram).expect("datagrams begin with their label");
            let accepted = self.by_received.get(&(node.number() as usize, delivered.flow));
            assert_eq!(accepted, Some(&place), "a datagram is delivered in the flow that it was sent in");
            let counts = counts_of(&mut self.counts, &self.plan, place);
            self.flows[place].book.delivered(number, delivered.delivery, now, counts);
        }
    }
}

impl<'a> Run<'a> {
    fn new(plan: Plan<'a>, seed: Seed) -> Self {
        let scenario = plan.scenario;
        let flow = |(place, flow): (usize, &crate::scenario::FlowPlan)| Flow {
            calendar: Calendar::new(flow.traffic, seed.named("application").numbered(place as u64)),
            book: Book::new(plan.wirings[place].terms),
            sent: None,
            received: None,
        };
        let flows: Vec<Flow> = scenario.flows.iter().enumerate().map(flow).collect();
        let mut of_machine: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut counts = BTreeMap::new();
        for (place, flow) in scenario.flows.iter().enumerate() {
            of_machine.entry(flow.from).or_default().push(place);
            of_machine.entry(flow.to).or_default().push(place);
            counts.insert(flow.group, Counts::default());
        }
        let (by_received, datagram) = (BTreeMap::new(), Vec::new());
        let links = plan.links();
        Self { plan, flows, links, counts, stopped: None, of_machine, by_received, datagram }
    }

    /// Opens all flows, and schedules what is known to happen.
    fn begin(&mut self, world: &mut World<Self>) {
        let machines: Vec<usize> = self.of_machine.keys().copied().collect();
        for node in machines {
            self.open(node, world);
        }
        for flow in 0..self.flows.len() {
            self.schedule(flow, world);
        }
        for (place, step) in self.plan.scenario.steps.iter().enumerate() {
            world.schedule(Time::START + step.at, Event::Step(place));
        }
    }

    /// Opens and accepts the flows of a machine.
    fn open(&mut self, node: usize, world: &mut World<Self>) {
        let flows = self.of_machine.get(&node).cloned().unwrap_or_default();
        let plan = &self.plan;
        let ends = world.input(world.node(node), |host, now| match host {
            Machine::Overlay(host) => plan.open_flows(host.as_agent_mut(), flows.into_iter(), node, now),
            Machine::Router => Vec::new(),
        });
        for (flow, end) in ends.unwrap_or_default() {
            match end {
                FlowEnd::Sent(sent) => self.flows[flow].sent = Some(sent),
                FlowEnd::Received(received) => {
                    self.flows[flow].received = Some(received);
                    self.by_received.insert((node, received), flow);
                }
            }
        }
    }

    fn schedule(&mut self, flow: usize, world: &mut World<Self>) {
        if let Some(burst) = self.flows[flow].calendar.next() {
            world.schedule(burst.at, Event::Send { flow, packets: burst.packets });
        }
    }

    fn send(&mut self, place: usize, world: &mut World<Self>) {
        let flow = &mut self.flows[place];
        let plan = &self.plan.scenario.flows[place];
        let number = flow.book.sent(world.now(), counts_of(&mut self.counts, &self.plan, place));
        self.datagram.clear();
        self.datagram.extend_from_slice(&number.to_be_bytes());
        self.datagram.extend_from_slice(&(place as u64).to_be_bytes());
        debug_assert_eq!(self.datagram.len(), LABEL_BYTES, "what is read is what is written");
        self.datagram.resize(plan.traffic.bytes, 0);
        let (Some(flow), datagram) = (flow.sent, &self.datagram) else {
            return;
        };
        world.input(world.node(plan.from), |host, now| {
            if let Machine::Overlay(host) = host {
                let input = AgentInput::Send { flow, datagram, ecn: Ecn::NotCapable, marked: false };
                host.as_agent_mut().handle(input, now);
            }
        });
    }

    fn step(&mut self, place: usize, world: &mut World<Self>) {
        let Step { action, description, .. } = &self.plan.scenario.steps[place];
        let now = world.now();
        match action {
            Action::Stop(node) => world.observer_mut().note(now, *node, "stop", description),
            Action::Start(node) => world.observer_mut().note(now, *node, "start", description),
            Action::Hang(node) => world.observer_mut().note(now, *node, "hang", description),
            Action::Resume(node) => world.observer_mut().note(now, *node, "resume", description),
            Action::Cut(links) => self.describe_links(links, "cut", description, world),
            Action::Mend(links) => self.describe_links(links, "mended", description, world),
            Action::Change(links, _) => self.describe_links(links, "changed", description, world),
        }
        match action {
            Action::Stop(node) => world.stop(world.node(*node)),
            Action::Hang(node) => world.hang(world.node(*node), Hang::Keep),
            Action::Resume(node) => world.resume(world.node(*node)),
            Action::Start(node) => self.start(*node, world),
            Action::Cut(links) => {
                let dark = Span { from: world.now(), until: Time::MAX };
                self.relink(links, world, |link| Link { outages: vec![dark], ..link.clone() });
            }
            Action::Mend(links) => self.relink(links, world, Link::clone),
            Action::Change(links, change) => {
                for ends in links {
                    if let Some(link) = self.links.get_mut(ends) {
                        *link = self.plan.changed(link, change, place);
                    }
                }
                self.relink(links, world, Link::clone);
            }
        }
    }

    /// Has links as they are known, but for what `other` makes of them.
    fn relink(&self, links: &[(usize, usize)], world: &mut World<Self>, other: impl Fn(&Link) -> Link) {
        for ends in links {
            let (from, to) = (world.node(ends.0), world.node(ends.1));
            world.connect(from, to, other(&self.links[ends]));
        }
    }

    fn start(&mut self, node: usize, world: &mut World<Self>) {
        let host = self.plan.machine(node, world.now());
        world.restart(world.node(node), host);
        if self.plan.scenario.nodes[node].role == Role::Agent {
            self.by_received.retain(|(known, _), _| *known != node);
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
            let what = format!("the link to {to} is {what}");
            world.observer_mut().note(now, *from, &what, description);
        }
    }

    /// Takes what the world has lost to the books.
    fn note_losses(&mut self, world: &mut World<Self>) {
        for (place, number) in world.observer_mut().lost.drain(..) {
            // What was damaged before it was lost may say anything; it was noted when it was damaged.
            if let Some(flow) = self.flows.get_mut(place) {
                flow.book.lost(number);
            }
        }
    }

    fn outcome(mut self, world: &mut World<Self>, seed: u64, stopped: Option<Stopped>) -> Outcome {
        world.check_conservation().expect("no packet appears or disappears");
        self.note_losses(world);
        let now = world.now();
        for (place, flow) in self.flows.iter_mut().enumerate() {
            flow.book.close(now, counts_of(&mut self.counts, &self.plan, place));
        }
        let scenario = self.plan.scenario;
        let nodes = nodes(scenario, world);
        let plans = scenario.nodes.iter().zip(&nodes);
        let of_relays = plans.filter(|(plan, _)| plan.role == Role::Relay);
        let relay_bytes = of_relays.map(|(_, node)| node.sent_bytes).sum();
        let flows = self.flow_outcomes(relay_bytes);
        let verdict = |expectation: &crate::scenario::Expectation| {
            let place = self.counts.keys().position(|group| *group == expectation.group);
            Verdict::of(expectation, &flows[place.expect("expectations are of flows")])
        };
        Outcome {
            title: scenario.title.clone(),
            seed,
            seconds: scenario.length.as_secs_f64(),
            stopped,
            digest: format!("{:016x}", world.digest()),
            link_crossings: world.links().map(|(_, _, counters)| counters.sent).sum(),
            unroutable: world.unroutable(),
            expectations: scenario.expectations.iter().map(verdict).collect(),
            flows,
            nodes,
        }
    }

    /// What came of the flows of each name, in the order of the names.
    fn flow_outcomes(&self, relay_bytes: u64) -> Vec<FlowOutcome> {
        let mut flows: BTreeMap<usize, FlowOutcome> = BTreeMap::new();
        for plan in &self.plan.scenario.flows {
            let flow = flows.entry(plan.group).or_default();
            flow.name.clone_from(&plan.name);
            flow.flows += 1;
            flow.app_bytes = self.counts[&plan.group].sent * plan.traffic.bytes as u64;
        }
        let app_bytes = flows.values().map(|flow| flow.app_bytes).sum();
        let finished = |(group, flow): (usize, FlowOutcome)| {
            let counts = &self.counts[&group];
            let all = counts.delivered + counts.late + counts.missing + counts.in_flight;
            assert_eq!(all, counts.sent, "each packet of {} has one fate", flow.name);
            FlowOutcome {
                sent: counts.sent,
                lost_direct: counts.lost,
                repaired: counts.repaired,
                repaired_within_rtt: counts.repaired_within_rtt,
                delivered: counts.delivered,
                late: counts.late,
                missing: counts.missing,
                in_flight: counts.in_flight,
                duplicates: counts.duplicates,
                repaired_by: counts.by,
                repair_ms: counts.repair_times.quantiles(),
                delay_ms: counts.delays.quantiles(),
                relay_share: share(relay_bytes, app_bytes),
                ..flow
            }
        };
        flows.into_iter().map(finished).collect()
    }
}

fn counts_of<'a>(counts: &'a mut BTreeMap<usize, Counts>, plan: &Plan<'_>, place: usize) -> &'a mut Counts {
    counts.get_mut(&plan.scenario.flows[place].group).expect("each name has its counts")
}

fn nodes(scenario: &Scenario, world: &World<Run<'_>>) -> Vec<NodeOutcome> {
    let mut nodes: Vec<NodeOutcome> = scenario
        .nodes
        .iter()
        .map(|node| NodeOutcome { name: node.name.clone(), ..NodeOutcome::default() })
        .collect();
    for (from, _, counters) in world.links() {
        let node = &mut nodes[from.number() as usize];
        node.sent += counters.sent;
        node.sent_bytes += counters.sent_bytes.count();
    }
    nodes
}

impl Scenario {
    /// Whether all who have to reach each other do.
    ///
    /// # Errors
    /// If not.
    pub fn check(&self) -> Result<(), BuildError> {
        Plan::new(self, Seed::new(self.seed)).map(drop)
    }

    /// Runs it in virtual time.
    ///
    /// # Errors
    /// If machines that have to reach each other do not.
    pub fn run(&self, seed: u64) -> Result<Outcome, BuildError> {
        self.run_watched(seed, &Watching::default(), |_| ControlFlow::Continue(()))
    }

    /// Runs it in virtual time; `watch` is told now and then how far it is, and may end it: what it has by then is the
    /// outcome, marked as such.
    ///
    /// # Errors
    /// If machines that have to reach each other do not.
    pub fn run_watched(
        &self,
        seed: u64,
        watching: &Watching,
        mut watch: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Outcome, BuildError> {
        let own = Seed::new(seed);
        let plan = Plan::new(self, own)?;
        let mut world = plan.build();
        let mut run = Run::new(plan, own);
        if watching.trace != Trace::Nothing {
            let names = self.node_names().map(str::to_owned).collect();
            world.observer_mut().lines = Some(Lines::new(names, watching.trace == Trace::Packets));
        }
        if watching.capture != Captured::Nothing {
            let capture = self.capture(&world, &watching.capture)?;
            world.observer_mut().capture = Some(capture);
        }
        run.begin(&mut world);
        let stopped = self.advance(&mut world, &mut run, &mut watch);
        Ok(run.outcome(&mut world, seed, stopped))
    }

    /// A capture of the links between machines of these names.
    fn capture(&self, world: &World<Run<'_>>, captured: &Captured) -> Result<Capture, BuildError> {
        let name = |node: NodeId| self.nodes[node.number() as usize].name.as_str();
        let all: Vec<(NodeId, NodeId)> = world.links().map(|(from, to, _)| (from, to)).collect();
        let joins = |link: &(NodeId, NodeId), ends: &[String; 2]| {
            let [one, other] = ends.each_ref().map(String::as_str);
            (name(link.0), name(link.1)) == (one, other) || (name(link.0), name(link.1)) == (other, one)
        };
        if let Captured::Links(wanted) = captured {
            let is_absent = |ends: &&[String; 2]| !all.iter().any(|link| joins(link, ends));
            if let Some([from, to]) = wanted.iter().find(is_absent) {
                return Err(BuildError::NoLink { from: from.clone(), to: to.clone() });
            }
        }
        let is_wanted = |link: &&(NodeId, NodeId)| match captured {
            Captured::Nothing => false,
            Captured::Everything => true,
            Captured::Links(wanted) => wanted.iter().any(|ends| joins(link, ends)),
        };
        let named =
            |link: &(NodeId, NodeId)| (link.0, link.1, format!("{} to {}", name(link.0), name(link.1)));
        Ok(Capture::new(all.iter().filter(is_wanted).map(named)))
    }

    /// Runs until the end, or until it cannot go on or `watch` does not let it.
    fn advance<'a>(
        &self,
        world: &mut World<Run<'a>>,
        run: &mut Run<'a>,
        watch: &mut impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Option<Stopped> {
        let mut now = Duration::ZERO;
        while now < self.length {
            now = (now + PART).min(self.length);
            world.run_until(Time::START + now, run);
            let lines = world.observer_mut().lines.as_mut().map(Lines::take).unwrap_or_default();
            let capture = world.observer_mut().capture.as_mut().map(Capture::take).unwrap_or_default();
            let told = watch(Progress { now, length: self.length, lines, capture });
            let stopped = |why: &str| Some(Stopped { seconds: now.as_secs_f64(), why: why.to_owned() });
            match run.stopped {
                Some(why) => return stopped(why),
                None if told.is_break() && now < self.length => return stopped("nobody waits for the rest"),
                None => {}
            }
        }
        None
    }
}
