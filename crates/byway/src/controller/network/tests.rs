//! Tests of single decisions.

mod coding_groups;
mod roles;

use std::time::Duration;

use byway_api::{AgentName, JoinRequest, NetworkMap, Pairing, RoundTrip, SelfUpdate, TokenRequest};
use byway_units::Rate;
use byway_wire::seal::{SigningKey, Statement, VerifyingKey};
use byway_wire::{Grant, Receiver, Service};
use data_encoding::BASE64;
use proptest::prelude::*;

use super::*;
use crate::controller::limits::{NODES_MAX, PAIRS_PER_AGENT_MAX, RELAYS_MAX, TOKENS_MAX};

const NOW: u64 = 1_800_000_000;
const BEARER: Digest = Digest([1; 32]);

/// A network whose decisions all happen at one time.
#[derive(Default)]
struct TestNetworkState {
    network: Network,
}

impl TestNetworkState {
    fn apply<T>(&mut self, decision: Result<Decision<T>, Refusal>) -> Result<T, Refusal> {
        let Decision { answer, changes } = decision?;
        self.network.apply(&changes);
        Ok(answer)
    }

    fn token(&mut self, role: Role, tenant: Option<&str>, uses: Option<u32>) -> u32 {
        let secret = [u8::try_from(self.network.counters.token).expect("few tokens"); 32];
        let request =
            TokenRequest { role, tenant: tenant.map(str::to_owned), uses, lifetime_seconds: Some(100) };
        let decision = self.network.create_token(&request, &secret, NOW);
        self.apply(decision).expect("a good token").number
    }

    fn join_at(&mut self, token: u32, request: &JoinRequest, now: u64) -> Result<NodeRecord, Refusal> {
        let secret = [u8::try_from(token).expect("few tokens"); 32];
        let key = Digest::try_from(request.key.clone()).expect("a key");
        let decision = self.network.join(VerifiedNode { request, token: &secret, key }, BEARER, now);
        self.apply(decision)
    }

    fn join(&mut self, token: u32, request: &JoinRequest) -> Result<NodeRecord, Refusal> {
        self.join_at(token, request, NOW)
    }

    fn agent(&mut self, token: u32, name: &str) -> u32 {
        self.join(token, &request(Role::Agent, name)).expect("it joins").number
    }

    fn relay(&mut self, token: u32, name: &str, shards: u16) -> u32 {
        let request = JoinRequest { shards, ..request(Role::Relay, name) };
        self.join(token, &request).expect("it joins").number
    }

    fn update(&mut self, number: u32, update: &SelfUpdate) -> Result<(), Refusal> {
        let decision = self.network.update(number, update);
        self.apply(decision)
    }

    fn measure(&mut self, agent: u32, trips: &[(u32, u64)]) -> Option<u32> {
        let trips = trips.iter().map(|&(relay, microseconds)| RoundTrip { relay, microseconds });
        let update = SelfUpdate { round_trips: Some(trips.collect()), ..SelfUpdate::default() };
        self.update(agent, &update).expect("a good report");
        self.network.near_relay(self.network.node(agent).expect("a member"))
    }

    fn pair(&mut self, agent: u32, peer: &str) -> Result<Pair, Refusal> {
        let decision = self.network.pair_with(agent, peer);
        self.apply(decision)
    }

    fn map(&self, number: u32, now: u64) -> NetworkMap {
        let node = self.network.node(number).expect("a member");
        self.network.contents(node, &PathPlan::of(&self.network), &mut issuer(), now).map
    }
}

fn issuer() -> GrantIssuer {
    let settings =
        GrantSettings { lifetime: Duration::from_secs(172_800), rate: Rate::from_megabits_per_second(100) };
    GrantIssuer::new(signing_key(), settings)
}

fn signing_key() -> SigningKey {
    SigningKey::from_seed(&[5; 32])
}

/// Returns the request of a node whose key is derived from its name.
fn request(role: Role, name: &str) -> JoinRequest {
    JoinRequest {
        token: String::new(),
        role,
        name: name.to_owned(),
        key: Digest::of(format!("{role}{name}").as_bytes()).into(),
        proof: String::new(),
        addresses: vec!["192.0.2.1:4600".parse().expect("an address")],
        shards: 1,
        unix_seconds: NOW,
    }
}

