//! Scenarios as meant.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use byway_sim::{GilbertElliott, MeasuredDelays, Recorded, RecordedCapacity, tcp};
use byway_typed::TypedPorts;
use byway_typed::{Drawn, TypedDuration, TypedRate, TypedShare};
use byway_units::{Bytes, Duration, FlowId, Probability, Rate};
use byway_wire::messages::Consent;
use byway_wire::{BlockShape, Service};

use crate::classes::Classes;
use crate::command::Command;
use crate::frames::FrameTrace;
use crate::limits::DATAGRAM_BYTES_MAX;
use crate::outcome::Verdict;
use crate::routes::PassesOn;
use crate::uplink::TypedUplink;

/// A scenario, checked: what one seed makes of it is a run.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub(crate) title: String,
    pub(crate) description: String,
    pub(crate) seed: u64,
    pub(crate) length: Duration,
    pub(crate) nodes: Vec<Node>,
    pub(crate) shapes: Vec<LinkShape>,
    pub(crate) links: Vec<LinkPlan>,
    pub(crate) flows: Vec<FlowPlan>,
    pub(crate) conversations: Vec<ConversationPlan>,
    pub(crate) steps: Vec<Step>,
    pub(crate) commands: Vec<Command>,
    pub(crate) expectations: Vec<Expectation>,
}

impl Scenario {
    /// What it shows, in a line.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.title
    }

    /// What it shows, and where its numbers come from.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// What chance begins with where nobody says otherwise.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// How long it lasts.
    #[must_use]
    pub const fn length(&self) -> Duration {
        self.length
    }

    /// The programs that a lab runs in its machines.
    #[must_use]
    pub fn commands(&self) -> &[Command] {
        &self.commands
    }

    /// What is expected, each as if there was nothing to measure: [`Verdict::with`] judges what there is.
    #[must_use]
    pub fn expectations(&self) -> Vec<Verdict> {
        self.expectations.iter().map(|expectation| Verdict::of_nothing(expectation, self)).collect()
    }

    /// What the link between two machines, by their names, is called, if it is.
    #[must_use]
    pub fn link_name(&self, from: &str, to: &str) -> Option<&str> {
        let is = |place: usize, name: &str| self.nodes[place].name == name;
        let joins = |link: &&LinkPlan| {
            is(link.from, from) && is(link.to, to)
                || link.is_both_ways && is(link.from, to) && is(link.to, from)
        };
        self.shapes[self.links.iter().find(joins)?.shape].name.as_deref()
    }

    /// The names of all machines, in order.
    pub fn node_names(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(|node| node.name.as_str())
    }
}

impl Scenario {
    /// What each machine passes on of what is for others.
    pub(crate) fn passes_on(&self) -> Vec<PassesOn> {
        let mut passes_on: Vec<PassesOn> = self.nodes.iter().map(Node::passes_on).collect();
        for (place, node) in self.nodes.iter().enumerate() {
            if let Some(PassesOn::Of(inside)) = node.behind.map(|router| &mut passes_on[router]) {
                inside.insert(place);
            }
        }
        passes_on
    }
}

/// What a machine does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Agent,
    Relay,
    Router,
}

/// A machine.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) role: Role,
    /// Of a relay, whether it follows up on what does not come.
    pub(crate) follows_up: bool,
    /// Of a relay, what it sends at most.
    pub(crate) uplink: Option<TypedUplink>,
    /// Of a router, whether it translates addresses; where it stands in its file.
    pub(crate) nat: Option<String>,
    /// The router that translates its address, by its place.
    pub(crate) behind: Option<usize>,
}

impl Node {
    /// What it passes on, with nobody behind it yet.
    fn passes_on(&self) -> PassesOn {
        match (self.role, &self.nat) {
            (Role::Router, None) => PassesOn::All,
            (Role::Router, Some(_)) => PassesOn::Of(BTreeSet::new()),
            (Role::Agent | Role::Relay, _) => PassesOn::Nothing,
        }
    }
}

