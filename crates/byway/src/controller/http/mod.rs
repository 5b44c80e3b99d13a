//! The HTTP interface: thin functions between requests and decisions.

mod administration;
mod body;
mod failure;
mod members;
pub(super) mod openapi;

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{ConnectInfo, DefaultBodyLimit};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::routing::{delete, get, post, put};
use tokio::time::Instant;

pub(super) use failure::Failure;

use super::limits::{BODY_BYTES_MAX, CHANGE_BURST, CHANGES_PER_MINUTE, JOIN_BURST, JOINS_PER_MINUTE};
use super::lock;
use super::network::Refusal;
use super::state::State;
use super::throttle::{Throttle, source};

/// What the functions need.
#[derive(Clone, Debug)]
pub(super) struct Served {
    state: Arc<State>,
    addresses: Arc<[String]>,
    limits: Arc<Limits>,
}

/// Who asked how often.
#[derive(Debug)]
struct Limits {
    joins: Mutex<Throttle<IpAddr>>,
    changes: Mutex<Throttle<u32>>,
}

impl Served {
    /// Serves the state of a controller that members find at these addresses.
    pub(super) fn new(state: Arc<State>, addresses: Arc<[String]>) -> Self {
        let limits = Limits {
            joins: Mutex::new(Throttle::new(JOIN_BURST, JOINS_PER_MINUTE)),
            changes: Mutex::new(Throttle::new(CHANGE_BURST, CHANGES_PER_MINUTE)),
        };
        Self { state, addresses, limits: Arc::new(limits) }
    }

    /// The member that asks.
    fn member(&self, headers: &HeaderMap) -> Result<u32, Refusal> {
        bearer(headers).ok_or(Refusal::NotAMember).and_then(|bearer| self.state.member(bearer))
    }

    /// The member that asks for a change: not too often.
    fn changing_member(&self, headers: &HeaderMap) -> Result<u32, Refusal> {
        let number = self.member(headers)?;
        let taken = lock(&self.limits.changes).take(number, Instant::now());
        taken.map_err(|wait_seconds| Refusal::TooManyRequests { wait_seconds })?;
        Ok(number)
    }

    /// Somebody wants to join: not too often.
    fn check_joins(&self, from: ConnectInfo<SocketAddr>) -> Result<(), Refusal> {
        let taken = lock(&self.limits.joins).take(source(from.0.ip()), Instant::now());
        taken.map_err(|wait_seconds| Refusal::TooManyRequests { wait_seconds })
    }

    /// An administrator asks.
    fn check_administrator(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let is_administrator =
            bearer(headers).is_some_and(|bearer| self.state.identity().is_administrator(bearer));
        if is_administrator { Ok(()) } else { Err(Refusal::NotAdministrator) }
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")
}

/// All that is answered.
pub(super) fn router(served: Served) -> Router {
    Router::new()
        .route("/v1/health", get(members::health))
        .route("/v1/network", get(members::network))
        .route("/v1/join", post(members::join))
        .route("/v1/map", get(members::map))
        .route("/v1/self", put(members::update_self).delete(members::leave))
        .route("/v1/pairings", post(members::pair))
        .route("/v1/tokens", post(administration::create_token).get(administration::tokens))
        .route("/v1/tokens/{number}", delete(administration::revoke_token))
        .route("/v1/nodes", get(administration::nodes))
        .route("/v1/nodes/{number}", delete(administration::remove_node))
        .route("/v1/admin/pairs", post(administration::pair))
        .route("/v1/status", get(administration::status))
        .route("/openapi.json", get(openapi::serve))
        .fallback(async || Failure::NoSuchPath)
        .method_not_allowed_fallback(async || Failure::NoSuchPath)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(served)
}
