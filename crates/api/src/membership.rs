//! Requests of members, and the controller's answers.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::cost::RelayUsage;

/// Query of a node for its map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct MapQuery {
    /// Revision of the node's current map. The controller answers after the next change, or after
    /// 25 s. Absent: it answers at once.
    #[serde(default)]
    pub after: Option<u64>,
}

/// Map of a node with the controller's signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SignedMap {
    /// Exact JSON text of a [`NetworkMap`](crate::NetworkMap).
    pub map: String,
    /// Ed25519 signature over `byway map` and the text of the map, in Base64.
    pub signature: String,
}

/// A node's update of its own entry. Absent fields remain unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SelfUpdate {
    /// Addresses of the node: its own, and those that relays observe. At most 8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>)]
    pub addresses: Option<Vec<SocketAddr>>,
    /// Round-trip times from the node to the relays that answer it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trips: Option<Vec<RoundTrip>>,
    /// Name of the nearby relay; empty: the one with the shortest round-trip time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay: Option<String>,
    /// Traffic of the calendar month so far; of relays only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<RelayUsage>,
    /// True if the node passes on packets between relays; of relays only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transit: Option<bool>,
}

/// Round-trip time of a member to a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub struct RoundTrip {
    /// Number of the relay.
    pub relay: u32,
    /// Round-trip time in microseconds.
    pub microseconds: u64,
}

/// An agent's request to exchange packets with another agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PairingRequest {
    /// Name of the other agent, or `tenant/name`.
    pub peer: String,
}

/// Answer of the controller to a pairing request: the two agents are paired, in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PairingAnswer {
    /// Numbers of both agents, the smaller one first.
    pub agents: [u32; 2],
}