fn grants(pairing: &Pairing) -> Vec<Grant> {
    let key: VerifyingKey = signing_key().verifying_key();
    let grants = pairing.paths.iter().map(|path| {
        let bytes = BASE64.decode(path.grant.as_bytes()).expect("Base64");
        let grant = Grant::parse(&bytes).expect("a grant");
        key.verify(Statement::Grant, &grant.fields(), &grant.signature).expect("a true signature");
        assert_eq!(Some(grant.not_after_unix_seconds), path.expires_unix_seconds);
        grant
    });
    grants.collect()
}

#[test]
fn numbers_rise_and_are_never_given_again() {
    let mut state = TestNetworkState::default();
    let token = state.token(Role::Agent, None, None);
    assert_eq!([state.agent(token, "a"), state.agent(token, "b")], [1, 2]);
    let decision = state.network.remove(2);
    state.apply(decision).expect("it was a member");
    assert_eq!(state.agent(token, "b"), 3);
}

#[test]
fn who_joins_again_keeps_its_number_and_takes_no_use_of_its_token() {
    let mut state = TestNetworkState::default();
    let token = state.token(Role::Agent, None, Some(1));
    let first = state.join(token, &request(Role::Agent, "a")).expect("it joins");
    let renamed = JoinRequest { name: "renamed".to_owned(), ..request(Role::Agent, "a") };
    let again = state.join(token, &renamed).expect("it joins again");
    assert_eq!((again.number, again.name.as_str()), (first.number, "renamed"));
    let other = state.join(token, &request(Role::Agent, "b"));
    assert_eq!(other, Err(Refusal::TokenUsedUp { role: Role::Agent }));
    let further = state.token(Role::Agent, None, Some(1));
    assert_eq!(state.join(further, &renamed).expect("another good token").number, first.number);
    assert!(state.join(further, &request(Role::Agent, "b")).is_ok(), "it took no use of that one either");
    assert_eq!(state.join(further, &renamed), Err(Refusal::TokenUsedUp { role: Role::Agent }));
}

#[test]
fn tokens_are_refused_for_what_is_wrong_with_them() {
    let mut state = TestNetworkState::default();
    let token = state.token(Role::Agent, None, None);
    let relay = state.join(token, &request(Role::Relay, "r"));
    assert_eq!(relay, Err(Refusal::WrongRole { expected: Role::Agent, role: Role::Relay }));
    let late = JoinRequest { unix_seconds: NOW + 100, ..request(Role::Agent, "a") };
    let expired = Refusal::TokenExpired { at: NOW + 100, role: Role::Agent };
    assert_eq!(state.join_at(token, &late, NOW + 100), Err(expired));
    let decision = state.network.revoke_token(token);
    state.apply(decision).expect("there is one");
    let unknown = Refusal::TokenUnknown { role: Role::Agent };
    assert_eq!(state.join(token, &request(Role::Agent, "a")), Err(unknown));
    assert!(state.network.revoke_token(token).is_err());
    assert!(state.network.tokens().is_empty());
}

#[test]
fn clocks_may_differ_by_minutes() {
    let mut state = TestNetworkState::default();
    let token = state.token(Role::Agent, None, None);
    for (difference, is_in) in [(-301, false), (-300, true), (300, true), (301, false)] {
        let unix_seconds = NOW.checked_add_signed(difference).expect("a time");
        let request = JoinRequest { unix_seconds, ..request(Role::Agent, "a") };
        let joined = state.join(token, &request);
        assert_eq!(joined.is_ok(), is_in, "{difference}: {joined:?}");
        if let Err(refusal) = joined {
            let message = refusal.to_string();
            assert!(message.contains("2027-01-15T08:0") && message.contains("timedatectl"), "{message}");
        }
    }
}