/// A link between two machines, by their places.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkPlan {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Whether there is one of the same shape in the other direction.
    pub(crate) is_both_ways: bool,
    /// What it is like, by the place of its shape.
    pub(crate) shape: usize,
    /// Which of the links of this shape it is, from 1.
    pub(crate) member: u32,
}

/// What the links of one table are like.
#[derive(Clone, Debug)]
pub(crate) struct LinkShape {
    /// What variants of the scenario and expectations call it.
    pub(crate) name: Option<String>,
    pub(crate) delay: Drawn<TypedDuration>,
    pub(crate) jitter: Drawn<TypedDuration>,
    pub(crate) reorders: bool,
    pub(crate) detours: Probability,
    pub(crate) detour: Duration,
    /// In the place of `delay`.
    pub(crate) measured: Option<MeasuredDelays>,
    pub(crate) capacity: Capacity,
    pub(crate) queue: Option<Bytes>,
    /// Of those with a rate, how what waits is told apart.
    pub(crate) classes: Option<Classes>,
    pub(crate) loss: Vec<LossShape>,
    pub(crate) outages: Vec<OutageShape>,
    pub(crate) mtu: Option<Bytes>,
    pub(crate) duplication: Probability,
    pub(crate) corruption: Probability,
    pub(crate) bleaches_ecn: bool,
}

/// What a link carries at most.
#[derive(Clone, Debug)]
pub(crate) enum Capacity {
    Unlimited,
    Rate(Drawn<TypedRate>),
    Recorded(RecordedCapacity),
}

/// A way to lose packets.
#[derive(Clone, Debug)]
pub(crate) enum LossShape {
    Independent(Drawn<TypedShare>),
    Bursts {
        share: Drawn<TypedShare>,
        burst: f64,
        every: Duration,
    },
    Recorded(Recorded),
    GilbertElliott(GilbertElliott),
    /// After a packet that was not lost, and after one that was.
    Chain {
        first: Probability,
        next: Probability,
    },
}

/// When nothing passes.
#[derive(Clone, Debug)]
pub(crate) struct OutageShape {
    pub(crate) at: Drawn<TypedDuration>,
    pub(crate) length: Drawn<TypedDuration>,
    pub(crate) member: Option<u32>,
    /// The share of links that have it.
    pub(crate) on: Probability,
    /// The mean time between two, if there are several.
    pub(crate) every: Option<Duration>,
}

/// A flow.
#[derive(Clone, Debug)]
pub(crate) struct FlowPlan {
    /// The place of its name among those of all tables of flows.
    pub(crate) group: usize,
    pub(crate) name: String,
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) number: FlowId,
    pub(crate) service: Service,
    /// Where it stands in its file.
    pub(crate) place: String,
    pub(crate) via: Option<(usize, usize)>,
    pub(crate) budget: Duration,
    pub(crate) in_stream: Option<BlockShape>,
    pub(crate) batch: Option<BlockShape>,
    pub(crate) is_on_standby: bool,
    /// What its receiver gives for others.
    pub(crate) consent: Option<Consent>,
    pub(crate) load: Load,
}

/// What goes through a flow.
#[derive(Clone, Debug)]
pub(crate) enum Load {
    /// Datagrams, when a calendar says so.
    Datagrams(Traffic),
    /// One direction of TCP.
    Segments(Segments),
    /// Whatever programs send.
    Programs(ProgramEnds),
    /// What is captured of what they send.
    Captured(CapturedTraffic),
}

/// What agents capture of what programs send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedTraffic {
    /// Where it goes, at the receiver.
    pub ports: Vec<TypedPorts>,
    /// Which packets relays get.
    pub copies: CapturedCopies,
    /// What the flow is registered with, in each direction.
    pub rate: Rate,
}

/// Which captured packets relays get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapturedCopies {
    /// What agents copy by themselves.
    Usual,
    /// All.
    All,
    /// With SYN or FIN, and the ends of what was written.
    Ends,
    /// SYN and SYN-ACK.
    Syn,
    /// SYN-ACK alone.
    SynAck,
}

/// Where programs reach a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramEnds {
    /// Where the sender's agent listens, within its machine.
    pub listen: SocketAddr,
    /// Where the receiver's agent delivers, within its machine.
    pub target: SocketAddr,
    /// What the flow is registered with, in each direction.
    pub rate: Rate,
}

