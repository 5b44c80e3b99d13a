//! What requests bring: who asks, what for, and bodies of JSON that are not too long and come in time.
//!
//! Who asks is looked at first: nobody reads the body of a stranger who poses as a member or an administrator.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout};

use super::{Failure, Served};
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
        Ok(Self(served.state.member(bearer)?))
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
            return Ok(Self);
        }
        Err(Refusal::NotAdministrator.into())
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")
}
