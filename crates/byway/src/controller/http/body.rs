//! Bodies of requests: JSON, not too long, in time.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::Failure;
use crate::controller::limits::PATIENCE;

/// What a request says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Body<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Failure;

    async fn from_request(request: Request, state: &S) -> Result<Self, Failure> {
        let bytes =
            timeout(PATIENCE, Bytes::from_request(request, state)).await.map_err(|_| Failure::Slow)?;
        let bytes = bytes.map_err(|_| Failure::TooLarge)?;
        serde_json::from_slice(&bytes).map(Self).map_err(|error| Failure::Body(error.to_string()))
    }
}
