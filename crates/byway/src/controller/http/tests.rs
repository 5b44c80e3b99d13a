//! Requests about network state, as applications and nodes send them, without sockets.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{Method, Request, Response, StatusCode};
use byway_api::{ErrorAnswer, ErrorCode, LeaseAnswer, SamplesAnswer, StateAnswer};
use byway_units::Rate;
use futures_util::stream;
use http_body_util::BodyExt as _;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::controller::identity::Identity;
use crate::controller::network::{GrantSettings, Network, Quotas};
use crate::controller::state::NetworkSettings;
use crate::controller::state_feed::tests::{
    EDGE, ENDS, TestEdge, UNIX_SECONDS, batch, network, registration, topology,
};
use crate::controller::state_feed::{FeedRefusal, SampleStream};
use crate::controller::store::{Store, StoredState};
use crate::membership::WallClock;

/// Controller without sockets, whose clock advances only if the test sets it.
struct TestController {
    state: Arc<State>,
    feed: Arc<StateFeed>,
    router: Router,
    _folder: TempDir,
}

/// Returns the bearer secret of the application with this number, in one of its forms.
fn application(number: u8) -> String {
    format!("{number:02x}").repeat(32)
}

fn edge_bearer() -> String {
    format!("{EDGE}.secret")
}

impl TestController {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(&folder.path().join("controller.redb")).expect("a new store");
        let stored = StoredState { changes: network(), ..StoredState::default() };
        let lifetime = Duration::from_secs(172_800);
        let grants = GrantSettings { lifetime, rate: Rate::from_megabits_per_second(1) };
        let settings = NetworkSettings { grants, quotas: Quotas::default() };
        let clock = WallClock::new(|| UNIX_SECONDS * 1_000_000);
        let state = State::new(Identity::generate("lab"), store, &stored, settings, clock.clone());
        let state = Arc::new(state);
        let feed = Arc::new(StateFeed::new(topology(), state.access().clone(), clock, [7; 8]));
        let router = router(HttpState::new(state.clone(), feed.clone(), Vec::<String>::new().into()));
        Self { state, feed, router, _folder: folder }
    }

    async fn send(&self, request: Request<Body>) -> Response<Body> {
        TowerToHyperService::new(self.router.clone()).call(request).await.expect("handlers answer")
    }

    async fn get(&self, bearer: &str, path: &str) -> Response<Body> {
        self.send(request(Method::GET, bearer, path, Body::empty())).await
    }

    /// Requests the published form, and returns its text.
    async fn stats(&self, bearer: &str, path: &str) -> String {
        let response = self.get(bearer, path).await;
        assert_eq!(response.status(), StatusCode::OK, "{path}");
        text(response).await
    }

    async fn register(&self, bearer: &str, body: &Value) -> Result<LeaseAnswer, (StatusCode, ErrorCode)> {
        let request = request(Method::POST, bearer, "/v1/state/leases", Body::from(body.to_string()));
        let response = self.send(request).await;
        if response.status() == StatusCode::OK {
            Ok(serde_json::from_str(&text(response).await).expect("a lease"))
        } else {
            Err(refusal(response).await)
        }
    }

    /// Registers the flow of the test between the host and the server.
    async fn registered(&self, bearer: &str) -> LeaseAnswer {
        let body = serde_json::to_value(registration(ENDS)).expect("JSON");
        self.register(bearer, &body).await.expect("a flow of the tenant")
    }

    async fn release(&self, bearer: &str, lease: &str) -> StatusCode {
        let path = format!("/v1/state/leases/{lease}");
        self.send(request(Method::DELETE, bearer, &path, Body::empty())).await.status()
    }
}

fn request(method: Method, bearer: &str, path: &str, body: Body) -> Request<Body> {
    let request = Request::builder().method(method).uri(path);
    request.header(AUTHORIZATION, format!("Bearer {bearer}")).body(body).expect("a request")
}

async fn text(response: Response<Body>) -> String {
    let bytes = to_bytes(response.into_body(), 1 << 20).await.expect("a body");
    String::from_utf8(bytes.to_vec()).expect("text")
}

async fn refusal(response: Response<Body>) -> (StatusCode, ErrorCode) {
    let status = response.status();
    let answer: ErrorAnswer = serde_json::from_str(&text(response).await).expect("a typed answer");
    (status, answer.error)
}

