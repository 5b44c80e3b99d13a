//! What administrators ask and are told.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use utoipa::ToSchema;

use crate::join::Role;
use crate::membership::RoundTrip;
use crate::name::{NameError, checked_name};
use crate::status::Counted;

/// A new token is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenRequest {
    /// What those who come with it must be.
    pub role: Role,
    /// The tenant that agents will belong to; absent: `default`. A relay has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// How many nodes may join with it; absent: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses: Option<u32>,
    /// For how long, in seconds; absent: for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime_seconds: Option<u64>,
}

/// A new token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenAnswer {
    /// What it is, without its secret.
    pub entry: TokenEntry,
    /// The token, to be given to a node. It cannot be had again.
    pub token: String,
}

/// A token, without its secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenEntry {
    /// Its number.
    pub number: u32,
    /// What those who come with it must be.
    pub role: Role,
    /// The tenant that agents will belong to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// How many more nodes may join with it; absent: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uses_left: Option<u32>,
    /// When it ends, in seconds of Unix time; absent if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_unix_seconds: Option<u64>,
}

/// All tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenList {
    /// In the order of their numbers.
    pub tokens: Vec<TokenEntry>,
}

/// A member of the network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeEntry {
    /// Its number.
    pub number: u32,
    /// What it is.
    pub role: Role,
    /// Its tenant; a relay has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Its name.
    pub name: String,
    /// Its public key.
    pub key: String,
    /// Where it may be reached.
    #[schema(value_type = Vec<String>)]
    pub addresses: Vec<SocketAddr>,
    /// How many shards it has.
    pub shards: u16,
    /// The number of the relay near it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near_relay: Option<u32>,
    /// The round trips that it reported.
    pub round_trips: Vec<RoundTrip>,
    /// When it was heard of last, in seconds of Unix time; absent: not since the controller started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen_unix_seconds: Option<u64>,
}

/// All members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NodeList {
    /// In the order of their numbers.
    pub nodes: Vec<NodeEntry>,
}

/// An administrator pairs two agents, of one tenant or of two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PairRequest {
    /// Both, as `tenant/name`.
    #[schema(value_type = [String; 2])]
    pub agents: [AgentName; 2],
}

/// An agent, named from outside of its tenant: `tenant/name`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct AgentName {
    /// The tenant's name.
    pub tenant: String,
    /// The agent's name within it.
    pub name: String,
}

/// A text is no agent's full name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AgentNameError {
    /// The tenant is missing.
    #[error("\"{0}\" names no tenant: write TENANT/NAME, as in `default/alice`")]
    NoTenant(String),
    /// A part of it is no name.
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

/// How the controller is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ControllerStatus {
    /// The network's name.
    pub network: String,
    /// The program's version.
    pub version: String,
    /// The controller's clock, in seconds of Unix time.
    pub unix_seconds: u64,
    /// How many agents are members.
    pub agents: usize,
    /// How many relays are.
    pub relays: usize,
    /// How many agents were heard of within the last minute.
    pub agents_alive: usize,
    /// How many relays were.
    pub relays_alive: usize,
    /// How many pairs of agents may exchange packets.
    pub pairs: usize,
    /// How many members wait for a new map now.
    pub polls: usize,
    /// Why the last change could not be written to the disk; absent if it could.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_problem: Option<String>,
    /// How many times changes were written to the disk since the start.
    pub commits: u64,
    /// How many times they could not be.
    pub commits_failed: u64,
    /// The size of the database; absent if it cannot be learned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub database_bytes: Option<u64>,
    /// Requests answered since the start.
    pub requests: Vec<RequestCount>,
    /// Connections.
    pub connections: ConnectionCounts,
    /// Use of the shared tables by each tenant.
    pub tenants: Vec<TenantUse>,
}

/// Use of the shared tables by one tenant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TenantUse {
    /// The tenant's name.
    pub name: String,
    /// Its agents.
    pub agents: usize,
    /// Pairs with an agent of it.
    pub pairs: usize,
    /// Tokens that let its agents in.
    pub tokens: usize,
    /// Requests refused since the start because a quota was reached.
    pub refused: u64,
}

/// Connections to the controller: those there are now, and those that ended early.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConnectionCounts {
    /// Connections without a valid bearer secret.
    pub strangers: usize,
    /// Connections of members and administrators.
    pub members: usize,
    /// Connections that ended early or were not let in since the start, by reason.
    pub ended: Vec<Counted>,
}

/// How often one kind of request came to one outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RequestCount {
    /// The method; `other` if the interface has none like it.
    pub method: String,
    /// The path, with `{number}` for numbers; `other` if the interface has none like it.
    pub path: String,
    /// `ok`, or an [`ErrorCode`](crate::ErrorCode).
    pub outcome: String,
    /// How often.
    pub count: u64,
}

/// The controller answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// Whether it can do all that it should: also write to its disk.
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
        assert!(error.to_string().contains("\"al ice\" is no name"), "{error}");
    }
}
