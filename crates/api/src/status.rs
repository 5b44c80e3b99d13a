//! Status of agents and relays.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::cost::CostTotals;

/// An agent's answer to `GET /v1/status`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AgentStatus {
    /// Identity and state of the node.
    #[serde(flatten)]
    pub node: NodeStatus,
    /// Reflexive addresses: the agent's addresses as relays observe them, behind a NAT.
    #[schema(value_type = Vec<String>)]
    pub reflexive_addresses: Vec<SocketAddr>,
    /// Longest datagram that the agent accepts from an application, in bytes. It drops and counts
    /// longer ones.
    pub payload_bytes_max: u32,
    /// State of the agent's sessions with relays.
    pub relays: Vec<RelayReach>,
    /// State of the agent's sessions with the agents that it may exchange packets with.
    pub peers: Vec<PeerReach>,
    /// Forwards of the agent.
    pub forwards: Vec<ForwardStatus>,
    /// Captures of the agent.
    pub captures: Vec<CaptureStatus>,
    /// Mappings of the agent's proxy: one for each endpoint of an application.
    pub mappings: Vec<MappingStatus>,
    /// Notes for people about unprotected traffic, besides the notes of mappings.
    pub notes: Vec<String>,
    /// Delivery statistics of the packets exchanged with each peer, closed mappings included.
    pub totals: Vec<PeerTotals>,
    /// IP bytes of the agent, by segment of the network.
    pub bytes: SegmentBytes,
    /// Costs of relays for the flows that the agent sends, since it started.
    pub cost: CostTotals,
    /// Currency of these costs, as its ISO 4217 code; absent if the prices are nominal.
    pub currency: Option<String>,
    /// Event counters of the agent, its sessions and its sockets.
    pub counters: Vec<ReasonCount>,
    /// Datagrams that the agent dropped, by reason.
    pub drops: Vec<ReasonCount>,
}

/// State that agents and relays both report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct NodeStatus {
    /// Name of the node.
    pub name: String,
    /// Number of the node in its network.
    pub number: u32,
    /// Version of the program.
    pub version: String,
    /// Time since the node started, in seconds.
    pub uptime_seconds: f64,
    /// Addresses of the node's overlay sockets.
    #[schema(value_type = Vec<String>)]
    pub listen: Vec<SocketAddr>,
    /// State of the connection to the controller.
    pub controller: ControllerState,
    /// While `controller` is `disconnected`: the problem with the controller, and its remedy.
    pub controller_problem: Option<String>,
    /// Revision of the node's map.
    pub map_revision: u64,
    /// DNS names in the settings that do not resolve: one text each, with the reason and the
    /// remedy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unresolved: Vec<String>,
    /// Uplinks of an agent whose settings name them, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uplinks: Vec<UplinkUse>,
}

/// Uplink of an agent, and its present traffic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UplinkUse {
    /// Name of the network device.
    pub device: String,
    /// True if the settings name it as metered.
    pub is_metered: bool,
    /// Names of the peers whose direct paths use it.
    pub peers: Vec<String>,
    /// Names of the relays whose sessions use it.
    pub relays: Vec<String>,
    /// IP bytes that the agent has sent by it since it started.
    pub sent_bytes: u64,
}

/// State of a node's connection to its controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ControllerState {
    /// There is no controller: static mode.
    #[default]
    None,
    /// The controller answers.
    Connected,
    /// The node has not sent a request to the controller yet.
    Unknown,
    /// The controller does not answer, or refuses requests. The node continues with its current
    /// map.
    Disconnected,
}

/// State of an agent's session with a relay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RelayReach {
    /// Name of the relay.
    pub name: String,
    /// Shard of the relay.
    pub shard: u8,
    /// True if there is a session with the relay, and the relay answers.
    pub is_alive: bool,
    /// Round-trip time to the relay in milliseconds; absent if not measured.
    pub round_trip_ms: Option<f64>,
}

