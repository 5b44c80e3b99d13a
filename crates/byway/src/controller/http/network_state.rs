//! HTTP requests of applications about network state.

use std::convert::Infallible;
use std::net::IpAddr;

use axum::Json;
use axum::extract::State as Shared;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use byway_api::{ErrorAnswer, FlowRegistration, LeaseAnswer, StateAnswer, StateQuery};
use byway_state::StateQuery as TableQuery;
use futures_util::stream::unfold;

use super::extract::{
    Body, CallingApplication, PathParams, QueryParams, ReadingApplication, RegisteringApplication,
};
use super::{Failure, HttpState};
use crate::controller::access::Application;
use crate::controller::state_feed::{FeedRefusal, LeaseId, Subscription, queries_after};
use crate::membership::random;

/// Header by which a reader of events resumes (HTML, section 9.2).
const LAST_EVENT_ID: &str = "last-event-id";

/// Registers flows. They are interactive, and the state of their paths is readable, for 60 s.
///
/// Each read of their paths renews the registration.
#[utoipa::path(post, path = "/v1/state/leases", tag = "applications", request_body = FlowRegistration,
    security(("bearer" = [])),
    responses((status = 200, body = LeaseAnswer, description = "The flows are registered."),
        (status = "4XX", body = ErrorAnswer, description = "The flows were refused.")))]
pub(super) async fn register(
    Shared(served): Shared<HttpState>,
    RegisteringApplication(application): RegisteringApplication,
    Body(registration): Body<FlowRegistration>,
) -> Result<Json<LeaseAnswer>, Failure> {
    let id = LeaseId(random::bytes());
    Ok(Json(served.feed.register(&application, &registration, id, served.feed.now())?))
}

/// Ends the registration of the flows of a lease.
#[utoipa::path(delete, path = "/v1/state/leases/{lease}", tag = "applications", security(("bearer" = [])),
    params(("lease" = String, Path, description = "The lease's identifier.")),
    responses((status = 204, description = "The flows are not registered any more."),
        (status = "4XX", body = ErrorAnswer, description = "Not found, or the token is not valid.")))]
pub(super) async fn release(
    Shared(served): Shared<HttpState>,
    CallingApplication(application): CallingApplication,
    PathParams(lease): PathParams<String>,
) -> Result<StatusCode, Failure> {
    served.feed.release(&application, &lease, served.feed.now())?;
    Ok(StatusCode::NO_CONTENT)
}

/// Returns the state of the path from one address to another in its published form.
///
/// The answer is `[[i, L, [interval, b, q, R, d], ...], ...]`: the newest entries after an index,
/// the oldest one first. Intervals and delays are in seconds, rates in bytes per second.
#[utoipa::path(get, path = "/stats/{my_ip}/{peer_ip}/{last_index}/{entries_max}/", tag = "applications",
    security(("bearer" = [])),
    params(("my_ip" = String, Path, description = "Address of the endpoint that sends."),
        ("peer_ip" = String, Path, description = "Address of the endpoint that receives."),
        ("last_index" = u64, Path, description = "Index of the last entry that the reader has; 0: none."),
        ("entries_max" = u64, Path, description = "Maximum number of entries.")),
    responses((status = 200, body = String, content_type = "application/json", description = "The entries."),
        (status = "4XX", body = ErrorAnswer, description = "Not found, an invalid query, or too many.")))]
pub(super) async fn published(
    Shared(served): Shared<HttpState>,
    ReadingApplication(application): ReadingApplication,
    PathParams((my_ip, peer_ip, last_index, entries_max)): PathParams<(IpAddr, IpAddr, String, String)>,
) -> Result<Response, Failure> {
    published_answer(&served, &application, (my_ip, peer_ip), (&last_index, Some(&entries_max)))
}

/// Answers a query in the published form that names no maximum of entries.
pub(super) async fn published_history(
    Shared(served): Shared<HttpState>,
    ReadingApplication(application): ReadingApplication,
    PathParams((my_ip, peer_ip, last_index)): PathParams<(IpAddr, IpAddr, String)>,
) -> Result<Response, Failure> {
    published_answer(&served, &application, (my_ip, peer_ip), (&last_index, None))
}

fn published_answer(
    served: &HttpState,
    application: &Application,
    ends: (IpAddr, IpAddr),
    (last_index, entries_max): (&str, Option<&str>),
) -> Result<Response, Failure> {
    let query = TableQuery::parse(last_index, entries_max).map_err(FeedRefusal::from)?;
    let text = served.feed.published(application, ends, query, served.feed.now())?;
    Ok(([(CONTENT_TYPE, "application/json")], text).into_response())
}

/// Returns the state of a path, in one direction or in both, with names and ages.
#[utoipa::path(get, path = "/v1/state", tag = "applications", params(StateQuery), security(("bearer" = [])),
    responses((status = 200, body = StateAnswer, description = "The entries."),
        (status = "4XX", body = ErrorAnswer, description = "Not found, an invalid query, or too many.")))]
pub(super) async fn state(
    Shared(served): Shared<HttpState>,
    ReadingApplication(application): ReadingApplication,
    QueryParams(query): QueryParams<StateQuery>,
) -> Result<Json<StateAnswer>, Failure> {
    let (there, back) = table_queries(&query)?;
    let back = query.both.then_some(back);
    Ok(Json(served.feed.named(&application, (query.from, query.to), there, back, served.feed.now())?))
}

/// Sends the state of a path as server-sent events, one at each beat of 50 ms.
///
/// The identifier of an event is the index of its entry; with the return direction, both indices,
/// as in `813-640`. The header `Last-Event-ID` resumes. The stream ends with the registration.
#[utoipa::path(get, path = "/v1/state/stream", tag = "applications", params(StateQuery),
    security(("bearer" = [])),
    responses((status = 200, body = StateAnswer, content_type = "text/event-stream",
            description = "Events whose data is such an answer, with one entry of each direction."),
        (status = "4XX", body = ErrorAnswer, description = "Not found, an invalid query, or too many.")))]
pub(super) async fn stream(
    Shared(served): Shared<HttpState>,
    ReadingApplication(application): ReadingApplication,
    QueryParams(query): QueryParams<StateQuery>,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let (there, back) = match headers.get(LAST_EVENT_ID) {
        Some(last_event) => {
            let last_event = last_event.to_str().unwrap_or_default();
            queries_after(last_event, query.max.as_deref()).map_err(FeedRefusal::from)?
        }
        None => table_queries(&query)?,
    };
    let (ends, queries) = ((query.from, query.to), (there, query.both.then_some(back)));
    let now = served.feed.now();
    let begun = Subscription::begin(&served.feed, application, ends, queries, now)?;
    let events = unfold(begun, |mut subscription| async move {
        let event = subscription.next().await?;
        let event = Event::default().id(event.id).data(event.data);
        Some((Ok::<_, Infallible>(event), subscription))
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::default()).into_response())
}

/// Returns the queries of the tables of both directions.
fn table_queries(query: &StateQuery) -> Result<(TableQuery, TableQuery), FeedRefusal> {
    let max = query.max.as_deref();
    let there = TableQuery::parse(query.after.as_deref().unwrap_or("0"), max)?;
    let back = TableQuery::parse(query.return_after.as_deref().unwrap_or("0"), max)?;
    Ok((there, back))
}
