//! Members' knowledge of each other, with and without the controller.

use byway_api::{RoundTrip, SelfUpdate};

use super::*;

#[tokio::test]
async fn a_pairing_appears_in_both_maps_with_grants() {
    let world = TestNetwork::new().await;
    let [relay, alice, bob] = world.paired().await;
    let (of_alice, of_bob) = (alice.maps().borrow().clone(), bob.maps().borrow().clone());
    assert_eq!(of_alice.agents[0].name, "bob");
    assert_eq!(of_bob.agents[0].name, "alice");
    for (sender, receiver) in [(&alice, &bob), (&bob, &alice)] {
        let (here, there) = (grants(&of_alice, sender, receiver), grants(&of_bob, sender, receiver));
        assert_eq!(here, there);
        assert_eq!((here.len(), here[0].ingress.relay.number()), (1, relay.number()));
    }
    assert_eq!(grants(&of_alice, &alice, &alice).len(), 1, "to measure the round trip to the relay");
    let again = alice.pair_with("bob").await.expect("they are paired");
    assert_eq!(again.agents, [alice.number(), bob.number()]);
    let error = alice.pair_with("nobody").await.expect_err("there is none");
    assert!(error.to_string().contains("\"nobody\""), "{error}");
}

#[tokio::test]
async fn what_a_node_reports_reaches_its_peers_and_its_paths() {
    let world = TestNetwork::new().await;
    let [fra, alice, bob] = world.paired().await;
    let nyc = world.node(Role::Relay, "nyc").await;
    let observed: SocketAddr = "203.0.113.9:31337".parse().expect("an address");
    let trip = |relay: &Membership, microseconds| RoundTrip { relay: relay.number(), microseconds };
    bob.report(SelfUpdate { addresses: Some(vec![observed]), ..SelfUpdate::default() });
    bob.report(SelfUpdate {
        round_trips: Some(vec![trip(&fra, 90_000), trip(&nyc, 4_000)]),
        ..SelfUpdate::default()
    });
    let leads_by = |map: &NetworkMap, ingress: &Membership, egress: &Membership| {
        let pairing = pairing(map, &alice, &bob).expect("they are paired");
        let first = pairing.paths.first().map(|path| (path.ingress.relay, path.egress.relay));
        first == Some((ingress.number(), egress.number()))
    };
    let of_alice =
        map(&alice, |map| map.agents[0].addresses == [observed] && leads_by(map, &fra, &nyc)).await;
    assert_eq!(grants(&of_alice, &alice, &bob).len(), 3, "a path by each relay alone stands by");
    map(&fra, |map| map.relays.iter().any(|relay| relay.name == "nyc")).await;
    map(&nyc, |map| map.relays.iter().any(|relay| relay.name == "fra")).await;
    bob.report(SelfUpdate { relay: Some("fra".to_owned()), ..SelfUpdate::default() });
    map(&alice, |map| leads_by(map, &fra, &fra)).await;
}

#[tokio::test]
async fn relays_learn_which_others_pass_on_packets() {
    let world = TestNetwork::new().await;
    let [fra, nyc] = [world.node(Role::Relay, "fra").await, world.node(Role::Relay, "nyc").await];
    nyc.report(SelfUpdate { transit: Some(true), ..SelfUpdate::default() });
    map(&fra, |map| map.relays.iter().any(|relay| relay.name == "nyc")).await;
    map(&nyc, |map| map.relays.iter().any(|relay| relay.name == "fra")).await;
    nyc.report(SelfUpdate { transit: Some(false), ..SelfUpdate::default() });
    map(&fra, |map| map.relays.is_empty()).await;
}

#[tokio::test]
async fn a_controller_that_starts_again_knows_everybody_and_gives_the_same_grants() {
    let mut world = TestNetwork::new().await;
    let token = world.token(Role::Agent).await;
    let [_relay, alice, bob] = world.paired().await;
    let before = grants(&alice.maps().borrow(), &alice, &bob);
    let revision = alice.maps().borrow().revision;
    world.stop().await;
    contact(&alice, |contact| matches!(contact, ControllerContact::Fails(_))).await;
    world.start().await;
    let after = map(&alice, |map| map.revision != revision).await;
    assert_eq!(grants(&after, &alice, &bob), before);
    contact(&alice, |contact| *contact == ControllerContact::Answers).await;
    // Earlier tokens contain its certificate, and it accepts them.
    let carol = world.join(world.settings(Role::Agent, "carol", Some(token))).await.expect("it joins");
    assert_eq!(carol.number(), bob.number() + 1);
    carol.pair_with("alice").await.expect("one tenant");
    map(&alice, |map| map.agents.iter().any(|agent| agent.name == "carol")).await;
}

#[tokio::test]
async fn nodes_start_without_the_controller_and_hear_of_it_when_it_is_back() {
    let mut world = TestNetwork::new().await;
    let [relay, alice, bob] = world.paired().await;
    let number = alice.number();
    let known = alice.maps().borrow().clone();
    world.stop().await;
    drop((relay, alice));
    let alice = world.again(Role::Agent, "alice").await;
    assert_eq!(alice.number(), number);
    assert_eq!(*alice.maps().borrow(), known);
    // With its token, and even with another name, the node starts: the rename can wait.
    let token = Token::new(vec![world.listen.to_string()], [0; 32], [0; 32]).expect("a token");
    let renamed =
        MembershipSettings { name: "renamed".to_owned(), ..world.settings(Role::Agent, "bob", Some(token)) };
    assert_eq!(world.join(renamed).await.expect("it is a member").number(), bob.number());
    world.start().await;
    contact(&alice, |contact| *contact == ControllerContact::Answers).await;
}