/// State of an agent's session with a peer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PeerReach {
    /// Name of the peer.
    pub name: String,
    /// True if there is a session with the peer, and the peer answers.
    pub is_alive: bool,
    /// Address of the peer on the direct path.
    #[schema(value_type = Option<String>)]
    pub address: Option<SocketAddr>,
    /// True if the direct path to the peer is not usable: packets to it pass relays only.
    pub is_relayed: bool,
    /// Round-trip time to the peer in milliseconds; absent if not measured.
    pub round_trip_ms: Option<f64>,
}

/// Forward of an agent, from a local address to a name that a peer exposes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ForwardStatus {
    /// Local address that applications send to.
    #[schema(value_type = Option<String>)]
    pub listen: Option<SocketAddr>,
    /// Name of the peer to which the forward sends.
    pub peer: String,
    /// Name that the peer exposes.
    pub to: String,
    /// Problem of the forward, with its remedy; absent if there is none.
    pub problem: Option<String>,
}

/// Capture of an agent, which redirects packets to a peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CaptureStatus {
    /// Name of the peer to which the agent sends captured packets.
    pub peer: String,
    /// Name that the peer exposes.
    pub to: String,
    /// True if packets are captured: the peer answers and accepts them.
    pub is_active: bool,
    /// Number of packets captured since the agent started.
    pub captured: u64,
}

/// Mapping of an agent's proxy: the pair of flows of one endpoint of an application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MappingStatus {
    /// Name of the peer at the other end of the mapping.
    pub peer: String,
    /// Number of the mapping's flow in each direction.
    pub flow: u16,
    /// True if the application that began the mapping is at this agent; false if the target is.
    pub is_from_here: bool,
    /// Name that the agent with the target exposes.
    pub to: String,
    /// Local endpoint: the application's, or the target's. Absent for packets that a TUN device
    /// captures.
    #[schema(value_type = Option<String>)]
    pub endpoint: Option<SocketAddr>,
    /// State of the peer's consent: `requested`, `granted` or `refused`.
    pub consent: String,
    /// Delivery statistics of the flow from the peer.
    pub received: FlowDeliveries,
    /// Peer's report about the flow to it; absent before its first report.
    pub sent: Option<FlowDeliveries>,
    /// Current service of the flow to the peer. While there is no direct path, it is `forwarding`
    /// in place of the configured service.
    pub service: String,
    /// Reason for which the agent chose the service; absent if the settings name it, and before
    /// the first choice, or while the flow has another service.
    pub service_reason: Option<String>,
    /// State of the relay paths of the flow to the peer.
    pub paths: Vec<PathStatus>,
    /// True if none of the flow's recent losses was repaired.
    pub losses_unrepaired: bool,
    /// Note for people about the mapping, such as an advice; absent if there is none.
    pub note: Option<String>,
}

/// Delivery statistics of the packets exchanged with a peer since the agent started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PeerTotals {
    /// Name of the peer.
    pub peer: String,
    /// Statistics of packets from the peer.
    pub received: FlowDeliveries,
    /// The peer's reports about packets to it, after its first report.
    pub sent: Option<FlowDeliveries>,
}

/// Relay path of a flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PathStatus {
    /// Name of the relay near the flow's sender.
    pub ingress: String,
    /// Name of the relay near the flow's receiver.
    pub egress: String,
    /// True if the flow uses this path now.
    pub is_in_use: bool,
    /// State of the path: `registering`, `accepted`, `unreachable` (packets do not pass the ingress
    /// relay), `does not answer`, or the reason for a refusal.
    pub state: String,
}

/// Delivery statistics of a flow's packets, as measured by its receiver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FlowDeliveries {
    /// Packets that the direct path delivered first.
    pub direct: u64,
    /// Packets lost on the direct path: the loss before repair.
    pub lost_direct: u64,
    /// Lost packets that the flow's own repair packets repaired.
    pub in_stream: u64,
    /// Lost packets that were repaired with packets from other receivers.
    pub cooperative: u64,
    /// Lost packets that were repaired from a relay's cache.
    pub cached: u64,
    /// Lost packets that their sender sent again through relays.
    #[serde(default)]
    pub resent: u64,
    /// Packets that relays delivered first, without a NACK.
    pub forwarded: u64,
    /// Packets that arrived after the latency budget, and were not delivered.
    pub late: u64,
    /// Packets lost and not repaired: the loss after repair.
    pub unrepaired: u64,
    /// Of mixed traffic: losses that the receiver left to congestion control, and did not request;
    /// only for a received flow.
    #[serde(default)]
    pub left_to_congestion_control: u64,
    /// Duplicates of packets, which were not delivered.
    pub duplicates: u64,
    /// Distribution of repair times; only for a received flow.
    pub repair_times: Option<Histogram>,
}

