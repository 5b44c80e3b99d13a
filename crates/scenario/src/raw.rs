//! Raw settings of a scenario, key by key.
//!
//! The doc comments of this module are the reference of the format.

mod expectations;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use byway_config_types::{
    BytesSetting, DurationSetting, PortsSetting, PricesSetting, RateSetting, RedundancySetting, Sampled,
    ShapeSetting, ShareSetting,
};
use schemars::JsonSchema;
use serde::Deserialize;

pub(crate) use expectations::{BoundSetting, ExpectationSetting, ExpectedMeasureSetting, MeasureSetting};

use crate::classes::ClassesSetting;
use crate::uplink::UplinkSetting;

/// A scenario: machines, links, flows, events and expected results.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScenarioSetting {
    /// The subject of the scenario, in one line of text.
    pub(crate) title: String,
    /// The subject of the scenario in detail, and the source of its numbers.
    #[serde(default)]
    pub(crate) description: String,
    /// The duration of the scenario.
    pub(crate) length: DurationSetting,
    /// The seed of the random numbers; one on the command line takes precedence. Default: 1.
    pub(crate) seed: Option<u64>,
    /// The time at which the services of all flows are explained, as by `byway explain`. The
    /// outcome compares the predictions with what is then measured (in the simulator only).
    /// Default: never.
    pub(crate) explain: Option<DurationSetting>,
    /// The machines of the network.
    #[serde(default)]
    pub(crate) node: Vec<NodeSetting>,
    /// Links between the machines.
    #[serde(default)]
    pub(crate) link: Vec<LinkSetting>,
    /// The flows between agents.
    #[serde(default)]
    pub(crate) flow: Vec<FlowSetting>,
    /// Events of the run.
    #[serde(default)]
    pub(crate) step: Vec<StepSetting>,
    /// A program that a lab (`byway lab run`) runs on a machine, unmodified. The lab ends it,
    /// together with all its child processes.
    ///
    /// `run`, `files` and `environment` may contain placeholders. `{address:MACHINE}` and
    /// `{address6:MACHINE}` are the machine's IPv4 and IPv6 address. `{folder}` is the command's
    /// own folder, `{here}` the scenario's, and `{byway}` the program that runs the lab.
    /// `{to:FLOW}`, with its halves `{to-host:FLOW}` and `{to-port:FLOW}`, is the address and port
    /// to send to for a flow of kind `command`. With Byway, these are the forward's; otherwise,
    /// they are the target's at the receiver's own address. For a receiver behind a router with
    /// `nat`, that router's address is used, and it forwards the port. `{{folder}` is a literal
    /// `{folder}`.
    #[serde(default)]
    pub(crate) command: Vec<CommandSetting>,
    /// Expected results, which a run or a lab checks.
    #[serde(default)]
    pub(crate) expect: Vec<ExpectationSetting>,
}

/// A machine, or several machines of the same kind.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeSetting {
    /// The name of the machine; of several, `NAME.1` is the first one, and `NAME` alone refers to
    /// all.
    pub(crate) name: String,
    /// The role of the machine.
    pub(crate) role: RoleSetting,
    /// The number of machines. Default: 1.
    pub(crate) count: Option<u32>,
    /// Of relays only: requests missing packets again from receivers, and fetches copies from the
    /// ingress relay if repair packets cannot restore a packet in time. Default: `true`; the
    /// published systems do not.
    pub(crate) follows_up: Option<bool>,
    /// Of relays only: passes on packets between other relays that arrive sooner through this one.
    /// Default: `false`.
    pub(crate) transit: Option<bool>,
    /// Of relays only: the rate limit of the relay's uplink, and the shares of flows in it.
    /// Default: packets are sent at once.
    pub(crate) uplink: Option<UplinkSetting>,
    /// Of relays only: the prices of the relay's bytes, as in the settings of a network. Agents
    /// compare services by them, and the outcome has the costs (in the simulator only). Default:
    /// nominal prices, and no costs.
    pub(crate) prices: Option<PricesSetting>,
    /// Of routers only: translates addresses like a home router (IPv4 only, in a lab only). Agents
    /// with links to this router alone are inside and use its address; hosts outside can only
    /// answer an agent that has sent to them. Default: `false`.
    pub(crate) nat: Option<bool>,
    /// Of agents only: the machine runs no Byway. Its applications send plain UDP to other such
    /// machines (in a simulation only), and their flows have the service `"internet"`. Default:
    /// `false`.
    pub(crate) bare: Option<bool>,
}

