//! Tests of links, which join like relays, and of applications, which do not join.

use super::*;

#[test]
fn a_link_joins_without_tenant_or_address_and_exchanges_no_packets() {
    let mut state = TestNetworkState::default();
    let [relays, links] = [Role::Relay, Role::Link].map(|role| state.token(role, None, None));
    state.relay(relays, "fra", 1);
    let nowhere = JoinRequest { addresses: vec![], ..request(Role::Link, "edge") };
    let link = state.join(links, &nowhere).expect("it joins");
    assert_eq!((link.role, link.tenant), (Role::Link, None));
    let NetworkMap { relays, agents, pairings, .. } = state.map(link.number, NOW);
    assert!(relays.is_empty() && agents.is_empty() && pairings.is_empty());
    assert_eq!(state.pair(link.number, "fra"), Err(Refusal::NoAgent));
    let shards = JoinRequest { shards: 2, ..request(Role::Link, "other") };
    assert_eq!(state.join(links, &shards), Err(Refusal::BadShards { shards: 2 }));
}

#[test]
fn a_name_is_that_of_one_relay_or_of_one_link() {
    let mut state = TestNetworkState::default();
    let [agents, relays, links] =
        [Role::Agent, Role::Relay, Role::Link].map(|role| state.token(role, None, None));
    let number = state.relay(relays, "fra", 1);
    let in_use = Refusal::NameInUse { name: "fra".to_owned(), number };
    assert_eq!(state.join(links, &request(Role::Link, "fra")), Err(in_use));
    let number = state.join(links, &request(Role::Link, "edge")).expect("a free name").number;
    let in_use = Refusal::NameInUse { name: "edge".to_owned(), number };
    assert_eq!(state.join(relays, &request(Role::Relay, "edge")), Err(in_use));
    assert!(state.join(links, &request(Role::Link, "edge")).is_ok(), "it joins again");
    state.agent(agents, "fra");
}

#[test]
fn links_change_the_maps_of_nobody_else() {
    let mut state = TestNetworkState::default();
    let links = state.token(Role::Link, None, None);
    let joined = request(Role::Link, "edge");
    let secret = [u8::try_from(links).expect("few tokens"); 32];
    let key = Digest::try_from(joined.key.clone()).expect("a key");
    let node = VerifiedNode { request: &joined, token: &secret, key };
    let decision = state.network.join(node, BEARER, NOW).expect("it joins");
    let mut plan = PathPlan::of(&state.network);
    let affected = apply(&mut state.network, &mut plan, &decision.changes);
    assert_eq!(affected, AffectedMembers::Only([decision.answer.number].into()));
    assert_eq!(plan, PathPlan::of(&state.network));
}

#[test]
fn an_application_has_a_tenant_and_does_not_join() {
    let mut state = TestNetworkState::default();
    let application = state.token(Role::Application, Some("lab"), None);
    let entry = state.network.tokens().pop().expect("there is one");
    assert_eq!((entry.role, entry.tenant.as_deref()), (Role::Application, Some("lab")));
    let joined = state.join(application, &request(Role::Application, "viewer"));
    assert_eq!(joined, Err(Refusal::ApplicationJoins));
    let wrong = Refusal::WrongRole { expected: Role::Application, role: Role::Agent };
    assert_eq!(state.join(application, &request(Role::Agent, "a")), Err(wrong));
    let uses = TokenRequest { role: Role::Application, tenant: None, uses: Some(3), lifetime_seconds: None };
    assert_eq!(state.network.create_token(&uses, b"secret", NOW), Err(Refusal::UsesOfApplication));
    let of_tenant = Some("lab".to_owned());
    let link = TokenRequest { role: Role::Link, tenant: of_tenant, uses: None, lifetime_seconds: None };
    assert_eq!(state.network.create_token(&link, b"secret", NOW), Err(Refusal::TenantOfRelay));
}
