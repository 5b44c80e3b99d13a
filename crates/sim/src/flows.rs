//! How queues tell flows and sources apart.

use core::net::IpAddr;

use byway_sched::{FlowHash, FlowKey, FlowTuple};

use crate::random::{Seed, mix};

/// Hashes of flows and of who sends them: the same in every world of a seed.
#[derive(Clone, Debug)]
pub struct Flows(FlowKey);

impl Flows {
    /// Those of a world's seed.
    #[must_use]
    pub fn new(seed: Seed) -> Self {
        let half = |number| seed.named("flows").numbered(number).number();
        let mut secret = [0; 16];
        secret[..8].copy_from_slice(&half(0).to_le_bytes());
        secret[8..].copy_from_slice(&half(1).to_le_bytes());
        Self(FlowKey::new(&secret))
    }

    /// What tells the flow of a packet from others, evenly spread; `label` is 0 unless several flows have these ends.
    #[must_use]
    pub fn flow(&self, tuple: &FlowTuple, label: u32) -> FlowHash {
        FlowHash::new(mix(self.0.hash(tuple).number() ^ u64::from(label)))
    }

    /// What tells who sends it from others.
    #[must_use]
    pub fn source(&self, source: IpAddr) -> FlowHash {
        self.0.hash_source(source)
    }
}
