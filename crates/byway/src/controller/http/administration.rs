//! What administrators may ask.

use axum::Json;
use axum::extract::State as Shared;
use axum::http::StatusCode;
use byway_api::{
    ControllerStatus, ErrorAnswer, NodeList, PairRequest, PairingAnswer, TokenAnswer, TokenList, TokenRequest,
};

use super::extract::{Administrator, Body, Number};
use super::{Failure, Served};
use crate::controller::network::Network;
use crate::membership::random;
use crate::token::Token;

/// Makes a token. Its text cannot be had again.
#[utoipa::path(post, path = "/v1/tokens", tag = "administrators", request_body = TokenRequest,
    security(("bearer" = [])),
    responses((status = 200, body = TokenAnswer, description = "The token."),
        (status = "4XX", body = ErrorAnswer, description = "There is none."),
        (status = 503, body = ErrorAnswer, description = "The controller's disk takes nothing.")))]
pub(super) async fn create_token(
    Shared(served): Shared<Served>,
    _: Administrator,
    Body(request): Body<TokenRequest>,
) -> Result<Json<TokenAnswer>, Failure> {
    let secret = random::bytes();
    let token = Token::new(served.addresses.to_vec(), *served.state.identity().pin(), secret)?;
    let created = served.state.change(move |network, now| network.create_token(&request, &secret, now));
    let entry = created.await?;
    Ok(Json(TokenAnswer { entry, token: token.to_text().to_string() }))
}

/// All tokens, without their secrets.
#[utoipa::path(get, path = "/v1/tokens", tag = "administrators", security(("bearer" = [])),
    responses((status = 200, body = TokenList, description = "The tokens."),
        (status = 401, body = ErrorAnswer, description = "No administrator asks.")))]
pub(super) async fn tokens(
    Shared(served): Shared<Served>,
    _: Administrator,
) -> Result<Json<TokenList>, Failure> {
    Ok(Json(TokenList { tokens: served.state.read(Network::tokens) }))
}

/// Revokes a token. Who joined with it stays.
#[utoipa::path(delete, path = "/v1/tokens/{number}", tag = "administrators", security(("bearer" = [])),
    params(("number" = u32, Path, description = "The token's number.")),
    responses((status = 204, description = "It is good for nothing any more."),
        (status = "4XX", body = ErrorAnswer, description = "There is none, or no administrator asks."),
        (status = 503, body = ErrorAnswer, description = "The controller's disk takes nothing.")))]
pub(super) async fn revoke_token(
    Shared(served): Shared<Served>,
    _: Administrator,
    Number(number): Number,
) -> Result<StatusCode, Failure> {
    served.state.change(move |network, _| network.revoke_token(number)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// All members.
#[utoipa::path(get, path = "/v1/nodes", tag = "administrators", security(("bearer" = [])),
    responses((status = 200, body = NodeList, description = "The members."),
        (status = 401, body = ErrorAnswer, description = "No administrator asks.")))]
pub(super) async fn nodes(
    Shared(served): Shared<Served>,
    _: Administrator,
) -> Result<Json<NodeList>, Failure> {
    Ok(Json(served.state.nodes()))
}

/// Removes a member. The grants that it has are good until they end.
#[utoipa::path(delete, path = "/v1/nodes/{number}", tag = "administrators", security(("bearer" = [])),
    params(("number" = u32, Path, description = "The node's number.")),
    responses((status = 204, description = "It is none any more."),
        (status = "4XX", body = ErrorAnswer, description = "There is none, or no administrator asks."),
        (status = 503, body = ErrorAnswer, description = "The controller's disk takes nothing.")))]
pub(super) async fn remove_node(
    Shared(served): Shared<Served>,
    _: Administrator,
    Number(number): Number,
) -> Result<StatusCode, Failure> {
    served.state.change(move |network, _| network.remove(number)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Pairs two agents, of one tenant or of two.
#[utoipa::path(post, path = "/v1/admin/pairs", tag = "administrators", request_body = PairRequest,
    security(("bearer" = [])),
    responses((status = 200, body = PairingAnswer, description = "They are paired."),
        (status = "4XX", body = ErrorAnswer, description = "They are not."),
        (status = 503, body = ErrorAnswer, description = "The controller's disk takes nothing.")))]
pub(super) async fn pair(
    Shared(served): Shared<Served>,
    _: Administrator,
    Body(request): Body<PairRequest>,
) -> Result<Json<PairingAnswer>, Failure> {
    let pair = served.state.change(move |network, _| network.pair_any(&request.agents)).await?;
    Ok(Json(PairingAnswer { agents: pair.agents() }))
}

/// How the controller is.
#[utoipa::path(get, path = "/v1/status", tag = "administrators", security(("bearer" = [])),
    responses((status = 200, body = ControllerStatus, description = "How it is."),
        (status = 401, body = ErrorAnswer, description = "No administrator asks.")))]
pub(super) async fn status(
    Shared(served): Shared<Served>,
    _: Administrator,
) -> Result<Json<ControllerStatus>, Failure> {
    Ok(Json(served.state.status()))
}
