//! Scenarios after validation: all values checked, names replaced by indexes.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use byway_config_types::{DurationSetting, RateSetting, RedundancySetting, Sampled, ShareSetting};
use byway_config_types::{PortsSetting, PriceSheets};
use byway_sim::{CapacityTrace, DelayTrace, GilbertElliott, LossTrace, tcp};
use byway_units::{Bytes, Duration, FlowId, Probability, Rate};
use byway_wire::BlockShape;
use byway_wire::messages::Consent;

use crate::classes::Classes;
use crate::command::Command;
use crate::flow_service::FlowService;
use crate::frames::FrameTrace;
use crate::limits::DATAGRAM_BYTES_MAX;
use crate::outcome::Verdict;
use crate::routes::ForwardingPolicy;
use crate::uplink::UplinkSetting;

/// A validated scenario; one seed turns it into a run.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub(crate) title: String,
    pub(crate) description: String,
    pub(crate) seed: u64,
    pub(crate) length: Duration,
    /// Time at which the services of all flows are explained; `None`: never.
    pub(crate) explain_at: Option<Duration>,
    pub(crate) nodes: Vec<Node>,
    /// Prices of relays, by name.
    pub(crate) prices: PriceSheets,
    pub(crate) shapes: Vec<LinkShape>,
    pub(crate) links: Vec<LinkPlan>,
    pub(crate) flows: Vec<FlowPlan>,
    pub(crate) conversations: Vec<ConversationPlan>,
    pub(crate) steps: Vec<Step>,
    pub(crate) commands: Vec<Command>,
    pub(crate) expectations: Vec<Expectation>,
}

impl Scenario {
    /// Returns the subject of the scenario, in one line of text.
    #[must_use]
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Returns the description of the scenario: its subject in detail, and the source of its
    /// numbers.
    #[must_use]
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Returns the seed that the scenario has by default.
    #[must_use]
    pub const fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the duration of the scenario.
    #[must_use]
    pub const fn length(&self) -> Duration {
        self.length
    }

    /// Returns the programs that a lab runs on the scenario's machines.
    #[must_use]
    pub fn commands(&self) -> &[Command] {
        &self.commands
    }

    /// Returns the verdicts on the scenario's expectations without measured values;
    /// [`Verdict::with`] adds a value.
    #[must_use]
    pub fn expectations(&self) -> Vec<Verdict> {
        self.expectations.iter().map(|expectation| Verdict::of_nothing(expectation, self)).collect()
    }

    /// Returns the name of the link between two machines, by their names, if it has one.
    #[must_use]
    pub fn link_name(&self, from: &str, to: &str) -> Option<&str> {
        let is = |index: usize, name: &str| self.nodes[index].name == name;
        let joins = |link: &&LinkPlan| {
            is(link.from, from) && is(link.to, to)
                || link.is_bidirectional && is(link.from, to) && is(link.to, from)
        };
        self.shapes[self.links.iter().find(joins)?.shape].name.as_deref()
    }

    /// Returns the names of all machines, in order.
    pub fn node_names(&self) -> impl Iterator<Item = &str> {
        self.nodes.iter().map(|node| node.name.as_str())
    }
}

impl Scenario {
    /// Returns the indexes of the relays' machines.
    pub(crate) fn relays(&self) -> impl Iterator<Item = usize> {
        let nodes = self.nodes.iter().enumerate();
        nodes.filter(|(_, node)| node.role == Role::Relay).map(|(index, _)| index)
    }

    /// Returns the forwarding policy of each machine.
    pub(crate) fn forwarding_policies(&self) -> Vec<ForwardingPolicy> {
        let mut policies: Vec<ForwardingPolicy> = self.nodes.iter().map(Node::forwarding_policy).collect();
        for (index, node) in self.nodes.iter().enumerate() {
            if let Some(ForwardingPolicy::Of(inside)) = node.behind.map(|router| &mut policies[router]) {
                inside.insert(index);
            }
        }
        policies
    }
}

/// Role of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Agent,
    Relay,
    Router,
}

/// Machine of a scenario.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) role: Role,
    /// Of a relay: true if it requests missing packets again from receivers, and fetches copies.
    pub(crate) follows_up: bool,
    /// Of a relay: true if it passes on packets between others.
    pub(crate) transit: bool,
    /// Of a relay: its uplink settings; `None` without a limit.
    pub(crate) uplink: Option<UplinkSetting>,
    /// Of a router with address translation: the location of the setting in the scenario file.
    pub(crate) nat: Option<String>,
    /// Of an agent's machine without Byway: the location of the setting in the scenario file.
    pub(crate) bare: Option<String>,
    /// Index of the router that translates the machine's address; `None` without one.
    pub(crate) behind: Option<usize>,
}

impl Node {
    /// Returns the machine's forwarding policy, before machines are put behind it.
    fn forwarding_policy(&self) -> ForwardingPolicy {
        match (self.role, &self.nat) {
            (Role::Router, None) => ForwardingPolicy::All,
            (Role::Router, Some(_)) => ForwardingPolicy::Of(BTreeSet::new()),
            (Role::Agent | Role::Relay, _) => ForwardingPolicy::Nothing,
        }
    }
}

