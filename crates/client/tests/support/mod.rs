//! Clients and relays in the simulator.

#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of it")]

use std::collections::VecDeque;
use std::net::SocketAddr;

use byway_client::{
    Client, Event, FlowPair, Identity, Network, NetworkAgent, NetworkPair, NetworkRelay, Output,
};
use byway_code::Engine;
use byway_proto::LocalAddress;
use byway_proto::agent::Delivery;
use byway_proto::relay::{Authority, Relay, RelayInput};
use byway_sim::overlay::topology::{self, AgentNode, RelayNode};
use byway_sim::{Datagram, GilbertElliott, Host, Link, Loss, Marks, NodeId, Script, Seed, Transmit};
use byway_units::{AgentId, Duration, FlowId, Probability, RelayId, Time};
use byway_wire::seal::{PortableProvider, StaticSecret, Suite};

pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub fn at(millis: u64) -> Time {
    Time::START + ms(millis)
}

/// A node of the simulated world.
pub enum Node {
    Client {
        client: Box<Client>,
        delivered: Vec<(FlowPair, Vec<u8>, Delivery)>,
        events: VecDeque<Event>,
        sending: Vec<u8>,
    },
    Relay(Box<Relay>),
}

impl Node {
    pub fn client(&mut self) -> &mut Client {
        let Self::Client { client, .. } = self else { panic!("it is a relay") };
        client
    }
}

impl Host for Node {
    fn receive(&mut self, datagram: Datagram<'_>, now: Time) {
        let Datagram { source, ecn, payload, .. } = datagram;
        match self {
            Self::Client { client, .. } => client.received(source, LocalAddress::ANY, ecn, payload, now),
            Self::Relay(relay) => {
                relay.handle(
                    RelayInput::Received { from: source, to: LocalAddress::ANY, ecn, bytes: payload },
                    now,
                );
            }
        }
    }

    fn wake(&mut self, now: Time) {
        match self {
            Self::Client { client, .. } => client.timer(now),
            Self::Relay(relay) => relay.handle(RelayInput::Deadline, now),
        }
    }

    fn transmit(&mut self, _now: Time) -> Option<Transmit<'_>> {
        let of = |transmit: byway_client::Transmit<'_>| (transmit.to, transmit.ecn);
        match self {
            Self::Relay(relay) => relay.poll().map(|transmit| {
                let (destination, ecn) = of(transmit);
                Transmit { source: None, destination, marks: Marks::default(), ecn, payload: transmit.bytes }
            }),
            Self::Client { client, delivered, events, sending } => loop {
                match client.poll()? {
                    Output::Delivered { flow, datagram, delivery } => {
                        delivered.push((flow, datagram.to_vec(), delivery));
                    }
                    Output::Event(event) => events.push_back(event),
                    Output::Transmit(transmit) => {
                        let (destination, ecn) = of(transmit);
                        sending.clear();
                        sending.extend_from_slice(transmit.bytes);
                        return Some(Transmit {
                            source: None,
                            destination,
                            marks: Marks::default(),
                            ecn,
                            payload: sending,
                        });
                    }
                }
            },
        }
    }

    fn deadline(&self) -> Option<Time> {
        match self {
            Self::Client { client, .. } => client.deadline(),
            Self::Relay(relay) => relay.deadline().map(|(at, _)| at),
        }
    }
}

pub type World = byway_sim::World<Script<Node>>;

fn secret(number: u8) -> StaticSecret {
    StaticSecret::from_bytes([number; 32])
}

/// Alice and Bob are agents 1 and 2 in network 3, East and West relays 1 and 2 in networks 1 and 2.
fn agent_address(number: u8) -> SocketAddr {
    topology::address(3, usize::from(number))
}

fn relay_card(number: u8) -> RelayNode {
    let (number, secret, address) =
        (RelayId::new(number.into()), secret(100 + number), topology::address(number, 0));
    RelayNode { number, secret, address }
}

fn agent_card(number: u8) -> AgentNode {
    let address = Some(agent_address(number));
    AgentNode { number: AgentId::new(number.into()), secret: secret(number), address }
}

