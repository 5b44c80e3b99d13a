//! Numbers and addresses of agents and relays, by the indices of their machines.

use std::net::SocketAddr;

use byway_sim::overlay::topology;
use byway_units::{AgentId, RelayId};

/// Network of the addresses of relays' machines.
const RELAY_NETWORK: u8 = 1;

/// Network of the addresses of agents' machines.
pub(crate) const AGENT_NETWORK: u8 = 2;

/// Returns the number of the relay whose machine has this index.
pub(crate) fn relay_number(node: usize) -> RelayId {
    RelayId::new(number(node))
}

/// Returns the number of the agent whose machine has this index.
pub(crate) fn agent_number(node: usize) -> AgentId {
    AgentId::new(number(node))
}

/// Returns the address of the relay's machine with this index.
pub(crate) fn relay_address(node: usize) -> SocketAddr {
    topology::address(RELAY_NETWORK, node)
}

/// Returns the address of the agent's machine with this index.
pub(crate) fn agent_address(node: usize) -> SocketAddr {
    topology::address(AGENT_NETWORK, node)
}

fn number(node: usize) -> u32 {
    u32::try_from(node + 1).expect("there are few machines")
}
