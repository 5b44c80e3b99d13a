//! Extractors of request parts: the authenticated client, the path's number, the query, and JSON
//! bodies with limits of length and time.
//!
//! Authentication comes first: the controller reads no body of a client that falsely claims to be a
//! member or an administrator.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::extract::{ConnectInfo, FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout};

use super::{Failure, HttpState};
use crate::connections::ConnectionPermit;
use crate::controller::access::{Application, LinkReporter};
use crate::controller::limits::REQUEST_TIMEOUT;
use crate::controller::lock;
use crate::controller::network::Refusal;
use crate::controller::rate_limiter::RateLimiter;

/// JSON body of a request, received within [`REQUEST_TIMEOUT`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Body<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        let bytes =
            timeout(REQUEST_TIMEOUT, Bytes::from_request(request, state)).await.map_err(|_| Failure::Slow)?;
        let bytes = bytes.map_err(|_| Failure::TooLarge)?;
        serde_json::from_slice(&bytes).map(Self).map_err(|error| Failure::Request(error.to_string()))
    }
}

/// Number at the end of a request's path, of a token or node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number(pub(super) u32);

impl<S: Send + Sync> FromRequestParts<S> for Number {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let number = Path::<u32>::from_request_parts(parts, state).await;
        number.map(|Path(number)| Self(number)).map_err(|error| Failure::Request(error.to_string()))
    }
}

/// Parsed parts of a request's path.
#[derive(Clone, Copy, Debug)]
pub(super) struct PathParams<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for PathParams<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let params = Path::<T>::from_request_parts(parts, state).await;
        params.map(|Path(params)| Self(params)).map_err(|error| Failure::Request(error.to_string()))
    }
}

/// Parsed query string of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueryParams<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for QueryParams<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let query = Query::<T>::from_request_parts(parts, state).await;
        query.map(|Query(query)| Self(query)).map_err(|error| Failure::Request(error.to_string()))
    }
}

/// Number of the member whose bearer secret the request has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member(pub(super) u32);

impl FromRequestParts<HttpState> for Member {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, served: &HttpState) -> Result<Self, Failure> {
        let bearer = bearer(&parts.headers).ok_or(Refusal::NotAMember)?;
        let member = served.state.member(bearer);
        let number = member.map_err(|refusal| served.wrong_bearer(source(parts), refusal))?;
        note_member(parts, number);
        Ok(Self(number))
    }
}

/// Number of the member that requests a change, within its rate limit of changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChangingMember(pub(super) u32);

impl FromRequestParts<HttpState> for ChangingMember {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, served: &HttpState) -> Result<Self, Failure> {
        let Member(number) = Member::from_request_parts(parts, served).await?;
        acquire(&served.limits.changes, number)?;
        Ok(Self(number))
    }
}

/// Relay or link that reports samples.
#[derive(Clone, Debug)]
pub(super) struct SampleReporter(pub(super) LinkReporter);

impl FromRequestParts<HttpState> for SampleReporter {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, served: &HttpState) -> Result<Self, Failure> {
        let Member(number) = Member::from_request_parts(parts, served).await?;
        Ok(Self(served.state.access().reporter(number)?))
    }
}

/// Application whose token the request has as its bearer secret.
#[derive(Clone, Debug)]
pub(super) struct CallingApplication(pub(super) Application);

impl FromRequestParts<HttpState> for CallingApplication {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, served: &HttpState) -> Result<Self, Failure> {
        let bearer = bearer(&parts.headers).ok_or(Refusal::NotAnApplication)?;
        let application = served.state.access().application(bearer, served.state.unix_seconds());
        let application = application.map_err(|refusal| served.wrong_bearer(source(parts), refusal))?;
        note_member(parts, application.number | APPLICATION_BIT);
        Ok(Self(application))
    }
}

/// Application that reads network state, within its rate limit of reads.
#[derive(Clone, Debug)]
pub(super) struct ReadingApplication(pub(super) Application);

impl FromRequestParts<HttpState> for ReadingApplication {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, served: &HttpState) -> Result<Self, Failure> {
        let CallingApplication(application) = CallingApplication::from_request_parts(parts, served).await?;
        acquire(&served.limits.reads, application.number)?;
        Ok(Self(application))
    }
}

/// Application that registers flows, within its rate limit of leases.
#[derive(Clone, Debug)]
pub(super) struct RegisteringApplication(pub(super) Application);

impl FromRequestParts<HttpState> for RegisteringApplication {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, served: &HttpState) -> Result<Self, Failure> {
        let CallingApplication(application) = CallingApplication::from_request_parts(parts, served).await?;
        acquire(&served.limits.leases, application.number)?;
        Ok(Self(application))
    }
}

/// Counts a request of a member or an application. Fails beyond its rate limit.
pub(super) fn acquire(limiter: &Mutex<RateLimiter<u32>>, number: u32) -> Result<(), Refusal> {
    let acquired = lock(limiter).try_acquire(number, Instant::now());
    acquired.map_err(|wait_seconds| Refusal::TooManyRequests { wait_seconds })
}

/// Proof that a request has the administrators' bearer secret.
#[derive(Clone, Copy, Debug)]
pub(super) struct Administrator;

impl FromRequestParts<HttpState> for Administrator {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, served: &HttpState) -> Result<Self, Failure> {
        let bearer = bearer(&parts.headers).ok_or(Refusal::NotAdministrator)?;
        if served.state.identity().is_administrator(bearer) {
            note_member(parts, ADMINISTRATOR);
            return Ok(Self);
        }
        Err(served.wrong_bearer(source(parts), Refusal::NotAdministrator).into())
    }
}

/// Number by which an administrator's connection counts as a member's. Members' own numbers begin
/// at 1.
const ADMINISTRATOR: u32 = 0;

/// Bit of the numbers by which connections of applications count, apart from those of members.
const APPLICATION_BIT: u32 = byway_wire::limits::AGENT_NUMBER_MAX + 1;

/// Records that a request's connection belongs to a member, or to an administrator.
fn note_member(parts: &Parts, member: u32) {
    if let Some(permit) = parts.extensions.get::<Arc<ConnectionPermit>>() {
        permit.note_member(member);
    }
}

/// Returns the client's address and port of a request.
fn source(parts: &Parts) -> Option<SocketAddr> {
    parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|from| from.0)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_body_that_does_not_come_is_waited_for_ten_seconds() {
        let begun = Instant::now();
        let silence = axum::body::Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
        let body = Body::<serde_json::Value>::from_request(Request::new(silence), &()).await;
        assert!(matches!(body, Err(Failure::Slow)));
        assert_eq!(begun.elapsed(), REQUEST_TIMEOUT);
    }
}
