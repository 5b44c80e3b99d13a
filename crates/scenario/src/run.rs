//! A scenario in virtual time.

mod driving;
mod ending;
mod talking;

use std::collections::BTreeMap;

use byway_code::prefetch_value;
use byway_proto::agent::{AgentInput, ReceiveFlowId, SendFlowId};
use byway_sim::{Hang, Link, NodeId, Span, World};
use byway_units::{Bytes, Duration, Time};
use byway_wire::Ecn;

use crate::applications::{Burst, Calendar};
use crate::books::{Book, Counts};
use crate::build::{FlowEnd, Laid, Plan};
use crate::conversation::{Conversation, End};
use crate::machine::Machine;
use crate::record::LossPlace;
use crate::scenario::{Action, Role, Step};
use crate::watch::{LABEL_BYTES, LostDatagram, WakeUps, Watch, label};

/// How far a run is.
#[derive(Clone, Debug)]
pub struct Progress {
    /// The time in its world.
    pub now: Duration,
    /// When it ends.
    pub length: Duration,
    /// What its packets under way, its books, its tables of times and its records take of memory. Agents and relays have limits of their own, and are
    /// not among it.
    pub held: Bytes,
    /// What happened since the last time, if somebody reads along.
    pub lines: String,
    /// What was captured since the last time: the next part of a file in pcapng's format.
    pub capture: Vec<u8>,
}

/// Why a run is ended before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halt {
    /// Nobody waits for the rest.
    Unwanted,
    /// It took this much real time. The same run ends elsewhere the next time.
    RealTime(Duration),
    /// It holds more than this.
    Memory(Bytes),
}

/// What is written down of a run.
#[derive(Clone, Debug, Default)]
pub struct Watching {
    /// In words.
    pub trace: Trace,
    /// Byte for byte.
    pub capture: Captured,
    /// Whether what became of each packet is written down: [`Outcome::records`](crate::Outcome::records). Each takes 32 bytes.
    pub records: bool,
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

/// Most packets under way when an application sends: half of what the world bears, as each may be answered.
const IN_FLIGHT_MAX: usize = byway_sim::limits::IN_FLIGHT_PACKETS_MAX / 2;

/// For how long bulk transfers are counted at a time.
const SECOND: Duration = Duration::from_secs(1);

/// How long before the end it is counted how often machines are woken.
const MINUTE: Duration = Duration::from_secs(60);

/// What is scheduled.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// An application sends so many packets, the last of this length.
    Send { flow: usize, packets: u32, last_bytes: usize },
    /// An application over TCP has something to do.
    Wake { conversation: usize },
    /// A second of a bulk transfer has passed.
    Second { conversation: usize },
    /// A step of the scenario.
    Step(usize),
    /// The last minute begins.
    LastMinute,
}

/// A flow under way.
#[derive(Debug)]
struct Flow {
    /// `None` of TCP.
    calendar: Option<Calendar>,
    /// The end of a conversation that gets what it delivers, by the conversation's place.
    heard_by: Option<(usize, End)>,
    book: Book,
    /// What was sent of it.
    bytes: u64,
    sent: Option<SendFlowId>,
    received: Option<ReceiveFlowId>,
}

/// A scenario under way.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    plan: Plan<'a>,
    flows: Vec<Flow>,
    conversations: Vec<Conversation>,
    /// What is between machines, but for cuts.
    links: BTreeMap<(usize, usize), Laid<'a>>,
    /// By the place of a flow's name.
    counts: Vec<Counts>,
    /// Why it cannot go on.
    stopped: Option<&'static str>,
    /// By machine, the flows that begin or end there.
    of_machine: BTreeMap<usize, Vec<usize>>,
    datagram: Vec<u8>,
    segment: Vec<u8>,
}

