//! Records of tenants, tokens, nodes and pairs, as the controller stores them, and their changes.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use byway_api::Role;
use data_encoding::HEXLOWER_PERMISSIVE;
use serde::{Deserialize, Serialize};

/// Value of 32 bytes: a public key, or the SHA-256 of a secret. In JSON, it is 64 hexadecimal
/// digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) struct Digest(pub(crate) [u8; 32]);

impl Digest {
    /// Returns the SHA-256 of a secret.
    pub(crate) fn of(secret: &[u8]) -> Self {
        let hash = digest(&SHA256, secret);
        Self(hash.as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }

    /// True if this is the SHA-256 of the secret. The comparison takes constant time.
    pub(crate) fn is_of(&self, secret: &[u8]) -> bool {
        verify_slices_are_equal(&self.0, &Self::of(secret).0).is_ok()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        HEXLOWER_PERMISSIVE.encode(&digest.0)
    }
}

impl TryFrom<String> for Digest {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let bytes = HEXLOWER_PERMISSIVE.decode(text.as_bytes()).map_err(|_| "not hexadecimal digits")?;
        bytes.try_into().map(Self).map_err(|_| "not 64 hexadecimal digits")
    }
}

/// Numbers of the next node, token and tenant. Each number is assigned only once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counters {
    /// Number that the next node gets.
    pub(crate) node: u32,
    /// Number that the next token gets.
    pub(crate) token: u32,
    /// Number that the next tenant gets.
    pub(crate) tenant: u32,
}

impl Default for Counters {
    fn default() -> Self {
        Self { node: 1, token: 1, tenant: 1 }
    }
}

/// Owner of agents. Flows of its agents are coded together, and with those of other tenants only if
/// the controller's settings permit it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tenant {
    /// Number of the tenant, as in grants.
    pub(crate) number: u32,
    /// Name of the tenant.
    pub(crate) name: String,
}

/// Record of a token, which permits nodes to join, or by which an application authenticates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Token {
    /// Number of the token.
    pub(crate) number: u32,
    /// Digest of the token's secret. Only the token's owners know the secret itself.
    pub(crate) secret: Digest,
    /// Role of the nodes that may join with the token.
    pub(crate) role: Role,
    /// Number of the tenant to which agents that join with the token belong, or the application
    /// that has it; `None` for relays and links.
    pub(crate) tenant: Option<u32>,
    /// Number of further nodes that may join with the token; `None` for any number.
    pub(crate) uses_left: Option<u32>,
    /// Time at which the token expires, in seconds of Unix time; `None` for never.
    pub(crate) expires_unix_seconds: Option<u64>,
}

/// Record of a member: an agent, a relay or a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeRecord {
    /// Number of the node.
    pub(crate) number: u32,
    /// Role of the node.
    pub(crate) role: Role,
    /// Number of the agent's tenant; `None` for relays and links.
    pub(crate) tenant: Option<u32>,
    /// Name of the node, unique within tenant and role. Relays and links have no namesakes among
    /// each other.
    pub(crate) name: String,
    /// X25519 public key of the node.
    pub(crate) key: Digest,
    /// Addresses at which the node may be reached.
    pub(crate) addresses: Vec<SocketAddr>,
    /// Number of the node's shards; 1 for agents.
    pub(crate) shards: u16,
    /// Digest of the bearer secret with which the node authenticates.
    pub(crate) bearer: Digest,
    /// Number of the token with which the node joined.
    pub(crate) token: u32,
    /// Round trips that the node reported, in microseconds, by the relays' numbers.
    pub(crate) round_trips: BTreeMap<u32, u64>,
    /// Number of the relay that is nearest by round trip, apart from jitter.
    pub(crate) nearest: Option<u32>,
    /// Name of the relay that the node prefers; `None` for the nearest.
    pub(crate) relay: Option<String>,
    /// True if the relay passes on packets between other relays.
    // Records of the version before lack it.
    #[serde(default)]
    pub(crate) transit: bool,
}

impl NodeRecord {
    /// True if maps and grants describe the node as they describe the other record of it.
    pub(super) fn is_same_in_maps(&self, other: &Self) -> bool {
        let Self { number, role, tenant, name, key, addresses, shards, transit, .. } = other;
        self.number == *number
            && self.role == *role
            && self.tenant == *tenant
            && self.name == *name
            && self.key == *key
            && self.addresses == *addresses
            && self.shards == *shards
            && self.transit == *transit
    }
}

/// Pair of agents that may exchange flows, by their numbers, the smaller one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Pair([u32; 2]);

impl Pair {
    /// Creates the pair of two different agents.
    pub(crate) fn new(one: u32, other: u32) -> Self {
        Self([one.min(other), one.max(other)])
    }

    /// Returns the numbers of both agents, the smaller one first.
    pub(crate) const fn agents(self) -> [u32; 2] {
        self.0
    }

    /// Returns the other agent of the pair; `None` if `agent` is neither of the two.
    pub(crate) fn other(self, agent: u32) -> Option<u32> {
        match self.0 {
            [one, other] if one == agent => Some(other),
            [one, other] if other == agent => Some(one),
            _ => None,
        }
    }
}

/// Change of the network's state, as the store writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Set the numbers of the next node, token and tenant.
    Counters(Counters),
    /// Add or replace this tenant.
    Tenant(Tenant),
    /// Add or replace the token of this number.
    Token(Token),
    /// Remove the token of this number.
    NoToken(u32),
    /// Add or replace the node of this number.
    Node(Box<NodeRecord>),
    /// Remove the node of this number.
    NoNode(u32),
    /// Add the pair of these two agents.
    Pair(Pair),
    /// Remove the pair of these two agents.
    NoPair(Pair),
}
