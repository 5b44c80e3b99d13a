//! Joins that succeed, and the errors of those that do not.

use byway_api::ErrorCode;
use data_encoding::HEXLOWER;

use super::*;
use crate::exit::Cause;

/// Joins, and returns the error.
async fn expect_refusal(world: &TestNetwork, settings: MembershipSettings) -> MembershipError {
    world.join(settings).await.expect_err("it is not let in")
}

#[tokio::test]
async fn who_joins_has_a_number_a_tenant_and_the_networks_name() {
    let world = TestNetwork::new().await;
    let relay = world.node(Role::Relay, "fra").await;
    let agent = world.node(Role::Agent, "alice").await;
    assert_eq!((relay.number(), relay.tenant()), (1, None));
    assert_eq!((agent.number(), agent.tenant(), agent.network()), (2, Some("default"), "lab"));
    assert_eq!(relay.verifying_key(), agent.verifying_key());
    let nodes = world.administration().nodes().await.expect("an administrator asks").nodes;
    assert_eq!(nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["fra", "alice"]);
    assert!(nodes.iter().all(|node| node.last_seen_unix_seconds == Some(1_800_000_000)));
    for file in ["membership.json", "map.json", "key"] {
        let path = world.state("alice").join(file);
        assert!(!files::is_open_to_others(&path).expect("a file"), "{file}");
    }
    let admin_token = world.state("controller").join("admin.token");
    assert!(!files::is_open_to_others(&admin_token).expect("a file"));
}

#[tokio::test]
async fn a_node_that_lost_its_membership_joins_again_with_its_key() {
    let world = TestNetwork::new().await;
    let token = world.token_for(Role::Agent, Some(1), None).await;
    let settings = world.settings(Role::Agent, "alice", Some(token.clone()));
    let number = world.join(settings.clone()).await.expect("it joins").number();
    files::remove(&world.state("alice").join("membership.json")).expect("there is one");
    assert_eq!(world.join(settings).await.expect("it joins again").number(), number);
    let replayed = expect_refusal(&world, world.settings(Role::Agent, "eve", Some(token))).await;
    assert!(matches!(replayed, MembershipError::Token(_)), "{replayed}");
    assert!(replayed.to_string().contains("token used up"), "{replayed}");
    assert_eq!(replayed.cause(), Cause::Refused);
}

#[tokio::test]
async fn another_name_is_told_by_joining_again() {
    let world = TestNetwork::new().await;
    let mut settings = world.settings(Role::Agent, "alice", Some(world.token(Role::Agent).await));
    let number = world.join(settings.clone()).await.expect("it joins").number();
    settings.name = "renamed".to_owned();
    assert_eq!(world.join(settings).await.expect("it joins again").number(), number);
    let nodes = world.administration().nodes().await.expect("an administrator asks").nodes;
    assert_eq!((nodes.len(), nodes[0].name.as_str()), (1, "renamed"));
}

#[tokio::test]
async fn a_token_is_good_for_its_role_and_its_time() {
    let world = TestNetwork::new().await;
    let relays = world.token(Role::Relay).await;
    let wrong = expect_refusal(&world, world.settings(Role::Agent, "alice", Some(relays))).await;
    assert!(matches!(wrong, MembershipError::WrongRole(_)), "{wrong}");
    let short = world.token_for(Role::Agent, None, Some(Duration::from_secs(60))).await;
    world.unix_seconds.fetch_add(60, Ordering::Relaxed);
    let late = expect_refusal(&world, world.settings(Role::Agent, "alice", Some(short))).await;
    assert!(matches!(&late, MembershipError::Token(_)), "{late}");
    assert!(late.to_string().contains("expired at 2027-01-15T08:01:00Z"), "{late}");
    let listed = world.administration().tokens().await.expect("an administrator asks").tokens;
    world.administration().revoke_token(listed[0].number).await.expect("there is one");
    let twice = world.administration().revoke_token(listed[0].number).await.expect_err("there is none");
    assert!(matches!(twice, MembershipError::Refused { code: ErrorCode::NotFound, .. }), "{twice}");
}

#[tokio::test]
async fn a_token_that_was_never_made_lets_nobody_in() {
    let world = TestNetwork::new().await;
    let good = world.token(Role::Agent).await;
    let made_up = Token::new(good.addresses().to_vec(), *good.pin(), [1; 32]).expect("it looks good");
    let error = expect_refusal(&world, world.settings(Role::Agent, "eve", Some(made_up))).await;
    assert!(matches!(error, MembershipError::Token(_)), "{error}");
}

#[tokio::test]
async fn a_node_gives_nothing_to_another_controller() {
    let world = TestNetwork::new().await;
    let good = world.token(Role::Agent).await;
    let other = Token::new(good.addresses().to_vec(), [1; 32], [2; 32]).expect("it looks good");
    let error = expect_refusal(&world, world.settings(Role::Agent, "alice", Some(other))).await;
    assert!(matches!(error, MembershipError::OtherCertificate { .. }), "{error}");
    assert_eq!(error.cause(), Cause::Refused);
    assert!(error.to_string().contains(&world.listen.to_string()), "{error}");
}

