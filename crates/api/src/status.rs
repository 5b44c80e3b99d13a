//! What nodes say of themselves.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An agent's answer to `GET /v1/status`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AgentStatus {
    /// Who it is.
    #[serde(flatten)]
    pub node: NodeStatus,
    /// Where relays see it: what a NAT made of its address.
    #[schema(value_type = Vec<String>)]
    pub reflexive_addresses: Vec<SocketAddr>,
    /// The longest datagram it takes from an application; longer ones are dropped and counted.
    pub payload_bytes_max: u32,
    /// Its relays.
    pub relays: Vec<RelayReach>,
    /// The agents it may talk to.
    pub peers: Vec<PeerReach>,
    /// Its forwards.
    pub forwards: Vec<ForwardStatus>,
    /// Its captures.
    pub captures: Vec<CaptureStatus>,
    /// Its mappings: one for each endpoint of an application.
    pub mappings: Vec<MappingStatus>,
    /// What a person should know of what is not protected, beside the notes of mappings.
    pub notes: Vec<String>,
    /// What became of the packets that were exchanged with each peer, those of closed mappings included.
    pub totals: Vec<PeerTotals>,
    /// IP bytes by segment.
    pub bytes: SegmentBytes,
    /// What it, its sessions and its sockets did.
    pub counters: Vec<Counted>,
    /// Datagrams dropped by reason.
    pub drops: Vec<Counted>,
}

/// What an agent and a relay both say of themselves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodeStatus {
    /// Its name.
    pub name: String,
    /// Its number in the network.
    pub number: u32,
    /// The version of the program.
    pub version: String,
    /// For how long it has run.
    pub uptime_seconds: f64,
    /// Where it meets others.
    #[schema(value_type = Vec<String>)]
    pub listen: Vec<SocketAddr>,
    /// Whether there is a controller, and whether it answers.
    pub controller: ControllerState,
    /// Why the controller is of no help, and what to do about it, while it is `away`.
    pub controller_problem: Option<String>,
    /// The revision of its map.
    pub map_revision: u64,
    /// Of each DNS name of its settings that does not resolve: why, and what to do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unresolved: Vec<String>,
}

/// Whether a node's controller answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ControllerState {
    /// There is none: static mode.
    #[default]
    None,
    /// It answers.
    Connected,
    /// It was not asked yet.
    Unknown,
    /// It does not, or refuses; the node goes on with what it knows.
    Away,
}

/// How an agent reaches a relay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RelayReach {
    /// Its name.
    pub name: String,
    /// Its shard.
    pub shard: u8,
    /// Whether there is a session, and it answers.
    pub is_alive: bool,
    /// The round trip, if it was measured.
    pub round_trip_ms: Option<f64>,
}

/// How an agent reaches another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PeerReach {
    /// Its name.
    pub name: String,
    /// Whether there is a session, and it answers.
    pub is_alive: bool,
    /// Where it is reached directly.
    #[schema(value_type = Option<String>)]
    pub address: Option<SocketAddr>,
    /// Whether it is reached through relays only.
    pub is_relayed: bool,
    /// The round trip, if it was measured.
    pub round_trip_ms: Option<f64>,
}

/// A forward of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ForwardStatus {
    /// Where applications send to.
    #[schema(value_type = Option<String>)]
    pub listen: Option<SocketAddr>,
    /// The agent at the other end.
    pub peer: String,
    /// What it exposes.
    pub to: String,
    /// What is wrong, if anything is.
    pub problem: Option<String>,
}

/// A capture of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CaptureStatus {
    /// The agent at the other end.
    pub peer: String,
    /// What it exposes.
    pub to: String,
    /// Whether packets are taken: the peer is there and lets them in.
    pub is_open: bool,
    /// How many were.
    pub taken: u64,
}

/// A mapping of an agent's proxy: two flows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MappingStatus {
    /// The other agent.
    pub peer: String,
    /// The flow's number, in both directions.
    pub flow: u16,
    /// Whether the application is at this end.
    pub is_from_here: bool,
    /// The name of what is exposed.
    pub to: String,
    /// The application's endpoint, or the target, whichever is here; none of packets that a device takes.
    #[schema(value_type = Option<String>)]
    pub endpoint: Option<SocketAddr>,
    /// Whether the other agent takes part: `asked`, `given` or `refused`.
    pub consent: String,
    /// What is received.
    pub received: FlowReceived,
    /// What the other end says of what is sent from here, once it has said so.
    pub sent: Option<FlowReceived>,
    /// The service in force for what is sent: `forwarding` in place of another while there is no direct path.
    pub service: String,
    /// How what is sent stands with the relays of each of its paths.
    pub paths: Vec<PathStatus>,
    /// Whether all losses of late stayed unrepaired.
    pub leaves_losses: bool,
    /// What a person should know, if anything.
    pub note: Option<String>,
}

