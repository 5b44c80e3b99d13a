//! Scenarios as typed, key by key.
//!
//! The doc comments here are the reference of the format.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use byway_typed::{Drawn, TypedBytes, TypedDuration, TypedPorts, TypedRate, TypedShape, TypedShare};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

use crate::classes::TypedClasses;
use crate::uplink::TypedUplink;

/// A scenario.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedScenario {
    /// Its subject, in a line.
    pub(crate) title: String,
    /// Its subject, and the source of its numbers.
    #[serde(default)]
    pub(crate) description: String,
    /// Its duration.
    pub(crate) length: TypedDuration,
    /// The seed of the random numbers, unless the command line has another. Default: 1.
    pub(crate) seed: Option<u64>,
    /// The machines.
    #[serde(default)]
    pub(crate) node: Vec<TypedNode>,
    /// Links between them.
    #[serde(default)]
    pub(crate) link: Vec<TypedLink>,
    /// Flows between agents.
    #[serde(default)]
    pub(crate) flow: Vec<TypedFlow>,
    /// Events of the run.
    #[serde(default)]
    pub(crate) step: Vec<TypedStep>,
    /// A program that a lab (`byway lab run`) has in a machine, unmodified. It ends with the lab, and so does all that it has started.
    ///
    /// In `run`, `files` and `environment`, `{address:MACHINE}` stands for the machine's IPv4 address and `{address6:MACHINE}` for its IPv6 one,
    /// `{folder}` for the command's own folder, `{here}` for the scenario's, `{byway}` for the program that runs the lab, and `{to:FLOW}` for the
    /// address and port to which it sends what goes through a flow of kind `command`: the forward's, or, where Byway is not in use, the target's at the receiver's own address, of one
    /// behind a router with `nat` at that router's, which then forwards the port. `{to-host:FLOW}` and `{to-port:FLOW}` are its halves.
    /// `{{folder}` stands for `{folder}` itself.
    #[serde(default)]
    pub(crate) command: Vec<TypedCommand>,
    /// Expected results.
    #[serde(default)]
    pub(crate) expect: Vec<TypedExpectation>,
}

/// A machine, or several of a kind.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedNode {
    /// Its name. Of several, `NAME.1` is the first one; `NAME` alone stands for all.
    pub(crate) name: String,
    /// Its role.
    pub(crate) role: TypedRole,
    /// Their number. Default: 1.
    pub(crate) count: Option<u32>,
    /// Of relays only: whether they follow up on what does not come. They ask receivers again whose packets a repair waits for, and
    /// fetch from the ingress relay what repair packets cannot restore in time. Default: `true`; the published systems do not.
    pub(crate) follows_up: Option<bool>,
    /// Of relays only: what it sends at most, and how its flows share that. Default: it sends at once what it has to send.
    pub(crate) uplink: Option<TypedUplink>,
    /// Of routers only: whether it translates addresses as that of a home does. Agents that are linked with it and with nothing else are
    /// inside, all others outside. Those inside have its IPv4 address outside, where one that they have sent to answers, and nobody else
    /// gets in; of IPv6, nothing passes. A lab alone has it. Default: `false`.
    pub(crate) nat: Option<bool>,
}

/// The role of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TypedRole {
    /// Sends and receives for applications.
    Agent,
    /// Codes, caches and forwards.
    Relay,
    /// Passes on what is not for it, by the shortest way.
    Router,
}