const STATS: &str = "/stats/10.0.0.2/198.51.100.7";

const NOT_FOUND: (StatusCode, ErrorCode) = (StatusCode::NOT_FOUND, ErrorCode::NotFound);
const BAD_REQUEST: (StatusCode, ErrorCode) = (StatusCode::BAD_REQUEST, ErrorCode::BadRequest);

#[tokio::test(start_paused = true)]
async fn the_published_form_is_answered_byte_for_byte() {
    let controller = TestController::new();
    let lab = application(1);
    controller.registered(&lab).await;
    assert_eq!(controller.stats(&lab, &format!("{STATS}/0/40/")).await, "[]");
    let mut edge = TestEdge::new(&controller.feed);
    edge.beats(2).await;
    let link = "[0.05,31250,1500,625000.0,0.01]";
    let entries = [1, 2].map(|index| format!("[{index},2,{link},{link}]"));
    let both = format!("[{},{}]", entries[0], entries[1]);
    let response = controller.get(&lab, &format!("{STATS}/0/40/")).await;
    assert_eq!(response.headers()[CONTENT_TYPE], "application/json");
    assert_eq!(text(response).await, both);
    let newest = format!("[{}]", entries[1]);
    for (query, expected) in [
        ("1/40/", &newest),
        ("0/1/", &newest),
        ("2/40/", &"[]".to_owned()),
        ("0/0/", &"[]".to_owned()),
        // Beyond the newest one, as after a restart of the controller.
        ("3/40/", &both),
        ("18446744073709551616/40/", &both),
        ("0/18446744073709551616/", &both),
        // Without a maximum, and without the last slash.
        ("0/", &both),
        ("0", &both),
        ("1/40", &newest),
    ] {
        assert_eq!(controller.stats(&lab, &format!("{STATS}/{query}")).await, *expected, "{query}");
    }
    let back = controller.stats(&lab, "/stats/198.51.100.7/10.0.0.2/1/40/").await;
    assert_eq!(back, format!("[[2,1,{link}]]"), "the return direction has one link");
    let mapped = controller.stats(&lab, "/stats/::ffff:10.0.0.2/::ffff:198.51.100.7/1/40/").await;
    assert_eq!(mapped, newest, "mapped addresses are IPv4 addresses");
}

#[tokio::test(start_paused = true)]
async fn an_index_older_than_the_table_gets_the_table() {
    let controller = TestController::new();
    let lab = application(1);
    controller.registered(&lab).await;
    TestEdge::new(&controller.feed).beats(250).await;
    let all: Vec<Value> =
        serde_json::from_str(&controller.stats(&lab, &format!("{STATS}/1/1000/")).await).expect("an array");
    assert_eq!((all.len(), &all[0][0], &all[99][0]), (100, &json!(151), &json!(250)));
    let usual: Vec<Value> =
        serde_json::from_str(&controller.stats(&lab, &format!("{STATS}/0/")).await).expect("an array");
    assert_eq!((usual.len(), &usual[0][0]), (40, &json!(211)));
}