#[tokio::test]
async fn a_controller_that_is_away_is_named_with_what_was_tried() {
    let mut world = TestNetwork::new().await;
    let token = world.token(Role::Agent).await;
    let settings = world.settings(Role::Agent, "alice", Some(token.clone()));
    world.stop().await;
    let error = expect_refusal(&world, settings).await;
    assert!(matches!(error, MembershipError::Unreachable { .. }), "{error}");
    assert_eq!(error.cause(), Cause::Network);
    assert!(error.to_string().contains(&world.listen.to_string()), "{error}");

    // An address that does not answer has no effect.
    world.start().await;
    let dead = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let dead_address = dead.local_addr().expect("an address").to_string();
    drop(dead);
    let addresses = vec![dead_address, world.listen.to_string()];
    let secret = HEXLOWER.decode(token.secret_text().as_bytes()).expect("digits");
    let both =
        Token::new(addresses, *token.pin(), secret.try_into().expect("32 bytes")).expect("two addresses");
    assert!(world.join(world.settings(Role::Agent, "alice", Some(both))).await.is_ok());
}

#[tokio::test]
async fn a_clock_that_is_off_is_told_with_both_times() {
    let world = TestNetwork::new().await;
    let settings = world.settings(Role::Agent, "alice", Some(world.token(Role::Agent).await));
    let clock = WallClock::new(|| (1_800_000_000 - 3_600) * 1_000_000);
    let error = Membership::start_with(settings, &world.key("alice"), &clock, PACE).await;
    let error = error.expect_err("it is an hour off");
    assert!(matches!(error, MembershipError::ClockSkew(_)), "{error}");
    assert_eq!(error.cause(), Cause::Machine);
    for part in ["1 h 0 min behind", "2027-01-15T07:00:00Z", "2027-01-15T08:00:00Z", "timedatectl", "chrony"]
    {
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[tokio::test]
async fn a_key_is_one_nodes_and_shown_only_by_who_has_its_secret() {
    let world = TestNetwork::new().await;
    let (agents, relays) = (world.token(Role::Agent).await, world.token(Role::Relay).await);
    let key = world.key("alice");
    let start = |role, token| {
        let settings =
            MembershipSettings { state: world.state("other"), ..world.settings(role, "alice", Some(token)) };
        let (key, clock) = (key.clone(), world.clock());
        async move { Membership::start_with(settings, &key, &clock, PACE).await }
    };
    start(Role::Agent, agents.clone()).await.expect("it joins");
    let error = start(Role::Relay, relays).await.expect_err("it is an agent's key");
    assert!(matches!(error, MembershipError::Key(_)), "{error}");

    // A token together with the public key of a member does not suffice to become that member.
    let mut client = Client::new(agents.addresses().to_vec(), *agents.pin());
    let network: byway_api::NetworkAnswer = client.get("/v1/network").await.expect("anybody may ask");
    let mut request = byway_api::JoinRequest {
        token: agents.secret_text().to_string(),
        role: Role::Agent,
        name: "alice".to_owned(),
        key: key.public_key().to_string(),
        proof: String::new(),
        addresses: vec![],
        shards: 1,
        unix_seconds: network.unix_seconds,
    };
    let join_key: byway_wire::seal::PublicKey = network.join_key.parse().expect("a key");
    let thief = NodeKey::generate();
    request.proof = proof::proof(thief.bytes(), join_key.bytes(), &request.proved()).expect("a proof");
    let error = client.post::<byway_api::JoinAnswer>("/v1/join", &request).await.expect_err("no proof");
    assert!(matches!(&error, MembershipError::Key(message) if message.contains("cannot prove")), "{error}");
}

#[tokio::test]
async fn without_token_or_membership_it_is_said_what_to_do() {
    let world = TestNetwork::new().await;
    let error = expect_refusal(&world, world.settings(Role::Relay, "fra", None)).await;
    assert!(error.to_string().contains("byway token create --role relay"), "{error}");
    assert_eq!(error.cause(), Cause::Settings);
    let error = AdminClient::open(&world.state("nowhere")).expect_err("no controller was here");
    assert!(error.to_string().contains("nowhere/admin.token"), "{error}");
}

#[tokio::test]
async fn joins_from_one_address_are_limited_and_who_comes_too_early_waits() {
    let world = TestNetwork::new().await;
    let token = world.token(Role::Agent).await;
    let mut client = Client::new(token.addresses().to_vec(), *token.pin());
    let request = byway_api::JoinRequest {
        token: String::new(),
        role: Role::Agent,
        name: "eve".to_owned(),
        key: String::new(),
        proof: String::new(),
        addresses: vec![],
        shards: 1,
        unix_seconds: 0,
    };
    let mut attempts = 0;
    let error = loop {
        let refused = client.post::<byway_api::JoinAnswer>("/v1/join", &request).await;
        match refused.expect_err("it has no key") {
            // The limiter admits some meanwhile: one each second.
            MembershipError::Refused { code: ErrorCode::BadRequest, .. } if attempts < 1_000 => attempts += 1,
            other => break other,
        }
    };
    assert!(attempts >= 30, "{attempts}");
    let pause = error.retry_after().expect("the answer has a pause");
    assert!((1..=2).contains(&pause.as_secs()), "{pause:?}");
    assert!(world.join(world.settings(Role::Agent, "alice", Some(token))).await.is_ok());
}
