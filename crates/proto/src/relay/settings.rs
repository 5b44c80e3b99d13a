//! Settings of a relay: its identity, its authority and its limits.

use alloc::vec::Vec;
use core::net::SocketAddr;

use byway_units::{Bytes, RelayId};
use byway_wire::seal::{PublicKey, StaticSecret, Suite, VerifyingKey};
use byway_wire::{Grant, Shard};

use super::uplink::UplinkSettings;

/// Identity and configuration of a relay shard.
#[derive(Debug)]
pub struct RelaySettings {
    /// Number of the relay in the network.
    pub number: RelayId,
    /// Number of this shard.
    pub shard: Shard,
    /// Long-term secret, the same in all shards.
    pub secret: StaticSecret,
    /// Cipher suite of the handshakes that this relay initiates.
    pub suite: Suite,
    /// Start of the driver in nanoseconds of Unix time. It orders initiations across restarts, and
    /// dates grants.
    pub started_unix_nanos: u64,
    /// Authority that permits flows.
    pub authority: Authority,
    /// Shards of other relays with which it exchanges copies and repair packets.
    pub relays: Vec<PeerRelay>,
    /// True if the relay repeats unanswered cooperative requests, and fetches from the ingress
    /// relay what repair packets cannot restore in time. The published systems do neither.
    pub follows_up: bool,
    /// Memory limit of this shard, for everything that grows with input.
    pub memory: Bytes,
    /// Limits of one tenant in this shard.
    pub tenant_limits: TenantLimits,
    /// Uplink of this shard; `None`: packets leave at once.
    pub uplink: Option<UplinkSettings>,
    /// True if the relay passes on packets of other relays to each other, which costs its egress.
    pub transit: bool,
}

/// Limits of one tenant in a shard. `None`: the whole table until half of it is used, then the fair
/// share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TenantLimits {
    /// Most sessions that the agents of one tenant may have.
    pub sessions: Option<u64>,
    /// Most flows, sent and received, that the agents of one tenant may have registered.
    pub flows: Option<u64>,
}

/// Authority that permits flows to use a relay.
#[derive(Debug)]
pub enum Authority {
    /// Static configuration: these grants, without expiry.
    Static(Vec<Grant>),
    /// Grants that a controller with this key has signed.
    Controller(VerifyingKey),
}

/// A shard of another relay.
#[derive(Clone, Debug)]
pub struct PeerRelay {
    /// Number of the relay in the network.
    pub number: RelayId,
    /// Number of the shard.
    pub shard: Shard,
    /// Public key of the relay.
    pub key: PublicKey,
    /// Address of the shard.
    pub address: SocketAddr,
}
