//! Errors of requests from a node to its controller.

use std::path::PathBuf;
use std::time::Duration;

use byway_api::{ErrorCode, Role};
use thiserror::Error;

use super::files::FileError;
use crate::exit::Cause;
use crate::token::TokenError;

/// Reason why a request to the controller failed.
#[derive(Debug, Error)]
pub(crate) enum MembershipError {
    /// The controller does not answer at any of its addresses.
    #[error(
        "cannot reach the controller: {attempts}; check that it runs (`byway status` on its machine), \
        and that TCP from here reaches it"
    )]
    Unreachable {
        /// Each address of the controller, with the result of the attempt.
        attempts: String,
    },
    /// A server with another certificate than the controller's answers.
    #[error(
        "certificate at {address} does not match the token: another server listens there, or the \
        controller was set up anew; create a new token with `byway token create` on the controller's \
        machine"
    )]
    OtherCertificate {
        /// Address at which the other server answers.
        address: String,
    },
    /// The controller refuses the token, for this reason.
    #[error("the controller refused the token: {0}")]
    Token(String),
    /// The token is for nodes of another role.
    #[error("the controller refused the token: {0}")]
    WrongRole(String),
    /// The node's key is registered for another node, or the node does not have the secret of the
    /// key.
    #[error("the controller refused the node's key: {0}")]
    Key(String),
    /// The clocks of node and controller differ too much.
    #[error("{0}")]
    ClockSkew(String),
    /// The controller's rate limit refuses the request.
    #[error("the controller refused the request: {message}")]
    TooManyRequests {
        /// Message for people.
        message: String,
        /// Pause that the controller asks for; `None` if it names none.
        retry_after: Option<Duration>,
    },
    /// The node is not, or no longer, a member.
    #[error("the controller no longer knows this node: {0}")]
    Removed(String),
    /// The controller could not write the change to its disk.
    #[error("the controller cannot store the change: {0}")]
    ControllersDisk(String),
    /// The controller refuses the request for another reason.
    #[error("the controller refused the request: {message}")]
    Refused {
        /// Code of the refusal, for programs.
        code: ErrorCode,
        /// Message for people.
        message: String,
    },
    /// The controller's answer is not valid.
    #[error("invalid reply from {address}: {problem}; use the same version of Byway here and there")]
    Unreadable {
        /// Address of the server that answered.
        address: String,
        /// Description of the problem.
        problem: String,
    },
    /// The controller's key has not signed the map.
    #[error(
        "map not signed by the network's controller: {0}; if the controller was set up anew, join \
        with a new token, from `byway token create` on its machine"
    )]
    BadMap(String),
    /// The node is not a member, and its settings have no token to join with.
    #[error(
        "this {0} has not joined a network: create a token with `byway token create --role {0}` on \
        the controller's machine, and set `token` (--token)"
    )]
    NoToken(Role),
    /// The administrators' token does not exist in the controller's state directory.
    #[error(
        "{} not found: run this on the controller's machine, as the controller's user, with its `--state`",
        .0.display()
    )]
    NoAdminToken(PathBuf),
    /// The text of a token is invalid.
    #[error(transparent)]
    BadToken(#[from] TokenError),
    /// A file of the node could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

impl MembershipError {
    /// Creates the error of a refusal by the controller.
    pub(super) fn from_refusal(code: ErrorCode, message: String, retry_after: Option<Duration>) -> Self {
        match code {
            ErrorCode::TokenUnknown | ErrorCode::TokenExpired | ErrorCode::TokenUsedUp => {
                Self::Token(message)
            }
            ErrorCode::WrongRole => Self::WrongRole(message),
            ErrorCode::KeyRegistered | ErrorCode::ProofWrong => Self::Key(message),
            ErrorCode::ClockSkew => Self::ClockSkew(message),
            ErrorCode::TooManyRequests => Self::TooManyRequests { message, retry_after },
            ErrorCode::NotAMember => Self::Removed(message),
            ErrorCode::Storage => Self::ControllersDisk(message),
            code => Self::Refused { code, message },
        }
    }

    /// Returns the kind of cause: the party that has to act.
    pub(crate) const fn cause(&self) -> Cause {
        match self {
            Self::Unreachable { .. } | Self::Unreadable { .. } | Self::ControllersDisk(_) => Cause::Network,
            Self::OtherCertificate { .. }
            | Self::Token(_)
            | Self::WrongRole(_)
            | Self::Key(_)
            | Self::TooManyRequests { .. }
            | Self::Removed(_)
            | Self::Refused { .. }
            | Self::BadMap(_) => Cause::Refused,
            Self::NoToken(_) | Self::NoAdminToken(_) | Self::BadToken(_) => Cause::Settings,
            Self::ClockSkew(_) | Self::File(_) => Cause::Machine,
        }
    }

    /// True if the error may disappear without a change at this node: the network, or a rate limit.
    pub(super) const fn is_transient(&self) -> bool {
        matches!(self.cause(), Cause::Network) || matches!(self, Self::TooManyRequests { .. })
    }

    /// True if the controller refuses a report because it does not know the relay that the node
    /// prefers. No other part of a report can be unknown.
    pub(super) const fn is_about_relay(&self) -> bool {
        matches!(self, Self::Refused { code: ErrorCode::NotFound, .. })
    }

    /// Returns the pause that the controller asks for; `None` for errors without one.
    pub(crate) const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::TooManyRequests { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}
