//! Who is who in an overlay: what nodes have, and what others know of them.

use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::ops::RangeInclusive;

use byway_proto::agent::{AgentIdentity, Peer, RelayPath, RelayPeer};
use byway_proto::limits::RELAY_MEMORY;
use byway_proto::relay::{Authority, OtherRelay, RelaySettings, TenantLimits};
use byway_units::{AgentId, FlowId, RelayId};
use byway_wire::seal::{PreSharedKey, StaticSecret, Suite};
use byway_wire::{
    CodingGroupId, Grant, GrantedRelay, KilobitsPerSecond, Receiver, SIGNATURE_BYTES, Services, Shard,
    TenantId,
};

use crate::random::Seed;

/// The only shard of every relay.
const SHARD: Shard = Shard::new(0);

/// Where every node listens.
const PORT: u16 = 4_600;

/// The address of a host, counted from 0, in one of 256 networks.
///
/// # Panics
/// If there are more than 2^32 hosts.
#[must_use]
pub fn address(network: u8, host: usize) -> SocketAddr {
    let [_, _, high, low] = u32::try_from(host + 1).expect("there are few hosts").to_be_bytes();
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, network, high, low)), PORT)
}

/// 32 bytes that nobody else has: any are a secret.
#[must_use]
pub fn bytes(seed: Seed, name: &str, number: usize) -> [u8; 32] {
    let mut random = seed.named(name).numbered(number as u64).sequence();
    let mut bytes = [0; 32];
    for chunk in bytes.chunks_exact_mut(8) {
        chunk.copy_from_slice(&random.bits().to_be_bytes());
    }
    bytes
}

/// A relay.
#[derive(Clone, Debug)]
pub struct RelayCard {
    /// Its number.
    pub number: RelayId,
    /// Its secret.
    pub secret: StaticSecret,
    /// Where it is.
    pub address: SocketAddr,
}

/// An agent.
#[derive(Clone, Debug)]
pub struct AgentCard {
    /// Its number.
    pub number: AgentId,
    /// Its secret.
    pub secret: StaticSecret,
    /// Where others find it, if they know.
    pub address: Option<SocketAddr>,
}

impl RelayCard {
    /// What agents know of it.
    #[must_use]
    pub fn for_agents(&self) -> RelayPeer {
        let Self { number, address, .. } = *self;
        RelayPeer { number, shard: SHARD, key: self.secret.public_key(), address }
    }

    /// What other relays know of it.
    #[must_use]
    pub fn for_relays(&self) -> OtherRelay {
        let Self { number, address, .. } = *self;
        OtherRelay { number, shard: SHARD, key: self.secret.public_key(), address }
    }

    /// Its settings, with the other relays that it knows.
    #[must_use]
    pub fn settings(&self, suite: Suite, authority: Authority, others: Vec<OtherRelay>) -> RelaySettings {
        RelaySettings {
            number: self.number,
            shard: SHARD,
            secret: self.secret.clone(),
            suite,
            started_unix_nanos: 1,
            authority,
            relays: others,
            follows_up: true,
            memory: RELAY_MEMORY,
            tenant_limits: TenantLimits::default(),
            uplink: None,
        }
    }

    const fn granted(&self) -> GrantedRelay {
        GrantedRelay { relay: self.number, shard: SHARD }
    }
}

impl AgentCard {
    /// What others know of it.
    #[must_use]
    pub fn for_peers(&self) -> Peer {
        Peer {
            number: self.number,
            key: self.secret.public_key(),
            pre_shared: PreSharedKey::default(),
            addresses: self.address.map_or_else(Vec::new, |address| vec![address]),
        }
    }

    /// What it is told of itself.
    #[must_use]
    pub fn identity(&self, suite: Suite) -> AgentIdentity {
        AgentIdentity { number: self.number, secret: self.secret.clone(), suite, started_unix_nanos: 1 }
    }
}

/// The way of a flow through two relays that need no grant of it, since they have a list.
#[must_use]
pub const fn path(ingress: &RelayCard, egress: &RelayCard) -> RelayPath {
    RelayPath { ingress: (ingress.number, SHARD), egress: (egress.number, SHARD), grant: Vec::new() }
}

/// What lets these flows between two agents use two relays: all services, at any rate, for ever, in coding group 1 of
/// tenant 1; not signed.
#[must_use]
pub fn grant(
    (sender, receiver): (&AgentCard, &AgentCard),
    (ingress, egress): (&RelayCard, &RelayCard),
    flows: RangeInclusive<FlowId>,
) -> Grant {
    Grant {
        services: Services::from_bits(0b1_1111),
        sharing: false,
        ingress: ingress.granted(),
        egress: egress.granted(),
        first_flow: *flows.start(),
        last_flow: *flows.end(),
        sender: sender.number,
        receiver: Receiver::Agent(receiver.number),
        coding_group: CodingGroupId::new(1),
        tenant: TenantId::new(1),
        rate: KilobitsPerSecond::new(u32::MAX),
        not_after_unix_seconds: u64::MAX,
        sender_key: *sender.secret.public_key().bytes(),
        receiver_key: *receiver.secret.public_key().bytes(),
        signature: [0; SIGNATURE_BYTES],
    }
}