/// A link between two machines, by their indexes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkPlan {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// True if a link of the same shape exists in the reverse direction.
    pub(crate) is_bidirectional: bool,
    /// Index of the link's shape.
    pub(crate) shape: usize,
    /// Number of the link among those of its shape, from 1.
    pub(crate) member: u32,
}

/// Properties of all links of one table of the scenario.
#[derive(Clone, Debug)]
pub(crate) struct LinkShape {
    /// Name of the links, in variants of the scenario and in expectations.
    pub(crate) name: Option<String>,
    pub(crate) delay: Sampled<DurationSetting>,
    pub(crate) jitter: Sampled<DurationSetting>,
    pub(crate) reorders: bool,
    pub(crate) detours: Probability,
    pub(crate) detour: Duration,
    /// Recorded delays, used instead of `delay`.
    pub(crate) measured: Option<DelayTrace>,
    pub(crate) capacity: Capacity,
    pub(crate) queue: Option<Bytes>,
    /// Packet scheduler; only links with a rate have one.
    pub(crate) classes: Option<Classes>,
    pub(crate) loss: Vec<LossShape>,
    pub(crate) outages: Vec<OutageShape>,
    pub(crate) mtu: Option<Bytes>,
    pub(crate) duplication: Probability,
    pub(crate) corruption: Probability,
    pub(crate) bleaches_ecn: bool,
}

/// Capacity of a link.
#[derive(Clone, Debug)]
pub(crate) enum Capacity {
    Unlimited,
    Rate(Sampled<RateSetting>),
    Recorded(CapacityTrace),
}

/// Loss process of a link, before random values are drawn.
#[derive(Clone, Debug)]
pub(crate) enum LossShape {
    Independent(Sampled<ShareSetting>),
    Bursts {
        share: Sampled<ShareSetting>,
        burst: f64,
        every: Duration,
    },
    Trace(LossTrace),
    GilbertElliott(GilbertElliott),
    /// Loss probabilities after a packet that was not lost, and after a lost one.
    Gilbert {
        first: Probability,
        next: Probability,
    },
}

/// Outages of the links of one table, before random values are drawn.
#[derive(Clone, Debug)]
pub(crate) struct OutageShape {
    pub(crate) at: Sampled<DurationSetting>,
    pub(crate) length: Sampled<DurationSetting>,
    pub(crate) member: Option<u32>,
    /// Share of the table's links that have the outages.
    pub(crate) on: Probability,
    /// Mean time between outages, if they repeat.
    pub(crate) every: Option<Duration>,
}

/// Flow of a scenario.
#[derive(Clone, Debug)]
pub(crate) struct FlowPlan {
    /// Index of the flow's name among the names of all flows.
    pub(crate) group: usize,
    pub(crate) name: String,
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) number: FlowId,
    pub(crate) service: FlowService,
    /// Location of the flow in the scenario file, as a prefix of problems.
    pub(crate) location: String,
    pub(crate) via: Option<(usize, usize)>,
    pub(crate) budget: Duration,
    pub(crate) in_stream: Option<BlockShape>,
    pub(crate) batch: Option<BlockShape>,
    pub(crate) coding: Coding,
    /// Tunnel of the flow. Flows of a tunnel in one direction have the same number.
    pub(crate) tunnel: Option<Tunnel>,
    pub(crate) load: Load,
}

/// Coding of a flow with others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coding {
    pub(crate) redundancy: RedundancySetting,
    /// Consent of the flow's receiver to return packets for others' repairs; `None`: the default.
    pub(crate) consent: Option<Consent>,
}

/// Tunnel that carries flows: several flows of applications in one flow of the overlay.
#[derive(Clone, Debug)]
pub(crate) struct Tunnel {
    pub(crate) name: String,
    /// True if the overlay treats it as mixed traffic, false for congestion-controlled traffic.
    pub(crate) is_mixture: bool,
}

/// Source and kind of a flow's packets.
#[derive(Clone, Debug)]
pub(crate) enum Load {
    /// Datagrams of a simulated application, by a send schedule.
    Datagrams(Traffic),
    /// Segments of simulated TCP in one direction.
    Segments(Segments),
    /// Traffic of programs, which a forward of the sender's agent accepts.
    Programs(ProgramEnds),
    /// Traffic of unmodified programs, which agents capture.
    Captured(CapturedTraffic),
}

/// Flow's traffic of unmodified programs that agents capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedTraffic {
    /// Ports at the receiver whose traffic the agents capture.
    pub ports: Vec<PortsSetting>,
    /// Captured packets that are copied to relays.
    pub copies: CapturedCopies,
    /// Registered rate of the flow, in each direction.
    pub rate: Rate,
}

