//! Tests of nodes and a controller, over TLS on the loopback interface.

mod hostile;
mod joining;
mod prices;
mod relays;
mod streams;
mod working;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use byway_api::{NetworkMap, Pairing, Role};
use byway_config_types::PriceSheets;
use byway_wire::seal::Statement;
use byway_wire::{Grant, Receiver};
use data_encoding::BASE64;
use tempfile::TempDir;
use tokio::time::timeout;

use super::backoff::RetryPolicy;
use super::*;
use crate::controller::{AdminClient, Controller, ControllerSettings, Quotas, Topology};
use crate::token::Token;

/// Timeout of an expected event.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Short intervals, because only the test waits.
const PACE: RetryPolicy = RetryPolicy {
    retry_min: Duration::from_millis(10),
    retry_max: Duration::from_millis(40),
    batch_delay: Duration::from_millis(10),
};

/// A controller with a clock that advances only if the test sets it.
struct TestNetwork {
    folder: TempDir,
    unix_seconds: Arc<AtomicU64>,
    listen: SocketAddr,
    controller: Option<Controller>,
    quotas: Quotas,
}

impl TestNetwork {
    async fn new() -> Self {
        let mut world = Self {
            folder: tempfile::tempdir().expect("a folder"),
            unix_seconds: Arc::new(AtomicU64::new(1_800_000_000)),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            controller: None,
            quotas: Quotas::default(),
        };
        world.start().await;
        world
    }

    async fn start(&mut self) {
        let settings = ControllerSettings {
            listen: vec![self.listen],
            listens_by_default: false,
            addresses: vec![],
            state: self.state("controller"),
            network: "lab".to_owned(),
            grant_lifetime: ControllerSettings::GRANT_LIFETIME,
            rate: ControllerSettings::RATE,
            quotas: self.quotas,
            shared_coding: vec![],
            prices: PriceSheets::default(),
            topology: Topology::default(),
        };
        let controller = Controller::start(settings, self.clock()).await.expect("it starts");
        self.listen = controller.addresses()[0];
        self.controller = Some(controller);
    }

    async fn stop(&mut self) {
        // A real controller never restarts within one microsecond.
        self.unix_seconds.fetch_add(1, Ordering::Relaxed);
        self.controller.take().expect("it runs").stop().await;
    }

    fn state(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn clock(&self) -> WallClock {
        let unix_seconds = Arc::clone(&self.unix_seconds);
        WallClock::new(move || unix_seconds.load(Ordering::Relaxed) * 1_000_000)
    }

    fn administration(&self) -> AdminClient {
        AdminClient::open(&self.state("controller")).expect("the controller has written its token")
    }

    async fn token_for(&self, role: Role, uses: Option<u32>, lifetime: Option<Duration>) -> Token {
        let created = self.administration().create_token(role, None, uses, lifetime).await;
        created.expect("a good request").token.parse().expect("a token")
    }

    async fn token(&self, role: Role) -> Token {
        self.token_for(role, None, None).await
    }

    fn key(&self, name: &str) -> NodeKey {
        NodeKey::load_or_create(&self.state(name).join("key")).expect("a key")
    }

    fn settings(&self, role: Role, name: &str, token: Option<Token>) -> MembershipSettings {
        MembershipSettings {
            state: self.state(name),
            token,
            role,
            name: name.to_owned(),
            addresses: vec![SocketAddr::from(([192, 0, 2, 1], 4600))],
            shards: 1,
            relay: None,
            mark: FirewallMark::default(),
        }
    }

    async fn join(&self, settings: MembershipSettings) -> Result<Membership, MembershipError> {
        let key = NodeKey::load_or_create(&settings.state.join("key")).expect("a key");
        Membership::start_with(settings, &key, &self.clock(), PACE).await
    }

    async fn node(&self, role: Role, name: &str) -> Membership {
        let token = self.token(role).await;
        self.join(self.settings(role, name, Some(token))).await.expect("it joins")
    }

    /// Starts a node again, without its token.
    async fn again(&self, role: Role, name: &str) -> Membership {
        self.join(self.settings(role, name, None)).await.expect("it is a member")
    }

    /// Starts a relay and two paired agents.
    async fn paired(&self) -> [Membership; 3] {
        let relay = self.node(Role::Relay, "fra").await;
        let [alice, bob] = [self.node(Role::Agent, "alice").await, self.node(Role::Agent, "bob").await];
        alice.pair_with("bob").await.expect("one tenant");
        for (agent, peer) in [(&alice, &bob), (&bob, &alice)] {
            map(agent, |map| pairing(map, agent, peer).is_some_and(|pairing| !pairing.paths.is_empty()))
                .await;
        }
        [relay, alice, bob]
    }
}

/// Returns the node's map, once it satisfies a condition.
async fn map(node: &Membership, wanted: impl FnMut(&Arc<NetworkMap>) -> bool) -> Arc<NetworkMap> {
    let mut maps = node.maps();
    let found = timeout(TIMEOUT, maps.wait_for(wanted)).await.expect("the map comes");
    Arc::clone(&found.expect("the node waits for maps"))
}

/// Waits until the contact with the controller satisfies a condition.
async fn contact(node: &Membership, wanted: impl FnMut(&ControllerContact) -> bool) {
    let mut contact = node.contact();
    drop(timeout(TIMEOUT, contact.wait_for(wanted)).await.expect("it changes").expect("the node asks"));
}

fn pairing<'a>(map: &'a NetworkMap, sender: &Membership, receiver: &Membership) -> Option<&'a Pairing> {
    let mut pairings = map.pairings.iter();
    pairings.find(|pairing| pairing.sender == sender.number() && pairing.receiver == receiver.number())
}

/// Returns the grants of a pairing, verified as by a relay.
fn grants(map: &NetworkMap, sender: &Membership, receiver: &Membership) -> Vec<Grant> {
    let pairing = pairing(map, sender, receiver).expect("they are paired");
    let grants = pairing.paths.iter().map(|path| {
        let bytes = BASE64.decode(path.grant.as_bytes()).expect("Base64");
        let grant = Grant::parse(&bytes).expect("a grant");
        let key = sender.verifying_key();
        key.verify(Statement::Grant, &grant.fields(), &grant.signature).expect("a true signature");
        assert_eq!(grant.sender.number(), sender.number());
        assert!(matches!(grant.receiver, Receiver::Agent(agent) if agent.number() == receiver.number()));
        grant
    });
    grants.collect()
}