/// The role of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RoleSetting {
    /// Sends and receives for applications.
    Agent,
    /// Codes, caches and forwards.
    Relay,
    /// Forwards packets of others, on the shortest path.
    Router,
}

/// A link, or one between each two of several machines.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinkSetting {
    /// The name of the link, in variants of the scenario and in expectations.
    pub(crate) name: Option<String>,
    /// The machines at the link's ends, joined in both directions. If both names refer to equally
    /// many machines, they are joined in order; if one refers to a single machine, that is joined
    /// with each.
    pub(crate) between: Option<[String; 2]>,
    /// The machine at the beginning of a link in one direction only.
    pub(crate) from: Option<String>,
    /// The machine at the end of a link in one direction only.
    pub(crate) to: Option<String>,
    /// The propagation delay of the link. Default: none.
    pub(crate) delay: Option<Sampled<DurationSetting>>,
    /// Measured delays of a path, packet by packet, instead of `delay`.
    pub(crate) delays: Option<DelaysSetting>,
    /// The largest jitter: an additional delay of each packet, uniform from zero to this. Default:
    /// none.
    pub(crate) jitter: Option<Sampled<DurationSetting>>,
    /// True if packets overtake each other because of jitter. Default: `false`, a packet waits for
    /// those before it.
    pub(crate) reorders: Option<bool>,
    /// The share of packets that take a detour, and arrive after later ones.
    pub(crate) detours: Option<ShareSetting>,
    /// The additional delay of the detour.
    pub(crate) detour: Option<DurationSetting>,
    /// The rate of the link. Default: unlimited.
    pub(crate) rate: Option<Sampled<RateSetting>>,
    /// A recorded capacity, instead of `rate`: a file in Mahimahi's format, with a whole number
    /// of milliseconds on each text line, in order. At each, 1,500 bytes of waiting IP packets may
    /// pass; the trace repeats after the last. The first link starts at its beginning, from the
    /// first name to the second; other links and the reverse direction start at another offset.
    pub(crate) capacity: Option<PathBuf>,
    /// With `rate` or `capacity`: the size of the link's queue, including the packet in
    /// transmission, at least `"1.5 kB"`. Default: 100 ms of its rate, or of a recorded capacity's
    /// mean, but at least 1,500 bytes; with `classes`, 250 ms, and the packet in transmission is
    /// not included.
    pub(crate) queue: Option<BytesSetting>,
    /// The packet scheduler of the link, which serves packets by class or flow.
    pub(crate) classes: Option<ClassesSetting>,
    /// Random losses; a packet is lost if any of these processes loses it.
    #[serde(default)]
    pub(crate) loss: Vec<LossSetting>,
    /// The times at which the link loses all packets.
    #[serde(default)]
    pub(crate) outage: Vec<OutageSetting>,
    /// The longest IP packet on the link; longer ones are lost silently. Default: no limit.
    pub(crate) mtu: Option<BytesSetting>,
    /// The share of packets that the link duplicates. Default: none.
    pub(crate) duplication: Option<ShareSetting>,
    /// The share of packets in which the link inverts a bit. Default: none.
    pub(crate) corruption: Option<ShareSetting>,
    /// True if the link clears the ECN field of packets. Default: `false`.
    pub(crate) bleaches_ecn: Option<bool>,
}

