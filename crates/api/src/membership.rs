//! What members and the controller tell each other.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// Which map a node has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema, IntoParams)]
#[into_params(parameter_in = Query)]
pub struct MapQuery {
    /// The revision of the map that the node has: the answer waits until there is another one, for up to 25 s. Absent: the
    /// answer comes at once.
    #[serde(default)]
    pub after: Option<u64>,
}

/// A map, as the controller signed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SignedMap {
    /// The JSON text of a [`NetworkMap`](crate::NetworkMap), to the byte.
    pub map: String,
    /// The Ed25519 signature over `byway map` and this text, in Base64.
    pub signature: String,
}

/// What a node says of itself. What is absent stays as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SelfUpdate {
    /// Where it may be reached: addresses of its own, and those under which relays see it. At most 8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>)]
    pub addresses: Option<Vec<SocketAddr>>,
    /// The round trips to the relays that answer it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trips: Option<Vec<RoundTrip>>,
    /// The name of the relay near it; empty: the one with the shortest round trip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay: Option<String>,
}

/// How far away a relay is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub struct RoundTrip {
    /// The relay's number.
    pub relay: u32,
    /// The round trip to it, in microseconds.
    pub microseconds: u64,
}

/// An agent wants to exchange packets with another one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PairingRequest {
    /// The other agent: its name, or `tenant/name`.
    pub peer: String,
}

/// The two agents are paired, in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PairingAnswer {
    /// The numbers of both, the smaller one first.
    pub agents: [u32; 2],
}