/// Distribution of repair times, measured from the time at which each packet was due.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Histogram {
    /// Upper bounds of the buckets in milliseconds. The last bucket has none.
    pub bounds_ms: Vec<f64>,
    /// Number of repairs in each bucket. There is one bucket more than there are bounds.
    pub counts: Vec<u64>,
    /// Sum of all repair times in milliseconds.
    pub sum_ms: f64,
}

/// IP bytes of an agent, by segment of the network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SegmentBytes {
    /// Bytes of source packets sent on the direct path.
    pub direct_sent: u64,
    /// Bytes of source packets received on the direct path.
    pub direct_received: u64,
    /// Bytes of copies and sender-FEC repair packets sent to relays.
    pub copies_sent: u64,
    /// Bytes of packets sent to relays for the repair of other flows.
    pub answers_sent: u64,
    /// Bytes of handshakes, requests, reports and probes sent.
    pub messages_sent: u64,
    /// Bytes of handshakes, reports, probes and in-stream repair packets received.
    pub messages_received: u64,
    /// Bytes of repairs received from relays.
    pub repairs_received: u64,
    /// Bytes of packets that relays delivered without a NACK.
    pub forwarded_received: u64,
}

/// Number of occurrences of an event or reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReasonCount {
    /// Name of the event or reason.
    pub reason: String,
    /// Number of occurrences.
    pub count: u64,
}

/// A relay's answer to `GET /v1/status`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RelayStatus {
    /// Identity and state of the node.
    #[serde(flatten)]
    pub node: NodeStatus,
    /// Number of sessions with agents and relays, of all shards.
    pub sessions: u64,
    /// Bytes of memory used, or reserved, by all structures that grow with traffic.
    pub buffered_bytes: u64,
    /// Scheduler of the relay's uplink; absent if its packets do not queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink: Option<UplinkStatus>,
    /// True if the relay passes on packets between other relays.
    #[serde(default)]
    pub transit: bool,
    /// Routes of packets to other relays through third ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<RelayRoute>,
    /// Event counters of all shards together: ingress and egress, sessions and sockets.
    pub counters: Vec<ReasonCount>,
    /// Packets that the relay dropped, by reason.
    pub drops: Vec<ReasonCount>,
}

/// Route of a relay's packets to another relay through a third one. Of several shards with the same
/// route, the longest delays count.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RelayRoute {
    /// Name of the relay that receives the packets.
    pub to: String,
    /// Name of the relay that passes them on.
    pub through: String,
    /// One-way delay through that relay, in milliseconds.
    pub delay_ms: f64,
    /// One-way delay of the direct path, in milliseconds.
    pub direct_delay_ms: f64,
}

/// Scheduler of a relay's uplink, of all shards together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct UplinkStatus {
    /// Configured rate of the uplink, in bits per second.
    pub rate_bits_per_second: u64,
    /// Upper bound of a low-delay packet's sojourn time: the configured one, or the transmission
    /// time that one packet needs.
    pub delay_ms: f64,
    /// State of the high-rate class.
    pub high_rate: UplinkClass,
    /// State of the low-delay class.
    pub low_delay: UplinkClass,
}

/// Service class of the scheduler at a relay's uplink.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UplinkClass {
    /// Estimated number of flows of the class.
    pub flows: u64,
    /// Rate of the class while both classes are backlogged, in bits per second.
    pub rate_bits_per_second: u64,
    /// Bytes of the class's packets that wait at the uplink.
    pub backlog_bytes: u64,
    /// Buffer size of the class in bytes.
    pub buffer_bytes: u64,
}
