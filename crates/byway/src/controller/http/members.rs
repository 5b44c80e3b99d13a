//! HTTP requests of members, and requests without authentication.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Json;
use axum::extract::{ConnectInfo, State as Shared};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use byway_api::{
    ErrorAnswer, Health, JoinAnswer, JoinRequest, MapQuery, NetworkAnswer, PairingAnswer, PairingRequest,
    SelfUpdate, SignedMap,
};
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use tokio::time::{Instant, timeout_at};
use zeroize::Zeroizing;

use super::extract::{Body, ChangingMember, Member, QueryParams};
use super::{Failure, HttpState};
use crate::controller::limits::POLL_TIMEOUT;
use crate::controller::network::{Digest, Refusal, VerifiedNode};
use crate::membership::random;

/// Reports whether the controller can store changes.
#[utoipa::path(get, path = "/v1/health", tag = "anybody",
    responses((status = 200, body = Health, description = "The controller is running.")))]
pub(super) async fn health(Shared(served): Shared<HttpState>) -> Json<Health> {
    Json(Health { healthy: served.state.storage_problem().is_none() })
}

/// Returns the network's name, and the key that is needed to join.
#[utoipa::path(get, path = "/v1/network", tag = "anybody",
    responses((status = 200, body = NetworkAnswer, description = "The network.")))]
pub(super) async fn network(Shared(served): Shared<HttpState>) -> Json<NetworkAnswer> {
    let identity = served.state.identity();
    Json(NetworkAnswer {
        network: identity.network().to_owned(),
        join_key: HEXLOWER.encode(&identity.join_key()),
        unix_seconds: served.state.unix_seconds(),
    })
}

/// Joins the network.
///
/// A node that joins again with the same key has the same number, and gets a new bearer secret.
#[utoipa::path(post, path = "/v1/join", tag = "anybody", request_body = JoinRequest,
    responses((status = 200, body = JoinAnswer, description = "The node is a member."),
        (status = "4XX", body = ErrorAnswer, description = "The node was refused."),
        (status = 503, body = ErrorAnswer, description = "The controller cannot write to its disk.")))]
pub(super) async fn join(
    Shared(served): Shared<HttpState>,
    from: ConnectInfo<SocketAddr>,
    Body(request): Body<JoinRequest>,
) -> Result<Json<JoinAnswer>, Failure> {
    served.check_joins(from)?;
    let key = Digest::try_from(request.key.clone()).map_err(|_| Refusal::BadKey)?;
    let identity = served.state.identity();
    if !identity.proves(&key.0, &request.proved(), &request.proof) {
        return Err(Refusal::ProofWrong.into());
    }
    let secret = Zeroizing::new(HEXLOWER.encode(&random::bytes::<32>()));
    let bearer = Digest::of(secret.as_bytes());
    let joined = served.state.change(move |network, now| {
        let token = token_secret(&request)?;
        network.join(VerifiedNode { request: &request, token: token.as_ref(), key }, bearer, now)
    });
    let node = joined.await?;
    tracing::info!("{} \"{}\" joined as node {}", node.role, node.name, node.number);
    Ok(Json(JoinAnswer {
        number: node.number,
        tenant: served.state.read(|network| network.tenant_of(&node).map(str::to_owned)),
        bearer: format!("{}.{}", node.number, *secret),
        verifying_key: identity.signing_key().verifying_key().to_string(),
        network: identity.network().to_owned(),
        unix_seconds: served.state.unix_seconds(),
    }))
}

fn token_secret(request: &JoinRequest) -> Result<Zeroizing<Vec<u8>>, Refusal> {
    let secret = HEXLOWER_PERMISSIVE.decode(request.token.as_bytes());
    secret.map(Zeroizing::new).map_err(|_| Refusal::TokenUnknown { role: request.role })
}

/// Returns the member's map once it differs from the member's revision.
///
/// The answer is empty if it does not differ within 25 s.
#[utoipa::path(get, path = "/v1/map", tag = "members", params(MapQuery), security(("bearer" = [])),
    responses((status = 200, body = SignedMap, description = "The map."),
        (status = 204, description = "The map has not changed."),
        (status = "4XX", body = ErrorAnswer, description = "The member's secret is missing or wrong, \
                                                            or it polls too often.")))]
pub(super) async fn map(
    Shared(served): Shared<HttpState>,
    Member(number): Member,
    QueryParams(query): QueryParams<MapQuery>,
) -> Result<Response, Failure> {
    let Some(signed) = next_map(&served, number, query.after).await? else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    Ok(Json(signed.as_ref()).into_response())
}

async fn next_map(
    served: &HttpState,
    number: u32,
    after: Option<u64>,
) -> Result<Option<Arc<SignedMap>>, Refusal> {
    let until = Instant::now() + POLL_TIMEOUT;
    let mut changes = served.state.changes();
    let _poll = served.state.begin_poll(number)?;
    loop {
        changes.mark_unchanged();
        let current = served.state.map(number)?;
        if after != Some(current.revision) {
            return Ok(Some(current.signed));
        }
        if Instant::now() >= until {
            return Ok(None);
        }
        // A change and the timeout have the same consequence, because grants may have been renewed
        // too.
        let _ = timeout_at(until, changes.changed()).await;
    }
}

/// Updates a member's addresses, round trips to relays, and preferred relay.
#[utoipa::path(put, path = "/v1/self", tag = "members", request_body = SelfUpdate, security(("bearer" = [])),
    responses((status = 204, description = "The update is stored."),
        (status = "4XX", body = ErrorAnswer, description = "The update is invalid, or the member's \
                                                            secret is missing or wrong."),
        (status = 503, body = ErrorAnswer, description = "The controller cannot write to its disk.")))]
pub(super) async fn update_self(
    Shared(served): Shared<HttpState>,
    ChangingMember(number): ChangingMember,
    Body(update): Body<SelfUpdate>,
) -> Result<StatusCode, Failure> {
    if let Some(usage) = &update.usage {
        served.state.report_usage(number, usage);
    }
    served.state.change(move |network, _| network.update(number, &update)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Ends the membership of a member.
#[utoipa::path(delete, path = "/v1/self", tag = "members", security(("bearer" = [])),
    responses((status = 204, description = "The membership has ended."),
        (status = "4XX", body = ErrorAnswer, description = "The member's secret is missing or wrong."),
        (status = 503, body = ErrorAnswer, description = "The controller cannot write to its disk.")))]
pub(super) async fn leave(
    Shared(served): Shared<HttpState>,
    ChangingMember(number): ChangingMember,
) -> Result<StatusCode, Failure> {
    served.state.change(move |network, _| network.remove(number)).await?;
    tracing::info!("node {number} left");
    Ok(StatusCode::NO_CONTENT)
}

/// Pairs an agent with another one of its tenant, in both directions. Existing pairs stay.
#[utoipa::path(post, path = "/v1/pairings", tag = "members", request_body = PairingRequest,
    security(("bearer" = [])),
    responses((status = 200, body = PairingAnswer, description = "The agents are paired."),
        (status = "4XX", body = ErrorAnswer, description = "The pair was refused."),
        (status = 503, body = ErrorAnswer, description = "The controller cannot write to its disk.")))]
pub(super) async fn pair(
    Shared(served): Shared<HttpState>,
    ChangingMember(number): ChangingMember,
    Body(request): Body<PairingRequest>,
) -> Result<Json<PairingAnswer>, Failure> {
    let pair = served.state.change(move |network, _| network.pair_with(number, &request.peer)).await?;
    Ok(Json(PairingAnswer { agents: pair.agents() }))
}