/// A link, or one between each two of several machines.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedLink {
    /// Its name in variants of the scenario.
    #[allow(dead_code, reason = "experiments change the file by it, before it is read")]
    pub(crate) name: Option<String>,
    /// The machines at its ends, which it joins in both directions. Where both names stand for equally many, the first of one
    /// is joined with the first of the other, and so on; where one stands for one machine, that is joined with each.
    pub(crate) between: Option<[String; 2]>,
    /// The machine at its beginning, if it leads in one direction only.
    pub(crate) from: Option<String>,
    /// The machine at its end, then.
    pub(crate) to: Option<String>,
    /// Its delay. Default: none.
    pub(crate) delay: Option<Drawn<TypedDuration>>,
    /// Its delay from packet to packet, as it was once measured, in the place of `delay`.
    pub(crate) delays: Option<TypedDelays>,
    /// Jitter: the further delay of a packet, uniform from zero to this. Default: none.
    pub(crate) jitter: Option<Drawn<TypedDuration>>,
    /// Lets packets overtake each other by jitter. Default: `false`, they wait for each other.
    pub(crate) reorders: Option<bool>,
    /// The share of packets that take a detour, and are overtaken.
    pub(crate) detours: Option<TypedShare>,
    /// The further delay of the detour.
    pub(crate) detour: Option<TypedDuration>,
    /// The rate that it carries at most. Default: unlimited.
    pub(crate) rate: Option<Drawn<TypedRate>>,
    /// The rate that it carries at most, as it was once recorded, in the place of `rate`: a file of Mahimahi's format, with a whole number of
    /// milliseconds in each line, in order. At each, 1,500 bytes may pass, of IP packets that wait by then; the last is when it
    /// begins again. The first link begins at its beginning, from the first name to the second; others, and back, somewhere else.
    pub(crate) capacity: Option<PathBuf>,
    /// The backlog before it at most, then, with the packet being sent; at least `"1.5 kB"`. Default: 100 ms of its rate, of a
    /// recorded one in the mean, or 1,500 bytes if that is less. Of a link with `classes`, the packet being sent is not among it, and the default
    /// is 250 ms.
    pub(crate) queue: Option<TypedBytes>,
    /// The queue before the link, by which packets that wait are told apart.
    pub(crate) classes: Option<TypedClasses>,
    /// Random losses. A packet is lost if any of these loses it.
    #[serde(default)]
    pub(crate) loss: Vec<TypedLoss>,
    /// The times at which nothing passes.
    #[serde(default)]
    pub(crate) outage: Vec<TypedOutage>,
    /// The longest IP packet that passes; longer ones vanish.
    pub(crate) mtu: Option<TypedBytes>,
    /// The share of packets that arrive twice.
    pub(crate) duplication: Option<TypedShare>,
    /// The share of packets of which a bit is inverted.
    pub(crate) corruption: Option<TypedShare>,
    /// Clears the ECN field on the way. Default: `false`.
    pub(crate) bleaches_ecn: Option<bool>,
}

/// Delays that were once measured. A packet takes as long as the last one that was sent before it in the measurement, and is lost
/// if that one was; packets do not overtake each other, unless the link `reorders`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedDelays {
    /// A file with a packet in each line: when it was sent and how long it took, in milliseconds, as `1200 41.2`; with `every`, how
    /// long it took alone. `lost` stands for the delay of a lost packet. After its end it begins again; the first link begins at
    /// its beginning, from the first name to the second; others, and back, somewhere else.
    pub(crate) trace: PathBuf,
    /// The time between packets, if the file does not say when they were sent.
    pub(crate) every: Option<TypedDuration>,
    /// The delay beyond which a packet is lost. Default: none, it is late.
    pub(crate) late: Option<TypedDuration>,
}

/// A way to lose packets. Which ones depends on the time only, so that every service loses the same; `first` and `next` are the exception.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedLoss {
    /// The share of packets that are lost: each by itself, or in bursts if `burst` is given.
    pub(crate) share: Option<Drawn<TypedShare>>,
    /// The mean number of packets of a burst (Gilbert-Elliott, with `every`).
    pub(crate) burst: Option<f64>,
    /// The time between packets for which `burst` is meant.
    pub(crate) every: Option<TypedDuration>,
    /// A file of the characters `0` (received) and `1` (lost), one for each time `every`; it begins again at its end, and for each
    /// link and direction somewhere else.
    pub(crate) trace: Option<PathBuf>,
    /// The share of packets that are lost of those after one that was not (Gilbert, with `next`). Here, what is lost depends on
    /// what is sent: the memory lasts from one packet to the next, however late that comes.
    pub(crate) first: Option<TypedShare>,
    /// The share of packets that are lost of those after one that was.
    pub(crate) next: Option<TypedShare>,
    /// The path while it is good (Gilbert-Elliott, with `bad`).
    pub(crate) good: Option<TypedStay>,
    /// The path while it is bad.
    pub(crate) bad: Option<TypedStay>,
}

