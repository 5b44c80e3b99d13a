//! Why a request is not granted.

use byway_api::{ErrorCode, Role};
use thiserror::Error;

use super::super::limits::{
    ADDRESSES_MAX, CLOCK_DIFFERENCE_MAX, NAME_BYTES_MAX, NODES_MAX, PAIRS_MAX, PAIRS_PER_AGENT_MAX,
    RELAYS_MAX, TOKENS_MAX,
};
use crate::membership::Date;

/// A request that is refused, with what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Refusal {
    #[error(
        "the node's clock shows {}, the controller's {}: they may differ by {} minutes; set the one that is wrong (timedatectl \
         set-ntp true), as grants and handshakes depend on it",
        Date(*.node), Date(*.controller), CLOCK_DIFFERENCE_MAX.as_secs() / 60
    )]
    ClockOff { node: u64, controller: u64 },
    #[error(
        "the controller does not know this token: it was revoked or is from before the controller was set up anew; make one \
         with `byway token create --role {role}`"
    )]
    TokenUnknown { role: Role },
    #[error("the token ended at {}: make another with `byway token create --role {role}`", Date(*.at))]
    TokenExpired { at: u64, role: Role },
    #[error(
        "as many nodes as the token was for have joined with it: make another with `byway token create --role {role}`, with \
         more `--uses` if it is for several"
    )]
    TokenUsedUp { role: Role },
    #[error(
        "the token is for a node of role {expected}, and this is one of role {role}: make one with `byway token create --role {role}`"
    )]
    WrongRole { expected: Role, role: Role },
    #[error(
        "the name \"{name}\" is taken by node {number} with another key: give this one another name, or remove the other first \
         if it is no more"
    )]
    NameTaken { name: String, number: u32 },
    #[error(
        "the key is registered for node {number}, {role} \"{name}\": a key is for one node of one role and tenant; make one with \
         `byway keygen`, or remove that node first"
    )]
    KeyRegistered { number: u32, role: Role, name: String },
    #[error(
        "the node does not prove that it has the secret of its key: use the state directory that belongs to it"
    )]
    ProofWrong,
    #[error(
        "the bearer secret is no member's: the node was removed, or has joined again since; join with a new token"
    )]
    NotAMember,
    #[error(
        "the bearer secret is not the administrator's: use the admin.token in the controller's state directory"
    )]
    NotAdministrator,
    #[error("there is no {kind} {which}: see `GET /v1/{kind}s` for those there are")]
    NotFound { kind: &'static str, which: String },
    #[error(
        "there is no agent \"{name}\" that this one may be paired with: look for a mistyped name, or start that agent first"
    )]
    NoSuchPeer { name: String },
    #[error("there is no relay \"{name}\": look for a mistyped name, or start that relay first")]
    NoSuchRelay { name: String },
    #[error(
        "\"{name}\" is of another tenant: an administrator pairs agents of different tenants (`POST /v1/admin/pairs`)"
    )]
    OtherTenant { name: String },
    #[error("an agent is not paired with itself: name another one")]
    PairedWithItself,
    #[error("relays are not paired: only agents send and receive flows")]
    NoAgent,
    #[error("\"{name}\" is no name: use 1 to {NAME_BYTES_MAX} letters, digits, `-`, `_` and `.`")]
    BadName { name: String },
    #[error("the key is not 64 hexadecimal digits: send the X25519 public key that `byway keygen` shows")]
    BadKey,
    #[error("a node has 1 to 256 shards, and an agent one, not {shards}")]
    BadShards { shards: u16 },
    #[error("a relay needs an address at which agents reach it: set `addresses` of [relay]")]
    NoAddress,
    #[error("{count} addresses are too many: send at most {ADDRESSES_MAX}")]
    TooManyAddresses { count: usize },
    #[error("{address} is no address that others could send to: leave it out")]
    UselessAddress { address: std::net::SocketAddr },
    #[error("a relay belongs to no tenant: leave the tenant out")]
    TenantOfRelay,
    #[error("a token for no uses lets nobody in: leave `uses` out for any number, or say how many")]
    NoUses,
    #[error("the network has {NODES_MAX} members, which is the limit: remove those that are no more")]
    TooManyNodes,
    #[error("the network has {RELAYS_MAX} relays, which is the limit: remove those that are no more")]
    TooManyRelays,
    #[error("there are {TOKENS_MAX} tokens, which is the limit: revoke those that are of no use")]
    TooManyTokens,
    #[error(
        "one of the limits of pairs is reached, {PAIRS_PER_AGENT_MAX} for an agent and {PAIRS_MAX} in all: remove agents that \
         are no more"
    )]
    TooManyPairs,
    #[error("too many requests in a short time: wait for {wait_seconds} s")]
    TooManyRequests { wait_seconds: u64 },
}

impl Refusal {
    /// The kind of it, for programs.
    pub(crate) const fn code(&self) -> ErrorCode {
        match self {
            Self::ClockOff { .. } => ErrorCode::ClockOff,
            Self::TokenUnknown { .. } => ErrorCode::TokenUnknown,
            Self::TokenExpired { .. } => ErrorCode::TokenExpired,
            Self::TokenUsedUp { .. } => ErrorCode::TokenUsedUp,
            Self::WrongRole { .. } => ErrorCode::WrongRole,
            Self::NameTaken { .. } => ErrorCode::NameTaken,
            Self::KeyRegistered { .. } => ErrorCode::KeyRegistered,
            Self::ProofWrong => ErrorCode::ProofWrong,
            Self::NotAMember => ErrorCode::NotAMember,
            Self::NotAdministrator => ErrorCode::NotAdministrator,
            Self::NotFound { .. } | Self::NoSuchPeer { .. } | Self::NoSuchRelay { .. } => ErrorCode::NotFound,
            Self::OtherTenant { .. } => ErrorCode::OtherTenant,
            Self::TooManyNodes | Self::TooManyRelays | Self::TooManyTokens | Self::TooManyPairs => {
                ErrorCode::LimitReached
            }
            Self::TooManyRequests { .. } => ErrorCode::TooManyRequests,
            Self::PairedWithItself
            | Self::NoAgent
            | Self::BadName { .. }
            | Self::BadKey
            | Self::BadShards { .. }
            | Self::NoAddress
            | Self::TooManyAddresses { .. }
            | Self::UselessAddress { .. }
            | Self::TenantOfRelay
            | Self::NoUses => ErrorCode::BadRequest,
        }
    }
}