/// Measured delays. A packet has the delay of the last measured packet before it, or is lost like
/// that one. Packets do not overtake each other unless the link `reorders`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DelaysSetting {
    /// A file with a packet on each text line: its time of sending and its delay, in milliseconds,
    /// as `1200 41.2`; with `every`, only the delay. The delay of a lost packet is `lost`. The
    /// measurement repeats at its end. The first link starts at its beginning, from the first name
    /// to the second; other links and the reverse direction start at another offset.
    pub(crate) trace: PathBuf,
    /// The interval at which the packets of `trace` were sent, if its text lines have only delays.
    pub(crate) every: Option<DurationSetting>,
    /// The measured delay beyond which a packet counts as lost. Default: none; such packets are
    /// late.
    pub(crate) late: Option<DurationSetting>,
}

/// A loss process. Losses depend only on the time, and are therefore the same for every service;
/// those of `first` and `next` are the exception.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LossSetting {
    /// The share of lost packets: independent losses, or bursts if `burst` is set.
    pub(crate) share: Option<Sampled<ShareSetting>>,
    /// The mean burst length in packets (Gilbert-Elliott, with `every`).
    pub(crate) burst: Option<f64>,
    /// The interval of the packets in `burst`, or the slot length of a `trace`.
    pub(crate) every: Option<DurationSetting>,
    /// A file of the characters `0` (received) and `1` (lost), one for each time `every`; it
    /// repeats at its end, and starts at another offset for each link and direction.
    pub(crate) trace: Option<PathBuf>,
    /// The probability of loss of a packet after one that was not lost (Gilbert, with `next`).
    /// These losses depend on the packets sent, because the state changes only from packet to
    /// packet.
    pub(crate) first: Option<ShareSetting>,
    /// The probability of loss of a packet after a lost one (Gilbert, with `first`).
    pub(crate) next: Option<ShareSetting>,
    /// The good state of the path (Gilbert-Elliott, with `bad`).
    pub(crate) good: Option<ChannelStateSetting>,
    /// The bad state of the path (Gilbert-Elliott, with `good`).
    pub(crate) bad: Option<ChannelStateSetting>,
}

/// One of the two states of a path in the Gilbert-Elliott model.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChannelStateSetting {
    /// The share of packets lost in this state.
    pub(crate) share: ShareSetting,
    /// The mean duration of this state; durations have an exponential distribution.
    #[serde(rename = "for")]
    pub(crate) length: DurationSetting,
}

/// An outage: a time in which no packet passes the link.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OutageSetting {
    /// The beginning of the outage.
    pub(crate) at: Sampled<DurationSetting>,
    /// The duration of the outage.
    #[serde(rename = "for")]
    pub(crate) length: Sampled<DurationSetting>,
    /// The number of the affected link, if there are several, from 1. Default: all.
    pub(crate) link: Option<u32>,
    /// The share of affected links, chosen at random. Default: all.
    pub(crate) on: Option<ShareSetting>,
    /// Repeats the outage: the mean of the exponentially distributed times between outages.
    /// Default: once.
    pub(crate) every: Option<DurationSetting>,
}

