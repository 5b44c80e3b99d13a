//! Who is who: numbers, keys and addresses, all from the seed of the plan.

use byway_sim::Seed;
use byway_sim::overlay::cast::{RelayCard, address, bytes};
use byway_units::{AgentId, RelayId};
use byway_wire::seal::StaticSecret;

/// The networks of the hosts.
pub(crate) const RELAYS: u8 = 1;
pub(crate) const AGENTS: u8 = 3;

pub(crate) fn relay_card(seed: Seed, relay: usize) -> RelayCard {
    let secret = StaticSecret::from_bytes(bytes(seed, "relay", relay));
    RelayCard { number: RelayId::new(number(relay)), secret, address: address(RELAYS, relay) }
}

pub(crate) fn agent_secret(seed: Seed, agent: usize) -> StaticSecret {
    StaticSecret::from_bytes(bytes(seed, "agent", agent))
}

pub(crate) fn agent_number(agent: usize) -> AgentId {
    AgentId::new(number(agent))
}

fn number(place: usize) -> u32 {
    u32::try_from(place + 1).expect("there are few nodes")
}
