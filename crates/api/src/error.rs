//! Errors that the controller returns.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Body of every answer of the controller that reports a failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorAnswer {
    /// Error code for programs.
    pub error: ErrorCode,
    /// Error text for people: the failure, and its remedy.
    pub message: String,
}

/// Kind of a refusal or failure of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// The request is invalid.
    BadRequest,
    /// The clocks of the node and the controller differ by more than grants and handshakes
    /// tolerate.
    ClockSkew,
    /// The controller does not know the token. It was revoked, or belongs to another controller.
    TokenUnknown,
    /// The token has expired.
    TokenExpired,
    /// As many nodes have joined with the token as it permits.
    TokenUsedUp,
    /// The token or the bearer secret is for another role.
    WrongRole,
    /// Another node of the tenant has this name.
    NameInUse,
    /// The key belongs to another node.
    KeyRegistered,
    /// The node's proof of its key's secret is wrong.
    ProofWrong,
    /// The bearer secret does not belong to a node. The node was removed, or has never joined.
    NotAMember,
    /// The bearer secret is not the administrator's.
    NotAdministrator,
    /// The bearer secret is not a valid token for applications.
    NotAnApplication,
    /// The name or number does not exist.
    NotFound,
    /// Only an administrator may pair agents of different tenants.
    OtherTenant,
    /// One of the controller's limits is reached.
    LimitReached,
    /// One of the tenant's quotas is reached.
    QuotaReached,
    /// Too many requests in a short time. The header `Retry-After` has the seconds to wait.
    TooManyRequests,
    /// The body exceeds the greatest length of a request.
    TooLarge,
    /// The change could not be written to the disk, and was not applied.
    Storage,
    /// The controller is newer, and its code is not defined in this version.
    #[serde(other)]
    Unknown,
}

/// Writes the error code as in JSON.
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