/// A flow from one agent to another, or several of a kind.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FlowSetting {
    /// The name of the flow in results and expectations.
    pub(crate) name: String,
    /// The sender's machine; machines of two names are paired as those of a link are.
    pub(crate) from: String,
    /// The receiver's machine.
    pub(crate) to: String,
    /// The number of flows of each pair. Default: 1.
    pub(crate) count: Option<u32>,
    /// The overlay's service for the flow. Default: `"caching"`.
    pub(crate) service: Option<ServiceSetting>,
    /// The relays near sender and receiver. Default: those with the shortest links to them.
    pub(crate) via: Option<[String; 2]>,
    /// The latency budget: the longest time from sending to delivery; later packets are lost.
    /// Default: `"200 ms"`.
    pub(crate) budget: Option<DurationSetting>,
    /// The shape of blocks, whose repair packets combine packets of this flow alone. Default:
    /// `"5+1"`.
    pub(crate) in_stream: Option<ShapeSetting>,
    /// The shape of batches, whose repair packets combine packets of several flows. Default:
    /// `"8+2"`.
    pub(crate) batch: Option<ShapeSetting>,
    /// Coding of the flow with others. Default: as agents do.
    pub(crate) coding: Option<CodingSetting>,
    /// Of TCP and `captured`: the packets that are copied to the ingress relay. Default: `"all"` of
    /// `fetches`, `"marked"` of `bulk`, and the agents' own choice of `captured`.
    pub(crate) copies: Option<CopiesSetting>,
    /// The tunnel of the flow. Flows of one tunnel between the same two machines share a flow of
    /// the overlay. It is copied whole, and has the sum of their rates and the other settings of
    /// the first of them. In a lab, each flow has its own. Default: none.
    pub(crate) tunnel: Option<TunnelSetting>,
    /// Differences of the reverse flow, from receiver to sender, which TCP needs too. Default:
    /// none.
    pub(crate) back: Option<BackSetting>,
    /// The traffic that the application sends.
    pub(crate) sends: TrafficSetting,
}

/// Coding of a flow with others.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CodingSetting {
    /// The rule for the number of repair packets, for the coding service. Default: `"fixed"`.
    pub(crate) redundancy: Option<RedundancySetting>,
    /// The rate at which the flow's receiver returns packets for the repairs of other flows,
    /// relative to the registered rate. That is a quarter more than the flow sends; for recorded
    /// frames, in their worst half second. Default: the registered rate for 30 s, and 25 % of it in
    /// the long run.
    pub(crate) consent: Option<ShareSetting>,
}

/// The tunnel of a flow.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TunnelSetting {
    /// A name of your choice, the same for all flows of the tunnel.
    pub(crate) name: String,
    /// Kind of traffic as which the overlay treats the tunnel. Default: `"mixture"`.
    pub(crate) traffic: Option<TunnelTrafficSetting>,
}

/// Kind of traffic as which the overlay treats a tunnel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TunnelTrafficSetting {
    /// Mixed traffic: congestion losses are not repaired.
    #[default]
    Mixture,
    /// Congestion-controlled traffic whose packets are all copied: every loss is repaired if its
    /// repair arrives within a quarter of the round trip.
    CongestionControlled,
}

/// Differences of the reverse flow.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BackSetting {
    /// The overlay's service for the reverse flow.
    pub(crate) service: Option<ServiceSetting>,
    /// The packets of the reverse flow that are copied to the relay near its sender.
    pub(crate) copies: Option<CopiesSetting>,
}

/// The TCP segments that are copied to the ingress relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CopiesSetting {
    /// All TCP segments.
    All,
    /// Segments with the slowest loss detection: with SYN or FIN, and the last segment of each
    /// write.
    Marked,
    /// SYN and SYN-ACK segments.
    Syn,
    /// SYN-ACK segments only.
    SynAck,
}

/// The service of the overlay for a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ServiceSetting {
    /// No service: packets take only the direct path.
    Internet,
    /// A relay near the receiver repairs losses from repair packets over several flows.
    Coding,
    /// A relay near the receiver caches a copy of each packet, and repairs losses from it.
    Caching,
    /// All packets take only the relay path.
    Forwarding,
    /// All packets take the relay path and the direct path.
    Both,
    /// Copies wait at the relay near the sender, until the relay near the receiver fetches those
    /// that are missing.
    Pull,
    /// The sender sends missing packets again through relays, and copies nothing before.
    Retransmission,
    /// The sending agent selects the cheapest service that repairs nearly all losses in time, again
    /// and again. Datagrams begin with `both`, other traffic with `caching`.
    Auto,
}

