//! Attacks on the controller by strangers, and by members that send false data. None has an effect.

use std::cell::RefCell;

use byway_api::{ErrorCode, Health, SelfUpdate};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value, json};
use zeroize::Zeroizing;

use super::*;

const PATHS: [&str; 5] = ["/v1/join", "/v1/self", "/v1/pairings", "/v1/tokens", "/v1/admin/pairs"];

fn code(error: &MembershipError) -> Option<ErrorCode> {
    match error {
        MembershipError::Refused { code, .. } => Some(*code),
        MembershipError::TooManyRequests { .. } => Some(ErrorCode::TooManyRequests),
        _ => None,
    }
}

impl TestNetwork {
    /// Creates a client with the administrator's secret, or another one.
    fn client(&self, bearer: Option<&str>) -> Client {
        let token =
            files::read(&self.state("controller").join("admin.token")).expect("a text").expect("a file");
        let token: Token = token.parse().expect("a token");
        let own = bearer.map_or_else(|| token.secret_text(), |bearer| Zeroizing::new(bearer.to_owned()));
        Client::new(token.addresses().to_vec(), *token.pin()).with_bearer(own)
    }
}

#[tokio::test]
async fn strangers_are_told_nothing() {
    let world = TestNetwork::new().await;
    let alice = world.node(Role::Agent, "alice").await;
    for bearer in ["", "1.00", "wrong", &format!("{}.{}", alice.number(), "0".repeat(64))] {
        let mut stranger = world.client(Some(bearer));
        for path in ["/v1/map", "/v1/map?after=1"] {
            let error = stranger.get::<Value>(path).await.expect_err("no member");
            assert!(matches!(error, MembershipError::Removed(_)), "{path}: {error}");
        }
        for path in ["/v1/tokens", "/v1/nodes", "/v1/status"] {
            let error = stranger.get::<Value>(path).await.expect_err("no administrator");
            assert_eq!(code(&error), Some(ErrorCode::NotAdministrator), "{path}");
        }
        for path in ["/v1/tokens/1", "/v1/nodes/1"] {
            let error = stranger.delete(path).await.expect_err("no administrator");
            assert_eq!(code(&error), Some(ErrorCode::NotAdministrator), "{path}");
        }
        assert!(stranger.delete("/v1/self").await.is_err());
        assert!(stranger.put("/v1/self", &SelfUpdate::default()).await.is_err());
        assert!(stranger.post::<Value>("/v1/admin/pairs", &json!({"agents": ["a/b", "c/d"]})).await.is_err());
        assert!(stranger.post::<Value>("/v1/tokens", &json!({"role": "agent"})).await.is_err());
        let health: Health = stranger.get("/v1/health").await.expect("anybody may ask");
        assert!(health.healthy);
    }
    assert_eq!(world.administration().nodes().await.expect("an administrator asks").nodes.len(), 1);
}

#[tokio::test]
async fn what_is_not_there_and_what_is_too_long_is_said() {
    let world = TestNetwork::new().await;
    let mut client = world.client(None);
    for path in ["/", "/v1", "/v1/join", "/v1/nodes/x/y"] {
        let error = client.get::<Value>(path).await.expect_err("nothing is there");
        assert_eq!(code(&error), Some(ErrorCode::NotFound), "{path}");
    }
    for path in ["/v1/nodes/x", "/v1/tokens/-1", "/v1/nodes/99999999999"] {
        let error = client.delete(path).await.expect_err("no number");
        assert_eq!(code(&error), Some(ErrorCode::BadRequest), "{path}");
    }
    let long = json!({ "peer": "x".repeat(70_000) });
    let error = client.post::<Value>("/v1/tokens", &long).await.expect_err("too long");
    assert_eq!(code(&error), Some(ErrorCode::TooLarge));
    let error = client.post::<Value>("/v1/pairings", &json!(0)).await.expect_err("no member");
    assert!(matches!(error, MembershipError::Removed(_)), "who asks is looked at first: {error}");
    let document: Value = client.get("/openapi.json").await.expect("anybody may read it");
    assert_eq!(document["info"]["title"], "Byway controller");
}

#[tokio::test]
async fn a_member_waits_for_news_twice_at_most() {
    let world = TestNetwork::new().await;
    let alice = world.node(Role::Agent, "alice").await;
    contact(&alice, |contact| *contact == ControllerContact::Answers).await;
    let membership =
        files::read(&world.state("alice").join("membership.json")).expect("a text").expect("a file");
    let membership: Value = serde_json::from_str(&membership).expect("JSON");
    let bearer = membership["bearer"].as_str().expect("a text");
    let path = format!("/v1/map?after={}", alice.maps().borrow().revision);
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..3 {
        let (mut client, path) = (world.client(Some(bearer)), path.clone());
        waiting.spawn(async move { client.get::<Value>(&path).await });
    }
    // In addition to its own poll, one of three waits, and two are refused at once.
    for _ in 0..2 {
        let refused = timeout(TIMEOUT, waiting.join_next()).await.expect("at once").expect("three are asked");
        let error = refused.expect("no panic").expect_err("too many");
        assert_eq!(code(&error), Some(ErrorCode::TooManyRequests));
    }
}

