//! Refusals of requests to the controller, with reason and remedy.

use byway_api::{ErrorCode, NameError, Role};
use thiserror::Error;

use super::super::limits::{
    ADDRESSES_MAX, CLOCK_DIFFERENCE_MAX, NODES_MAX, PAIRS_MAX, PAIRS_PER_AGENT_MAX, RELAYS_MAX, TOKENS_MAX,
};
use super::Table;
use crate::membership::{Date, Span};

/// Refusal of a request to the controller, with its remedy. The text addresses the user of the
/// program, not of the HTTP interface.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Refusal {
    #[error("{}", clock_skew(*.node, *.controller))]
    ClockSkew { node: u64, controller: u64 },
    #[error(
        "token unknown to the controller: it was revoked, or the controller was set up anew since; \
        create another with `byway token create --role {role}`"
    )]
    TokenUnknown { role: Role },
    #[error("token expired at {}: create another with `byway token create --role {role}`", Date(*.at))]
    TokenExpired { at: u64, role: Role },
    #[error(
        "token used up, as many nodes as it permits have joined: create another with `byway token \
        create --role {role}`, with more `--uses` for several nodes"
    )]
    TokenUsedUp { role: Role },
    #[error(
        "token for a node of role {expected}, not of role {role}: create one with `byway token create \
        --role {role}`"
    )]
    WrongRole { expected: Role, role: Role },
    #[error(
        "name \"{name}\" in use by node {number} with another key: set another `name` here, or run \
        `byway node remove {number}` on the controller's machine if that node no longer exists"
    )]
    NameInUse { name: String, number: u32 },
    #[error(
        "key already registered for node {number}, {role} \"{name}\": a key belongs to one node of \
        one role and tenant. Use another `state` folder or `key_file` here, or run `byway node remove \
        {number}` on the controller's machine first"
    )]
    KeyRegistered { number: u32, role: Role, name: String },
    #[error("the node cannot prove that it has its secret key: use the `state` folder that belongs to it")]
    ProofWrong,
    #[error(
        "the node was removed, or has since joined again from another machine or folder: join with a \
        new token, from `byway token create` on the controller's machine"
    )]
    NotAMember,
    #[error(
        "the administrator's secret is wrong: run `byway token` and `byway node` with the \
        controller's `--state`, to which it writes admin.token when it starts"
    )]
    NotAdministrator,
    #[error("{kind} {number} not found: `byway {kind} list` shows all")]
    NotFound { kind: &'static str, number: u32 },
    #[error(
        "no agent \"{name}\" available for pairing: correct the name (`byway node list` on the \
        controller's machine shows all), or start that agent first"
    )]
    NoSuchPeer { name: String },
    #[error(
        "relay \"{name}\" not found: correct `relay` (`byway node list` on the controller's machine \
        shows all), or start that relay first"
    )]
    NoSuchRelay { name: String },
    #[error(
        "\"{name}\" belongs to another tenant: `byway node pair` on the controller's machine pairs \
        agents of different tenants"
    )]
    OtherTenant { name: String },
    #[error("cannot pair an agent with itself: name another agent")]
    PairedWithItself,
    #[error("cannot pair relays, because only agents send and receive flows: name two agents")]
    NoAgent,
    #[error(transparent)]
    BadName(#[from] NameError),
    #[error("invalid key, not 64 hexadecimal digits: send the X25519 public key that `byway keygen` shows")]
    BadKey,
    #[error(
        "invalid number of shards {shards}: a relay has 1 to 256, and an agent one; set `shards` of [relay]"
    )]
    BadShards { shards: u16 },
    #[error("relay without an address for agents: set `addresses` of [relay], or --address")]
    NoAddress,
    #[error("too many addresses, {count}: name at most {ADDRESSES_MAX} in `addresses`")]
    TooManyAddresses { count: usize },
    #[error("cannot send to address {address}: remove it from `addresses`")]
    UselessAddress { address: std::net::SocketAddr },
    #[error("relays and links belong to no tenant: omit `--tenant`")]
    TenantOfRelay,
    #[error("applications do not join, so nothing counts the uses of their tokens: omit `--uses`")]
    UsesOfApplication,
    #[error(
        "applications do not join: use the token as the bearer secret, or create one for a node with \
        `byway token create --role agent`"
    )]
    ApplicationJoins,
    #[error(
        "not a valid token for applications: it was revoked, has expired, or is for nodes; create one \
        with `byway token create --role application`"
    )]
    NotAnApplication,
    #[error(
        "only relays and links report samples, and this node is of role {role}: join with a token \
        from `byway token create --role link`"
    )]
    ReportsNoSamples { role: Role },
    #[error("invalid number of uses, 0: give the number of nodes, or none for any number (`--uses 0`)")]
    NoUses,
    #[error(
        "the network has {NODES_MAX} members, the maximum: remove unused ones (`byway node list`, \
        `byway node remove`)"
    )]
    TooManyNodes,
    #[error(
        "the network has {RELAYS_MAX} relays, the maximum: remove unused ones (`byway node list`, \
        `byway node remove`)"
    )]
    TooManyRelays,
    #[error(
        "the network has {TOKENS_MAX} tokens, the maximum: revoke unused ones (`byway token list`, \
        `byway token revoke`)"
    )]
    TooManyTokens,
    #[error(
        "maximum number of pairs reached, {PAIRS_PER_AGENT_MAX} of an agent or {PAIRS_MAX} in all: \
        remove unused agents (`byway node list`, `byway node remove`)"
    )]
    TooManyPairs,
    #[error(
        "tenant \"{tenant}\" has reached its quota of {quota} {table}: {}, or raise `{}` of \
        [controller]", .table.remedy(), .table.setting()
    )]
    QuotaReached { tenant: String, table: Table, quota: usize },
    #[error("too many requests: retry after {wait_seconds} s")]
    TooManyRequests { wait_seconds: u64 },
}

