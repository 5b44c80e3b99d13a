//! Pseudo-random numbers from a seed, the same on every machine.

use byway_units::Probability;

/// Generator of 64 random bits at a time: `SplitMix64` of Steele, Lea and Flood (OOPSLA 2014), with
/// the shifts and factors of its Java version.
#[derive(Clone, Debug)]
pub(crate) struct SplitMix {
    state: u64,
}

impl SplitMix {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    pub(crate) const fn next(&mut self) -> u64 {
        // 2^64 divided by the golden ratio: the steps are evenly spread over the numbers.
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.state ^ self.state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    /// Returns a uniformly distributed share from 0 to less than 1.
    pub(crate) fn share(&mut self) -> Probability {
        const PARTS: u64 = 1 << 53;
        Probability::from_ratio(self.next() >> 11, PARTS).expect("53 bits are less than their range")
    }

    /// Returns one of the choices, each with equal probability; `None` if there are none.
    pub(crate) fn one_of<'a, T>(&mut self, choices: &'a [T]) -> Option<&'a T> {
        let count = u64::try_from(choices.len()).ok()?;
        let index = self.next().checked_rem(count)?;
        choices.get(usize::try_from(index).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_published_numbers() {
        let mut random = SplitMix::new(1_234_567);
        let numbers = [random.next(), random.next(), random.next()];
        assert_eq!(
            numbers,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn shares_fall_evenly() {
        let mut random = SplitMix::new(7);
        let below = (0..10_000).filter(|_| random.share().value() < 0.25).count();
        assert!((2_300..2_700).contains(&below));
        assert_eq!(random.one_of::<u8>(&[]), None);
    }
}