/// Returns a network of Alice near East and Bob near West, who are a pair.
pub fn network() -> Network {
    let relay = |name: &str, number: u8| NetworkRelay {
        name: name.to_owned(),
        number: number.into(),
        key: secret(100 + number).public_key(),
        addresses: vec![relay_card(number).address],
        shards: 1,
    };
    let agent = |name: &str, number: u8, relay: &str| NetworkAgent {
        name: name.to_owned(),
        number: number.into(),
        key: secret(number).public_key(),
        addresses: vec![agent_address(number)],
        relays: vec![relay.to_owned()],
    };
    Network {
        relays: vec![relay("east", 1), relay("west", 2)],
        agents: vec![agent("alice", 1, "east"), agent("bob", 2, "west")],
        pairs: vec![NetworkPair { agents: ["alice".to_owned(), "bob".to_owned()], group: 1 }],
    }
}

/// Returns a client of [`network`].
pub fn client(name: &str, number: u8) -> Client {
    let identity = Identity::new(name, secret(number), [number; 32], 1);
    Client::new(identity, &network(), Time::START).expect("the network is good")
}

fn relay(number: u8) -> Relay {
    let (own, other) = (relay_card(number), relay_card(3 - number));
    let relays = |sender: u8| (relay_card(sender), relay_card(3 - sender));
    let grants = [1, 2].map(|sender| {
        let (ingress, egress) = relays(sender);
        let agents = (&agent_card(sender), &agent_card(3 - sender));
        topology::grant(agents, (&ingress, &egress), FlowId::new(0)..=FlowId::new(u16::MAX))
    });
    let authority = Authority::Static(grants.to_vec());
    let settings = own.settings(Suite::ChaCha20Poly1305, authority, vec![other.peer_relay()]);
    Relay::new(settings, Engine::fastest(), &PortableProvider, [200 + number; 32], Time::START)
}

/// Two clients, and two relays at a distance of 5 ms. The direct path has a delay of 50 ms and
/// loses packets in bursts. The link between the relays has the same delay and no loss.
pub struct TwoClients {
    pub world: World,
    pub alice: NodeId,
    pub bob: NodeId,
    pub relays: [NodeId; 2],
}

impl TwoClients {
    /// Returns a world whose direct path loses this share of packets, in percent.
    pub fn new(seed: u64, loss_percent: u32) -> Self {
        let mut world = World::new(Seed::new(seed), ());
        let node = |client| Node::Client {
            client: Box::new(client),
            delivered: Vec::new(),
            events: VecDeque::new(),
            sending: Vec::new(),
        };
        let alice = world.add(node(client("alice", 1)), agent_address(1));
        let bob = world.add(node(client("bob", 2)), agent_address(2));
        let relays =
            [1, 2].map(|number| world.add(Node::Relay(Box::new(relay(number))), relay_card(number).address));
        let loss = Probability::new(f64::from(loss_percent) / 100.0).expect("a share");
        let bursts = (loss_percent > 0).then(|| {
            Loss::GilbertElliott(GilbertElliott::bursts(loss, 3.0, ms(20)).expect("bursts of three"))
        });
        let link = |delay| Link { delay: ms(delay), ..Link::default() };
        world.connect_both(alice, bob, &Link { loss: bursts.into_iter().collect(), ..link(50) });
        for agent in [alice, bob] {
            for relay in relays {
                let is_near = (agent == alice) == (relay == relays[0]);
                world.connect_both(agent, relay, &link(if is_near { 5 } else { 50 }));
            }
        }
        world.connect_both(relays[0], relays[1], &link(50));
        Self { world, alice, bob, relays }
    }

    pub fn run_until(&mut self, millis: u64) {
        self.world.run_until(at(millis), &mut Script::new());
    }

    pub fn with<R>(&mut self, node: NodeId, act: impl FnOnce(&mut Client, Time) -> R) -> R {
        let answer = self.world.input(node, |node, now| act(node.client(), now));
        answer.expect("nobody is stopped")
    }

    pub fn events(&mut self, node: NodeId) -> Vec<Event> {
        let Node::Client { events, .. } = self.world.host_mut(node) else { panic!("it is a relay") };
        events.drain(..).collect()
    }

    pub fn delivered(&mut self, node: NodeId) -> Vec<(FlowPair, Vec<u8>, Delivery)> {
        let Node::Client { delivered, .. } = self.world.host_mut(node) else { panic!("it is a relay") };
        std::mem::take(delivered)
    }
}