/// One of the two states of a path.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedStay {
    /// The share of packets that are lost in it.
    pub(crate) share: TypedShare,
    /// Its mean duration, of an exponential distribution.
    #[serde(rename = "for")]
    pub(crate) length: TypedDuration,
}

/// A time in which nothing passes.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedOutage {
    /// Its beginning.
    pub(crate) at: Drawn<TypedDuration>,
    /// Its duration.
    #[serde(rename = "for")]
    pub(crate) length: Drawn<TypedDuration>,
    /// The number of the link that it takes, of several, from 1. Default: all.
    pub(crate) link: Option<u32>,
    /// The share of the links that it takes, chosen at random. Default: all.
    pub(crate) on: Option<TypedShare>,
    /// That it comes again and again: the mean of the exponentially distributed times between. Default: once.
    pub(crate) every: Option<TypedDuration>,
}

/// A flow from one agent to another, or several of a kind.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedFlow {
    /// Its name in results and expectations.
    pub(crate) name: String,
    /// The sender. Machines of two names are matched as those of a link are.
    pub(crate) from: String,
    /// The receiver.
    pub(crate) to: String,
    /// The number of flows of each two. Default: 1.
    pub(crate) count: Option<u32>,
    /// The service of the overlay for it. Default: `"caching"`.
    pub(crate) service: Option<TypedService>,
    /// The relays near sender and receiver. Default: those with the shortest links to them.
    pub(crate) via: Option<[String; 2]>,
    /// From sending to delivery; what comes later is lost. Default: `"200 ms"`.
    pub(crate) budget: Option<TypedDuration>,
    /// Repair packets over packets of this flow. Default: `"5+1"`.
    pub(crate) in_stream: Option<TypedShape>,
    /// Repair packets over packets of several flows. Default: `"8+2"`.
    pub(crate) batch: Option<TypedShape>,
    /// Copies only a flow's first packets before the first losses. Default: `false`.
    pub(crate) standby: Option<bool>,
    /// The rate that its receiver gives for the repairs of others, in each second, by the rate that the flow is registered with: a quarter
    /// more than it sends, of recorded frames in their worst half second. Default: as much as that for 30 s, and 5 % of it in the
    /// long run.
    pub(crate) consent: Option<TypedShare>,
    /// The packets that the relay near the sender gets, of TCP and `captured`. Default: `"all"` of `fetches`, `"marked"` of `bulk`, and what
    /// agents copy by themselves of `captured`.
    pub(crate) copies: Option<TypedCopies>,
    /// Differences of the flow from receiver to sender, which TCP needs too. Default: none.
    pub(crate) back: Option<TypedBack>,
    /// The application's traffic.
    pub(crate) sends: TypedTraffic,
}

/// Differences of the flow back.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedBack {
    /// The service of the overlay for it.
    pub(crate) service: Option<TypedService>,
    /// The packets that the relay near its sender gets.
    pub(crate) copies: Option<TypedCopies>,
}

/// The segments of TCP that the relay near the sender gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TypedCopies {
    /// All.
    All,
    /// Those whose loss takes the longest to notice: with SYN or FIN, and those with the end of what was written.
    Marked,
    /// SYN and SYN-ACK.
    Syn,
    /// SYN-ACK alone.
    SynAck,
}

/// The service of the overlay for a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TypedService {
    /// Nothing.
    Internet,
    /// Repair packets over several flows.
    Coding,
    /// A copy waits near the receiver.
    Caching,
    /// Everything goes through the relays alone.
    Forwarding,
    /// Everything goes through the relays, and directly.
    Both,
}

