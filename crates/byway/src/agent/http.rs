//! An agent's own parts of its status server: its flows, and the explanations of their services.

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use byway_api::AgentCost;
use byway_net::Controls;
use serde::Serialize;
use tokio::sync::oneshot;

use super::driver::AgentControl;
use super::explain_request::ExplainRequest;

/// Returns the router of `/v1/flows`, `/v1/flows/{id}/explanation` and `/v1/cost`.
pub(super) fn router(name: &str, controls: Controls<AgentControl>) -> Router {
    let (name, of_cost) = (name.to_owned(), controls.clone());
    Router::new()
        .route("/v1/flows", get(flows))
        .route("/v1/flows/{id}/explanation", get(explanation))
        .with_state(controls)
        .route("/v1/cost", get(cost))
        .with_state((name, of_cost))
}

async fn cost(State((name, controls)): State<(String, Controls<AgentControl>)>) -> Response {
    let (answer, costs) = oneshot::channel();
    if controls.control(AgentControl::Explain(ExplainRequest::Cost(answer))).is_err() {
        return too_busy();
    }
    costs.await.map_or_else(|_| too_busy(), |costs| axum::Json(AgentCost { name, ..costs }).into_response())
}

async fn flows(State(controls): State<Controls<AgentControl>>) -> Response {
    let (answer, flows) = oneshot::channel();
    respond(&controls, AgentControl::Explain(ExplainRequest::List(answer)), flows).await
}

async fn explanation(State(controls): State<Controls<AgentControl>>, Path(id): Path<String>) -> Response {
    let (answer, explanation) = oneshot::channel();
    let control = AgentControl::Explain(ExplainRequest::Flow(id, answer));
    if controls.control(control).is_err() {
        return too_busy();
    }
    match explanation.await {
        Ok(Some(explanation)) => axum::Json(explanation).into_response(),
        Ok(None) => (StatusCode::NOT_FOUND, "flow not found: /v1/flows lists them\n").into_response(),
        Err(_) => too_busy(),
    }
}

async fn respond<T: Serialize>(
    controls: &Controls<AgentControl>,
    control: AgentControl,
    answer: oneshot::Receiver<T>,
) -> Response {
    if controls.control(control).is_err() {
        return too_busy();
    }
    answer.await.map_or_else(|_| too_busy(), |answer| axum::Json(answer).into_response())
}

fn too_busy() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "the agent's thread is too busy, or has ended\n").into_response()
}