impl byway_sim::Scenario for Run<'_> {
    type Host = Machine;
    type Event = Event;
    type Observer = Watch;

    fn event(&mut self, event: Event, world: &mut World<Self>) {
        match event {
            Event::Send { flow, packets, last_bytes } => {
                if !self.has_room(world) {
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
                self.converse(conversation, world);
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
        for mut delivered in delivered {
            let (place, number) = label(&delivered.datagram).expect("datagrams begin with their label");
            let (flow, plan) = (&mut self.flows[place], &self.plan.scenario.flows[place]);
            let is_accepted = flow.received == Some(delivered.flow) && plan.to == node.number() as usize;
            assert!(is_accepted, "a datagram is delivered in the flow that it was sent in");
            flow.book.delivered(number, delivered.delivery, now, &mut self.counts[plan.group]);
            if let Some((conversation, end)) = flow.heard_by {
                let segment = &mut delivered.datagram[LABEL_BYTES..];
                self.conversations[conversation].receive(end, segment, delivered.ecn, now);
                // Segment by segment, as a kernel does: those that were held back together are acknowledged as if they had come
                // one by one.
                self.converse(conversation, world);
            }
        }
    }
}

impl<'a> Run<'a> {
    fn new(plan: Plan<'a>) -> Self {
        let scenario = plan.scenario;
        let flow = |place: usize| Flow {
            calendar: plan.calendar(place),
            heard_by: None,
            bytes: 0,
            book: Book::new(plan.wirings[place].terms),
            sent: None,
            received: None,
        };
        let mut flows: Vec<Flow> = (0..scenario.flows.len()).map(flow).collect();
        let mut conversations = Vec::new();
        for (place, conversation) in scenario.conversations.iter().enumerate() {
            let [forth, back] = conversation.flows;
            flows[forth].heard_by = Some((place, End::Server));
            flows[back].heard_by = Some((place, End::Client));
            conversations.push(Conversation::new(*conversation, plan.application_seed(forth)));
        }
        let mut of_machine: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let groups = scenario.flows.last().map_or(0, |last| last.group + 1);
        for (place, flow) in scenario.flows.iter().enumerate() {
            of_machine.entry(flow.from).or_default().push(place);
            of_machine.entry(flow.to).or_default().push(place);
        }
        let links = plan.links();
        Self {
            plan,
            flows,
            conversations,
            links,
            counts: vec![Counts::default(); groups],
            stopped: None,
            of_machine,
            datagram: Vec::new(),
            segment: Vec::new(),
        }
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
        self.begin_conversations(world);
        if self.plan.scenario.length > MINUTE {
            world.schedule(Time::START + (self.plan.scenario.length - MINUTE), Event::LastMinute);
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
                FlowEnd::Received(received) => self.flows[flow].received = Some(received),
            }
        }
    }

    fn schedule(&mut self, flow: usize, world: &mut World<Self>) {
        if let Some(burst) = self.flows[flow].calendar.as_mut().and_then(Calendar::next) {
            let Burst { at, packets, last_bytes } = burst;
            world.schedule(at, Event::Send { flow, packets, last_bytes });
        }
    }

    /// Whether there is room for more packets: if not, the run ends.
    fn has_room(&mut self, world: &World<Self>) -> bool {
        if world.in_flight() > IN_FLIGHT_MAX {
            // Hosts' answers need room, too.
            self.stopped =
                Some("too many packets are under way: have lower rates, shorter delays or shorter queues");
        }
        self.stopped.is_none()
    }

    /// Sends a datagram of this length, or of that of all.
    fn send(&mut self, place: usize, bytes: Option<usize>, world: &mut World<Self>) {
        self.label(place, world.now());
        let bytes = bytes.unwrap_or_else(|| self.plan.scenario.flows[place].load.bytes_max());
        self.datagram.resize(bytes, 0);
        self.send_datagram(place, Ecn::NotCapable, false, world);
    }

    /// Begins the next datagram of a flow.
    fn label(&mut self, place: usize, now: Time) {
        let group = self.plan.scenario.flows[place].group;
        let number = self.flows[place].book.sent(now, &mut self.counts[group]);
        self.datagram.clear();
        self.datagram.extend_from_slice(&number.to_be_bytes());
        self.datagram.extend_from_slice(&(place as u64).to_be_bytes());
        debug_assert_eq!(self.datagram.len(), LABEL_BYTES, "what is read is what is written");
    }

    /// Gives the datagram to the sender's agent.
    fn send_datagram(&mut self, place: usize, ecn: Ecn, marked: bool, world: &mut World<Self>) {
        self.flows[place].bytes += self.datagram.len() as u64;
        let (Some(flow), datagram) = (self.flows[place].sent, &self.datagram) else {
            return;
        };
        world.input(world.node(self.plan.scenario.flows[place].from), |host, now| {
            if let Machine::Overlay(host) = host {
                let input = AgentInput::Send { flow, datagram, traffic_class: ecn.into(), marked };
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
                    if let Some(laid) = self.links.get_mut(ends) {
                        self.plan.change(laid, change, place);
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
            let what = format!("the link to {to} is {what}");
            world.observer_mut().note(now, *from, &what, description);
        }
    }

    /// What packets under way, books, tables of times and records take.
    fn held(&self, world: &World<Self>) -> Bytes {
        let books: usize = self.flows.iter().map(|flow| flow.book.held_bytes()).sum();
        let conversations: usize = self.conversations.iter().map(Conversation::held_bytes).sum();
        let tables: usize = self.counts.iter().map(Counts::held_bytes).sum();
        world.held_bytes() + Bytes::from(books + conversations + tables)
    }

    /// Takes what the world has lost to the books.
    fn note_losses(&mut self, world: &mut World<Self>) {
        for LostDatagram { flow, number, link } in world.observer_mut().lost.drain(..) {
            // What was damaged before it was lost may say anything; it was noted when it was damaged.
            let Some(plan) = self.plan.scenario.flows.get(flow) else {
                continue;
            };
            let place = match link {
                (from, to) if from == plan.from && to != plan.to => LossPlace::SenderAccess,
                (from, to) if from != plan.from && to == plan.to => LossPlace::ReceiverAccess,
                _ => LossPlace::Middle,
            };
            self.flows[flow].book.lost(number, place);
        }
        for (flow, number) in world.observer_mut().duplicated.drain(..) {
            if let Some(flow) = self.flows.get_mut(flow) {
                flow.book.duplicated(number);
            }
        }
    }
}