/// The traffic of an application.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedTraffic {
    /// The kind of application.
    pub(crate) kind: TypedTrafficKind,
    /// The time between packets or, of `frames`, between frames; of `voice`, 20 ms.
    pub(crate) every: Option<TypedDuration>,
    /// The length of a datagram; of `voice`, 72 bytes (Opus at 24 kbit/s, with RTP). Of `bulk`: how much is sent; without it,
    /// TCP sends until the end.
    pub(crate) bytes: Option<u32>,
    /// Of `frames`: packets of a frame at most; each has 1 to so many.
    pub(crate) packets: Option<u32>,
    /// Of `frames`, in the place of `packets`: a file with the bytes of a frame in each line, and its type behind, if it is known
    /// (`I`, `P` or `B`, for those who read it). A frame is sent in datagrams of `bytes`, and a shorter one for the rest. After its
    /// end it begins again; the first flow begins at its beginning, others somewhere else.
    pub(crate) file: Option<PathBuf>,
    /// Of `frames` with `file`: over which share of `every` the packets of a frame are spread. Default: `"0 %"`, back to back.
    pub(crate) pace: Option<TypedShare>,
    /// Of `on-off`: how long it sends at a time.
    pub(crate) on: Option<TypedDuration>,
    /// Of `on-off`: how long it pauses, in the mean of an exponential distribution.
    pub(crate) off: Option<TypedDuration>,
    /// Of `fetches`: how many bytes the client sends.
    pub(crate) request: Option<u32>,
    /// Of `fetches`: how many bytes come back.
    pub(crate) response: Option<u32>,
    /// Of `fetches`: how many there are. Default: as many as there is time for.
    pub(crate) count: Option<u32>,
    /// Of `fetches`: from the end of one to the beginning of the next. Default: `"100 ms"`.
    pub(crate) pause: Option<TypedDuration>,
    /// Of TCP: the most bytes of options and payload in a segment. Default: 1200.
    pub(crate) segment: Option<u32>,
    /// Of TCP: the congestion control. Default: `"cubic"`.
    pub(crate) algorithm: Option<TypedAlgorithm>,
    /// Of TCP: after what time a SYN or SYN-ACK that is not answered is sent again, and twice that the next time. Default: `"1 s"`
    /// (RFC 6298); before 2011, it was `"3 s"`.
    pub(crate) first_timeout: Option<TypedDuration>,
    /// Of TCP: whether it uses ECN; what was lost and repaired then arrives marked. Default: `false`.
    pub(crate) ecn: Option<bool>,
    /// Of `captured`: to which ports of the receiver, such as `"tcp:80"` or `"udp:5000-5010"`.
    pub(crate) ports: Option<Vec<TypedPorts>>,
    /// Of TCP, `command` and `captured`: what flows are registered with at their relays, in each direction. Default: `"10 Mbit/s"`.
    pub(crate) rate: Option<TypedRate>,
    /// Of `command`: where the sender's agent listens for programs of its machine, such as `"127.0.0.1:5000"`.
    pub(crate) listen: Option<SocketAddr>,
    /// Of `command`: where the receiver's agent delivers to programs of its machine, such as `"127.0.0.1:6000"`. Programs that are
    /// to be reached without Byway, too, listen there at all addresses, `0.0.0.0` or `[::]`.
    pub(crate) target: Option<SocketAddr>,
    /// Its beginning; sessions and flows are set up before. Default: `"2 s"`.
    pub(crate) begin: Option<TypedDuration>,
    /// Its end; of `fetches`, the latest beginning of one. Default: a second before the scenario does.
    pub(crate) end: Option<TypedDuration>,
}

