//! Maps: a node's view of its network.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::prices::RelayPrices;

/// The part of the network that one node needs: its relays and peers, and the permitted flows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NetworkMap {
    /// Number of the map, which grows with every change. Two maps of one node with the same
    /// revision are equal.
    pub revision: u64,
    /// The relays that the node may use. For a relay: those that it exchanges packets with.
    pub relays: Vec<RelayEntry>,
    /// The agents that the node may exchange packets with.
    pub agents: Vec<AgentEntry>,
    /// Permitted flows from and to the node's agent; none for a relay.
    pub pairings: Vec<Pairing>,
}

/// Relay in a node's map.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RelayEntry {
    /// Number of the relay in this network.
    pub number: u32,
    /// Name of the relay, for people.
    pub name: String,
    /// Public key of the relay.
    pub key: String,
    /// Addresses of the relay's sockets: an IPv4 address, an IPv6 address, or both.
    #[schema(value_type = Vec<String>)]
    pub addresses: Vec<SocketAddr>,
    /// Number of shards of the relay, 1 to 256.
    pub shards: u16,
    /// Prices of the relay's next bytes, on an agent's map; absent if they are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<RelayPrices>,
}

/// Agent in a node's map.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentEntry {
    /// Number of the agent in this network.
    pub number: u32,
    /// Name of the agent, which other nodes' settings refer to.
    pub name: String,
    /// Public key of the agent.
    pub key: String,
    /// Known addresses of the agent for the direct path. An agent behind a NAT may have none.
    #[schema(value_type = Vec<String>)]
    pub addresses: Vec<SocketAddr>,
}

/// Permission for one agent to send to another, with the relay paths between them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Pairing {
    /// Number of the sending agent.
    pub sender: u32,
    /// Number of the receiving agent.
    pub receiver: u32,
    /// Relay paths from sender to receiver, the best one first; the others are backups. If there
    /// are none, only the direct path is used.
    pub paths: Vec<PairingPath>,
}

/// Relay path of a pairing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PairingPath {
    /// Ingress relay, near the sender.
    pub ingress: RelayShard,
    /// Egress relay, near the receiver.
    pub egress: RelayShard,
    /// Signed grant in Base64 (RFC 4648, section 4); empty if the relays' own configuration implies
    /// it.
    pub grant: String,
    /// Time at which the grant ends, in seconds of Unix time; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_unix_seconds: Option<u64>,
    /// True if other pairings may be coded together with this one on this path.
    // Nodes of the version before require this key.
    #[serde(rename = "has_company")]
    pub has_coding_peers: bool,
}

/// Shard of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RelayShard {
    /// Number of the relay.
    pub relay: u32,
    /// Number of the shard within its relay, from 0.
    pub shard: u8,
}
