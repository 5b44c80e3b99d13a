//! Who is who: numbers, keys and addresses, all from the seed of the plan.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use byway_sim::Seed;
use byway_units::{AgentId, RelayId};
use byway_wire::Shard;
use byway_wire::seal::StaticSecret;

/// The only shard of every relay.
pub(crate) const SHARD: Shard = Shard::new(0);

/// The networks of the hosts.
pub(crate) const RELAYS: u8 = 1;
pub(crate) const AGENTS: u8 = 3;

pub(crate) fn address(network: u8, host: usize) -> SocketAddr {
    let [_, _, high, low] = u32::try_from(host + 1).expect("there are few hosts").to_be_bytes();
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, network, high, low)), 4_600)
}

/// 32 bytes that nobody else has: any are a secret.
pub(crate) fn bytes(seed: Seed, name: &str, number: usize) -> [u8; 32] {
    let mut random = seed.named(name).numbered(number as u64).sequence();
    let mut bytes = [0; 32];
    for chunk in bytes.chunks_exact_mut(8) {
        chunk.copy_from_slice(&random.bits().to_be_bytes());
    }
    bytes
}

pub(crate) fn relay_secret(seed: Seed, relay: usize) -> StaticSecret {
    StaticSecret::from_bytes(bytes(seed, "relay", relay))
}

pub(crate) fn agent_secret(seed: Seed, agent: usize) -> StaticSecret {
    StaticSecret::from_bytes(bytes(seed, "agent", agent))
}

fn number(place: usize) -> u32 {
    u32::try_from(place + 1).expect("there are few nodes")
}

pub(crate) fn relay_number(relay: usize) -> RelayId {
    RelayId::new(number(relay))
}

pub(crate) fn agent_number(agent: usize) -> AgentId {
    AgentId::new(number(agent))
}
