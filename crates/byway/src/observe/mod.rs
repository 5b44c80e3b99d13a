//! A node's status server, over HTTP on its own machine: `/v1/status`, `/v1/ready` and `/metrics`.
//! `POST /v1/reload` makes the node reload its settings.

pub(crate) mod counters;
mod host;
pub(crate) mod metrics;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use byway_api::{ControllerStatus, ReloadRefusal};
use tokio::net::TcpListener;

use crate::connections::{self, ConnectionLimiter, HttpService, Limits};
use crate::exit::Failure;
use crate::reload::ReloadHandle;

/// HTTP path of the request that makes a node reload its settings.
pub(crate) const RELOAD_PATH: &str = "/v1/reload";

/// Header that commands send, and which a reload requires. A page in a browser of this machine
/// cannot send it to another origin without a preflight.
pub(crate) const COMMAND_HEADER: &str = "byway-command";

/// Maximum number of connections to a status server: a scraper of metrics, a few people, and
/// scripts. A further one ends the oldest.
const CONNECTIONS_MAX: usize = 8;

/// Timeout at a status server: of the head of a request, and of a client that reads no answer. Both
/// ends are on one machine.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Lifetime of a connection to a status server. A node that reloads its settings answers within a
/// few seconds.
const LIFETIME: Duration = Duration::from_secs(30);

/// Limits of the connections to a status server. All are of one machine, whose users have sixteen
/// million loopback addresses. Addresses therefore have no smaller limits.
const CONNECTIONS: Limits = Limits {
    all: CONNECTIONS_MAX,
    strangers: CONNECTIONS_MAX,
    strangers_of_address: CONNECTIONS_MAX,
    strangers_of_network: CONNECTIONS_MAX,
    of_member: 0,
    timeout: REQUEST_TIMEOUT,
    stranger_lifetime: LIFETIME,
};

/// A node's status and metrics, at one time.
pub(crate) struct NodeReport {
    /// Status as JSON.
    pub(crate) status: serde_json::Value,
    /// Metrics in Prometheus's text format.
    pub(crate) metrics: String,
    /// True if the node can do its work, for `/v1/ready`.
    pub(crate) is_ready: bool,
}

/// Returns a controller's status and metrics; `None` if the status cannot be serialized.
pub(crate) fn of_controller(status: ControllerStatus) -> Option<NodeReport> {
    let json = serde_json::to_value(&status).ok()?;
    Some(NodeReport { status: json, metrics: metrics::of_controller(status), is_ready: true })
}

/// Function that queries a node's status and metrics. Its result is `None` if the node's thread has
/// ended.
pub(crate) type NodeQuery =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Option<NodeReport>> + Send>> + Send + Sync>;

/// Binds the status server's address.
///
/// # Errors
/// If another process uses it, or the machine does not have it.
pub(crate) async fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        Failure::machine(format!(
            "cannot listen on {address} for status and metrics: {error}; set another observe.listen \
             or --observe (ss -tlpn shows the process that uses it)"
        ))
    })
}

/// Runs the status server until the process ends. `own` has the paths that only this role has.
pub(crate) async fn serve(listener: TcpListener, query: NodeQuery, reload_handle: ReloadHandle, own: Router) {
    let service = service(ConnectionLimiter::new(CONNECTIONS), query, reload_handle, own);
    connections::serve(listener, service, std::future::pending()).await;
}

fn service(
    gate: ConnectionLimiter,
    query: NodeQuery,
    reload_handle: ReloadHandle,
    own: Router,
) -> HttpService {
    let observed = ObserveState { query, gate: gate.clone() };
    let router = Router::new()
        .route(RELOAD_PATH, post(reload).with_state(reload_handle))
        .route("/v1/status", get(status))
        .route("/v1/ready", get(ready))
        .route("/metrics", get(metrics_text))
        .with_state(observed)
        .merge(own)
        .layer(from_fn_with_state(gate.clone(), host::check_host));
    HttpService { gate, tls: None, router }
}

/// State of the status server's request handlers.
#[derive(Clone)]
struct ObserveState {
    query: NodeQuery,
    gate: ConnectionLimiter,
}

async fn reload(State(reload_handle): State<ReloadHandle>, headers: HeaderMap) -> Response {
    if !headers.contains_key(COMMAND_HEADER) {
        return (StatusCode::FORBIDDEN, "use byway reload, or send the header byway-command: 1\n")
            .into_response();
    }
    match reload_handle.request().await {
        Ok(answer) => axum::Json(answer).into_response(),
        Err(failure) => {
            let refusal = ReloadRefusal { error: failure.to_string(), exit_code: failure.cause().code() };
            (StatusCode::UNPROCESSABLE_ENTITY, axum::Json(refusal)).into_response()
        }
    }
}

async fn status(State(observed): State<ObserveState>) -> Response {
    respond(&observed.query, |report| axum::Json(report.status).into_response()).await
}

async fn ready(State(observed): State<ObserveState>) -> Response {
    respond(&observed.query, |report| {
        if report.is_ready {
            (StatusCode::OK, "ready\n")
        } else {
            (StatusCode::SERVICE_UNAVAILABLE, "not yet\n")
        }
        .into_response()
    })
    .await
}

async fn metrics_text(State(observed): State<ObserveState>) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")];
    let ended = observed.gate.ended();
    respond(&observed.query, |report| {
        (kind, metrics::with_connections(report.metrics, ended)).into_response()
    })
    .await
}

async fn respond(query: &NodeQuery, respond_with: impl FnOnce(NodeReport) -> Response) -> Response {
    match query().await {
        Some(report) => respond_with(report),
        None => (StatusCode::SERVICE_UNAVAILABLE, "the node's thread has ended\n").into_response(),
    }
}
