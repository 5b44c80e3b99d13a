//! What a relay is told: who it is, and whom it serves.

use alloc::vec::Vec;
use core::net::SocketAddr;

use byway_units::{Bytes, RelayId};
use byway_wire::seal::{PublicKey, StaticSecret, Suite, VerifyingKey};
use byway_wire::{Grant, Shard};

use super::uplink::UplinkSettings;

/// Who the relay is, and what it goes by.
#[derive(Debug)]
pub struct RelaySettings {
    /// Its number.
    pub number: RelayId,
    /// Which of its shards this is.
    pub shard: Shard,
    /// Its long-term secret, the same in all shards.
    pub secret: StaticSecret,
    /// The suite it chooses when it initiates.
    pub suite: Suite,
    /// The driver's start in nanoseconds of Unix time: makes initiations rise from one run to the next, and dates
    /// grants.
    pub started_unix_nanos: u64,
    /// Who says what flows may use it.
    pub authority: Authority,
    /// The shards of other relays it exchanges repairs with.
    pub relays: Vec<OtherRelay>,
    /// Whether it follows up on what does not come: asks receivers again whose packets a repair waits for, and fetches from the
    /// ingress relay what repair packets cannot restore in time. The published systems do not.
    pub follows_up: bool,
    /// The memory that all that grows with what comes may take in this shard.
    pub memory: Bytes,
    /// What one tenant may have in this shard.
    pub tenant_limits: TenantLimits,
    /// What all that this shard sends waits for; `None`: nothing waits.
    pub uplink: Option<UplinkSettings>,
}

/// What one tenant may have in a shard. `None`: all until half of the table is used, then its fair share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TenantLimits {
    /// Most sessions of agents.
    pub sessions: Option<u64>,
    /// Most flows that agents have registered, sent and received.
    pub flows: Option<u64>,
}

/// Who says what flows may use a relay.
#[derive(Debug)]
pub enum Authority {
    /// The static configuration: these, for ever.
    Static(Vec<Grant>),
    /// Whatever a controller with this key has signed.
    Controller(VerifyingKey),
}

/// A shard of another relay.
#[derive(Clone, Debug)]
pub struct OtherRelay {
    /// The relay's number.
    pub number: RelayId,
    /// Which of its shards.
    pub shard: Shard,
    /// Its public key.
    pub key: PublicKey,
    /// Where it is.
    pub address: SocketAddr,
}
