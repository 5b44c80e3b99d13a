//! Set-up of the nodes of a chain.

use alloc::vec::Vec;
use core::array;

use byway_code::Engine;
use byway_proto::agent::{Agent, FlowSettings, flow_between};
use byway_proto::relay::{Authority, Relay};
use byway_units::{AgentId, Duration, FlowId, RelayId, Time};
use byway_wire::seal::{Provider, StaticSecret, Suite};
use byway_wire::{FlowKey, Grant};

use super::in_flight::address;
use super::{AGENTS, EGRESS, INGRESS};
use crate::overlay::topology::{self, AgentNode, RelayNode};

/// Settings of a chain: its nodes, and the traffic of its flows.
#[derive(Clone, Debug)]
pub struct ChainSettings {
    /// Pairs of a sending and a receiving agent.
    pub pairs: usize,
    /// Most flows from each pair's sender to its receiver.
    pub flows: u16,
    /// Settings of the flows; the chain adds their paths.
    pub flow: FlowSettings,
    /// Length of the flows' datagrams, in bytes.
    pub datagram_bytes: usize,
    /// Interval between two source packets, of whichever flows.
    pub interval: Duration,
    /// Length of a step, which is also the delay of every path.
    pub step: Duration,
}

const RELAYS: [RelayId; 2] = [RelayId::new(1), RelayId::new(2)];

fn secret(node: usize) -> StaticSecret {
    StaticSecret::from_bytes(seed(node, 1))
}

fn relay_node(node: usize) -> RelayNode {
    RelayNode { number: RELAYS[node], secret: secret(node), address: address(node) }
}

/// Returns 32 bytes that differ from node to node and from purpose to purpose.
fn seed(node: usize, purpose: u8) -> [u8; 32] {
    let [a, b, c, d] = u32::try_from(node).expect("there are few nodes").to_be_bytes();
    array::from_fn(|index| match index {
        0 => a,
        1 => b,
        2 => c,
        3 => d,
        _ => purpose,
    })
}

impl ChainSettings {
    fn node_index(&self, is_sender: bool, pair: usize) -> usize {
        if is_sender { AGENTS + pair } else { AGENTS + self.pairs + pair }
    }

    fn agent_id(&self, is_sender: bool, pair: usize) -> AgentId {
        AgentId::new(u32::try_from(self.node_index(is_sender, pair)).expect("there are few agents"))
    }

    pub(super) fn key_of(&self, pair: usize, flow: u16) -> FlowKey {
        flow_between(self.agent_id(true, pair), self.agent_id(false, pair), FlowId::new(flow))
    }

    fn agent_node(&self, is_sender: bool, pair: usize) -> AgentNode {
        let node = self.node_index(is_sender, pair);
        let number = self.agent_id(is_sender, pair);
        AgentNode { number, secret: secret(node), address: Some(address(node)) }
    }

    pub(super) fn flow_settings(&self) -> FlowSettings {
        let path = topology::path(&relay_node(INGRESS), &relay_node(EGRESS));
        FlowSettings { paths: alloc::vec![path], ..self.flow.clone() }
    }

    fn grants(&self) -> Vec<Grant> {
        let relays = (&relay_node(INGRESS), &relay_node(EGRESS));
        let flows = FlowId::new(0)..=FlowId::new(self.flows.saturating_sub(1));
        let agents = |pair| (self.agent_node(true, pair), self.agent_node(false, pair));
        (0..self.pairs)
            .map(agents)
            .map(|(sender, receiver)| topology::grant((&sender, &receiver), relays, flows.clone()))
            .collect()
    }

    /// Creates the ingress and the egress relay.
    pub(super) fn relays(&self, engine: Engine, provider: &'static (dyn Provider + Sync)) -> [Relay; 2] {
        let grants = self.grants();
        [(INGRESS, EGRESS), (EGRESS, INGRESS)].map(|(own, other)| {
            let (authority, others) =
                (Authority::Static(grants.clone()), alloc::vec![relay_node(other).peer_relay()]);
            let settings = relay_node(own).settings(Suite::Aes256Gcm, authority, others);
            Relay::new(settings, engine, provider, seed(own, 2), Time::START)
        })
    }

    /// Creates an agent with records of its relay and its peer.
    pub(super) fn agent(
        &self,
        is_sender: bool,
        pair: usize,
        engine: Engine,
        provider: &'static (dyn Provider + Sync),
    ) -> Agent {
        let identity = self.agent_node(is_sender, pair).identity(Suite::Aes256Gcm);
        let own_seed = seed(self.node_index(is_sender, pair), 2);
        let mut agent = Agent::new(identity, engine, provider, own_seed, Time::START);
        let relay = relay_node(if is_sender { INGRESS } else { EGRESS });
        agent.add_relay(&relay.relay_peer(), Time::START);
        agent.add_peer(self.agent_node(!is_sender, pair).peer(), Time::START);
        agent
    }
}
