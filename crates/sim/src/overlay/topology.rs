//! Records of the nodes of an overlay: their own settings, and the records that other nodes have of
//! them.

use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::ops::RangeInclusive;

use byway_proto::agent::{AgentIdentity, Peer, RelayPath, RelayPeer};
use byway_proto::limits::RELAY_MEMORY;
use byway_proto::relay::{Authority, PeerRelay, RelaySettings, TenantLimits};
use byway_units::{AgentId, FlowId, RelayId};
use byway_wire::seal::{PreSharedKey, StaticSecret, Suite};
use byway_wire::{
    CodingGroupId, Grant, GrantedRelay, KilobitsPerSecond, Receiver, SIGNATURE_BYTES, Services, Shard,
    TenantId,
};

use crate::random::Seed;

/// The only shard of every relay.
const SHARD: Shard = Shard::new(0);

/// UDP port of every node.
const PORT: u16 = 4_600;

/// Returns the address of a host, counted from 0, in one of 256 networks.
///
/// # Panics
/// If there are more than 2^32 hosts.
#[must_use]
pub fn address(network: u8, host: usize) -> SocketAddr {
    let [_, _, high, low] = u32::try_from(host + 1).expect("there are few hosts").to_be_bytes();
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, network, high, low)), PORT)
}

/// Returns 32 bytes unique to the seed, name and number: any 32 bytes are a valid secret.
#[must_use]
pub fn secret_bytes(seed: Seed, name: &str, number: usize) -> [u8; 32] {
    let mut random = seed.named(name).numbered(number as u64).sequence();
    let mut secret_bytes = [0; 32];
    for chunk in secret_bytes.chunks_exact_mut(8) {
        chunk.copy_from_slice(&random.bits().to_be_bytes());
    }
    secret_bytes
}

/// A relay of a test network: identifier, static secret and address.
#[derive(Clone, Debug)]
pub struct RelayNode {
    /// Identifier of the relay.
    pub number: RelayId,
    /// Static secret of the relay.
    pub secret: StaticSecret,
    /// Address of the relay.
    pub address: SocketAddr,
}

/// An agent of a test network: identifier, static secret and address.
#[derive(Clone, Debug)]
pub struct AgentNode {
    /// Identifier of the agent.
    pub number: AgentId,
    /// Static secret of the agent.
    pub secret: StaticSecret,
    /// Address at which other nodes know the agent; `None` if they know none.
    pub address: Option<SocketAddr>,
}

impl RelayNode {
    /// Returns the record of the relay at agents.
    #[must_use]
    pub fn relay_peer(&self) -> RelayPeer {
        let Self { number, address, .. } = *self;
        RelayPeer { number, shard: SHARD, key: self.secret.public_key(), address }
    }

    /// Returns the record of the relay at other relays.
    #[must_use]
    pub fn peer_relay(&self) -> PeerRelay {
        let Self { number, address, .. } = *self;
        PeerRelay { number, shard: SHARD, key: self.secret.public_key(), address }
    }

    /// Returns the relay's settings, with records of other relays.
    #[must_use]
    pub fn settings(&self, suite: Suite, authority: Authority, others: Vec<PeerRelay>) -> RelaySettings {
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
            transit: false,
        }
    }

    const fn granted_relay(&self) -> GrantedRelay {
        GrantedRelay { relay: self.number, shard: SHARD }
    }
}

impl AgentNode {
    /// Returns the record of the agent at other nodes.
    #[must_use]
    pub fn peer(&self) -> Peer {
        Peer {
            number: self.number,
            key: self.secret.public_key(),
            pre_shared: PreSharedKey::default(),
            addresses: self.address.map_or_else(Vec::new, |address| vec![address]),
        }
    }

    /// Returns the agent's own identity.
    #[must_use]
    pub fn identity(&self, suite: Suite) -> AgentIdentity {
        AgentIdentity { number: self.number, secret: self.secret.clone(), suite, started_unix_nanos: 1 }
    }
}

/// Returns the path through two relays without a grant, because these relays have a list of grants.
#[must_use]
pub const fn path(ingress: &RelayNode, egress: &RelayNode) -> RelayPath {
    RelayPath { ingress: (ingress.number, SHARD), egress: (egress.number, SHARD), grant: Vec::new() }
}

/// Returns the grant of these flows between two agents over two relays. It covers all services at
/// any rate, without expiry, in coding group 1 of tenant 1, and has no signature.
#[must_use]
pub fn grant(
    (sender, receiver): (&AgentNode, &AgentNode),
    (ingress, egress): (&RelayNode, &RelayNode),
    flows: RangeInclusive<FlowId>,
) -> Grant {
    Grant {
        services: Services::ALL,
        sharing: false,
        ingress: ingress.granted_relay(),
        egress: egress.granted_relay(),
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
