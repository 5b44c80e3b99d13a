//! What requests bring: who asks, what for, and bodies of JSON that are not too long and come in time.
//!
//! Who asks is looked at first: nobody reads the body of a stranger who poses as a member or an administrator.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{ConnectInfo, FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout};

use super::{Failure, Served};
use crate::connections::Place;
use crate::controller::limits::PATIENCE;
use crate::controller::lock;
use crate::controller::network::Refusal;

/// What a request says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Body<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        let bytes =
            timeout(PATIENCE, Bytes::from_request(request, state)).await.map_err(|_| Failure::Slow)?;
        let bytes = bytes.map_err(|_| Failure::TooLarge)?;
        serde_json::from_slice(&bytes).map(Self).map_err(|error| Failure::Request(error.to_string()))
    }
}

/// The number at the end of the path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Number(pub(super) u32);

impl<S: Send + Sync> FromRequestParts<S> for Number {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let number = Path::<u32>::from_request_parts(parts, state).await;
        number.map(|Path(number)| Self(number)).map_err(|error| Failure::Request(error.to_string()))
    }
}

/// What stands behind the path's question mark.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Asked<T> {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Failure> {
        let query = Query::<T>::from_request_parts(parts, state).await;
        query.map(|Query(query)| Self(query)).map_err(|error| Failure::Request(error.to_string()))
    }
}

/// The member that asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member(pub(super) u32);

impl FromRequestParts<Served> for Member {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, served: &Served) -> Result<Self, Failure> {
        let bearer = bearer(&parts.headers).ok_or(Refusal::NotAMember)?;
        let member = served.state.member(bearer);
        let number = member.map_err(|refusal| served.wrong_bearer(source(parts), refusal))?;
        note_member(parts, number);
        Ok(Self(number))
    }
}

/// The member that asks for a change: not too often.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChangingMember(pub(super) u32);

impl FromRequestParts<Served> for ChangingMember {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, served: &Served) -> Result<Self, Failure> {
        let Member(number) = Member::from_request_parts(parts, served).await?;
        let taken = lock(&served.limits.changes).take(number, Instant::now());
        taken.map_err(|wait_seconds| Refusal::TooManyRequests { wait_seconds })?;
        Ok(Self(number))
    }
}

/// An administrator asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Administrator;

impl FromRequestParts<Served> for Administrator {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, served: &Served) -> Result<Self, Failure> {
        let bearer = bearer(&parts.headers).ok_or(Refusal::NotAdministrator)?;
        if served.state.identity().is_administrator(bearer) {
            note_member(parts, ADMINISTRATOR);
            return Ok(Self);
        }
        Err(served.wrong_bearer(source(parts), Refusal::NotAdministrator).into())
    }
}

/// Number that stands for administrators among members, whose numbers begin at 1.
const ADMINISTRATOR: u32 = 0;

/// Gives the connection of a request a member's place.
fn note_member(parts: &Parts, member: u32) {
    if let Some(place) = parts.extensions.get::<Arc<Place>>() {
        place.note_member(member);
    }
}

/// Returns the address that a request came from.
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
        assert_eq!(begun.elapsed(), PATIENCE);
    }
}