/// The traffic of an application.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TrafficSetting {
    /// The kind of application.
    pub(crate) kind: TrafficKindSetting,
    /// The interval between packets, or between frames of `frames`; of `voice`, 20 ms.
    pub(crate) every: Option<DurationSetting>,
    /// The length of a datagram; of `voice`, 72 bytes (Opus at 24 kbit/s, with RTP). Of `bulk`: the
    /// bytes to send. Default of `bulk`: TCP sends until the end.
    pub(crate) bytes: Option<u32>,
    /// Of `frames`: the most packets of a frame; each frame has from 1 to this many.
    pub(crate) packets: Option<u32>,
    /// Of `frames`, instead of `packets`: a file with the bytes of a frame on each text line,
    /// optionally with its type after it (`I`, `P` or `B`, ignored). A frame is sent in datagrams
    /// of `bytes`, and a shorter last one. The recording repeats at its end; the first flow starts
    /// at its beginning, others at another offset.
    pub(crate) file: Option<PathBuf>,
    /// Of `frames` with `file`: the share of `every` over which the packets of a frame are spread.
    /// Default: `"0 %"`, back to back.
    pub(crate) pace: Option<ShareSetting>,
    /// Of `on-off`: the length of an on-period.
    pub(crate) on: Option<DurationSetting>,
    /// Of `on-off`: the mean length of a pause; lengths have an exponential distribution.
    pub(crate) off: Option<DurationSetting>,
    /// Of `fetches`: the bytes of the request.
    pub(crate) request: Option<u32>,
    /// Of `fetches`: the bytes of the response.
    pub(crate) response: Option<u32>,
    /// Of `fetches`: the number of fetches. Default: as many as fit into the time.
    pub(crate) count: Option<u32>,
    /// Of `fetches`: the pause from the end of one fetch to the beginning of the next. Default:
    /// `"100 ms"`.
    pub(crate) pause: Option<DurationSetting>,
    /// Of TCP: the most bytes of options and payload in a segment. Default: 1200.
    pub(crate) segment: Option<u32>,
    /// Of TCP: the congestion control. Default: `"cubic"`.
    pub(crate) algorithm: Option<AlgorithmSetting>,
    /// Of TCP: the first retransmission timeout of a SYN or SYN-ACK, doubled for the next one.
    /// Default: `"1 s"` (RFC 6298); before 2011, it was `"3 s"`.
    pub(crate) first_timeout: Option<DurationSetting>,
    /// Of TCP: true to use ECN; repaired packets then arrive with a congestion mark. Default:
    /// `false`.
    pub(crate) ecn: Option<bool>,
    /// Of `captured`: ports of the receiver, such as `"tcp:80"` or `"udp:5000-5010"`.
    pub(crate) ports: Option<Vec<PortsSetting>>,
    /// Of TCP, `command` and `captured`: the registered rate of flows at their relays, in each
    /// direction. Default: `"10 Mbit/s"`.
    pub(crate) rate: Option<RateSetting>,
    /// Of `command`: the address of the sender's agent for programs of its machine, such as
    /// `"127.0.0.1:5000"`.
    pub(crate) listen: Option<SocketAddr>,
    /// Of `command`: where the receiver's agent delivers to programs of its machine, such as
    /// `"127.0.0.1:6000"`. A program that must also be reachable without Byway listens there at all
    /// addresses, `0.0.0.0` or `[::]`.
    pub(crate) target: Option<SocketAddr>,
    /// The beginning of the traffic; sessions and flows are set up before it. Default: `"2 s"`.
    pub(crate) begin: Option<DurationSetting>,
    /// The end of the traffic; of `fetches`, the latest beginning of a fetch. Default: a second
    /// before the end of the scenario.
    pub(crate) end: Option<DurationSetting>,
}