#[test]
fn names_and_keys_are_one_nodes_each() {
    let mut state = TestNetworkState::default();
    let (lab, office) =
        (state.token(Role::Agent, Some("lab"), None), state.token(Role::Agent, Some("office"), None));
    let relays = state.token(Role::Relay, None, None);
    let number = state.agent(lab, "a");
    let other_key = request(Role::Agent, "b").key;
    let namesake = JoinRequest { key: other_key.clone(), ..request(Role::Agent, "a") };
    let refusal = Refusal::NameInUse { name: "a".to_owned(), number };
    assert_eq!(state.join(lab, &namesake), Err(refusal));
    assert!(state.join(office, &namesake).is_ok(), "a name is unique within one tenant only");
    let registered = Refusal::KeyRegistered { number, role: Role::Agent, name: "a".to_owned() };
    assert_eq!(state.join(office, &request(Role::Agent, "a")), Err(registered.clone()));
    let as_relay = JoinRequest { role: Role::Relay, ..request(Role::Agent, "a") };
    assert_eq!(state.join(relays, &as_relay), Err(registered));
}

#[test]
fn impossible_nodes_are_refused() {
    let mut state = TestNetworkState::default();
    let [agents, relays] = [Role::Agent, Role::Relay].map(|role| state.token(role, None, None));
    let mut expect_refusal =
        |token, request: JoinRequest| state.join(token, &request).expect_err("it is impossible");
    for name in ["", "a/b", "a b", "ä", &"a".repeat(64)] {
        assert!(matches!(expect_refusal(agents, request(Role::Agent, name)), Refusal::BadName(_)), "{name}");
    }
    for (token, role, shards) in
        [(agents, Role::Agent, 2), (relays, Role::Relay, 0), (relays, Role::Relay, 257)]
    {
        let impossible = JoinRequest { shards, ..request(role, "a") };
        assert_eq!(expect_refusal(token, impossible), Refusal::BadShards { shards });
    }
    let addresses = |addresses: &[&str]| addresses.iter().map(|text| text.parse().expect("one")).collect();
    let nowhere = JoinRequest { addresses: vec![], ..request(Role::Relay, "r") };
    assert_eq!(expect_refusal(relays, nowhere), Refusal::NoAddress);
    let everywhere = JoinRequest { addresses: addresses(&["192.0.2.1:1"; 9]), ..request(Role::Relay, "r") };
    assert_eq!(expect_refusal(relays, everywhere), Refusal::TooManyAddresses { count: 9 });
    for address in ["0.0.0.0:4600", "192.0.2.1:0", "224.0.0.1:4600", "[::]:1", "[ff02::1]:1"] {
        let useless = JoinRequest { addresses: addresses(&[address]), ..request(Role::Agent, "a") };
        assert!(matches!(expect_refusal(agents, useless), Refusal::UselessAddress { .. }), "{address}");
    }
}

#[test]
fn everything_has_a_limit() {
    let mut state = TestNetworkState::default();
    let [agents, relays] = [Role::Agent, Role::Relay].map(|role| state.token(role, None, None));
    for relay in 0..RELAYS_MAX {
        state.relay(relays, &relay.to_string(), 1);
    }
    assert_eq!(state.join(relays, &request(Role::Relay, "r")), Err(Refusal::TooManyRelays));
    for agent in RELAYS_MAX..NODES_MAX {
        state.agent(agents, &agent.to_string());
    }
    assert_eq!(state.join(agents, &request(Role::Agent, "a")), Err(Refusal::TooManyNodes));
    let agent = state.network.agent("default", "1000").expect("one of them").number;
    for peer in 0..PAIRS_PER_AGENT_MAX {
        state.pair(agent, &(2_000 + peer).to_string()).expect("within the limit");
    }
    assert_eq!(state.pair(agent, "3000"), Err(Refusal::TooManyPairs));
    let other = state.network.agent("default", "3000").expect("one of them").number;
    assert_eq!(state.pair(other, "1000"), Err(Refusal::TooManyPairs));
    let token = TokenRequest { role: Role::Agent, tenant: None, uses: None, lifetime_seconds: None };
    for _ in state.network.tokens.len()..TOKENS_MAX {
        let decision = state.network.create_token(&token, b"secret", NOW);
        state.apply(decision).expect("within the limit");
    }
    assert_eq!(state.network.create_token(&token, b"secret", NOW), Err(Refusal::TooManyTokens));
}