#[tokio::test]
async fn guesses_of_tokens_and_of_bearer_secrets_are_limited_and_valid_ones_go_on() {
    let world = TestNetwork::new().await;
    let mut stranger = world.client(Some("1.00"));
    let until_limited = async |stranger: &mut Client, path: &str, most: usize| {
        for guess in 1..=most {
            let answer = if path == "/v1/join" {
                let join = json!({"token": "00", "role": "agent", "name": "a", "key": "00".repeat(32), "proof": "00",
                    "addresses": [], "shards": 1, "unix_seconds": 1_800_000_000});
                stranger.post::<Value>(path, &join).await
            } else {
                stranger.get::<Value>(path).await
            };
            let error = answer.expect_err("a wrong guess");
            if code(&error) == Some(ErrorCode::TooManyRequests) {
                return guess;
            }
        }
        panic!("{path}: no limit within {most} guesses");
    };
    // The limiter admits a few more while the test counts.
    assert!(until_limited(&mut stranger, "/v1/join", 40).await > 30);
    assert!(until_limited(&mut stranger, "/v1/map", 140).await > 120);
    assert!(until_limited(&mut stranger, "/v1/nodes", 10).await <= 2, "they count together");
    assert!(world.administration().nodes().await.is_ok(), "the administrator of the same address goes on");
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "\\PC{0,80}".prop_map(Value::from),
        "[0-9a-f]{64}".prop_map(Value::from),
        Just(Value::from("192.0.2.1:4600")),
    ];
    leaf.prop_recursive(3, 24, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("[a-z_]{1,12}", inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// Returns valid requests with one field of any value.
fn almost_right() -> impl Strategy<Value = (usize, Value)> {
    let right = [
        json!({"token": "00", "role": "agent", "name": "a", "key": "00", "proof": "00", "addresses": [],
            "shards": 1, "unix_seconds": 1_800_000_000}),
        json!({"addresses": ["192.0.2.1:1"], "round_trips": [{"relay": 1, "microseconds": 1}], "relay": ""}),
        json!({"peer": "bob"}),
        json!({"role": "agent", "tenant": "lab", "uses": 1, "lifetime_seconds": 60}),
        json!({"agents": ["default/alice", "default/bob"]}),
    ];
    (0..right.len(), any::<prop::sample::Index>(), any_json()).prop_map(move |(which, field, value)| {
        let mut request: Map<String, Value> = right[which].as_object().expect("an object").clone();
        let field = field.index(request.len());
        let field_value = request.values_mut().nth(field).expect("within");
        *field_value = value;
        (which, Value::Object(request))
    })
}

#[test]
fn no_body_makes_the_controller_panic() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let world = runtime.block_on(TestNetwork::new());
    let alice = runtime.block_on(world.node(Role::Agent, "alice"));
    let membership =
        files::read(&world.state("alice").join("membership.json")).expect("a text").expect("a file");
    let membership: Value = serde_json::from_str(&membership).expect("JSON");
    let bearer = membership["bearer"].as_str().expect("a text").to_owned();
    let administrator = RefCell::new(world.client(None));
    let member = RefCell::new(world.client(Some(&bearer)));
    let mut runner = TestRunner::new(Config { cases: 200, failure_persistence: None, ..Config::default() });
    let bodies = prop_oneof![(0..PATHS.len(), any_json()), almost_right()];
    let ran = runner.run(&bodies, |(which, body)| {
        for client in [&administrator, &member] {
            let mut client = client.borrow_mut();
            let answer = runtime.block_on(async {
                if PATHS[which] == "/v1/self" {
                    client.put(PATHS[which], &body).await
                } else {
                    client.post::<Value>(PATHS[which], &body).await.map(drop)
                }
            });
            // A panic results in a closed connection, or a status without a reason.
            if let Err(error) = answer {
                prop_assert!(code(&error) != Some(ErrorCode::Unknown), "{}", error);
                prop_assert!(!matches!(error, MembershipError::Unreachable { .. }), "{}", error);
            }
        }
        Ok(())
    });
    ran.expect("no body does harm");
    assert_eq!(runtime.block_on(world.administration().nodes()).expect("it answers").nodes.len(), 1);
    assert_eq!(alice.number(), 1);
}
