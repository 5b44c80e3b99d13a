//! What may go wrong between a node and its controller.

use std::path::PathBuf;
use std::time::Duration;

use byway_api::{ErrorCode, Role};
use thiserror::Error;

use super::files::FileError;
use crate::exit::Cause;
use crate::token::TokenError;

/// Why the controller was of no help.
#[derive(Debug, Error)]
pub(crate) enum MembershipError {
    /// Nobody answers.
    #[error(
        "the controller cannot be reached: {attempts}; check that it runs (`byway status` on its machine), and that TCP gets \
         through to it from here"
    )]
    Unreachable {
        /// Each address with what came of it.
        attempts: String,
    },
    /// Somebody else answers.
    #[error(
        "the certificate at {address} is not the one that the token names: somebody else answers there, or the controller was \
         set up anew; make a new token with `byway token create` on the controller's machine"
    )]
    OtherCertificate {
        /// Where.
        address: String,
    },
    /// The token cannot be used, and the controller said why.
    #[error("the controller does not take the token: {0}")]
    Token(String),
    /// The token is for another role.
    #[error("the controller does not take the token: {0}")]
    WrongRole(String),
    /// The node's key is somebody else's, or it does not have the key's secret.
    #[error("the controller does not take this node's key: {0}")]
    Key(String),
    /// The clocks differ.
    #[error("{0}")]
    ClockOff(String),
    /// Others ask, too.
    #[error("the controller refuses: {message}")]
    TooManyRequests {
        /// For people.
        message: String,
        /// When to ask again, if the controller said so.
        retry_after: Option<Duration>,
    },
    /// The node is no member any more.
    #[error("the controller does not know this node any more: {0}")]
    Removed(String),
    /// The controller's disk.
    #[error("the controller cannot write: {0}")]
    ControllersDisk(String),
    /// Something else that the controller does not do.
    #[error("the controller refuses: {message}")]
    Refused {
        /// For programs.
        code: ErrorCode,
        /// For people.
        message: String,
    },
    /// The answer is none.
    #[error(
        "the answer from {address} cannot be read: {problem}; use the same version of Byway here and there"
    )]
    Unreadable {
        /// Who answered.
        address: String,
        /// What is wrong.
        problem: String,
    },
    /// What came is not from who signs for the network.
    #[error(
        "the map is not signed by the network's controller: {0}; if the controller was set up anew, join with a new token, from \
         `byway token create` on its machine"
    )]
    BadMap(String),
    /// There is neither a membership nor a token.
    #[error(
        "this {0} has joined no network yet: make a token with `byway token create --role {0}` on the controller's machine, and set \
         `token` (--token)"
    )]
    NoToken(Role),
    /// The administrator's token is missing.
    #[error(
        "there is no {}: run this on the controller's machine, as the user that it runs as, with the `--state` that it has",
        .0.display()
    )]
    NoAdminToken(PathBuf),
    /// A token that is none.
    #[error(transparent)]
    BadToken(#[from] TokenError),
    /// The node's own files.
    #[error(transparent)]
    File(#[from] FileError),
}

impl MembershipError {
    /// What the controller said when it refused.
    pub(super) fn refused(code: ErrorCode, message: String, retry_after: Option<Duration>) -> Self {
        match code {
            ErrorCode::TokenUnknown | ErrorCode::TokenExpired | ErrorCode::TokenUsedUp => {
                Self::Token(message)
            }
            ErrorCode::WrongRole => Self::WrongRole(message),
            ErrorCode::KeyRegistered | ErrorCode::ProofWrong => Self::Key(message),
            ErrorCode::ClockOff => Self::ClockOff(message),
            ErrorCode::TooManyRequests => Self::TooManyRequests { message, retry_after },
            ErrorCode::NotAMember => Self::Removed(message),
            ErrorCode::Storage => Self::ControllersDisk(message),
            code => Self::Refused { code, message },
        }
    }

    /// Whom it is up to.
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
            Self::ClockOff(_) | Self::File(_) => Cause::Machine,
        }
    }

    /// Whether it may be otherwise without anybody doing anything about it here.
    pub(super) const fn may_pass(&self) -> bool {
        matches!(self.cause(), Cause::Network) || matches!(self, Self::TooManyRequests { .. })
    }

    /// Whether the controller does not know the relay that the node asks for: of what a node says of itself, it looks for
    /// nothing else.
    pub(super) const fn is_about_relay(&self) -> bool {
        matches!(self, Self::Refused { code: ErrorCode::NotFound, .. })
    }

    /// When the controller wants to be asked again, if it said so.
    pub(crate) const fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::TooManyRequests { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}
