//! What is kept of tenants, tokens and nodes, and how it changes.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use byway_api::Role;
use data_encoding::HEXLOWER_PERMISSIVE;
use serde::{Deserialize, Serialize};

/// 32 bytes: a public key, or the SHA-256 of a secret. 64 hexadecimal digits in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) struct Digest(pub(crate) [u8; 32]);

impl Digest {
    /// That of a secret.
    pub(crate) fn of(secret: &[u8]) -> Self {
        let hash = digest(&SHA256, secret);
        Self(hash.as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }

    /// Whether it is that of the secret; how long the answer takes tells nothing about it.
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

/// The next numbers, none of which is ever given out twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counters {
    /// That of the next node.
    pub(crate) node: u32,
    /// That of the next token.
    pub(crate) token: u32,
    /// That of the next tenant.
    pub(crate) tenant: u32,
}

impl Default for Counters {
    fn default() -> Self {
        Self { node: 1, token: 1, tenant: 1 }
    }
}

/// Who pays for agents, and whose agents may be coded together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tenant {
    /// Its number, as grants have it.
    pub(crate) number: u32,
    /// Its name.
    pub(crate) name: String,
}

/// An invitation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Token {
    /// Its number.
    pub(crate) number: u32,
    /// Of its secret, which only its holders have.
    pub(crate) secret: Digest,
    /// What those who come with it must be.
    pub(crate) role: Role,
    /// The tenant of agents.
    pub(crate) tenant: Option<u32>,
    /// How many more nodes may join with it; none: any number.
    pub(crate) uses_left: Option<u32>,
    /// When it ends; none: never.
    pub(crate) expires_unix_seconds: Option<u64>,
}

/// A member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Node {
    /// Its number.
    pub(crate) number: u32,
    /// What it is.
    pub(crate) role: Role,
    /// The tenant of an agent.
    pub(crate) tenant: Option<u32>,
    /// Its name, unique within tenant and role.
    pub(crate) name: String,
    /// Its X25519 public key.
    pub(crate) key: Digest,
    /// Where it may be reached.
    pub(crate) addresses: Vec<SocketAddr>,
    /// How many shards it has.
    pub(crate) shards: u16,
    /// Of what it shows with each request.
    pub(crate) bearer: Digest,
    /// The token that it joined with.
    pub(crate) token: u32,
    /// The round trips that it reported, in microseconds, by the relays' numbers.
    pub(crate) round_trips: BTreeMap<u32, u64>,
    /// The relay whose round trip was shortest when it was chosen.
    pub(crate) nearest: Option<u32>,
    /// The name of the relay that it wants to use.
    pub(crate) relay: Option<String>,
}

/// Two agents that may exchange packets, the smaller number first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Pair([u32; 2]);

impl Pair {
    /// The pair of two different agents.
    pub(crate) fn new(one: u32, other: u32) -> Self {
        Self([one.min(other), one.max(other)])
    }

    /// Their numbers, the smaller one first.
    pub(crate) const fn agents(self) -> [u32; 2] {
        self.0
    }

    /// The one that is not `agent`, if that is one of them.
    pub(crate) fn other(self, agent: u32) -> Option<u32> {
        match self.0 {
            [one, other] if one == agent => Some(other),
            [one, other] if other == agent => Some(one),
            _ => None,
        }
    }
}

/// One thing that becomes so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Numbers are given out.
    Counters(Counters),
    /// There is this tenant.
    Tenant(Tenant),
    /// There is this token, instead of what had its number.
    Token(Token),
    /// There is no such token.
    NoToken(u32),
    /// There is this node, instead of what had its number.
    Node(Box<Node>),
    /// There is no such node.
    NoNode(u32),
    /// These two are paired.
    Pair(Pair),
    /// They are not.
    NoPair(Pair),
}