#[test]
fn a_bearer_secret_is_its_nodes() {
    let mut state = TestNetworkState::default();
    let token = state.token(Role::Agent, None, None);
    let number = state.agent(token, "a");
    let bearer = format!("{number}.secret");
    let Some(Change::Node(mut node)) = state.network.node(number).cloned().map(Box::new).map(Change::Node)
    else {
        panic!("it is a member");
    };
    node.bearer = Digest::of(b"secret");
    state.network.apply(&[Change::Node(node)]);
    assert_eq!(state.network.member(&bearer).map(|node| node.number), Ok(number));
    for wrong in ["", ".", "1", "1.", "1.secre", "2.secret", "x.secret"] {
        assert_eq!(state.network.member(wrong), Err(Refusal::NotAMember), "{wrong}");
    }
}

#[test]
fn agents_of_one_tenant_pair_by_themselves_and_others_by_an_administrator() {
    let mut state = TestNetworkState::default();
    let (lab, office) =
        (state.token(Role::Agent, Some("lab"), None), state.token(Role::Agent, Some("office"), None));
    let relays = state.token(Role::Relay, None, None);
    let [alice, bob, eve] = [state.agent(lab, "alice"), state.agent(lab, "bob"), state.agent(office, "eve")];
    let relay = state.relay(relays, "fra", 1);
    assert_eq!(state.pair(alice, "bob"), Ok(Pair::new(alice, bob)));
    let again = state.network.pair_with(bob, "lab/alice").expect("they are paired");
    assert!(again.changes.is_empty());
    assert_eq!(state.pair(alice, "alice"), Err(Refusal::PairedWithItself));
    assert_eq!(state.pair(alice, "eve"), Err(Refusal::NoSuchPeer { name: "eve".to_owned() }));
    assert_eq!(state.pair(alice, "fra"), Err(Refusal::NoSuchPeer { name: "fra".to_owned() }));
    assert_eq!(state.pair(relay, "alice"), Err(Refusal::NoAgent));
    for name in ["office/eve", "office/nobody"] {
        let refused = Refusal::OtherTenant { name: name.to_owned() };
        assert_eq!(state.pair(alice, name), Err(refused), "nobody learns whom others have");
    }
    let names = ["lab/alice", "office/eve"].map(|name| name.parse::<AgentName>().expect("a full name"));
    let decision = state.network.pair_any(&names);
    assert_eq!(state.apply(decision), Ok(Pair::new(alice, eve)));
    assert_eq!(state.pair(alice, "office/eve"), Ok(Pair::new(alice, eve)));
    let decision = state.network.remove(alice);
    state.apply(decision).expect("it was a member");
    assert_eq!(state.network.pair_count(), 0);
}

#[test]
fn the_near_relay_is_the_wanted_else_the_nearest_else_the_first() {
    let mut state = TestNetworkState::default();
    let [agents, relays] = [Role::Agent, Role::Relay].map(|role| state.token(role, None, None));
    let [first, second, third] = ["a", "b", "c"].map(|name| state.relay(relays, name, 1));
    let agent = state.agent(agents, "alice");
    assert_eq!(state.measure(agent, &[]), Some(first));
    assert_eq!(state.measure(agent, &[(second, 20_000), (third, 25_000)]), Some(second));
    assert_eq!(state.measure(agent, &[(second, 20_000), (third, 17_600)]), Some(second), "as jitter has it");
    assert_eq!(state.measure(agent, &[(second, 20_000), (third, 17_400)]), Some(third));
    assert_eq!(state.measure(agent, &[(first, 30_000)]), Some(first), "the others answer no more");
    assert_eq!(
        state.measure(agent, &[(agent, 1), (99, 1), (first, 30_000)]),
        Some(first),
        "those are no relays"
    );
    let wants = |name: &str| SelfUpdate { relay: Some(name.to_owned()), ..SelfUpdate::default() };
    state.update(agent, &wants("b")).expect("there is one");
    assert_eq!(state.measure(agent, &[(first, 30_000)]), Some(second));
    let unknown = state.update(agent, &wants("z"));
    assert_eq!(unknown, Err(Refusal::NoSuchRelay { name: "z".to_owned() }));
    state.update(agent, &wants("")).expect("none in particular");
    assert_eq!(state.measure(agent, &[(first, 30_000)]), Some(first));
}