/// What became of the packets that were exchanged with a peer since the agent began.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PeerTotals {
    /// The other agent.
    pub peer: String,
    /// What was received from it.
    pub received: FlowReceived,
    /// What it said of what was sent to it, once it has said so.
    pub sent: Option<FlowReceived>,
}

/// One way of a flow through relays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PathStatus {
    /// The relay near the sender.
    pub ingress: String,
    /// The relay near the receiver.
    pub egress: String,
    /// Whether it is the one in use.
    pub is_in_use: bool,
    /// `asking`, `accepted`, `unreachable` (its packets get no further than the near relay), `does not answer`, or why
    /// it was refused.
    pub state: String,
}

/// What became of a flow's packets, as its receiver saw it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FlowReceived {
    /// First delivered by the direct path.
    pub direct: u64,
    /// Lost on the direct path: the loss before repair.
    pub lost_direct: u64,
    /// Lost and restored from the flow's own repair packets.
    pub in_stream: u64,
    /// Lost and restored with others' help.
    pub cooperative: u64,
    /// Lost and taken from a cache.
    pub cached: u64,
    /// First delivered by the overlay, unasked.
    pub forwarded: u64,
    /// Came too late, and were not delivered.
    pub late: u64,
    /// Lost and not repaired: the loss after repair.
    pub unrepaired: u64,
    /// Came again, and were not delivered again.
    pub duplicates: u64,
    /// Repair times; only where the flow is received.
    pub repair_times: Option<Histogram>,
}

/// How long repairs took from when the packets were due.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Histogram {
    /// Upper bounds of the buckets but the last, which has none.
    pub bounds_ms: Vec<f64>,
    /// How many lie in each bucket, one more than there are bounds.
    pub counts: Vec<u64>,
    /// The sum of all.
    pub sum_ms: f64,
}

/// IP bytes by segment, as an agent sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SegmentBytes {
    /// Originals sent on the direct path.
    pub direct_sent: u64,
    /// Originals received on it.
    pub direct_received: u64,
    /// Copies and own repair packets sent to relays.
    pub copies_sent: u64,
    /// Answers sent for others' repairs.
    pub answers_sent: u64,
    /// Handshakes, requests, reports and probes sent.
    pub messages_sent: u64,
    /// Handshakes, reports, probes and in-stream repair packets received.
    pub messages_received: u64,
    /// Repairs received from relays.
    pub repairs_received: u64,
    /// Deliveries over the overlay received.
    pub forwarded_received: u64,
}

/// How often something happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Counted {
    /// What.
    pub reason: String,
    /// How often.
    pub count: u64,
}

/// A relay's answer to `GET /v1/status`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RelayStatus {
    /// Who it is.
    #[serde(flatten)]
    pub node: NodeStatus,
    /// Sessions with agents and relays, of all shards.
    pub sessions: u64,
    /// Bytes of memory that are taken, or set aside, by all that grows with what comes.
    pub held_bytes: u64,
    /// What all that it sends waits for; absent if nothing waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink: Option<UplinkStatus>,
    /// What its halves, sessions and sockets did, of all shards together.
    pub counters: Vec<Counted>,
    /// Packets dropped by reason.
    pub drops: Vec<Counted>,
}

/// The uplink of a relay, of all shards together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UplinkStatus {
    /// What it carries.
    pub rate_bits_per_second: u64,
    /// What no low-delay packet waits longer than: what was asked for, or what one packet needs.
    pub delay_ms: f64,
    /// What it is of high-rate packets.
    pub high_rate: UplinkClass,
    /// What it is of low-delay packets.
    pub low_delay: UplinkClass,
}

/// A class of packets at the uplink of a relay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UplinkClass {
    /// About how many flows there are.
    pub flows: u64,
    /// What the class gets while both have something to send.
    pub rate_bits_per_second: u64,
    /// Bytes that wait.
    pub waiting_bytes: u64,
    /// How many may.
    pub room_bytes: u64,
}