#[tokio::test(start_paused = true)]
async fn invalid_queries_have_typed_answers() {
    let controller = TestController::new();
    let lab = application(1);
    controller.registered(&lab).await;
    let after = "from=10.0.0.2&to=198.51.100.7&after=";
    for path in [
        "/stats//198.51.100.7/0/40/",
        "/stats/10.0.0.2/198.51.100.7/0//",
        &format!("{STATS}/-1/40/"),
        &format!("{STATS}/1.5/40/"),
        &format!("{STATS}/0/-1/"),
        &format!("{STATS}/0/x/"),
        "/stats/10.0.0.2/10.0.0.2/0/40/",
        "/stats/10.0.0.2/2001:db8::1/0/40/",
        "/stats/255.255.255.255/10.0.0.2/0/40/",
        "/stats/10.0.0.2/224.0.0.1/0/40/",
        "/stats/10.0.0.2/0.0.0.0/0/40/",
        "/stats/fe80::1%25eth0/fe80::2/0/40/",
        "/stats/10.0.0.2/server/0/40/",
        "/v1/state",
        "/v1/state?from=10.0.0.2",
        "/v1/state?from=&to=198.51.100.7",
        "/v1/state?from=10.0.0.2&to=198.51.100.7&both=perhaps",
        &format!("/v1/state?{after}-1"),
        &format!("/v1/state?{after}"),
        &format!("/v1/state?{after}0&max=-1"),
        &format!("/v1/state?{after}0&both=true&return_after=x"),
        &format!("/v1/state/stream?{after}x"),
    ] {
        assert_eq!(refusal(controller.get(&lab, path).await).await, BAD_REQUEST, "{path}");
        tokio::time::advance(Duration::from_millis(25)).await;
    }
    for path in ["/stats/10.0.0.2/198.51.100.7/", "/stats/", "/stats/a/b/1/2/3/"] {
        assert_eq!(refusal(controller.get(&lab, path).await).await, NOT_FOUND, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn paths_that_are_unknown_foreign_or_not_registered_have_the_same_answer() {
    let controller = TestController::new();
    let [lab, office, other] = [1, 2, 3].map(application);
    controller.registered(&lab).await;
    assert_eq!(controller.stats(&lab, &format!("{STATS}/0/40/")).await, "[]");
    let mut answers = BTreeSet::new();
    for (bearer, path) in [
        // Of another tenant, and of another application of the tenant.
        (&office, format!("{STATS}/0/40/")),
        (&other, format!("{STATS}/0/40/")),
        (&office, "/v1/state?from=10.0.0.2&to=198.51.100.7&both=true".to_owned()),
        (&office, "/v1/state/stream?from=10.0.0.2&to=198.51.100.7".to_owned()),
        // Not registered, without a path, of nobody.
        (&lab, "/stats/10.0.0.3/198.51.100.7/0/40/".to_owned()),
        (&lab, "/stats/10.0.0.2/203.0.113.1/0/40/".to_owned()),
        (&lab, "/stats/2001:db8::1/2001:db8::2/0/40/".to_owned()),
    ] {
        let response = controller.get(bearer, &path).await;
        assert_eq!(response.status(), StatusCode::NOT_FOUND, "{path}");
        answers.insert(text(response).await);
    }
    assert_eq!(answers.len(), 1, "{answers:?}");
}

#[tokio::test(start_paused = true)]
async fn only_applications_read_and_only_with_a_valid_token() {
    let controller = TestController::new();
    controller.registered(&application(1)).await;
    let unauthorized = (StatusCode::UNAUTHORIZED, ErrorCode::NotAnApplication);
    for bearer in ["", "x", &"00".repeat(32), &edge_bearer(), "8.secret"] {
        for path in ["/v1/state?x", "/v1/state/stream", &format!("{STATS}/0/40/")] {
            assert_eq!(refusal(controller.get(bearer, path).await).await, unauthorized, "{bearer} {path}");
        }
        let registered = controller.register(bearer, &json!(0)).await;
        assert_eq!(registered, Err(unauthorized), "who asks is looked at first");
    }
    let lab = application(1);
    assert_eq!(controller.stats(&lab, &format!("{STATS}/0/40/")).await, "[]");
    let revoke = |network: &Network, _: u64| network.revoke_token(1);
    controller.state.change(revoke).await.expect("there is one");
    assert_eq!(refusal(controller.get(&lab, &format!("{STATS}/0/40/")).await).await, unauthorized);
}

#[tokio::test(start_paused = true)]
async fn an_application_reads_forty_times_a_second() {
    let controller = TestController::new();
    let [lab, other] = [1, 3].map(application);
    controller.registered(&lab).await;
    controller.registered(&other).await;
    let path = format!("{STATS}/0/40/");
    for _ in 0..40 {
        assert_eq!(controller.get(&lab, &path).await.status(), StatusCode::OK);
    }
    let refused = controller.get(&lab, &path).await;
    assert_eq!(refused.headers()[RETRY_AFTER], "1");
    assert_eq!(refusal(refused).await, (StatusCode::TOO_MANY_REQUESTS, ErrorCode::TooManyRequests));
    assert_eq!(controller.get(&other, &path).await.status(), StatusCode::OK, "others are counted apart");
    tokio::time::advance(Duration::from_millis(25)).await;
    let statuses = [controller.get(&lab, &path).await.status(), controller.get(&lab, &path).await.status()];
    assert_eq!(statuses, [StatusCode::OK, StatusCode::TOO_MANY_REQUESTS]);
}

fn flows(tuples: &[[&str; 3]]) -> Value {
    let tuples: Vec<Value> = tuples
        .iter()
        .map(|[from, to, protocol]| json!({"from": from, "to": to, "protocol": protocol}))
        .collect();
    json!({"application": "viewer", "tuples": tuples})
}

#[tokio::test(start_paused = true)]
async fn invalid_registrations_have_typed_answers() {
    let controller = TestController::new();
    let lab = application(1);
    let good = ["10.0.0.2:4433", "198.51.100.7:50112", "udp"];
    let many: Vec<String> = (1..=65).map(|port| format!("198.51.100.7:{port}")).collect();
    let many: Vec<[&str; 3]> = many.iter().map(|to| [good[0], to, "udp"]).collect();
    for (body, expected) in [
        (flows(&[["10.0.0.2:0", good[1], "udp"]]), BAD_REQUEST),
        (flows(&[[good[0], "198.51.100.7:0", "udp"]]), BAD_REQUEST),
        (flows(&[[good[0], "198.51.100.7:65536", "udp"]]), BAD_REQUEST),
        (flows(&[[good[0], good[1], "sctp"]]), BAD_REQUEST),
        (flows(&[[good[0], good[1], "17"]]), BAD_REQUEST),
        (flows(&[[good[0], "198.51.100.7", "udp"]]), BAD_REQUEST),
        (flows(&[[good[0], "10.0.0.2:1", "udp"]]), BAD_REQUEST),
        (flows(&[[good[0], "[2001:db8::1]:1", "udp"]]), BAD_REQUEST),
        (flows(&[["[fe80::1%2]:1", "[fe80::2]:1", "udp"]]), BAD_REQUEST),
        (flows(&[[good[0], "255.255.255.255:1", "udp"]]), BAD_REQUEST),
        (flows(&[good, good]), BAD_REQUEST),
        (flows(&[good, ["[::ffff:10.0.0.2]:4433", good[1], "udp"]]), BAD_REQUEST),
        (flows(&[]), BAD_REQUEST),
        (flows(&many), BAD_REQUEST),
        (
            json!({"application": "a b", "tuples": [{"from": good[0], "to": good[1], "protocol": "udp"}]}),
            BAD_REQUEST,
        ),
        (json!({"tuples": []}), BAD_REQUEST),
        (json!(0), BAD_REQUEST),
        // Of another tenant, of nobody, and without a path.
        (flows(&[["10.0.1.2:4433", good[1], "udp"]]), NOT_FOUND),
        (flows(&[["203.0.113.1:1", "203.0.113.2:1", "udp"]]), NOT_FOUND),
        (flows(&[[good[0], "203.0.113.1:1", "udp"]]), NOT_FOUND),
        (flows(&[good, [good[0], "203.0.113.1:1", "udp"]]), NOT_FOUND),
    ] {
        assert_eq!(controller.register(&lab, &body).await, Err(expected), "{body}");
    }
    let statuses = controller.get(&lab, &format!("{STATS}/0/40/")).await.status();
    assert_eq!(statuses, StatusCode::NOT_FOUND, "nothing was registered");
    assert!(controller.register(&lab, &flows(&many[1..])).await.is_ok(), "64 flows are one lease");
    let long = json!({"application": "x".repeat(70_000), "tuples": []});
    let too_large = (StatusCode::PAYLOAD_TOO_LARGE, ErrorCode::TooLarge);
    assert_eq!(controller.register(&lab, &long).await, Err(too_large));
}

#[tokio::test(start_paused = true)]
async fn registrations_of_one_tenant_end_at_its_quota() {
    let controller = TestController::new();
    let [lab, office] = [1, 2].map(application);
    let lease = |host: u32| {
        let tuples: Vec<[String; 3]> = (1..=64)
            .map(|port| [format!("10.0.0.{host}:{port}"), "198.51.100.7:1".to_owned(), "tcp".to_owned()])
            .collect();
        let tuples: Vec<[&str; 3]> =
            tuples.iter().map(|[from, to, protocol]| [from.as_str(), to, protocol]).collect();
        flows(&tuples)
    };
    for host in 1..=64 {
        assert!(controller.register(&lab, &lease(host)).await.is_ok(), "{host}");
    }
    let full = (StatusCode::CONFLICT, ErrorCode::QuotaReached);
    assert_eq!(controller.register(&lab, &lease(65)).await, Err(full));
    let of_office = flows(&[["10.0.1.2:4433", "198.51.100.7:50112", "udp"]]);
    assert!(controller.register(&office, &of_office).await.is_ok(), "others have theirs");
    for _ in 0..200 {
        if controller.register(&lab, &lease(65)).await != Err(full) {
            break;
        }
    }
    let too_many = (StatusCode::TOO_MANY_REQUESTS, ErrorCode::TooManyRequests);
    assert_eq!(controller.register(&lab, &lease(65)).await, Err(too_many), "refused ones count, too");
}

#[tokio::test(start_paused = true)]
async fn a_lease_ends_after_a_minute_without_a_read_or_by_its_owner() {
    let controller = TestController::new();
    let [lab, other] = [1, 3].map(application);
    let first = controller.registered(&lab).await;
    assert_eq!((first.lease.len(), first.expires_in_s), (32, 60));
    let path = format!("{STATS}/0/40/");
    for _ in 0..3 {
        tokio::time::advance(Duration::from_secs(59)).await;
        assert_eq!(controller.get(&lab, &path).await.status(), StatusCode::OK, "reads renew it");
    }
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(refusal(controller.get(&lab, &path).await).await, NOT_FOUND);
    assert_eq!(controller.release(&lab, &first.lease).await, StatusCode::NOT_FOUND);
    let second = controller.registered(&lab).await;
    assert_ne!(second.lease, first.lease);
    for lease in [second.lease.as_str(), "", "x", &"0".repeat(32), &first.lease] {
        assert_eq!(controller.release(&other, lease).await, StatusCode::NOT_FOUND, "{lease}");
    }
    assert_eq!(controller.get(&lab, &path).await.status(), StatusCode::OK);
    assert_eq!(controller.release(&lab, &second.lease).await, StatusCode::NO_CONTENT);
    assert_eq!(controller.release(&lab, &second.lease).await, StatusCode::NOT_FOUND);
    assert_eq!(refusal(controller.get(&lab, &path).await).await, NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn the_named_form_has_both_directions_at_once() {
    let controller = TestController::new();
    let lab = application(1);
    controller.registered(&lab).await;
    TestEdge::new(&controller.feed).beats(3).await;
    tokio::time::advance(Duration::from_millis(7)).await;
    let query = "/v1/state?from=10.0.0.2&to=198.51.100.7&after=2&both=true&return_after=1";
    let answer: Value = serde_json::from_str(&text(controller.get(&lab, query).await).await).expect("JSON");
    let link = |name: &str, age_us: u64| {
        json!({"link": name, "interval_us": 50_000, "age_us": age_us, "sent_bytes": 31_250, "backlog_bytes": 1_500,
            "shown_bits_per_second": 5_000_000, "guaranteed_bits_per_second": 2_500_000, "delay_us": 10_000,
            "target_bytes": 1_500, "flows": [1, 0]})
    };
    let expected = json!({"epoch": "0707070707070707", "paths": [
        {"from": "10.0.0.2", "to": "198.51.100.7", "entries": [
            {"index": 3, "links": [link("core-1", 7_000), link("core-2", 7_000)]}]},
        {"from": "198.51.100.7", "to": "10.0.0.2", "entries": [
            {"index": 2, "links": [link("back-1", 57_000)]}, {"index": 3, "links": [link("back-1", 7_000)]}]},
    ]});
    assert_eq!(answer, expected);
}

/// Returns the next frame of a stream as text.
async fn frame(body: &mut Body) -> Option<String> {
    let frame = body.frame().await?.expect("the stream goes on");
    let bytes = frame.into_data().expect("streams have no trailers");
    Some(String::from_utf8(bytes.to_vec()).expect("text"))
}

/// Returns identifier and data of an event.
fn event(text: &str) -> (String, StateAnswer) {
    let text = text.strip_suffix("\n\n").expect("an empty line ends an event");
    let (id, data) = text.split_once('\n').expect("two fields");
    let data = data.strip_prefix("data: ").expect("the data follows");
    let id = id.strip_prefix("id: ").expect("the identifier is first");
    (id.to_owned(), serde_json::from_str(data).expect("an answer"))
}

#[tokio::test(start_paused = true)]
async fn events_go_on_after_the_last_one_of_a_reader() {
    let controller = TestController::new();
    let lab = application(1);
    let lease = controller.registered(&lab).await;
    let mut edge = TestEdge::new(&controller.feed);
    edge.beats(3).await;
    let path = "/v1/state/stream?from=10.0.0.2&to=198.51.100.7&after=1";
    let response = controller.get(&lab, path).await;
    assert_eq!(response.headers()[CONTENT_TYPE], "text/event-stream");
    let mut body = response.into_body();
    for expected in ["2", "3"] {
        let (id, answer) = event(&frame(&mut body).await.expect("history"));
        assert_eq!((id.as_str(), answer.paths.len()), (expected, 1));
    }
    let mut resumed = request(Method::GET, &lab, path, Body::empty());
    resumed.headers_mut().insert("last-event-id", "2".parse().expect("a value"));
    let mut body = controller.send(resumed).await.into_body();
    assert_eq!(event(&frame(&mut body).await.expect("history")).0, "3", "the header precedes the query");
    edge.beats(1).await;
    assert_eq!(event(&frame(&mut body).await.expect("an event")).0, "4");
    assert_eq!(controller.release(&lab, &lease.lease).await, StatusCode::NO_CONTENT);
    edge.beats(1).await;
    assert_eq!(frame(&mut body).await, None, "the stream ends with the lease");
    let mut wrong = request(Method::GET, &lab, path, Body::empty());
    wrong.headers_mut().insert("last-event-id", "two".parse().expect("a value"));
    assert_eq!(refusal(controller.send(wrong).await).await, BAD_REQUEST);
}

#[tokio::test(start_paused = true)]
async fn a_stream_without_events_has_a_comment_each_15_seconds() {
    let controller = TestController::new();
    let lab = application(1);
    controller.registered(&lab).await;
    let path = "/v1/state/stream?from=10.0.0.2&to=198.51.100.7&both=true";
    let mut body = controller.get(&lab, path).await.into_body();
    let begun = Instant::now();
    for number in 1..=2 {
        assert_eq!(frame(&mut body).await.as_deref(), Some(":\n\n"));
        assert_eq!(begun.elapsed().as_secs(), 15 * number);
    }
    let mut edge = TestEdge::new(&controller.feed);
    edge.beats(1).await;
    assert_eq!(event(&frame(&mut body).await.expect("an event")).0, "1-1");
}

/// Returns the answer to a stream of samples with these lines.
async fn report(controller: &TestController, bearer: &str, lines: &[String]) -> Response<Body> {
    let chunks: Vec<_> = lines.iter().map(|line| Ok::<_, Infallible>(line.clone() + "\n")).collect();
    let body = Body::from_stream(stream::iter(chunks));
    controller.send(request(Method::POST, bearer, "/v1/samples", body)).await
}

fn record(number: u64, links: &[&str]) -> String {
    serde_json::to_string(&batch(number, links)).expect("JSON")
}

#[tokio::test(start_paused = true)]
async fn a_node_reports_samples_until_it_ends_the_stream() {
    let controller = TestController::new();
    let mut bad = batch(3, &["core-1"]);
    bad.links[0].delay_us = 60_000_000;
    let lines = [
        record(1, &["core-1", "core-2"]),
        record(2, &["core-1"]),
        serde_json::to_string(&bad).expect("JSON"),
        record(3, &["core-1"]),
    ];
    let response = report(&controller, &edge_bearer(), &lines).await;
    assert_eq!(response.status(), StatusCode::OK);
    let answer: SamplesAnswer = serde_json::from_str(&text(response).await).expect("an answer");
    assert_eq!((answer.accepted, answer.refused), (4, 1));
    let reason = answer.last_refusal.expect("one was refused");
    assert!(reason.contains("core-1") && reason.contains("delay"), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_begins_a_stream_again_has_no_new_burst() {
    let controller = TestController::new();
    let lines: Vec<String> = (1..=60).map(|number| record(number, &["core-1"])).collect();
    assert_eq!(report(&controller, &edge_bearer(), &lines).await.status(), StatusCode::OK);
    let too_many = (StatusCode::TOO_MANY_REQUESTS, ErrorCode::TooManyRequests);
    assert_eq!(refusal(report(&controller, &edge_bearer(), &lines).await).await, too_many);
}

#[tokio::test(start_paused = true)]
async fn streams_of_samples_end_with_typed_answers() {
    let controller = TestController::new();
    let good = record(1, &["core-1"]);
    for text in ["NaN", "Infinity", "-1", "1.5", "1e30", "null", "\"1\""] {
        let bad = good.replace("\"sent_bytes\":31250", &format!("\"sent_bytes\":{text}"));
        assert_ne!(bad, good);
        let response = report(&controller, &edge_bearer(), &[good.clone(), bad]).await;
        assert_eq!(refusal(response).await, BAD_REQUEST, "{text}");
    }
    for (lines, expected) in [
        (vec!["{".to_owned()], BAD_REQUEST),
        (vec![record(1, &[])], BAD_REQUEST),
        (vec![record(1, &["core-1"; 65])], BAD_REQUEST),
        (vec![record(1, &["core-9"])], NOT_FOUND),
        (vec!["x".repeat(40_000)], (StatusCode::PAYLOAD_TOO_LARGE, ErrorCode::TooLarge)),
        (
            (1..=101).map(|number| record(number, &["core-1"])).collect(),
            (StatusCode::TOO_MANY_REQUESTS, ErrorCode::TooManyRequests),
        ),
    ] {
        let response = report(&controller, &edge_bearer(), &lines).await;
        assert_eq!(refusal(response).await, expected, "{:.80}", lines[0]);
    }
    let wrong_role = (StatusCode::FORBIDDEN, ErrorCode::WrongRole);
    assert_eq!(refusal(report(&controller, "8.secret", std::slice::from_ref(&good)).await).await, wrong_role);
    let no_member = (StatusCode::UNAUTHORIZED, ErrorCode::NotAMember);
    for bearer in [application(1).as_str(), "", "7.wrong"] {
        assert_eq!(
            refusal(report(&controller, bearer, std::slice::from_ref(&good)).await).await,
            no_member,
            "{bearer}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_reports_reads_registered_flows_and_others_do_not() {
    let controller = TestController::new();
    controller.registered(&application(1)).await;
    let path = "/v1/samples/flows";
    let response = controller.get(&edge_bearer(), path).await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()[CONTENT_TYPE], "application/x-ndjson");
    let mut body = response.into_body();
    let line = frame(&mut body).await.expect("a line");
    let expected = json!({"flows": [
        {"from": "10.0.0.2:4433", "to": "198.51.100.7:4433", "protocol": "udp", "lease_s": 60},
        {"from": "198.51.100.7:4433", "to": "10.0.0.2:4433", "protocol": "udp", "lease_s": 60}]});
    assert_eq!(serde_json::from_str::<Value>(&line).expect("JSON"), expected);
    for (bearer, expected) in [
        ("8.secret", (StatusCode::FORBIDDEN, ErrorCode::WrongRole)),
        (application(1).as_str(), (StatusCode::UNAUTHORIZED, ErrorCode::NotAMember)),
    ] {
        assert_eq!(refusal(controller.get(bearer, path).await).await, expected, "{bearer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_newer_stream_of_a_node_and_its_removal_end_the_one_before() {
    let controller = TestController::new();
    let mut before = TestEdge::new(&controller.feed);
    before.beats(1).await;
    let [mut first, mut second] = [(); 2].map(|()| {
        let reporter = controller.state.access().reporter(EDGE).expect("it is a link");
        SampleStream::begin(&controller.feed, reporter)
    });
    let now = controller.feed.now();
    let displaced = Err(FeedRefusal::Displaced);
    assert_eq!(first.on_batch(&batch(9, &["core-1"]), now), displaced);
    assert_eq!(second.on_batch(&batch(9, &["core-1"]), now), Ok(()));
    let remove = |network: &Network, _: u64| network.remove(EDGE);
    controller.state.change(remove).await.expect("it is a member");
    assert_eq!(second.on_batch(&batch(10, &["core-1"]), now), displaced);
}
