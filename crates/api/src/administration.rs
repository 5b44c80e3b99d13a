//! Requests of administrators, and the controller's answers.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use utoipa::ToSchema;

use crate::join::Role;
use crate::membership::RoundTrip;
use crate::name::{NameError, checked_name};
use crate::status::ReasonCount;

/// Request for a new token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenRequest {
    /// Role of the nodes that join with it. An application does not join: its token is its bearer
    /// secret.
    pub role: Role,
    /// Tenant of the agents that join with it, or of the application; absent: `default`. Relays and
    /// links have no tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Most nodes that may join with it; absent: any number. Tokens of applications have no such
    /// number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses: Option<u32>,
    /// Lifetime in seconds; absent: unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime_seconds: Option<u64>,
}

/// Answer of the controller with a new token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenAnswer {
    /// Entry of the token, without its secret.
    pub entry: TokenEntry,
    /// The token itself, for the nodes that join with it. The controller does not show it again.
    pub token: String,
}

/// A token of the network, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenEntry {
    /// Number of the token.
    pub number: u32,
    /// Role of the nodes that join with it.
    pub role: Role,
    /// Tenant of the agents that join with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Number of nodes that may still join with it; absent: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses_left: Option<u32>,
    /// End of validity in seconds of Unix time; absent: unlimited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_unix_seconds: Option<u64>,
}

/// All tokens of the network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenList {
    /// The tokens, by number.
    pub tokens: Vec<TokenEntry>,
}

/// Member of the network: an agent or a relay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeEntry {
    /// Number of the member.
    pub number: u32,
    /// Role of the member.
    pub role: Role,
    /// Tenant of an agent; relays have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Name of the member.
    pub name: String,
    /// Public key of the member.
    pub key: String,
    /// Known addresses of the member.
    #[schema(value_type = Vec<String>)]
    pub addresses: Vec<SocketAddr>,
    /// Number of shards of the member.
    pub shards: u16,
    /// Number of the relay near an agent; absent: none, or the member is a relay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near_relay: Option<u32>,
    /// Round-trip times to relays that the member reported.
    pub round_trips: Vec<RoundTrip>,
    /// Time of the member's latest request, in seconds of Unix time; absent: none since the
    /// controller started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen_unix_seconds: Option<u64>,
}

/// All members of the network.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeList {
    /// The members, by number.
    pub nodes: Vec<NodeEntry>,
}

/// An administrator's request to pair two agents, of one tenant or of two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PairRequest {
    /// Both agents, as `tenant/name`.
    #[schema(value_type = [String; 2])]
    pub agents: [AgentName; 2],
}

/// Full name of an agent, with its tenant: `tenant/name`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct AgentName {
    /// Name of the tenant.
    pub tenant: String,
    /// Name of the agent within its tenant.
    pub name: String,
}

/// Error of a text that is not the full name of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AgentNameError {
    /// The text has no tenant.
    #[error("tenant missing in \"{0}\": write TENANT/NAME, as in `default/alice`")]
    NoTenant(String),
    /// The tenant or the agent's name is not a valid name.
    #[error(transparent)]
    NoName(#[from] NameError),
}

impl FromStr for AgentName {
    type Err = AgentNameError;

    fn from_str(text: &str) -> Result<Self, AgentNameError> {
        let (tenant, name) =
            text.split_once('/').ok_or_else(|| AgentNameError::NoTenant(text.chars().take(128).collect()))?;
        Ok(Self { tenant: checked_name(tenant)?.to_owned(), name: checked_name(name)?.to_owned() })
    }
}

impl TryFrom<String> for AgentName {
    type Error = AgentNameError;

    fn try_from(text: String) -> Result<Self, AgentNameError> {
        text.parse()
    }
}

impl From<AgentName> for String {
    fn from(name: AgentName) -> Self {
        name.to_string()
    }
}

impl fmt::Display for AgentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant, self.name)
    }
}