/// Kinds of applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TypedTrafficKind {
    /// One packet each `every`.
    Steady,
    /// The same, for `on` at a time, with pauses of random length between.
    OnOff,
    /// Frames of 1 to `packets` packets back to back, or of sizes from a `file`, one each `every`: video.
    Frames,
    /// Talk: 72 bytes every 20 ms while it lasts, with the talkspurts and pauses of a conversation (ITU-T P.59).
    Voice,
    /// TCP: `from` is a client that fetches from `to` again and again, each time by a new connection.
    Fetches,
    /// TCP: `from` sends `to` as much as it can.
    Bulk,
    /// Whatever programs send through Byway, by a forward that listens at `listen` and an exposed `target`. A lab alone has it.
    Command,
    /// Whatever programs of `from` send to `ports` at the addresses of `to`, and its answers: agents capture it, and programs know nothing of
    /// Byway. A lab alone has it.
    Captured,
}

/// Congestion controls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TypedAlgorithm {
    /// CUBIC (RFC 9438).
    Cubic,
    /// `NewReno` (RFC 5681, 6582).
    NewReno,
}

/// Something that happens to machines, or to the links between them.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedStep {
    /// Its time.
    pub(crate) at: TypedDuration,
    /// The event.
    #[serde(rename = "do")]
    pub(crate) action: TypedAction,
    /// To which machines: `stop`, `start`, `hang` and `resume`.
    pub(crate) node: Option<String>,
    /// To the links between which machines, in both directions: `cut`, `mend` and `change`.
    pub(crate) between: Option<[String; 2]>,
    /// Of `change`: how long the way is from now on, in the place of `delay` or `delays`. Default: as before.
    pub(crate) delay: Option<TypedDuration>,
    /// Of `change`: what the links carry at most from now on; what they lost or queued before, they did. Their `queue` stays as it is,
    /// or its default, then of the new rate, where none is given. Links with a recorded `capacity` have no rate to change. Default: as
    /// before.
    pub(crate) rate: Option<TypedRate>,
    /// Of `change`: what is lost from now on, in the place of all losses before. Default: as before.
    pub(crate) loss: Option<Vec<TypedLoss>>,
    /// Its purpose.
    #[serde(default)]
    pub(crate) description: String,
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TypedAction {
    /// It crashes: what it knew is gone, and what comes to it is lost.
    Stop,
    /// It starts, knowing nothing but its keys and flows.
    Start,
    /// It does nothing more, and what comes to it waits.
    Hang,
    /// It goes on.
    Resume,
    /// Nothing passes the links any more.
    Cut,
    /// They are again as they were.
    Mend,
    /// They have another delay, rate or loss from now on.
    Change,
}

/// A program in a machine.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedCommand {
    /// Its name in results and expectations.
    pub(crate) name: String,
    /// The machine in which it runs. Of several of a kind, each has one of its own, and their names end with its number.
    pub(crate) node: String,
    /// The program and its arguments. There is no shell, unless it is the program.
    pub(crate) run: Vec<String>,
    /// Its kind. Default: `"task"`.
    pub(crate) kind: Option<TypedCommandKind>,
    /// Of a task: when it begins. Default: `"2 s"`.
    pub(crate) at: Option<TypedDuration>,
    /// Of a task: how long it may take. Default: until the end of the scenario.
    pub(crate) within: Option<TypedDuration>,
    /// Of a service: what shows that it works, without which nothing begins: `"tcp:80"` and `"udp:53"`, that a port is bound in its
    /// machine, or `"output:TEXT"`, that it has written a line with this text. Default: that it was started.
    pub(crate) ready: Option<String>,
    /// Files that are in its folder when it starts: their names and what is in them.
    #[serde(default)]
    pub(crate) files: BTreeMap<String, String>,
    /// Variables of its environment, besides those that the lab has.
    #[serde(default)]
    pub(crate) environment: BTreeMap<String, String>,
}

/// The kind of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TypedCommandKind {
    /// It runs all the time, from before the beginning until the lab ends it: by SIGTERM, and SIGKILL two seconds later.
    Service,
    /// It begins at `at` and comes to an end with exit code 0. If the last line of its output is a JSON object, the numbers in it are
    /// its measures.
    Task,
}

