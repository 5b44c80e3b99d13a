//! Who the nodes of a chain are.

use alloc::vec::Vec;
use core::array;

use byway_code::Engine;
use byway_proto::agent::{Agent, FlowSettings, flow_between};
use byway_proto::relay::{Authority, Relay};
use byway_units::{AgentId, Duration, FlowId, RelayId, Time};
use byway_wire::seal::{Provider, StaticSecret, Suite};
use byway_wire::{FlowKey, Grant};

use super::mail::address;
use super::{AGENTS, EGRESS, INGRESS};
use crate::overlay::cast::{self, AgentCard, RelayCard};

/// What a chain is made of, and what its flows send.
#[derive(Clone, Debug)]
pub struct ChainSettings {
    /// Pairs of a sending and a receiving agent.
    pub pairs: usize,
    /// Most flows of each pair.
    pub flows: u16,
    /// What the flows ask for; their paths are filled in.
    pub flow: FlowSettings,
    /// The datagrams' length.
    pub datagram_bytes: usize,
    /// Between two packets, whichever flows they are of.
    pub interval: Duration,
    /// How long a step is, and what every path takes.
    pub step: Duration,
}

const RELAYS: [RelayId; 2] = [RelayId::new(1), RelayId::new(2)];

fn secret(place: usize) -> StaticSecret {
    StaticSecret::from_bytes(seed(place, 1))
}

fn relay_card(place: usize) -> RelayCard {
    RelayCard { number: RELAYS[place], secret: secret(place), address: address(place) }
}

/// Any 32 bytes that differ from node to node and purpose to purpose.
fn seed(place: usize, purpose: u8) -> [u8; 32] {
    let [a, b, c, d] = u32::try_from(place).expect("there are few nodes").to_be_bytes();
    array::from_fn(|index| match index {
        0 => a,
        1 => b,
        2 => c,
        3 => d,
        _ => purpose,
    })
}

impl ChainSettings {
    fn place(&self, is_sender: bool, pair: usize) -> usize {
        if is_sender { AGENTS + pair } else { AGENTS + self.pairs + pair }
    }

    fn number(&self, is_sender: bool, pair: usize) -> AgentId {
        AgentId::new(u32::try_from(self.place(is_sender, pair)).expect("there are few agents"))
    }

    pub(super) fn key_of(&self, pair: usize, flow: u16) -> FlowKey {
        flow_between(self.number(true, pair), self.number(false, pair), FlowId::new(flow))
    }

    fn agent_card(&self, is_sender: bool, pair: usize) -> AgentCard {
        let place = self.place(is_sender, pair);
        let number = self.number(is_sender, pair);
        AgentCard { number, secret: secret(place), address: Some(address(place)) }
    }

    pub(super) fn flow_settings(&self) -> FlowSettings {
        let path = cast::path(&relay_card(INGRESS), &relay_card(EGRESS));
        FlowSettings { paths: alloc::vec![path], ..self.flow.clone() }
    }

    fn grants(&self) -> Vec<Grant> {
        let relays = (&relay_card(INGRESS), &relay_card(EGRESS));
        let flows = FlowId::new(0)..=FlowId::new(self.flows.saturating_sub(1));
        let agents = |pair| (self.agent_card(true, pair), self.agent_card(false, pair));
        (0..self.pairs)
            .map(agents)
            .map(|(sender, receiver)| cast::grant((&sender, &receiver), relays, flows.clone()))
            .collect()
    }

    /// The ingress and the egress relay.
    pub(super) fn relays(&self, engine: Engine, provider: &'static (dyn Provider + Sync)) -> [Relay; 2] {
        let grants = self.grants();
        [(INGRESS, EGRESS), (EGRESS, INGRESS)].map(|(own, other)| {
            let (authority, others) =
                (Authority::Static(grants.clone()), alloc::vec![relay_card(other).for_relays()]);
            let settings = relay_card(own).settings(Suite::Aes256Gcm, authority, others);
            Relay::new(settings, engine, provider, seed(own, 2), Time::START)
        })
    }

    /// An agent that knows its relay and its peer.
    pub(super) fn agent(
        &self,
        is_sender: bool,
        pair: usize,
        engine: Engine,
        provider: &'static (dyn Provider + Sync),
    ) -> Agent {
        let identity = self.agent_card(is_sender, pair).identity(Suite::Aes256Gcm);
        let own_seed = seed(self.place(is_sender, pair), 2);
        let mut agent = Agent::new(identity, engine, provider, own_seed, Time::START);
        let relay = relay_card(if is_sender { INGRESS } else { EGRESS });
        agent.add_relay(&relay.for_agents(), Time::START);
        agent.add_peer(self.agent_card(!is_sender, pair).for_peers(), Time::START);
        agent
    }
}