fn clock_skew(node: u64, controller: u64) -> String {
    let direction = if node < controller { "behind" } else { "ahead of" };
    format!(
        "the node's clock is {} {direction} the controller's, more than the {} minutes that grants and \
         handshakes tolerate: the node's shows {}, the controller's {}. Set the wrong one by NTP (`sudo \
         timedatectl set-ntp true`, or `sudo chronyc makestep` with chrony), and start the node again",
        Span(node.abs_diff(controller)),
        CLOCK_DIFFERENCE_MAX.as_secs() / 60,
        Date(node),
        Date(controller)
    )
}

impl Refusal {
    /// Returns the refusal's code in error answers, for programs.
    pub(crate) const fn code(&self) -> ErrorCode {
        match self {
            Self::ClockSkew { .. } => ErrorCode::ClockSkew,
            Self::TokenUnknown { .. } => ErrorCode::TokenUnknown,
            Self::TokenExpired { .. } => ErrorCode::TokenExpired,
            Self::TokenUsedUp { .. } => ErrorCode::TokenUsedUp,
            Self::WrongRole { .. } | Self::ReportsNoSamples { .. } => ErrorCode::WrongRole,
            Self::NameInUse { .. } => ErrorCode::NameInUse,
            Self::KeyRegistered { .. } => ErrorCode::KeyRegistered,
            Self::ProofWrong => ErrorCode::ProofWrong,
            Self::NotAMember => ErrorCode::NotAMember,
            Self::NotAdministrator => ErrorCode::NotAdministrator,
            Self::NotAnApplication => ErrorCode::NotAnApplication,
            Self::NotFound { .. } | Self::NoSuchPeer { .. } | Self::NoSuchRelay { .. } => ErrorCode::NotFound,
            Self::OtherTenant { .. } => ErrorCode::OtherTenant,
            Self::TooManyNodes | Self::TooManyRelays | Self::TooManyTokens | Self::TooManyPairs => {
                ErrorCode::LimitReached
            }
            Self::QuotaReached { .. } => ErrorCode::QuotaReached,
            Self::TooManyRequests { .. } => ErrorCode::TooManyRequests,
            Self::PairedWithItself
            | Self::NoAgent
            | Self::BadName(_)
            | Self::BadKey
            | Self::BadShards { .. }
            | Self::NoAddress
            | Self::TooManyAddresses { .. }
            | Self::UselessAddress { .. }
            | Self::TenantOfRelay
            | Self::UsesOfApplication
            | Self::ApplicationJoins
            | Self::NoUses => ErrorCode::BadRequest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remedies_name_commands_and_settings_and_no_path_of_the_interface() {
        let (role, name, number) = (Role::Agent, "alice".to_owned(), 7);
        let address = ([0, 0, 0, 0], 0).into();
        for (refusal, remedy) in [
            (Refusal::ClockSkew { node: 90_061, controller: 0 }, "timedatectl set-ntp true"),
            (Refusal::TokenUnknown { role }, "byway token create --role agent"),
            (Refusal::TokenExpired { at: 0, role }, "byway token create --role agent"),
            (Refusal::TokenUsedUp { role }, "byway token create --role agent"),
            (Refusal::WrongRole { expected: Role::Relay, role }, "byway token create --role agent"),
            (Refusal::NameInUse { name: name.clone(), number }, "byway node remove 7"),
            (Refusal::KeyRegistered { number, role, name: name.clone() }, "byway node remove 7"),
            (Refusal::ProofWrong, "`state`"),
            (Refusal::NotAMember, "byway token create"),
            (Refusal::NotAdministrator, "--state"),
            (Refusal::NotFound { kind: "token", number }, "byway token list"),
            (Refusal::NotFound { kind: "node", number }, "byway node list"),
            (Refusal::NoSuchPeer { name: name.clone() }, "byway node list"),
            (Refusal::NoSuchRelay { name: name.clone() }, "byway node list"),
            (Refusal::OtherTenant { name }, "byway node pair"),
            (Refusal::PairedWithItself, "name another"),
            (Refusal::NoAgent, "name two agents"),
            (Refusal::BadKey, "byway keygen"),
            (Refusal::BadShards { shards: 0 }, "`shards` of [relay]"),
            (Refusal::NoAddress, "`addresses` of [relay]"),
            (Refusal::TooManyAddresses { count: 9 }, "`addresses`"),
            (Refusal::UselessAddress { address }, "`addresses`"),
            (Refusal::TenantOfRelay, "--tenant"),
            (Refusal::UsesOfApplication, "--uses"),
            (Refusal::ApplicationJoins, "byway token create --role agent"),
            (Refusal::NotAnApplication, "byway token create --role application"),
            (Refusal::ReportsNoSamples { role }, "byway token create --role link"),
            (Refusal::NoUses, "--uses"),
            (Refusal::TooManyNodes, "byway node remove"),
            (Refusal::TooManyRelays, "byway node remove"),
            (Refusal::TooManyTokens, "byway token revoke"),
            (Refusal::TooManyPairs, "byway node remove"),
            (
                Refusal::QuotaReached { tenant: "lab".to_owned(), table: Table::Agents, quota: 9 },
                "raise `tenant_agents_max` of [controller]",
            ),
            (
                Refusal::QuotaReached { tenant: "lab".to_owned(), table: Table::Tokens, quota: 9 },
                "byway token revoke",
            ),
            (Refusal::TooManyRequests { wait_seconds: 2 }, "retry after 2 s"),
        ] {
            let message = refusal.to_string();
            assert!(message.contains(remedy), "{remedy:?} is not in: {message}");
            let speaks_http = ["/v1", "GET", "POST", "DELETE"].iter().any(|word| message.contains(word));
            assert!(!speaks_http, "{message}");
        }
    }

    #[test]
    fn a_clock_that_is_off_is_told_by_how_much_and_to_which_side() {
        let ahead = Refusal::ClockSkew { node: 90_061, controller: 0 }.to_string();
        assert!(ahead.contains("1 d 1 h ahead of the controller's"), "{ahead}");
        let behind = Refusal::ClockSkew { node: 0, controller: 400 }.to_string();
        assert!(behind.contains("6 min 40 s behind the controller's"), "{behind}");
    }
}
