//! Why a request is not granted.

use byway_api::{ErrorCode, NameError, Role};
use thiserror::Error;

use super::super::limits::{
    ADDRESSES_MAX, CLOCK_DIFFERENCE_MAX, NODES_MAX, PAIRS_MAX, PAIRS_PER_AGENT_MAX, RELAYS_MAX, TOKENS_MAX,
};
use super::Table;
use crate::membership::{Date, Span};

/// A request that is refused, with what to do about it: in the words of who has the program, not of who speaks HTTP.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Refusal {
    #[error("{}", clock_off(*.node, *.controller))]
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
        "the name \"{name}\" is taken by node {number} with another key: give this one another `name`, or run `byway node remove \
         {number}` on the controller's machine if that one is no more"
    )]
    NameTaken { name: String, number: u32 },
    #[error(
        "the key is registered for node {number}, {role} \"{name}\": a key is for one node of one role and tenant; use another \
         `state` folder or `key_file` here, or run `byway node remove {number}` on the controller's machine first"
    )]
    KeyRegistered { number: u32, role: Role, name: String },
    #[error(
        "the node does not prove that it has the secret of its key: use the `state` folder that belongs to it"
    )]
    ProofWrong,
    #[error(
        "the node was removed, or has joined again since from another machine or folder: join with a new token, from `byway token \
         create` on the controller's machine"
    )]
    NotAMember,
    #[error(
        "what is shown is not the administrator's secret: run `byway token` and `byway node` with the `--state` that the controller \
         has, whose admin.token it writes when it starts"
    )]
    NotAdministrator,
    #[error("there is no {kind} {number}: `byway {kind} list` shows those there are")]
    NotFound { kind: &'static str, number: u32 },
    #[error(
        "there is no agent \"{name}\" that may be paired: look for a mistyped name (`byway node list` on the controller's machine \
         shows all), or start that agent first"
    )]
    NoSuchPeer { name: String },
    #[error(
        "there is no relay \"{name}\": look for a mistyped `relay` (`byway node list` on the controller's machine shows all), or \
         start that relay first"
    )]
    NoSuchRelay { name: String },
    #[error(
        "\"{name}\" is of another tenant: `byway node pair` on the controller's machine pairs agents of different tenants"
    )]
    OtherTenant { name: String },
    #[error("an agent is not paired with itself: name another one")]
    PairedWithItself,
    #[error("relays are not paired, as only agents send and receive flows: name two agents")]
    NoAgent,
    #[error(transparent)]
    BadName(#[from] NameError),
    #[error("the key is not 64 hexadecimal digits: send the X25519 public key that `byway keygen` shows")]
    BadKey,
    #[error("a node has 1 to 256 shards, and an agent one, not {shards}: set `shards` of [relay]")]
    BadShards { shards: u16 },
    #[error("a relay needs an address at which agents reach it: set `addresses` of [relay], or --address")]
    NoAddress,
    #[error("{count} addresses are too many: name at most {ADDRESSES_MAX} in `addresses`")]
    TooManyAddresses { count: usize },
    #[error("{address} is no address that others could send to: leave it out of `addresses`")]
    UselessAddress { address: std::net::SocketAddr },
    #[error("a relay belongs to no tenant: leave `--tenant` out")]
    TenantOfRelay,
    #[error("a token for no uses lets nobody in: say how many nodes, or nothing for any number (`--uses 0`)")]
    NoUses,
    #[error(
        "the network has {NODES_MAX} members, which is the limit: remove those that are no more (`byway node list`, `byway node \
         remove`)"
    )]
    TooManyNodes,
    #[error(
        "the network has {RELAYS_MAX} relays, which is the limit: remove those that are no more (`byway node list`, `byway node \
         remove`)"
    )]
    TooManyRelays,
    #[error(
        "there are {TOKENS_MAX} tokens, which is the limit: revoke those that are of no use (`byway token list`, `byway token \
         revoke`)"
    )]
    TooManyTokens,
    #[error(
        "one of the limits of pairs is reached, {PAIRS_PER_AGENT_MAX} for an agent and {PAIRS_MAX} in all: remove agents that \
         are no more (`byway node list`, `byway node remove`)"
    )]
    TooManyPairs,
    #[error(
        "tenant \"{tenant}\" has its quota of {quota} {table}: {}, or raise `{}` of [controller]", .table.remedy(), .table.setting()
    )]
    QuotaReached { tenant: String, table: Table, quota: usize },
    #[error("too many requests in a short time: wait for {wait_seconds} s")]
    TooManyRequests { wait_seconds: u64 },
}

fn clock_off(node: u64, controller: u64) -> String {
    let side = if node < controller { "behind" } else { "ahead of" };
    format!(
        "the node's clock is {} {side} the controller's, and grants and handshakes bear {} minutes: the node's shows {}, the \
         controller's {}; set the wrong one by NTP (`sudo timedatectl set-ntp true`, or `sudo chronyc makestep` where chrony runs), \
         and start the node again",
        Span(node.abs_diff(controller)),
        CLOCK_DIFFERENCE_MAX.as_secs() / 60,
        Date(node),
        Date(controller)
    )
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
            (Refusal::ClockOff { node: 90_061, controller: 0 }, "timedatectl set-ntp true"),
            (Refusal::TokenUnknown { role }, "byway token create --role agent"),
            (Refusal::TokenExpired { at: 0, role }, "byway token create --role agent"),
            (Refusal::TokenUsedUp { role }, "byway token create --role agent"),
            (Refusal::WrongRole { expected: Role::Relay, role }, "byway token create --role agent"),
            (Refusal::NameTaken { name: name.clone(), number }, "byway node remove 7"),
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
            (Refusal::TooManyRequests { wait_seconds: 2 }, "wait for 2 s"),
        ] {
            let message = refusal.to_string();
            assert!(message.contains(remedy), "{remedy:?} is not in: {message}");
            let speaks_http = ["/v1", "GET", "POST", "DELETE"].iter().any(|word| message.contains(word));
            assert!(!speaks_http, "{message}");
        }
    }

    #[test]
    fn a_clock_that_is_off_is_told_by_how_much_and_to_which_side() {
        let ahead = Refusal::ClockOff { node: 90_061, controller: 0 }.to_string();
        assert!(ahead.contains("1 d 1 h ahead of the controller's"), "{ahead}");
        let behind = Refusal::ClockOff { node: 0, controller: 400 }.to_string();
        assert!(behind.contains("6 min 40 s behind the controller's"), "{behind}");
    }
}
