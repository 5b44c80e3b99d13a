//! The HTTP interface: thin handlers that call the network's decisions.

mod administration;
mod extract;
mod failure;
mod members;
mod network_state;
pub(super) mod openapi;
mod samples;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{ConnectInfo, DefaultBodyLimit, MatchedPath, Request, State as Shared};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{delete, get, post, put};
use byway_api::ErrorCode;
use tokio::time::Instant;

pub(super) use failure::Failure;

use super::counts::RequestOutcome;
use super::limits::{
    BODY_BYTES_MAX, CHANGE_BURST, CHANGES_PER_MINUTE, GUESS_BURST, GUESSES_PER_MINUTE, JOIN_BURST,
    JOINS_PER_MINUTE, LEASE_BURST, LEASES_PER_MINUTE, READ_BURST, READS_PER_MINUTE, RECORD_BURST,
    RECORDS_PER_MINUTE,
};
use super::lock;
use super::network::Refusal;
use super::rate_limiter::{RateLimiter, SourceRateLimiter};
use super::state::State;
use super::state_feed::StateFeed;

/// HTTP methods of the interface.
const METHODS: [&str; 4] = ["GET", "POST", "PUT", "DELETE"];

/// Label in counters for methods and paths that the interface does not have.
const OTHER: &str = "other";

/// State of the controller's request handlers.
#[derive(Clone, Debug)]
pub(super) struct HttpState {
    state: Arc<State>,
    feed: Arc<StateFeed>,
    addresses: Arc<[String]>,
    limits: Arc<Limits>,
}

/// Rate limiters of joins, of wrong bearer secrets, of members' changes and samples, and of
/// applications.
#[derive(Debug)]
struct Limits {
    joins: Mutex<SourceRateLimiter>,
    /// Requests with a wrong bearer secret, by source.
    guesses: Mutex<SourceRateLimiter>,
    changes: Mutex<RateLimiter<u32>>,
    /// Reads of network state, by application.
    reads: Mutex<RateLimiter<u32>>,
    /// Registrations of flows, by application.
    leases: Mutex<RateLimiter<u32>>,
    /// Records of samples, by node.
    records: Mutex<RateLimiter<u32>>,
}

impl HttpState {
    /// Creates the handlers' state of a controller that members reach at these addresses.
    pub(super) fn new(state: Arc<State>, feed: Arc<StateFeed>, addresses: Arc<[String]>) -> Self {
        let limits = Limits {
            joins: Mutex::new(SourceRateLimiter::new(JOIN_BURST, JOINS_PER_MINUTE)),
            guesses: Mutex::new(SourceRateLimiter::new(GUESS_BURST, GUESSES_PER_MINUTE)),
            changes: Mutex::new(RateLimiter::new(CHANGE_BURST, CHANGES_PER_MINUTE)),
            reads: Mutex::new(RateLimiter::new(READ_BURST, READS_PER_MINUTE)),
            leases: Mutex::new(RateLimiter::new(LEASE_BURST, LEASES_PER_MINUTE)),
            records: Mutex::new(RateLimiter::new(RECORD_BURST, RECORDS_PER_MINUTE)),
        };
        Self { state, feed, addresses, limits: Arc::new(limits) }
    }

    /// Counts a request to join. Fails if its source exceeds the rate limit of joins.
    fn check_joins(&self, from: ConnectInfo<SocketAddr>) -> Result<(), Refusal> {
        let acquired = lock(&self.limits.joins).try_acquire(from.0.ip(), Instant::now());
        acquired.map_err(|wait_seconds| Refusal::TooManyRequests { wait_seconds })
    }

    /// Returns the refusal of a request with a wrong bearer secret. After too many of them from one
    /// source, it is a rate-limit refusal. The limit does not affect valid secrets, because nobody
    /// guesses 256 bits.
    fn wrong_bearer(&self, from: Option<SocketAddr>, refusal: Refusal) -> Refusal {
        let acquired =
            from.map_or(Ok(()), |from| lock(&self.limits.guesses).try_acquire(from.ip(), Instant::now()));
        acquired.map_or_else(|wait_seconds| Refusal::TooManyRequests { wait_seconds }, |()| refusal)
    }
}

/// Returns the router that calls the handler of each request, and counts the answers.
pub(super) fn router(served: HttpState) -> Router {
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
        .route("/v1/cost", get(administration::cost))
        .route("/v1/samples", post(samples::report))
        .route("/v1/samples/flows", get(samples::flows))
        .merge(network_state_routes())
        .route("/openapi.json", get(openapi::serve))
        .fallback(async || Failure::NoSuchPath)
        .method_not_allowed_fallback(async || Failure::NoSuchPath)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn_with_state(served.clone(), count))
        .with_state(served)
}

/// Returns the routes of applications. The published form is the same with and without its last
/// slash.
fn network_state_routes() -> Router<HttpState> {
    Router::new()
        .route("/v1/state", get(network_state::state))
        .route("/v1/state/stream", get(network_state::stream))
        .route("/v1/state/leases", post(network_state::register))
        .route("/v1/state/leases/{lease}", delete(network_state::release))
        .route("/stats/{my_ip}/{peer_ip}/{last_index}/{entries_max}/", get(network_state::published))
        .route("/stats/{my_ip}/{peer_ip}/{last_index}/{entries_max}", get(network_state::published))
        .route("/stats/{my_ip}/{peer_ip}/{last_index}/", get(network_state::published_history))
        .route("/stats/{my_ip}/{peer_ip}/{last_index}", get(network_state::published_history))
}

/// Answers a request, and counts it by method, path and outcome.
async fn count(Shared(served): Shared<HttpState>, request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>();
    let path = path.map_or_else(|| OTHER.to_owned(), |path| path.as_str().to_owned());
    let method = METHODS.into_iter().find(|method| request.method() == *method).unwrap_or(OTHER);
    let response = next.run(request).await;
    let refused = response.extensions().get::<ErrorCode>().copied();
    served.state.requests().add(RequestOutcome { method, path, refused });
    response
}
