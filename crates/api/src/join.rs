//! How a node becomes a member.

use std::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// At an application's side.
    Agent,
    /// In between.
    Relay,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Agent => "agent",
            Self::Relay => "relay",
        })
    }
}

/// What a controller says of itself to anybody. The certificate, not this, proves who it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NetworkAnswer {
    /// The network's name.
    pub network: String,
    /// The X25519 public key with which those who join prove that they have the secret of theirs.
    pub join_key: String,
    /// The controller's clock, in seconds of Unix time.
    pub unix_seconds: u64,
}

/// A node asks to be a member, for the first time or again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JoinRequest {
    /// The secret of a token.
    pub token: String,
    /// What the node is.
    pub role: Role,
    /// What it wants to be called: 1 to 63 letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// Its X25519 public key.
    pub key: String,
    /// HMAC-SHA-256 of [`JoinRequest::proved`] under what the node's key and the controller's [`NetworkAnswer::join_key`]
    /// agree on (RFC 7748): only who has the key's secret can compute it.
    pub proof: String,
    /// Where it may be reached; a relay needs one.
    #[serde(default)]
    #[schema(value_type = Vec<String>)]
    pub addresses: Vec<SocketAddr>,
    /// How many shards it has, from 1 to 256; 1 for an agent.
    pub shards: u16,
    /// The node's clock, in seconds of Unix time.
    pub unix_seconds: u64,
}

impl JoinRequest {
    /// The text that the proof is over.
    #[must_use]
    pub fn proved(&self) -> String {
        format!(
            "byway join\n{}\n{}\n{}\n{}\n{}",
            self.token, self.role, self.name, self.key, self.unix_seconds
        )
    }
}

/// The node is a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct JoinAnswer {
    /// Its number, which nobody else ever had or will have.
    pub number: u32,
    /// The tenant of an agent; a relay serves all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// What it shows from now on, as `Authorization: Bearer`. A secret.
    pub bearer: String,
    /// The controller's Ed25519 public key, which maps and grants are verified with.
    pub verifying_key: String,
    /// The network's name.
    pub network: String,
    /// The controller's clock, in seconds of Unix time.
    pub unix_seconds: u64,
}