#[tokio::test]
async fn grants_are_renewed_in_the_map() {
    let world = TestNetwork::new().await;
    let [_relay, alice, bob] = world.paired().await;
    let before = grants(&alice.maps().borrow(), &alice, &bob)[0].not_after_unix_seconds;
    world.unix_seconds.fetch_add(86_400, Ordering::Relaxed);
    // Any change triggers a check of the maps. Without one, the next poll does.
    alice.report(SelfUpdate { addresses: Some(vec![]), ..SelfUpdate::default() });
    let renewed = map(&bob, |map| {
        map.pairings
            .iter()
            .flat_map(|pairing| &pairing.paths)
            .all(|path| path.expires_unix_seconds > Some(before))
    });
    assert_eq!(grants(&*renewed.await, &alice, &bob)[0].not_after_unix_seconds, before + 86_400);
}

#[tokio::test]
async fn who_leaves_or_is_removed_is_in_no_map_and_asks_in_vain() {
    let world = TestNetwork::new().await;
    let [relay, alice, bob] = world.paired().await;
    alice.leave().await.expect("it was a member");
    map(&bob, |map| map.agents.is_empty()).await;
    let error = world.join(world.settings(Role::Agent, "alice", None)).await.expect_err("it has left");
    assert!(matches!(error, MembershipError::NoToken(Role::Agent)), "{error}");
    world.administration().remove_node(relay.number()).await.expect("it was a member");
    contact(&relay, |contact| matches!(contact, ControllerContact::Fails(why) if why.contains("no longer")))
        .await;
    let left = map(&bob, |map| map.relays.is_empty()).await;
    assert!(left.pairings.iter().all(|pairing| pairing.paths.is_empty()));
    let nodes = world.administration().nodes().await.expect("an administrator asks").nodes;
    assert_eq!(nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["bob"]);
}

#[tokio::test]
async fn agents_of_two_tenants_are_paired_by_an_administrator() {
    let world = TestNetwork::new().await;
    let alice = world.node(Role::Agent, "alice").await;
    let office =
        world.administration().create_token(Role::Agent, Some("office".to_owned()), None, None).await;
    let token: Token = office.expect("a good request").token.parse().expect("a token");
    let eve = world.join(world.settings(Role::Agent, "eve", Some(token))).await.expect("it joins");
    let error = alice.pair_with("office/eve").await.expect_err("another tenant");
    assert!(error.to_string().contains("`byway node pair`"), "{error}");
    let agents = ["default/alice", "office/eve"].map(|name| name.parse().expect("a full name"));
    world.administration().pair(agents).await.expect("an administrator may");
    map(&eve, |map| map.agents.iter().any(|agent| agent.name == "alice")).await;
    assert!(alice.pair_with("office/eve").await.is_ok());
}

#[tokio::test]
async fn a_map_that_somebody_else_signed_is_not_believed() {
    let mut world = TestNetwork::new().await;
    let [_relay, alice, bob] = world.paired().await;
    drop((alice, bob));
    let path = world.state("alice").join("map.json");
    let text = files::read(&path).expect("a text").expect("a file");
    files::replace(&path, &text.replace("bob", "eve")).expect("the disk has space");
    // The node requests it again.
    let alice = world.again(Role::Agent, "alice").await;
    assert_eq!(alice.maps().borrow().agents[0].name, "bob");
    drop(alice);
    files::replace(&path, &text.replace("bob", "eve")).expect("the disk has space");
    world.stop().await;
    let error = world.join(world.settings(Role::Agent, "alice", None)).await.expect_err("no map");
    assert!(matches!(error, MembershipError::Unreachable { .. }), "{error}");
}

#[tokio::test]
async fn a_relay_that_is_named_before_it_joins_serves_once_it_has() {
    let world = TestNetwork::new().await;
    let [_fra, bob] = [world.node(Role::Relay, "fra").await, world.node(Role::Agent, "bob").await];
    let token = Some(world.token(Role::Agent).await);
    let settings =
        MembershipSettings { relay: Some("nyc".to_owned()), ..world.settings(Role::Agent, "alice", token) };
    let alice = world.join(settings).await.expect("it joins");
    alice.pair_with("bob").await.expect("one tenant");
    // The rest of a report is accepted despite the name of an unknown relay.
    let observed: SocketAddr = "203.0.113.9:31337".parse().expect("an address");
    let relay = Some("nyc".to_owned());
    alice.report(SelfUpdate { addresses: Some(vec![observed]), relay, ..SelfUpdate::default() });
    map(&bob, |map| map.agents.iter().any(|agent| agent.addresses == [observed])).await;
    let nyc = world.node(Role::Relay, "nyc").await;
    map(&alice, |map| {
        let path = pairing(map, &alice, &bob).and_then(|pairing| pairing.paths.first());
        path.is_some_and(|path| path.ingress.relay == nyc.number())
    })
    .await;
}
