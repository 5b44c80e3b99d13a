//! What a node says of itself, over HTTP on its own machine: `/v1/status`, `/v1/ready` and `/metrics`; and
//! `POST /v1/reload`, by which it reads its settings again.

pub(crate) mod counted;
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

use crate::connections::{self, Gate, HttpService, Limits};
use crate::exit::Failure;
use crate::reload::Asker;

/// Has a node read its settings again.
pub(crate) const RELOAD_PATH: &str = "/v1/reload";

/// A header that commands have: a page in a browser of this machine cannot send it to another origin unasked.
pub(crate) const COMMAND_HEADER: &str = "byway-command";

/// Connections to a node's own port: an agent for metrics, a few people, and scripts. With more, the oldest one ends.
const CONNECTIONS_MAX: usize = 8;

/// Time for the head of a request, and for a client that reads no answer: both are on one machine.
const PATIENCE: Duration = Duration::from_secs(10);

/// Lifetime of a connection: a node that reads its settings again answers within a few seconds.
const LIFETIME: Duration = Duration::from_secs(30);

/// Limits of these connections. All are of one machine, whose users have sixteen million addresses of the loopback.
const CONNECTIONS: Limits = Limits {
    all: CONNECTIONS_MAX,
    strangers: CONNECTIONS_MAX,
    strangers_of_address: CONNECTIONS_MAX,
    strangers_of_network: CONNECTIONS_MAX,
    of_member: 0,
    patience: PATIENCE,
    stranger_lifetime: LIFETIME,
};

/// A node's answer about itself.
pub(crate) struct Report {
    /// As JSON.
    pub(crate) status: serde_json::Value,
    /// In Prometheus's text format.
    pub(crate) metrics: String,
    /// Whether the node can do its work.
    pub(crate) is_ready: bool,
}

/// A controller's answer.
pub(crate) fn of_controller(status: ControllerStatus) -> Option<Report> {
    let json = serde_json::to_value(&status).ok()?;
    Some(Report { status: json, metrics: metrics::of_controller(status), is_ready: true })
}

/// Asks a node; `None` if its thread has ended.
pub(crate) type Ask = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Option<Report>> + Send>> + Send + Sync>;

/// Binds the address where a node answers.
///
/// # Errors
/// If another process has it, or the machine does not.
pub(crate) async fn bind(address: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        Failure::machine(format!(
            "{address} cannot be had for status and metrics ({error}): give this node an address of its own by observe.listen or \
             --observe; ss -tlpn shows who has it"
        ))
    })
}

/// Answers until the process ends.
pub(crate) async fn serve(listener: TcpListener, ask: Ask, asker: Asker) {
    let service = service(Gate::new(CONNECTIONS), ask, asker);
    connections::serve(listener, service, std::future::pending()).await;
}

fn service(gate: Gate, ask: Ask, asker: Asker) -> HttpService {
    let observed = Observed { ask, gate: gate.clone() };
    let router = Router::new()
        .route(RELOAD_PATH, post(reload).with_state(asker))
        .route("/v1/status", get(status))
        .route("/v1/ready", get(ready))
        .route("/metrics", get(metrics_text))
        .with_state(observed)
        .layer(from_fn_with_state(gate.clone(), host::check));
    HttpService { gate, tls: None, router }
}

/// State of the handlers.
#[derive(Clone)]
struct Observed {
    ask: Ask,
    gate: Gate,
}

async fn reload(State(asker): State<Asker>, headers: HeaderMap) -> Response {
    if !headers.contains_key(COMMAND_HEADER) {
        return (StatusCode::FORBIDDEN, "use byway reload, or send the header byway-command: 1\n")
            .into_response();
    }
    match asker.ask().await {
        Ok(answer) => axum::Json(answer).into_response(),
        Err(failure) => {
            let refusal = ReloadRefusal { error: failure.to_string(), exit_code: failure.cause().code() };
            (StatusCode::UNPROCESSABLE_ENTITY, axum::Json(refusal)).into_response()
        }
    }
}

async fn status(State(observed): State<Observed>) -> Response {
    answer(&observed.ask, |report| axum::Json(report.status).into_response()).await
}

async fn ready(State(observed): State<Observed>) -> Response {
    answer(&observed.ask, |report| {
        if report.is_ready {
            (StatusCode::OK, "ready\n")
        } else {
            (StatusCode::SERVICE_UNAVAILABLE, "not yet\n")
        }
        .into_response()
    })
    .await
}

async fn metrics_text(State(observed): State<Observed>) -> Response {
    let kind = [(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")];
    let ended = observed.gate.ended();
    answer(&observed.ask, |report| (kind, metrics::with_connections(report.metrics, ended)).into_response())
        .await
}

async fn answer(ask: &Ask, say: impl FnOnce(Report) -> Response) -> Response {
    match ask().await {
        Some(report) => say(report),
        None => (StatusCode::SERVICE_UNAVAILABLE, "the node's thread has ended\n").into_response(),
    }
}