/// Selection of captured packets that are copied to relays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CapturedCopies {
    /// The agents' own choice.
    Usual,
    /// All packets.
    All,
    /// TCP segments with SYN or FIN, and the last segment of each write.
    Ends,
    /// SYN and SYN-ACK segments.
    Syn,
    /// SYN-ACK segments only.
    SynAck,
}

/// Addresses at which programs send to and receive from a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramEnds {
    /// Address at which the sender's agent accepts the datagrams of programs on its machine.
    pub listen: SocketAddr,
    /// Address to which the receiver's agent delivers, on its machine.
    pub target: SocketAddr,
    /// Registered rate of the flow, in each direction.
    pub rate: Rate,
}

impl Load {
    /// Returns the registered rate of the flow.
    pub(crate) const fn rate(&self) -> Rate {
        match self {
            Self::Datagrams(traffic) => traffic.rate,
            Self::Segments(segments) => segments.rate,
            Self::Programs(ends) => ends.rate,
            Self::Captured(captured) => captured.rate,
        }
    }

    /// Returns the length in bytes of the flow's datagrams, or of the longest.
    pub(crate) const fn bytes_max(&self) -> usize {
        match self {
            Self::Datagrams(traffic) => traffic.bytes,
            Self::Segments(segments) => segments.bytes_max,
            Self::Programs(_) | Self::Captured(_) => DATAGRAM_BYTES_MAX as usize,
        }
    }
}

/// Segments of simulated TCP in one direction, as a flow's datagrams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segments {
    /// Length of the longest datagram, in bytes.
    pub(crate) bytes_max: usize,
    /// Registered rate of the flow.
    pub(crate) rate: Rate,
    pub(crate) copy_policy: CopyPolicy,
}

/// Selection of TCP segments that are copied to the ingress relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyPolicy {
    All,
    Marked(Marks),
}

/// Segments that an application marks for a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marks {
    /// Segments with SYN or FIN, or shorter than a full segment: the last one of a write.
    Ends,
    Syn,
    SynAck,
}

/// Simulated application over TCP, and its two flows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConversationPlan {
    /// Indexes of the flows from client to server, and back.
    pub(crate) flows: [usize; 2],
    pub(crate) task: Task,
    pub(crate) settings: tcp::Settings,
    pub(crate) begin: Duration,
    /// End of new transfers: none begins at or after this time.
    pub(crate) end: Duration,
}

/// Task of a simulated application over TCP.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Task {
    /// The client fetches repeatedly, each time on a new connection.
    Fetches { request: Bytes, response: Bytes, count: Option<u32>, pause: Duration },
    /// The client sends this many bytes; `None`: without end.
    Bulk(Option<Bytes>),
}

/// Datagrams of a simulated application: pattern, length and times.
#[derive(Clone, Debug)]
pub(crate) struct Traffic {
    pub(crate) pattern: Pattern,
    pub(crate) every: Duration,
    /// Length of a datagram, in bytes; of video, the longest.
    pub(crate) bytes: usize,
    /// Registered rate of the flow.
    pub(crate) rate: Rate,
    pub(crate) begin: Duration,
    pub(crate) end: Duration,
}

/// Send pattern of a simulated application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    Steady,
    /// On-periods of this length, with pauses of this mean length.
    OnOff {
        on: Duration,
        off: Duration,
    },
    /// Frames of 1 to this many packets, back to back.
    Frames {
        packets: u32,
    },
    /// Frames of recorded sizes, each in packets that are spread over this time.
    Video {
        frames: FrameTrace,
        spread: Duration,
    },
    /// Talkspurts and pauses of these mean lengths.
    Voice {
        spurt: Duration,
        pause: Duration,
    },
}

/// Step of a scenario: a change at a fixed time.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) at: Duration,
    pub(crate) action: Action,
    pub(crate) description: String,
}

/// Change that a step makes to a machine or to links.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Stop(usize),
    Start(usize),
    Freeze(usize),
    Resume(usize),
    /// Links by the indexes of their two end machines.
    Cut(Vec<(usize, usize)>),
    Mend(Vec<(usize, usize)>),
    Change(Vec<(usize, usize)>, LinkChange),
}

/// Properties of links that a step changes; `None` leaves them.
#[derive(Clone, Debug, Default)]
pub(crate) struct LinkChange {
    pub(crate) delay: Option<Duration>,
    pub(crate) rate: Option<Rate>,
    pub(crate) loss: Option<Vec<LossShape>>,
}

/// Expected result of a scenario.
#[derive(Clone, Debug)]
pub(crate) struct Expectation {
    pub(crate) of: ExpectedMeasure,
    pub(crate) bound: Bound,
}

/// Measure of an expectation.
#[derive(Clone, Debug)]
pub(crate) enum ExpectedMeasure {
    /// Measure of flows, by the index of their name.
    Flow(usize, Measure),
    /// Measure of the commands of a name, with the measure's own name.
    Command(String, String),
    /// Measure of the links of a name, each direction by itself.
    Link(String, Measure),
}

/// Bound of an expectation, in the measure's unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}

pub(crate) use crate::raw::MeasureSetting as Measure;