impl Load {
    /// What its flow is registered with.
    pub(crate) const fn rate(&self) -> Rate {
        match self {
            Self::Datagrams(traffic) => traffic.rate,
            Self::Segments(segments) => segments.rate,
            Self::Programs(ends) => ends.rate,
            Self::Captured(captured) => captured.rate,
        }
    }

    /// The length of a datagram, or of the longest.
    pub(crate) const fn bytes_max(&self) -> usize {
        match self {
            Self::Datagrams(traffic) => traffic.bytes,
            Self::Segments(segments) => segments.bytes_max,
            Self::Programs(_) | Self::Captured(_) => DATAGRAM_BYTES_MAX as usize,
        }
    }
}

/// One direction of TCP.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segments {
    /// The longest datagram.
    pub(crate) bytes_max: usize,
    /// What the flow is registered with.
    pub(crate) rate: Rate,
    pub(crate) copied: Copied,
}

/// Which segments are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Copied {
    All,
    Marked(Marks),
}

/// Which segments an application marks as worth a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marks {
    /// With SYN or FIN, or with less payload than fits: the end of what was written.
    Ends,
    Syn,
    SynAck,
}

/// An application over TCP, and the two flows that carry it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConversationPlan {
    /// The places of the flows from client to server, and back.
    pub(crate) flows: [usize; 2],
    pub(crate) task: Task,
    pub(crate) settings: tcp::Settings,
    pub(crate) begin: Duration,
    /// No transfer begins then or later.
    pub(crate) end: Duration,
}

/// What an application does over TCP.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Task {
    /// Fetches, each on a connection of its own.
    Fetches { request: Bytes, response: Bytes, count: Option<u32>, pause: Duration },
    /// The client sends this much, or for ever.
    Bulk(Option<Bytes>),
}

/// What an application sends, and when.
#[derive(Clone, Debug)]
pub(crate) struct Traffic {
    pub(crate) pattern: Pattern,
    pub(crate) every: Duration,
    /// Of a datagram; of video, at most.
    pub(crate) bytes: usize,
    /// What the flow is registered with.
    pub(crate) rate: Rate,
    pub(crate) begin: Duration,
    pub(crate) end: Duration,
}

/// When an application sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    Steady,
    /// On for this long at a time, off for this long in the mean.
    OnOff {
        on: Duration,
        off: Duration,
    },
    /// 1 to so many packets at a time.
    Frames {
        packets: u32,
    },
    /// Frames of recorded sizes, each in packets that are spread over so much time.
    Video {
        frames: FrameTrace,
        spread: Duration,
    },
    /// On and off for this long in the mean.
    Talk {
        spurt: Duration,
        pause: Duration,
    },
}

/// Something that happens.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) at: Duration,
    pub(crate) action: Action,
    pub(crate) description: String,
}

/// What may happen.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Stop(usize),
    Start(usize),
    Hang(usize),
    Resume(usize),
    /// To links, by their ends.
    Cut(Vec<(usize, usize)>),
    Mend(Vec<(usize, usize)>),
    Change(Vec<(usize, usize)>, LinkChange),
}

/// What is otherwise about links.
#[derive(Clone, Debug, Default)]
pub(crate) struct LinkChange {
    pub(crate) delay: Option<Duration>,
    pub(crate) rate: Option<Rate>,
    pub(crate) loss: Option<Vec<LossShape>>,
}

/// What is to come of a scenario.
#[derive(Clone, Debug)]
pub(crate) struct Expectation {
    pub(crate) of: Expected,
    pub(crate) bound: Bound,
}

/// A measure of which something is expected.
#[derive(Clone, Debug)]
pub(crate) enum Expected {
    /// Of flows, by the place of their name.
    Flow(usize, Measure),
    /// Of the commands of a name, with the measure's name.
    Command(String, String),
    /// Of the links of a name, each direction by itself.
    Link(String, Measure),
}

/// A bound of a measure, in its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

pub(crate) use crate::typed::TypedMeasure as Measure;