/// Kind of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TrafficKindSetting {
    /// One packet each `every`, without pauses.
    Steady,
    /// One packet each `every`, for `on` at a time, with pauses of random length in between.
    OnOff,
    /// Frames of 1 to `packets` packets back to back, or of sizes from a `file`, one each `every`:
    /// video.
    Frames,
    /// Voice: 72 bytes every 20 ms during talkspurts, with the talkspurts and pauses of a
    /// conversation (ITU-T P.59).
    Voice,
    /// TCP: `from` is a client that fetches from `to` repeatedly, each time on a new connection.
    Fetches,
    /// TCP: `from` sends to `to` at the full rate.
    Bulk,
    /// Traffic of programs through Byway, by a forward at `listen` and an exposed `target` (in a
    /// lab only).
    Command,
    /// Traffic of unmodified programs from `from` to `ports` at the addresses of `to`, and the
    /// answers, captured by agents (in a lab only).
    Captured,
}

/// Congestion control algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AlgorithmSetting {
    /// CUBIC (RFC 9438).
    Cubic,
    /// `NewReno` (RFC 5681, 6582).
    NewReno,
}

/// An event: a change of machines, or of the links between them, at a fixed time.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StepSetting {
    /// The time of the event.
    pub(crate) at: DurationSetting,
    /// The kind of the event.
    #[serde(rename = "do")]
    pub(crate) action: ActionSetting,
    /// The machines of `stop`, `start`, `freeze` and `resume`.
    pub(crate) node: Option<String>,
    /// The machines of `cut`, `mend` and `change`, which affect the links between them in both
    /// directions.
    pub(crate) between: Option<[String; 2]>,
    /// Of `change`: the new delay, instead of `delay` or `delays`. Default: no change.
    pub(crate) delay: Option<DurationSetting>,
    /// Of `change`: the new rate of the links. Their `queue` does not change; without one, the
    /// default follows the new rate. Links with a recorded `capacity` have no rate to change.
    /// Default: no change.
    pub(crate) rate: Option<RateSetting>,
    /// Of `change`: the new losses, instead of all previous ones. Default: no change.
    pub(crate) loss: Option<Vec<LossSetting>>,
    /// The purpose of the event, which the trace shows.
    #[serde(default)]
    pub(crate) description: String,
}

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ActionSetting {
    /// The machine crashes: its state and packets to it are lost.
    Stop,
    /// The machine starts with its keys and flows, and no other state.
    Start,
    /// The machine freezes, and packets to it are buffered.
    Freeze,
    /// The machine resumes.
    Resume,
    /// The links lose all packets from now on.
    Cut,
    /// The links transmit packets again.
    Mend,
    /// The links get another delay, rate or loss.
    Change,
}

/// A program that a lab runs on a machine.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CommandSetting {
    /// The name of the command in results and expectations.
    pub(crate) name: String,
    /// The machine on which the command runs. If several machines have this name, each runs the
    /// command; its names there end with the number of the machine.
    pub(crate) node: String,
    /// The program and its arguments; there is no shell unless it is the program.
    pub(crate) run: Vec<String>,
    /// The kind of the command. Default: `"task"`.
    pub(crate) kind: Option<CommandKindSetting>,
    /// Of a task: the start of the program. Default: `"2 s"`.
    pub(crate) at: Option<DurationSetting>,
    /// Of a task: the time limit of the program. Default: until the end of the scenario.
    pub(crate) within: Option<DurationSetting>,
    /// Of a service: the readiness check before the scenario begins: `"tcp:80"` and `"udp:53"` for
    /// a bound port on its machine, or `"output:TEXT"` for a text in its output. Default: the start
    /// of the process.
    pub(crate) ready: Option<String>,
    /// Files that the lab creates in the command's folder before the start: names and contents.
    #[serde(default)]
    pub(crate) files: BTreeMap<String, String>,
    /// Environment variables of the program, in addition to those of the lab.
    #[serde(default)]
    pub(crate) environment: BTreeMap<String, String>,
}

/// The kind of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CommandKindSetting {
    /// The program runs from before the beginning until the lab ends it: by SIGTERM, and SIGKILL
    /// two seconds later.
    Service,
    /// The program begins at `at` and ends with exit code 0. If the last line of its output is a
    /// JSON object, the numbers in it are its measures.
    Task,
}
