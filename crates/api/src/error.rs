//! What the controller says when it does not do what it was asked for.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The body of every answer that is no success.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorAnswer {
    /// For programs.
    pub error: ErrorCode,
    /// For people: what happened, and what to do about it.
    pub message: String,
}

/// The kinds of refusals and failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The request says something that cannot be.
    BadRequest,
    /// The node's clock and the controller's differ by more than grants and handshakes bear.
    ClockOff,
    /// The controller does not know the token: it was revoked, or is another controller's.
    TokenUnknown,
    /// The token's time is over.
    TokenExpired,
    /// As many nodes as the token was for have joined.
    TokenUsedUp,
    /// The token is for agents and a relay came with it, or the other way round.
    WrongRole,
    /// Another node of the tenant has this name.
    NameTaken,
    /// The key belongs to another node.
    KeyRegistered,
    /// The node does not prove that it has the secret of its key.
    ProofWrong,
    /// The bearer secret is none of a node's: it was removed, or never joined.
    NotAMember,
    /// The bearer secret is not the administrator's.
    NotAdministrator,
    /// There is nothing of this name or number.
    NotFound,
    /// Agents of different tenants are paired by an administrator only.
    OtherTenant,
    /// One of the controller's limits is reached.
    LimitReached,
    /// One of the tenant's quotas is reached.
    QuotaReached,
    /// Too many requests in too short a time; the header `Retry-After` has the seconds to wait.
    TooManyRequests,
    /// The body is longer than any request needs to be.
    TooLarge,
    /// What was asked for could not be written to the disk, and was not done.
    Storage,
    /// A code that this version does not know.
    #[serde(other)]
    Unknown,
}

/// As in JSON.
impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_shown_as_in_json() {
        for code in [ErrorCode::TokenUsedUp, ErrorCode::NotAMember, ErrorCode::Unknown] {
            let json = serde_json::to_value(code).expect("a text");
            assert_eq!(json, code.to_string());
        }
    }
}
