//! Topology: secrets, addresses, grants, and state machines with them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use byway_code::Engine;
use byway_proto::agent::{Agent, FlowSettings, flow_between};
use byway_proto::relay::{Authority, Relay};
use byway_sim::overlay::topology::{AgentNode, RelayNode, grant, path};
use byway_units::{AgentId, FlowId, RelayId, Time};
use byway_wire::messages::FlowRole;
use byway_wire::seal::{PortableProvider, PublicKey, StaticSecret, Suite};
use byway_wire::{FlowKey, Grant, GrantedRelay, KilobitsPerSecond, Receiver, Service, Shard};

/// A node of the topology: agents 1 to 4, relays 1 and 2, and a stranger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum NodeId {
    Agent(u8),
    Relay(u8),
    Stranger,
}

/// Ingress and egress relay of most flows.
pub(crate) const INGRESS: NodeId = NodeId::Relay(1);
pub(crate) const EGRESS: NodeId = NodeId::Relay(2);

/// Pairs of agents with flows, and the relays at both ends: from relay 1 to 2, back, and within
/// relay 2.
pub(crate) const GRANTED: [(u8, u8, u8, u8); 4] = [(1, 2, 1, 2), (3, 4, 1, 2), (2, 1, 2, 1), (4, 2, 2, 2)];

/// Rate limit of a grant, for all of its flows together.
pub(crate) const GRANTED_KBITS: u32 = 100_000;

impl NodeId {
    const fn seed_byte(self) -> u8 {
        match self {
            Self::Agent(number) => number,
            Self::Relay(number) => 100 + number,
            Self::Stranger => 200,
        }
    }

    pub(crate) fn secret(self) -> StaticSecret {
        StaticSecret::from_bytes([self.seed_byte(); 32])
    }

    pub(crate) fn key(self) -> PublicKey {
        self.secret().public_key()
    }

    pub(crate) fn address(self) -> SocketAddr {
        let ip = match self {
            Self::Stranger => Ipv4Addr::new(203, 0, 113, 9),
            _ => Ipv4Addr::new(10, 0, 0, self.seed_byte()),
        };
        SocketAddr::new(IpAddr::V4(ip), 4_600)
    }

    pub(crate) const fn agent_id(self) -> AgentId {
        AgentId::new(self.seed_byte() as u32)
    }

    pub(crate) fn relay_node(self) -> RelayNode {
        let Self::Relay(number) = self else { panic!("{self:?} is no relay") };
        RelayNode { number: RelayId::new(number.into()), secret: self.secret(), address: self.address() }
    }

    pub(crate) fn agent_node(self) -> AgentNode {
        AgentNode { number: self.agent_id(), secret: self.secret(), address: Some(self.address()) }
    }

    pub(crate) const fn seed(self) -> [u8; 32] {
        [self.seed_byte() ^ 0x55; 32]
    }
}

/// Returns the key of the flow with this number between two agents.
pub(crate) fn flow(sender: u8, receiver: u8, number: u16) -> FlowKey {
    flow_between(NodeId::Agent(sender).agent_id(), NodeId::Agent(receiver).agent_id(), FlowId::new(number))
}

/// Returns the relay at the other end of a flow's path, from the view of the agent in this role.
pub(crate) fn far_relay(flow: FlowKey, role: FlowRole) -> GrantedRelay {
    let receiver_of = |agent: u8| Receiver::Agent(NodeId::Agent(agent).agent_id());
    let is_it = |(sender, receiver, ..): &&(u8, u8, u8, u8)| {
        flow.sender() == NodeId::Agent(*sender).agent_id() && flow.receiver() == receiver_of(*receiver)
    };
    let (_, _, ingress, egress) = *GRANTED.iter().find(is_it).expect("the flow is granted");
    let relay = RelayId::new(if role == FlowRole::Sender { egress } else { ingress }.into());
    GrantedRelay { relay, shard: Shard::new(0) }
}

fn grants() -> Vec<Grant> {
    let granted = |(sender, receiver, ingress, egress): (u8, u8, u8, u8)| {
        let [sender, receiver] = [sender, receiver].map(|agent| NodeId::Agent(agent).agent_node());
        let [ingress, egress] = [ingress, egress].map(|relay| NodeId::Relay(relay).relay_node());
        let flows = FlowId::new(1)..=FlowId::new(9);
        Grant {
            sharing: true,
            rate: KilobitsPerSecond::new(GRANTED_KBITS),
            ..grant((&sender, &receiver), (&ingress, &egress), flows)
        }
    };
    GRANTED.map(granted).to_vec()
}

/// Returns a relay that knows the other relay.
pub(crate) fn relay(node: NodeId) -> Relay {
    let other = if node == INGRESS { EGRESS } else { INGRESS };
    let others = vec![other.relay_node().peer_relay()];
    let settings = node.relay_node().settings(Suite::ChaCha20Poly1305, Authority::Static(grants()), others);
    Relay::new(settings, Engine::fastest(), &PortableProvider, node.seed(), Time::START)
}

/// Returns an agent that knows a relay and another agent.
pub(crate) fn agent(node: NodeId, relay: NodeId, peer: NodeId) -> Agent {
    let identity = node.agent_node().identity(Suite::ChaCha20Poly1305);
    let mut agent = Agent::new(identity, Engine::fastest(), &PortableProvider, node.seed(), Time::START);
    agent.add_relay(&relay.relay_node().relay_peer(), Time::START);
    agent.add_peer(peer.agent_node().peer(), Time::START);
    agent
}

/// Returns settings of a flow with this service, through a pair of relays.
pub(crate) fn settings(service: Service, ingress: NodeId, egress: NodeId) -> FlowSettings {
    let path = path(&ingress.relay_node(), &egress.relay_node());
    FlowSettings { service, paths: vec![path], ..FlowSettings::default() }
}
