//! Damage by a link: duplicated packets, and packets with an inverted bit.

use byway_units::Probability;

use crate::link::Offer;
use crate::random::{Random, Seed};

/// Probabilities with which a link duplicates and corrupts packets.
#[derive(Debug)]
pub(crate) struct Damage {
    duplication: Probability,
    corruption: Probability,
    duplications: Seed,
    corruptions: Seed,
}

impl Damage {
    pub(crate) fn new(duplication: Probability, corruption: Probability, link: Seed) -> Self {
        let (duplications, corruptions) = (link.named("duplication"), link.named("corruption"));
        Self { duplication, corruption, duplications, corruptions }
    }

    pub(crate) fn sampler(&self, offer: &Offer) -> DamageSampler {
        DamageSampler {
            is_duplicated: self.duplications.at(offer.time, offer.nth).happens(self.duplication),
            corruption: self.corruption,
            corruptions: self.corruptions.at(offer.time, offer.nth),
            payload_bits: offer.payload_bytes as u64 * 8,
        }
    }
}

/// Draws of the damage to the copies of one packet.
#[derive(Debug)]
pub(crate) struct DamageSampler {
    is_duplicated: bool,
    corruption: Probability,
    corruptions: Random,
    payload_bits: u64,
}

impl DamageSampler {
    pub(crate) const fn is_duplicated(&self) -> bool {
        self.is_duplicated
    }

    /// Returns the inverted bit of the next copy. An empty payload has none.
    pub(crate) fn flipped_bit(&mut self) -> Option<u64> {
        let is_flipped = self.corruptions.happens(self.corruption) && self.payload_bits > 0;
        is_flipped.then(|| self.corruptions.below(self.payload_bits))
    }
}
