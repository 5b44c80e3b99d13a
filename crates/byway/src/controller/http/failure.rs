//! Answers that are no success.

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::{IntoResponse, Response};
use byway_api::{ErrorAnswer, ErrorCode};
use thiserror::Error;

use crate::controller::limits::BODY_BYTES_MAX;
use crate::controller::network::Refusal;
use crate::controller::state::Unchanged;
use crate::token::TokenError;

/// What to do about requests that this program would not send.
const SAME_VERSION: &str =
    "use the controller's version of Byway, whose `byway config openapi` describes all requests";

/// Why there is no success.
#[derive(Debug, Error)]
pub(in crate::controller) enum Failure {
    /// What is asked for is not done.
    #[error(transparent)]
    Unchanged(#[from] Unchanged),
    /// Path, query or body are not what belongs there.
    #[error("the request is not what belongs here: {0}; {SAME_VERSION}")]
    Request(String),
    /// The body is too long.
    #[error("the body of the request has more than {BODY_BYTES_MAX} bytes: no request needs as many")]
    TooLarge,
    /// The body does not come.
    #[error("the body of the request did not come in time: send it again")]
    Slow,
    /// There is nothing here.
    #[error("there is nothing to be had here by this method; {SAME_VERSION}")]
    NoSuchPath,
    /// Tokens cannot name the controller.
    #[error("tokens cannot be made: {0}")]
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
            Self::Unchanged(Unchanged::Refused(refusal)) => refusal.code(),
            Self::Unchanged(Unchanged::Storage(_)) => ErrorCode::Storage,
            Self::Request(_) | Self::Slow | Self::Addresses(_) => ErrorCode::BadRequest,
            Self::TooLarge => ErrorCode::TooLarge,
            Self::NoSuchPath => ErrorCode::NotFound,
        }
    }
}

const fn status(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::BadRequest => StatusCode::BAD_REQUEST,
        ErrorCode::NotAMember | ErrorCode::NotAdministrator => StatusCode::UNAUTHORIZED,
        ErrorCode::ClockOff
        | ErrorCode::TokenUnknown
        | ErrorCode::TokenExpired
        | ErrorCode::TokenUsedUp
        | ErrorCode::WrongRole
        | ErrorCode::ProofWrong
        | ErrorCode::OtherTenant => StatusCode::FORBIDDEN,
        ErrorCode::NotFound => StatusCode::NOT_FOUND,
        ErrorCode::NameTaken
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
        // For who counts answers.
        response.extensions_mut().insert(code);
        if let Self::Unchanged(Unchanged::Refused(Refusal::TooManyRequests { wait_seconds })) = self {
            response.headers_mut().insert(RETRY_AFTER, wait_seconds.into());
        }
        response
    }
}
