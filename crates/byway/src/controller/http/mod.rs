//! The HTTP interface: thin functions between requests and decisions.

mod administration;
mod extract;
mod failure;
mod members;
pub(super) mod openapi;

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

use super::counts::Asked;
use super::limits::{
    BODY_BYTES_MAX, CHANGE_BURST, CHANGES_PER_MINUTE, GUESS_BURST, GUESSES_PER_MINUTE, JOIN_BURST,
    JOINS_PER_MINUTE,
};
use super::lock;
use super::network::Refusal;
use super::state::State;
use super::throttle::{SourceThrottle, Throttle};

/// The methods of the interface.
const METHODS: [&str; 4] = ["GET", "POST", "PUT", "DELETE"];

/// What stands for methods and paths that the interface does not have.
const OTHER: &str = "other";

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
    joins: Mutex<SourceThrottle>,
    /// Requests with a wrong bearer secret.
    guesses: Mutex<SourceThrottle>,
    changes: Mutex<Throttle<u32>>,
}

impl Served {
    /// Serves the state of a controller that members find at these addresses.
    pub(super) fn new(state: Arc<State>, addresses: Arc<[String]>) -> Self {
        let limits = Limits {
            joins: Mutex::new(SourceThrottle::new(JOIN_BURST, JOINS_PER_MINUTE)),
            guesses: Mutex::new(SourceThrottle::new(GUESS_BURST, GUESSES_PER_MINUTE)),
            changes: Mutex::new(Throttle::new(CHANGE_BURST, CHANGES_PER_MINUTE)),
        };
        Self { state, addresses, limits: Arc::new(limits) }
    }

    /// Somebody wants to join: not too often.
    fn check_joins(&self, from: ConnectInfo<SocketAddr>) -> Result<(), Refusal> {
        let taken = lock(&self.limits.joins).take(from.0.ip(), Instant::now());
        taken.map_err(|wait_seconds| Refusal::TooManyRequests { wait_seconds })
    }

    /// Returns the answer to a request with a wrong bearer secret: after too many of them from one source, nothing but
    /// that. Valid secrets are not refused for others' guesses, as nobody guesses one of 256 bits.
    fn wrong_bearer(&self, from: Option<SocketAddr>, refusal: Refusal) -> Refusal {
        let taken = from.map_or(Ok(()), |from| lock(&self.limits.guesses).take(from.ip(), Instant::now()));
        taken.map_or_else(|wait_seconds| Refusal::TooManyRequests { wait_seconds }, |()| refusal)
    }
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
        .layer(from_fn_with_state(served.clone(), count))
        .with_state(served)
}

/// Counts a request and what came of it.
async fn count(Shared(served): Shared<Served>, request: Request, next: Next) -> Response {
    let path = request.extensions().get::<MatchedPath>();
    let path = path.map_or_else(|| OTHER.to_owned(), |path| path.as_str().to_owned());
    let method = METHODS.into_iter().find(|method| request.method() == *method).unwrap_or(OTHER);
    let response = next.run(request).await;
    let refused = response.extensions().get::<ErrorCode>().copied();
    served.state.requests().add(Asked { method, path, refused });
    response
}
