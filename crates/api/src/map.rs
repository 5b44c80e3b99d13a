//! What a node knows of its network.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The part of the network that one node has to know: who is there, and what may be sent between whom.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NetworkMap {
    /// Grows with every change; two maps of one node with the same revision are the same.
    pub revision: u64,
    /// The relays that the node may use or, for a relay, exchanges repairs with.
    pub relays: Vec<RelayEntry>,
    /// The agents that the node may talk to.
    pub agents: Vec<AgentEntry>,
    /// What the node's agent may send to others, and others to it; none for a relay.
    pub pairings: Vec<Pairing>,
}

/// A relay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RelayEntry {
    /// Its number in this network.
    pub number: u32,
    /// Its name, for people.
    pub name: String,
    /// Its public key.
    pub key: String,
    /// Where it listens: an IPv4 address, an IPv6 address, or both.
    #[schema(value_type = Vec<String>)]
    pub addresses: Vec<SocketAddr>,
    /// How many shards it has, from 1 to 256.
    pub shards: u16,
}

/// An agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentEntry {
    /// Its number in this network.
    pub number: u32,
    /// Its name, by which others' configurations refer to it.
    pub name: String,
    /// Its public key.
    pub key: String,
    /// Where it may be reached directly, as far as is known. Behind a NAT, none may be.
    #[schema(value_type = Vec<String>)]
    pub addresses: Vec<SocketAddr>,
}

/// What one agent may send to another, and by which relays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Pairing {
    /// The sending agent's number.
    pub sender: u32,
    /// The receiving agent's number.
    pub receiver: u32,
    /// The ways through relays, best first; those after the first stand by. None: the Internet alone.
    pub paths: Vec<PairingPath>,
}

/// One way through relays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PairingPath {
    /// Near the sender.
    pub ingress: RelayShard,
    /// Near the receiver.
    pub egress: RelayShard,
    /// The signed grant in Base64 (RFC 4648, section 4); empty where the relays' own configuration implies it.
    pub grant: String,
    /// When the grant ends, in seconds of Unix time; absent if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_unix_seconds: Option<u64>,
    /// Whether other pairings may be coded together with this one on this way.
    pub has_company: bool,
}

/// One shard of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RelayShard {
    /// The relay's number.
    pub relay: u32,
    /// Which of its shards, from 0.
    pub shard: u8,
}
