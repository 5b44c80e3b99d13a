//! Relays accept the controller's grants, shown with the state machines that run in production.

use byway_aws_lc::AwsLc;
use byway_code::Engine;
use byway_proto::LocalAddress;
use byway_proto::agent::{
    Agent, AgentIdentity, AgentInput, AgentOutput, FlowSettings, Peer, RelayPath, RelayPeer, flow_between,
};
use byway_proto::relay::{Authority, Relay, RelayInput, RelaySettings, TenantLimits};
use byway_units::{AgentId, Duration, FlowId, RelayId, Time};
use byway_wire::seal::{PreSharedKey, Suite, VerifyingKey};
use byway_wire::{Ecn, Service, Shard};

use super::*;

static PROVIDER: AwsLc = AwsLc;

const RELAY: &str = "192.0.2.1:4600";
const AGENT: &str = "198.51.100.1:4600";

fn at(address: &str) -> SocketAddr {
    address.parse().expect("an address")
}

fn relay(world: &TestNetwork, node: &Membership, authority: VerifyingKey) -> Relay {
    let settings = RelaySettings {
        follows_up: true,
        memory: byway_proto::limits::RELAY_MEMORY,
        tenant_limits: TenantLimits::default(),
        uplink: None,
        transit: false,
        number: RelayId::new(node.number()),
        shard: Shard::new(0),
        secret: world.key("fra").secret(),
        suite: Suite::Aes256Gcm,
        started_unix_nanos: 1_800_000_000_000_000_000,
        authority: Authority::Controller(authority),
        relays: vec![],
    };
    Relay::new(settings, Engine::fastest(), &PROVIDER, [1; 32], Time::START)
}

/// Creates an agent that sends a flow to another one on the paths of its map.
fn agent(world: &TestNetwork, alice: &Membership, bob: &Membership) -> Agent {
    let map = alice.maps().borrow().clone();
    let identity = AgentIdentity {
        number: AgentId::new(alice.number()),
        secret: world.key("alice").secret(),
        suite: Suite::Aes256Gcm,
        started_unix_nanos: 1_800_000_000_000_000_000,
    };
    let mut agent = Agent::new(identity, Engine::fastest(), &PROVIDER, [2; 32], Time::START);
    for relay in &map.relays {
        let key = relay.key.parse().expect("a key");
        let (number, shard, address) = (RelayId::new(relay.number), Shard::new(0), relay.addresses[0]);
        agent.add_relay(&RelayPeer { number, shard, key, address }, Time::START);
    }
    let receiver = AgentId::new(bob.number());
    let key = map.agents[0].key.parse().expect("a key");
    let peer = Peer { number: receiver, key, pre_shared: PreSharedKey::default(), addresses: vec![] };
    agent.add_peer(peer, Time::START);
    let shard_id = |at: byway_api::RelayShard| (RelayId::new(at.relay), Shard::new(at.shard));
    let paths = pairing(&map, alice, bob).expect("they are paired").paths.iter().map(|path| RelayPath {
        ingress: shard_id(path.ingress),
        egress: shard_id(path.egress),
        grant: BASE64.decode(path.grant.as_bytes()).expect("Base64"),
    });
    let settings =
        FlowSettings { service: Service::Coding, paths: paths.collect(), ..FlowSettings::default() };
    let flow = flow_between(AgentId::new(alice.number()), receiver, FlowId::new(7));
    agent.open_flow(flow, settings, Time::START).expect("a new flow");
    agent
}

/// Exchanges packets between the two for two seconds.
fn exchange_packets(agent: &mut Agent, relay: &mut Relay) {
    for step in 0..40 {
        let now = Time::START + Duration::from_millis(50 * step);
        agent.handle(AgentInput::Deadline, now);
        relay.handle(RelayInput::Deadline, now);
        for _ in 0..4 {
            let mut to_relay = Vec::new();
            while let Some(output) = agent.poll() {
                if let AgentOutput::Transmit(transmit) = output {
                    to_relay.push(transmit.bytes.to_vec());
                }
            }
            for mut bytes in to_relay {
                let (from, ecn) = (at(AGENT), Ecn::NotCapable);
                relay.handle(
                    RelayInput::Received { from, to: LocalAddress::ANY, ecn, bytes: &mut bytes },
                    now,
                );
            }
            let mut to_agent = Vec::new();
            while let Some(transmit) = relay.poll() {
                to_agent.push(transmit.bytes.to_vec());
            }
            for mut bytes in to_agent {
                let (from, ecn) = (at(RELAY), Ecn::NotCapable);
                agent.handle(
                    AgentInput::Received { from, to: LocalAddress::ANY, ecn, bytes: &mut bytes },
                    now,
                );
            }
        }
    }
}

#[tokio::test]
async fn a_relay_serves_whom_the_controller_lets() {
    let world = TestNetwork::new().await;
    let [fra, alice, bob] = world.paired().await;
    let mut agent = agent(&world, &alice, &bob);
    let mut relay = relay(&world, &fra, fra.verifying_key());
    exchange_packets(&mut agent, &mut relay);
    assert_eq!(relay.sessions(), 1);
    let counters = relay.counters();
    assert_eq!((counters.registrations_refused, counters.strangers_refused), (0, 0));
}

#[tokio::test]
async fn a_relay_of_another_controller_serves_nobody_of_this_one() {
    let [world, elsewhere] = [TestNetwork::new().await, TestNetwork::new().await];
    let [fra, alice, bob] = world.paired().await;
    let stranger = elsewhere.node(Role::Agent, "stranger").await;
    let mut agent = agent(&world, &alice, &bob);
    let mut relay = relay(&world, &fra, stranger.verifying_key());
    exchange_packets(&mut agent, &mut relay);
    assert_eq!(relay.sessions(), 0);
    assert!(relay.counters().strangers_refused > 0);
}