#[test]
fn what_is_no_news_changes_nothing() {
    let mut state = TestNetworkState::default();
    let [agents, relays] = [Role::Agent, Role::Relay].map(|role| state.token(role, None, None));
    let (agent, relay) = (state.agent(agents, "a"), state.relay(relays, "r", 1));
    let addresses = Some(request(Role::Agent, "a").addresses);
    let update = SelfUpdate { addresses, ..SelfUpdate::default() };
    assert_eq!(state.network.update(agent, &update).map(|decision| decision.changes), Ok(vec![]));
    let nowhere = SelfUpdate { addresses: Some(vec![]), ..SelfUpdate::default() };
    assert!(state.update(agent, &nowhere).is_ok());
    assert_eq!(state.update(relay, &nowhere), Err(Refusal::NoAddress));
}

/// Creates three relays and a pair of agents, each near another relay.
fn lab() -> (TestNetworkState, [u32; 3], [u32; 2]) {
    let mut state = TestNetworkState::default();
    let [agents, relays] = [Role::Agent, Role::Relay].map(|role| state.token(role, None, None));
    let [a, b, c] = ["a", "b", "c"].map(|name| state.relay(relays, name, 4));
    let [alice, bob] = ["alice", "bob"].map(|name| state.agent(agents, name));
    state.measure(alice, &[(a, 5_000), (b, 30_000), (c, 20_000)]);
    state.measure(bob, &[(a, 30_000), (b, 5_000), (c, 20_000)]);
    state.agent(agents, "stranger");
    state.pair(alice, "bob").expect("one tenant");
    (state, [a, b, c], [alice, bob])
}

#[test]
fn an_agents_map_has_its_peers_all_relays_and_both_directions() {
    let (state, [a, b, c], [alice, bob]) = lab();
    let map = state.map(alice, NOW);
    assert_eq!(map.relays.iter().map(|relay| relay.number).collect::<Vec<_>>(), [a, b, c]);
    assert_eq!(map.agents.iter().map(|agent| agent.name.as_str()).collect::<Vec<_>>(), ["bob"]);
    let directions: Vec<_> = map.pairings.iter().map(|pairing| (pairing.sender, pairing.receiver)).collect();
    assert_eq!(directions, [(alice, alice), (alice, bob), (bob, alice)]);
    let relay_pairs = |pairing: &Pairing| {
        let relay_pairs = pairing.paths.iter().map(|path| (path.ingress.relay, path.egress.relay));
        relay_pairs.collect::<Vec<_>>()
    };
    assert_eq!(relay_pairs(&map.pairings[0]), [(a, a), (b, b), (c, c)]);
    assert_eq!(relay_pairs(&map.pairings[1]), [(a, b), (a, a), (b, b), (c, c)]);
    assert_eq!(relay_pairs(&map.pairings[2]), [(b, a), (b, b), (a, a), (c, c)]);
    assert_eq!(map.pairings[1], state.map(bob, NOW).pairings[2], "both ends have the same grants");
}

#[test]
fn grants_say_what_was_decided() {
    let (state, ..) = lab();
    let node = |name: &str| state.network.agent("default", name).expect("a member").clone();
    let (alice, bob) = (node("alice"), node("bob"));
    let map = state.map(alice.number, NOW);
    for grant in grants(&map.pairings[1]) {
        assert_eq!((grant.sender_key, grant.receiver_key), (alice.key.0, bob.key.0));
        assert_eq!(grant.sender.number(), alice.number);
        assert!(matches!(grant.receiver, Receiver::Agent(receiver) if receiver.number() == bob.number));
        assert_eq!((grant.first_flow.number(), grant.last_flow.number()), (0, u16::MAX));
        assert!(Service::ALL.iter().all(|service| grant.services.allow(*service)) && !grant.sharing);
        assert_eq!((grant.rate.count(), grant.tenant.number()), (100_000, alice.tenant.expect("a tenant")));
        let shard = grant.coding_group.number() % 4;
        assert_eq!(
            [grant.ingress.shard, grant.egress.shard].map(|shard| u32::from(shard.number())),
            [shard; 2]
        );
        assert!((NOW + 86_400..=NOW + 172_800).contains(&grant.not_after_unix_seconds));
    }
    for grant in grants(&map.pairings[0]) {
        let allowed: Vec<_> = Service::ALL.iter().filter(|service| grant.services.allow(**service)).collect();
        assert_eq!(allowed, [&Service::Internet]);
        assert_eq!((grant.ingress, grant.ingress.shard.number()), (grant.egress, 0));
        assert_eq!((grant.sender_key, grant.receiver_key), (alice.key.0, alice.key.0));
    }
}

