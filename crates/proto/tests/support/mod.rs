//! Support for the tests and studies of the parts.

#![allow(dead_code, reason = "every test file uses its own part of this module")]

pub(crate) mod batcher;
pub(crate) mod loss_timer;

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng;

/// Returns a random generator for a seed.
pub(crate) fn random(seed: u64) -> Pcg64Mcg {
    Pcg64Mcg::new(u128::from(seed) << 64 | 0x5851_F42D_4C95_7F2D)
}

/// Returns a random number below `bound`.
pub(crate) fn below(bound: u64, random: &mut Pcg64Mcg) -> u64 {
    random.next_u64() % bound
}
