//! Error answers of the HTTP interface.

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use byway_api::{ErrorAnswer, ErrorCode};
use thiserror::Error;

use crate::controller::limits::{BODY_BYTES_MAX, RECORD_BYTES_MAX};
use crate::controller::network::Refusal;
use crate::controller::state::ChangeError;
use crate::controller::state_feed::FeedRefusal;
use crate::token::TokenError;

/// Remedy for requests that the interface of this version does not have.
const SAME_VERSION: &str =
    "use the controller's version of Byway; its `byway config openapi` describes all requests";

/// Reason of an error answer to a request.
#[derive(Debug, Error)]
pub(in crate::controller) enum Failure {
    /// The change of the network is refused, or could not be stored.
    #[error(transparent)]
    Unchanged(#[from] ChangeError),
    /// The request about network state is refused.
    #[error(transparent)]
    Feed(#[from] FeedRefusal),
    /// Path, query or body of the request is invalid.
    #[error("invalid request: {0}; {SAME_VERSION}")]
    Request(String),
    /// The request's body is longer than [`BODY_BYTES_MAX`].
    #[error("request body longer than {BODY_BYTES_MAX} bytes: send less in one request")]
    TooLarge,
    /// A record of the request's body is longer than [`RECORD_BYTES_MAX`].
    #[error("record longer than {RECORD_BYTES_MAX} bytes: end each record with a newline")]
    LongRecord,
    /// The request's body does not arrive within the timeout.
    #[error("timeout while the request body was received: send the request again")]
    Slow,
    /// The interface has no such path, or not this method at it.
    #[error("path or method not found; {SAME_VERSION}")]
    NoSuchPath,
    /// The controller's addresses do not fit into a token.
    #[error("cannot create a token: {0}")]
    Addresses(#[from] TokenError),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Unchanged(refusal.into())
    }
}

impl Failure {
    const fn code(&self) -> ErrorCode {
        match self {
            Self::Unchanged(ChangeError::Refused(refusal)) => refusal.code(),
            Self::Unchanged(ChangeError::Storage(_)) => ErrorCode::Storage,
            Self::Feed(refusal) => refusal.code(),
            Self::Request(_) | Self::Slow | Self::Addresses(_) => ErrorCode::BadRequest,
            Self::TooLarge | Self::LongRecord => ErrorCode::TooLarge,
            Self::NoSuchPath => ErrorCode::NotFound,
        }
    }
}

const fn status(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::BadRequest => StatusCode::BAD_REQUEST,
        ErrorCode::NotAMember | ErrorCode::NotAdministrator | ErrorCode::NotAnApplication => {
            StatusCode::UNAUTHORIZED
        }
        ErrorCode::ClockSkew
        | ErrorCode::TokenUnknown
        | ErrorCode::TokenExpired
        | ErrorCode::TokenUsedUp
        | ErrorCode::WrongRole
        | ErrorCode::ProofWrong
        | ErrorCode::OtherTenant => StatusCode::FORBIDDEN,
        ErrorCode::NotFound => StatusCode::NOT_FOUND,
        ErrorCode::NameInUse
        | ErrorCode::KeyRegistered
        | ErrorCode::LimitReached
        | ErrorCode::QuotaReached => StatusCode::CONFLICT,
        ErrorCode::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        ErrorCode::TooManyRequests => StatusCode::TOO_MANY_REQUESTS,
        ErrorCode::Storage => StatusCode::SERVICE_UNAVAILABLE,
        ErrorCode::Unknown => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let answer = ErrorAnswer { error: self.code(), message: self.to_string() };
        let code = answer.error;
        let mut response = (status(code), Json(answer)).into_response();
        // For the counters of outcomes.
        response.extensions_mut().insert(code);
        if let Self::Unchanged(ChangeError::Refused(Refusal::TooManyRequests { wait_seconds })) = self {
            response.headers_mut().insert(RETRY_AFTER, wait_seconds.into());
        }
        response
    }
}
