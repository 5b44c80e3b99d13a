//! Random generator with a seed: the same seed gives the same numbers.

use byway_wire::seal::Random;
use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Cryptographic random generator (ChaCha12): as unpredictable as its seed, and the same for the
/// same seed.
#[derive(Clone, Debug)]
pub(crate) struct Generator(ChaCha12Rng);

impl Generator {
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        Self(ChaCha12Rng::from_seed(seed))
    }

    /// Returns a generator with the same seed but an independent second stream of numbers.
    pub(crate) fn second_stream(seed: [u8; 32]) -> Self {
        let mut other = ChaCha12Rng::from_seed(seed);
        other.set_stream(1);
        Self(other)
    }

    pub(crate) fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }

    pub(crate) fn number(&mut self) -> u32 {
        u32::from_be_bytes(self.bytes())
    }
}

impl Random for Generator {
    fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }
}