#[test]
fn grants_are_renewed_before_they_end() {
    let (state, _, [alice, _]) = lab();
    let plan = PathPlan::of(&state.network);
    let node = state.network.node(alice).expect("a member");
    let contents = |now| state.network.contents(node, &plan, &mut issuer(), now);
    let now = contents(NOW);
    assert_eq!(contents(now.renewed_at - 1).map, now.map);
    let renewed = contents(now.renewed_at);
    assert_ne!(renewed.map, now.map);
    let expiries = |map: &NetworkMap| {
        let paths = map.pairings.iter().flat_map(|pairing| &pairing.paths);
        paths.filter_map(|path| path.expires_unix_seconds).min().expect("paths")
    };
    assert!(expiries(&now.map) >= now.renewed_at + 86_400, "a day is left when they are renewed");
    assert!(expiries(&renewed.map) > expiries(&now.map));
}

#[test]
fn a_relays_map_has_the_relays_that_grants_connect_it_with() {
    let (mut state, [a, b, c], [alice, _]) = lab();
    let known = |state: &TestNetworkState, relay| {
        let map = state.map(relay, NOW);
        assert!(map.agents.is_empty() && map.pairings.is_empty());
        map.relays.iter().map(|relay| relay.number).collect::<Vec<_>>()
    };
    assert_eq!([known(&state, a), known(&state, b), known(&state, c)], [vec![b], vec![a], vec![]]);
    let decision = state.network.remove(alice);
    state.apply(decision).expect("it was a member");
    assert!(known(&state, a).is_empty());
}

#[test]
fn without_relays_pairings_have_no_paths() {
    let mut state = TestNetworkState::default();
    let token = state.token(Role::Agent, None, None);
    let [alice, _] = ["alice", "bob"].map(|name| state.agent(token, name));
    state.pair(alice, "bob").expect("one tenant");
    let map = state.map(alice, NOW);
    assert_eq!(map.pairings.len(), 3);
    assert!(map.pairings.iter().all(|pairing| pairing.paths.is_empty()));
}

/// A request of a node or an administrator, mostly a valid one.
#[derive(Clone, Debug)]
enum Operation {
    Token(Role, u8, Option<u32>),
    Join { token: u32, role: Role, name: u8, key: u8 },
    Update { number: u32, trips: Vec<(u32, u64)>, relay: u8 },
    Pair(u32, u8),
    PairAny([(u8, u8); 2]),
    Revoke(u32),
    Remove(u32),
}

fn steps() -> impl Strategy<Value = Vec<Operation>> {
    let role = || prop_oneof![Just(Role::Agent), Just(Role::Relay)];
    let number = || 0..12_u32;
    let step = prop_oneof![
        1 => (role(), 0..3_u8, prop::option::of(0..4_u32)).prop_map(|(role, tenant, uses)| Operation::Token(role, tenant, uses)),
        6 => (1..4_u32, role(), 0..6_u8, 0..9_u8)
            .prop_map(|(token, role, name, key)| Operation::Join { token, role, name, key }),
        3 => (number(), prop::collection::vec((number(), any::<u64>()), 0..5), 0..6_u8)
            .prop_map(|(number, trips, relay)| Operation::Update { number, trips, relay }),
        4 => (number(), 0..6_u8).prop_map(|(number, name)| Operation::Pair(number, name)),
        1 => any::<[(u8, u8); 2]>().prop_map(|names| Operation::PairAny(names.map(|(tenant, name)| (tenant % 3, name % 6)))),
        1 => (0..4_u32).prop_map(Operation::Revoke),
        1 => number().prop_map(Operation::Remove),
    ];
    prop::collection::vec(step, 0..60)
}

