//! Joining: a node becomes a member of a network.

use std::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Role of a node in the network, or of a program beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Node beside an application, which sends and receives its datagrams.
    Agent,
    /// Node that stores, codes and forwards packets of agents.
    Relay,
    /// Node beside a congested link, which reports the link's queues and rates.
    Link,
    /// Program that registers its flows and reads network state. It does not join: its token is its
    /// bearer secret.
    Application,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Agent => "agent",
            Self::Relay => "relay",
            Self::Link => "link",
            Self::Application => "application",
        })
    }
}

/// Public information of a controller. Only its certificate proves the controller's identity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NetworkAnswer {
    /// Name of the network.
    pub network: String,
    /// X25519 public key of the controller, with which joining nodes prove possession of their
    /// secrets.
    pub join_key: String,
    /// Time of the controller's clock, in seconds of Unix time.
    pub unix_seconds: u64,
}

/// A node's request to join, for the first time or again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JoinRequest {
    /// Secret of a token that permits the node to join.
    pub token: String,
    /// Role of the node.
    pub role: Role,
    /// Name that the node requests: 1 to 63 letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// X25519 public key of the node.
    pub key: String,
    /// Proof that the node has the secret of its key: HMAC-SHA-256 of [`JoinRequest::proved`]. Its
    /// key is the shared secret (RFC 7748) of the node's key and the controller's
    /// [`NetworkAnswer::join_key`].
    pub proof: String,
    /// Known addresses of the node; a relay needs at least one.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub addresses: Vec<SocketAddr>,
    /// Number of shards of the node, 1 to 256; 1 for an agent.
    pub shards: u16,
    /// Time of the node's clock, in seconds of Unix time.
    pub unix_seconds: u64,
}

impl JoinRequest {
    /// Returns the text that the proof of this request covers.
    #[must_use]
    pub fn proved(&self) -> String {
        format!(
            "byway join\n{}\n{}\n{}\n{}\n{}",
            self.token, self.role, self.name, self.key, self.unix_seconds
        )
    }
}

/// Answer of the controller to a node that has joined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JoinAnswer {
    /// Number of the node. The controller never reuses a number.
    pub number: u32,
    /// Tenant of an agent; a relay serves all tenants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Bearer secret of the node, for the header `Authorization: Bearer` of its requests.
    pub bearer: String,
    /// Ed25519 public key of the controller, which verifies maps and grants.
    pub verifying_key: String,
    /// Name of the network.
    pub network: String,
    /// Time of the controller's clock, in seconds of Unix time.
    pub unix_seconds: u64,
}
