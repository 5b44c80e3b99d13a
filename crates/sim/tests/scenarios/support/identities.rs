//! Identities: numbers, keys and addresses, all derived from the seed of the plan.

use byway_sim::Seed;
use byway_sim::overlay::topology::{RelayNode, address, secret_bytes};
use byway_units::{AgentId, RelayId};
use byway_wire::seal::StaticSecret;

/// The networks of the hosts.
pub(crate) const RELAYS: u8 = 1;
pub(crate) const AGENTS: u8 = 3;

pub(crate) fn relay_node(seed: Seed, relay: usize) -> RelayNode {
    let secret = StaticSecret::from_bytes(secret_bytes(seed, "relay", relay));
    RelayNode { number: RelayId::new(number(relay)), secret, address: address(RELAYS, relay) }
}

pub(crate) fn agent_secret(seed: Seed, agent: usize) -> StaticSecret {
    StaticSecret::from_bytes(secret_bytes(seed, "agent", agent))
}

pub(crate) fn agent_number(agent: usize) -> AgentId {
    AgentId::new(number(agent))
}

fn number(index: usize) -> u32 {
    u32::try_from(index + 1).expect("there are few nodes")
}
