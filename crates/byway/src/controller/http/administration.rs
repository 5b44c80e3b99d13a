//! HTTP requests of administrators.

use axum::Json;
use axum::extract::State as Shared;
use axum::http::StatusCode;
use byway_api::{
    ControllerStatus, ErrorAnswer, NetworkCost, NodeList, PairRequest, PairingAnswer, TokenAnswer, TokenList,
    TokenRequest,
};

use super::extract::{Administrator, Body, Number};
use super::{Failure, HttpState};
use crate::controller::network::Network;
use crate::membership::random;
use crate::token::Token;

/// Creates a token. Its text is not available again.
#[utoipa::path(post, path = "/v1/tokens", tag = "administrators", request_body = TokenRequest,
    security(("bearer" = [])),
    responses((status = 200, body = TokenAnswer, description = "The token."),
        (status = "4XX", body = ErrorAnswer, description = "The request was refused."),
        (status = 503, body = ErrorAnswer, description = "The controller cannot write to its disk.")))]
pub(super) async fn create_token(
    Shared(served): Shared<HttpState>,
    _: Administrator,
    Body(request): Body<TokenRequest>,
) -> Result<Json<TokenAnswer>, Failure> {
    let secret = random::bytes();
    let token = Token::new(served.addresses.to_vec(), *served.state.identity().pin(), secret)?;
    let created = served.state.change(move |network, now| network.create_token(&request, &secret, now));
    let entry = created.await?;
    Ok(Json(TokenAnswer { entry, token: token.to_text().to_string() }))
}

/// Returns all tokens, without their secrets.
#[utoipa::path(get, path = "/v1/tokens", tag = "administrators", security(("bearer" = [])),
    responses((status = 200, body = TokenList, description = "The tokens."),
        (status = 401, body = ErrorAnswer, description = "The administrator's secret is missing or wrong.")))]
pub(super) async fn tokens(
    Shared(served): Shared<HttpState>,
    _: Administrator,
) -> Result<Json<TokenList>, Failure> {
    Ok(Json(TokenList { tokens: served.state.read(Network::tokens) }))
}

/// Revokes a token. Nodes that joined with it stay members.
#[utoipa::path(delete, path = "/v1/tokens/{number}", tag = "administrators", security(("bearer" = [])),
    params(("number" = u32, Path, description = "The token's number.")),
    responses((status = 204, description = "The token is revoked."),
        (status = "4XX", body = ErrorAnswer, description = "Not found, or the administrator's secret \
                                                            is missing or wrong."),
        (status = 503, body = ErrorAnswer, description = "The controller cannot write to its disk.")))]
pub(super) async fn revoke_token(
    Shared(served): Shared<HttpState>,
    _: Administrator,
    Number(number): Number,
) -> Result<StatusCode, Failure> {
    served.state.change(move |network, _| network.revoke_token(number)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Returns all members.
#[utoipa::path(get, path = "/v1/nodes", tag = "administrators", security(("bearer" = [])),
    responses((status = 200, body = NodeList, description = "The members."),
        (status = 401, body = ErrorAnswer, description = "The administrator's secret is missing or wrong.")))]
pub(super) async fn nodes(
    Shared(served): Shared<HttpState>,
    _: Administrator,
) -> Result<Json<NodeList>, Failure> {
    Ok(Json(served.state.nodes()))
}

/// Removes a member. Its grants stay valid until they end.
#[utoipa::path(delete, path = "/v1/nodes/{number}", tag = "administrators", security(("bearer" = [])),
    params(("number" = u32, Path, description = "The node's number.")),
    responses((status = 204, description = "The node is removed."),
        (status = "4XX", body = ErrorAnswer, description = "Not found, or the administrator's secret \
                                                            is missing or wrong."),
        (status = 503, body = ErrorAnswer, description = "The controller cannot write to its disk.")))]
pub(super) async fn remove_node(
    Shared(served): Shared<HttpState>,
    _: Administrator,
    Number(number): Number,
) -> Result<StatusCode, Failure> {
    served.state.change(move |network, _| network.remove(number)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Pairs two agents, of one tenant or of two.
#[utoipa::path(post, path = "/v1/admin/pairs", tag = "administrators", request_body = PairRequest,
    security(("bearer" = [])),
    responses((status = 200, body = PairingAnswer, description = "The agents are paired."),
        (status = "4XX", body = ErrorAnswer, description = "The pair was refused."),
        (status = 503, body = ErrorAnswer, description = "The controller cannot write to its disk.")))]
pub(super) async fn pair(
    Shared(served): Shared<HttpState>,
    _: Administrator,
    Body(request): Body<PairRequest>,
) -> Result<Json<PairingAnswer>, Failure> {
    let pair = served.state.change(move |network, _| network.pair_any(&request.agents)).await?;
    Ok(Json(PairingAnswer { agents: pair.agents() }))
}

/// Returns the traffic and the bills of all relays, for the calendar month so far.
#[utoipa::path(get, path = "/v1/cost", tag = "administrators", security(("bearer" = [])),
    responses((status = 200, body = NetworkCost, description = "The relays that have reported."),
        (status = 401, body = ErrorAnswer, description = "The administrator's secret is missing or wrong.")))]
pub(super) async fn cost(
    Shared(served): Shared<HttpState>,
    _: Administrator,
) -> Result<Json<NetworkCost>, Failure> {
    Ok(Json(served.state.costs()))
}

/// Returns the controller's status.
#[utoipa::path(get, path = "/v1/status", tag = "administrators", security(("bearer" = [])),
    responses((status = 200, body = ControllerStatus, description = "The controller's status."),
        (status = 401, body = ErrorAnswer, description = "The administrator's secret is missing or wrong.")))]
pub(super) async fn status(
    Shared(served): Shared<HttpState>,
    _: Administrator,
) -> Result<Json<ControllerStatus>, Failure> {
    Ok(Json(ControllerStatus { network_state: served.feed.usage(), ..served.state.status() }))
}