/// An expected result of a scenario.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedExpectation {
    /// The flows whose measure it is; all of this name together.
    pub(crate) flow: Option<String>,
    /// The command whose measure it is, in the place of `flow`; of one in several machines, each is to meet it. A lab alone judges it.
    pub(crate) command: Option<String>,
    /// The links of this name, which have `classes`, in the place of `flow`; each direction in which there are packets of the class is to meet it.
    pub(crate) link: Option<String>,
    /// The measure; of a command, a number that it tells, by the name that it has there.
    #[schemars(with = "TypedMeasure")]
    pub(crate) measure: TypedExpectedMeasure,
    /// A share like `"99 %"`, a time like `"60 ms"` or a number, as the measure needs; of commands, a number.
    pub(crate) at_least: Option<TypedBound>,
    /// The same, from above.
    pub(crate) at_most: Option<TypedBound>,
}

/// One of the measures of flows and links, or what a command calls its own.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(crate) enum TypedExpectedMeasure {
    Known(TypedMeasure),
    Other(String),
}

/// A bound of a measure, in quotes or as a number.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub(crate) enum TypedBound {
    Text(String),
    Number(f64),
}

impl JsonSchema for TypedBound {
    fn schema_name() -> Cow<'static, str> {
        "TypedBound".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string or number" })
    }
}

/// Measures, each with its name in files.
macro_rules! measures {
    ($($(#[$doc:meta])* $measure:ident = $name:literal,)*) => {
        /// Measures of flows and links.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
        pub(crate) enum TypedMeasure {
            $($(#[$doc])* #[serde(rename = $name)] $measure,)*
        }

        impl TypedMeasure {
            /// All of them.
            pub(crate) const ALL: &[Self] = &[$(Self::$measure),*];

            /// Its name in files.
            pub(crate) const fn name(self) -> &'static str {
                match self {
                    $(Self::$measure => $name,)*
                }
            }
        }
    };
}

measures! {
    /// Packets sent: a number.
    Sent = "sent",
    /// Packets that the direct path lost: a number.
    LostDirect = "lost-direct",
    /// Of the lost, delivered within the budget: a share.
    Repaired = "repaired",
    /// Of the lost, delivered at most one round trip of the direct path after they were due: a share.
    RepairedWithinRtt = "repaired-within-rtt",
    /// Delivered after the budget: a number.
    Late = "late",
    /// Never delivered: a number.
    Missing = "missing",
    /// Delivered again: a number.
    Duplicates = "duplicates",
    /// Half of the repairs take at most this time, from when the direct copy was due.
    RepairP50 = "repair-p50",
    /// 95 % of them do.
    RepairP95 = "repair-p95",
    /// 99 % of them do.
    RepairP99 = "repair-p99",
    /// Half of what is delivered takes at most this time from sending.
    DelayP50 = "delay-p50",
    /// 99 % of it do.
    DelayP99 = "delay-p99",
    /// The bytes that relays send, by those that the applications send: a share.
    RelayBytes = "relay-bytes",
    /// Transfers over TCP that did not come to their end, those that are under way at the end included: a number.
    TransfersUnfinished = "transfers-unfinished",
    /// Half of the finished transfers take at most this time, from the first SYN.
    TransferP50 = "transfer-p50",
    /// 99 % of them do.
    TransferP99 = "transfer-p99",
    /// 99.9 % of them do.
    TransferP999 = "transfer-p999",
    /// All of them do.
    TransferMax = "transfer-max",
    /// The rate that TCP delivers in the mean of the time from its beginning to its end.
    Goodput = "goodput",
    /// Of links: the longest that a high-rate packet waited.
    HighRateWaitMax = "high-rate-wait-max",
    /// Of links: what was dropped of the high-rate packets that came: a share.
    HighRateLoss = "high-rate-loss",
    /// Of links: the longest that a low-delay packet waited.
    LowDelayWaitMax = "low-delay-wait-max",
    /// Of links: what was dropped of the low-delay packets that came: a share.
    LowDelayLoss = "low-delay-loss",
}
