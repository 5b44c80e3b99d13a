//! Hashes by which the queues of links distinguish flows and sources.

use core::net::IpAddr;

use byway_sched::{FlowHash, FlowKey, FlowTuple};

use crate::random::{Seed, mix};

/// Hasher of flows and of their sources. All worlds of a seed have the same hashes.
#[derive(Clone, Debug)]
pub struct FlowHasher(FlowKey);

impl FlowHasher {
    /// Creates the hasher of a world's seed.
    #[must_use]
    pub fn new(seed: Seed) -> Self {
        let half = |number| seed.named("flows").numbered(number).number();
        let mut secret = [0; 16];
        secret[..8].copy_from_slice(&half(0).to_le_bytes());
        secret[8..].copy_from_slice(&half(1).to_le_bytes());
        Self(FlowKey::new(&secret))
    }

    /// Returns the hash of a packet's flow, evenly distributed. `label` is 0 unless several flows
    /// share these endpoints.
    #[must_use]
    pub fn flow(&self, tuple: &FlowTuple, label: u32) -> FlowHash {
        FlowHash::new(mix(self.0.hash(tuple).number() ^ u64::from(label)))
    }

    /// Returns the hash of a source address, evenly distributed.
    #[must_use]
    pub fn source(&self, source: IpAddr) -> FlowHash {
        self.0.hash_source(source)
    }
}