/// Status of the controller: members, storage, requests and connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ControllerStatus {
    /// Name of the network.
    pub network: String,
    /// Version of the program.
    pub version: String,
    /// Time of the controller's clock, in seconds of Unix time.
    pub unix_seconds: u64,
    /// Number of agents among the members.
    pub agents: usize,
    /// Number of relays among the members.
    pub relays: usize,
    /// Number of agents with a request within the last minute.
    pub agents_alive: usize,
    /// Number of relays with a request within the last minute.
    pub relays_alive: usize,
    /// Number of pairs of agents that may exchange packets.
    pub pairs: usize,
    /// Number of pending polls for a new map.
    pub polls: usize,
    /// Writes to the database.
    #[serde(flatten)]
    pub storage: StorageStatus,
    /// Number of requests answered since the start, by method, path and outcome.
    pub requests: Vec<RequestCount>,
    /// Current and ended connections to the controller.
    pub connections: ConnectionCounts,
    /// Use of the controller's shared tables by each tenant.
    pub tenants: Vec<TenantUse>,
    /// Use of network state.
    #[serde(default)]
    pub network_state: NetworkStateUse,
}

/// Status of the controller's database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StorageStatus {
    /// Reason for which the last change could not be written to the disk; absent if it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_problem: Option<String>,
    /// Number of changes written to the disk since the controller started.
    pub commits: u64,
    /// Number of changes that could not be written to the disk since the controller started.
    pub commits_failed: u64,
    /// Size of the database in bytes; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database_bytes: Option<u64>,
}

/// Use of network state at a controller: what is reported, and what is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NetworkStateUse {
    /// Number of paths in the controller's settings.
    pub paths: usize,
    /// Number of paths of which all links have reported within 5 s.
    pub paths_known: usize,
    /// Number of nodes with a stream of samples.
    pub reporters: usize,
    /// Number of flows that applications have registered.
    pub flows: usize,
    /// Number of streams of network state to applications.
    pub streams: usize,
    /// Number of samples accepted since the controller started.
    pub samples_accepted: u64,
    /// Number of samples refused since the controller started, because of their values.
    pub samples_refused: u64,
}

/// Use of the controller's shared tables by one tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TenantUse {
    /// Number of the tenant, by which relays know it.
    #[serde(default)]
    pub number: u32,
    /// Name of the tenant.
    pub name: String,
    /// Number of agents of the tenant.
    pub agents: usize,
    /// Number of pairs with at least one agent of the tenant.
    pub pairs: usize,
    /// Number of tokens for agents of the tenant.
    pub tokens: usize,
    /// Number of the tenant's requests that the controller refused since its start because of a
    /// quota.
    pub refused: u64,
}

/// Connections to the controller: current ones, and those that ended early.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConnectionCounts {
    /// Number of connections without a valid bearer secret.
    pub strangers: usize,
    /// Number of connections of members and administrators.
    pub members: usize,
    /// Number of connections that ended early or were refused since the start, by reason.
    pub ended: Vec<ReasonCount>,
}

/// Number of requests to the controller of one kind, with one outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RequestCount {
    /// HTTP method; `other` if the interface does not define it.
    pub method: String,
    /// Path of the requests, with `{number}` for numbers; `other` if the interface does not define
    /// it.
    pub path: String,
    /// Outcome: `ok`, or an [`ErrorCode`](crate::ErrorCode).
    pub outcome: String,
    /// Number of requests.
    pub count: u64,
}

/// Health of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// True if the controller is fully functional, which includes writing to its disk.
    pub healthy: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agents_full_name_is_written_as_it_is_read() {
        let name: AgentName = serde_json::from_str("\"lab/alice\"").expect("a full name");
        assert_eq!((name.tenant.as_str(), name.name.as_str()), ("lab", "alice"));
        assert_eq!(serde_json::to_string(&name).expect("a text"), "\"lab/alice\"");
        let error = serde_json::from_str::<AgentName>("\"alice\"").expect_err("no tenant");
        assert!(error.to_string().contains("write TENANT/NAME"), "{error}");
        let error = serde_json::from_str::<AgentName>("\"lab/al ice\"").expect_err("no name");
        assert!(error.to_string().contains("invalid name \"al ice\""), "{error}");
    }
}