impl TestNetworkState {
    fn run_operation(&mut self, step: &Operation) {
        let tenant = |tenant: u8| format!("tenant-{tenant}");
        let name = |name: u8| format!("name-{name}");
        let decision = match step {
            Operation::Token(role, of, uses) => {
                let secret = [u8::try_from(self.network.counters.token).expect("few tokens"); 32];
                let of = (*role == Role::Agent).then(|| tenant(*of));
                let request = TokenRequest { role: *role, tenant: of, uses: *uses, lifetime_seconds: None };
                let decision = self.network.create_token(&request, &secret, NOW);
                drop(self.apply(decision));
                return;
            }
            Operation::Join { token, role, name: called, key } => {
                let key = Digest([*key; 32]).into();
                drop(self.join(*token, &JoinRequest { key, ..request(*role, &name(*called)) }));
                return;
            }
            Operation::Update { number, trips, relay } => {
                let trips = trips.iter().map(|&(relay, microseconds)| RoundTrip { relay, microseconds });
                let relay = Some(name(*relay));
                let update =
                    SelfUpdate { round_trips: Some(trips.collect()), relay, ..SelfUpdate::default() };
                self.network.update(*number, &update)
            }
            Operation::Pair(number, peer) => {
                let decision = self.network.pair_with(*number, &name(*peer));
                drop(self.apply(decision));
                return;
            }
            Operation::PairAny(names) => {
                let names = names.map(|(of, called)| AgentName { tenant: tenant(of), name: name(called) });
                let decision = self.network.pair_any(&names);
                drop(self.apply(decision));
                return;
            }
            Operation::Revoke(number) => self.network.revoke_token(*number),
            Operation::Remove(number) => self.network.remove(*number),
        };
        drop(self.apply(decision));
    }

    /// Checks the invariants that hold after any request.
    fn check(&self) {
        let network = &self.network;
        let names: BTreeSet<_> = network.nodes().map(|node| (node.role, node.tenant, &node.name)).collect();
        let keys: BTreeSet<_> = network.nodes().map(|node| node.key).collect();
        assert_eq!((names.len(), keys.len()), (network.nodes.len(), network.nodes.len()));
        assert!(network.nodes().all(|node| node.number < network.counters.node));
        assert!(network.nodes().all(|node| node.tenant.is_some() == (node.role == Role::Agent)));
        let is_agent = |number| network.node(number).is_some_and(|node| node.role == Role::Agent);
        assert!(network.pairs().all(|pair| pair.agents().into_iter().all(is_agent)));
        for node in network.nodes() {
            self.check_map(node, &self.map(node.number, NOW));
        }
    }

    fn check_map(&self, node: &NodeRecord, map: &NetworkMap) {
        let relays: BTreeSet<_> = map.relays.iter().map(|relay| relay.number).collect();
        let known: BTreeSet<_> = map.agents.iter().map(|agent| agent.number).chain([node.number]).collect();
        let mine = |number: u32| {
            number == node.number || self.network.pairs.contains(&Pair::new(number, node.number))
        };
        assert!(known.iter().all(|number| mine(*number)), "nobody sees whom it is not paired with");
        for pairing in &map.pairings {
            assert!(known.contains(&pairing.sender) && known.contains(&pairing.receiver));
            let ends = pairing.paths.iter().flat_map(|path| [path.ingress.relay, path.egress.relay]);
            assert!(
                ends.into_iter().all(|relay| relays.contains(&relay)),
                "all relays of its paths are in its map"
            );
            assert_eq!(pairing.paths.is_empty(), relays.is_empty());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_asked_for_the_network_stays_whole(steps in steps()) {
        let mut state = TestNetworkState::default();
        let mut assigned = BTreeSet::new();
        for step in &steps {
            let before: BTreeSet<_> = state.network.nodes().map(|node| node.number).collect();
            state.run_operation(step);
            let after: BTreeSet<_> = state.network.nodes().map(|node| node.number).collect();
            for number in after.difference(&before) {
                prop_assert!(assigned.insert(*number), "number {} was assigned before", number);
            }
        }
        state.check();
        let mut again = Network::default();
        let network = &state.network;
        let stored = [Change::Counters(network.counters)].into_iter()
            .chain(network.tenants.values().cloned().map(Change::Tenant))
            .chain(network.tokens.values().cloned().map(Change::Token))
            .chain(network.nodes.values().cloned().map(|node| Change::Node(Box::new(node))))
            .chain(network.pairs().map(Change::Pair));
        again.apply(&stored.collect::<Vec<_>>());
        prop_assert_eq!(&again, network);
    }
}
