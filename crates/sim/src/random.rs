//! Random numbers that depend only on a seed and a purpose, never on other draws.
//!
//! The generator is `SplitMix64` (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
//! Generators, OOPSLA 2014). Its n-th output is a function of n alone. Therefore it serves as a
//! sequence, as a derivation of seeds, and as a table over time with random access.

use core::fmt;

use byway_units::{Duration, Probability, Time};

/// 2^64 divided by the golden ratio, made odd: the step of `SplitMix64`.
pub(crate) const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// 2^53, the number of steps between 0 and 1 that a double resolves evenly.
const FRACTIONS: f64 = 9_007_199_254_740_992.0;

/// Mixes a word with the finaliser of `SplitMix64`, a bijection: each bit of the input changes half
/// of the output's bits.
pub(crate) const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Source of random numbers: a number, from which further seeds are derived by name and by number.
///
/// Every random process of a world has a seed of its own. Therefore one more process, or one more
/// draw, changes nothing elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(u64);

impl Seed {
    /// Creates the seed with this number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// Returns the number of this seed, for a repetition of the same world.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }

    /// Returns the seed called `name` within this one.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        // Lengths count down from the largest number, which numbered seeds do not use: no name
        // equals a number.
        let start = self.numbered(u64::MAX - name.len() as u64);
        name.bytes().fold(start, |seed, byte| seed.numbered(u64::from(byte)))
    }

    /// Returns the seed with this number within this one.
    #[must_use]
    pub const fn numbered(self, number: u64) -> Self {
        Self(mix(mix(self.0.wrapping_add(STEP)) ^ number.wrapping_add(1).wrapping_mul(STEP)))
    }

    /// Returns the sequence of random numbers of this seed.
    #[must_use]
    pub const fn sequence(self) -> Random {
        Random { state: self.0 }
    }

    /// Returns the random numbers of the `nth` packet of the instant `time`.
    ///
    /// They depend only on the seed and these two, and not on events at other times.
    #[must_use]
    pub const fn at(self, time: Time, nth: u64) -> Random {
        self.numbered(time.as_nanos()).numbered(nth).sequence()
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}", self.0)
    }
}

/// A sequence of random numbers.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Returns 64 uniformly random bits.
    pub const fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// Returns a uniformly random number below `bound`; 0 if `bound` is 0. Probabilities differ by
    /// less than `bound / 2^64`.
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the upper half of a product of 64-bit numbers has 64 bits"
    )]
    pub const fn below(&mut self, bound: u64) -> u64 {
        ((self.bits() as u128 * bound as u128) >> 64) as u64
    }

    /// Returns a uniformly random number from 0 to less than 1.
    #[allow(clippy::cast_precision_loss, reason = "53 bits fit a double")]
    pub const fn fraction(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / FRACTIONS
    }

    /// Draws an event of this probability; true if it happens.
    pub fn happens(&mut self, probability: Probability) -> bool {
        probability.happens(self.bits())
    }

    /// Returns a uniformly random duration from zero to `max`, both included.
    pub const fn up_to(&mut self, max: Duration) -> Duration {
        Duration::from_nanos(self.below(max.as_nanos().saturating_add(1)))
    }

    /// Returns a random duration with an exponential distribution of this mean: the time to the
    /// next event of a process without memory. It is at least a nanosecond, because such a process
    /// must advance.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a random span needs no more than 53 bits; it is never negative, and the cast saturates"
    )]
    pub fn exponential(&mut self, mean: Duration) -> Duration {
        // In (0, 1]: the logarithm is finite.
        let uniform = ((self.bits() >> 11) + 1) as f64 / FRACTIONS;
        let nanos = -libm::log(uniform) * mean.as_nanos() as f64;
        Duration::from_nanos((nanos as u64).max(1))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::collections::BTreeSet;
    use std::vec::Vec;

    use super::*;

    /// Enough draws for a mean with an error of half a per cent.
    const DRAWS: u64 = 100_000;

    #[test]
    fn the_sequence_is_splitmix64() {
        // The first outputs for this seed, as in the widely used test vector of the published C
        // code.
        let mut random = Seed::new(1_234_567).sequence();
        let drawn = [random.bits(), random.bits(), random.bits()];
        assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn derived_seeds_all_differ() {
        let names = ["", "a", "b", "no", "on", "loss", "jitter"];
        let seeds = (0..100).map(Seed::new);
        let derived = seeds.flat_map(|seed| {
            let by_name = names.map(|name| seed.named(name).number());
            by_name.into_iter().chain((0..100).map(move |number| seed.numbered(number).number()))
        });
        assert_eq!(derived.collect::<BTreeSet<_>>().len(), 100 * (names.len() + 100));
    }

    #[test]
    fn what_belongs_to_an_instant_depends_on_nothing_drawn_before() {
        let seed = Seed::new(7).named("loss");
        let time = Time::from_nanos(1_000_000);
        let alone = seed.at(time, 3).bits();
        let _ = seed.at(Time::START, 0).bits();
        assert_eq!(seed.at(time, 3).bits(), alone);
        assert_ne!(seed.at(time, 4).bits(), alone);
        assert_ne!(seed.at(time + Duration::from_nanos(1), 3).bits(), alone);
    }

    #[test]
    fn numbers_at_regular_instants_are_uniform() {
        for interval in [1, 20_000, 10_000_000, 1 << 32] {
            let mut buckets = [0_u64; 64];
            for index in 0..DRAWS {
                let bucket = Seed::new(11).at(Time::from_nanos(index * interval), 0).below(64);
                buckets[usize::try_from(bucket).expect("64 buckets")] += 1;
            }
            // The sum of 63 squared deviations has mean 63 and standard deviation 11.2: five of
            // them.
            let expected = DRAWS / 64;
            let squared: u64 = buckets.iter().map(|&count| count.abs_diff(expected).pow(2)).sum();
            assert!(squared / expected < 63 + 56, "interval {interval}: {buckets:?}");
        }
    }

    #[test]
    fn bounds_are_kept_and_reached() {
        let mut random = Seed::new(3).sequence();
        let drawn: BTreeSet<_> = (0..1_000).map(|_| random.below(6)).collect();
        assert_eq!(drawn.into_iter().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
        assert_eq!(random.below(0), 0);
        let spans: BTreeSet<_> = (0..100).map(|_| random.up_to(Duration::from_nanos(2)).as_nanos()).collect();
        assert_eq!(spans.into_iter().collect::<Vec<_>>(), [0, 1, 2]);
        assert!(random.up_to(Duration::MAX) <= Duration::MAX);
    }

    #[test]
    fn exponential_spans_have_their_mean_and_no_memory() {
        let mut random = Seed::new(5).sequence();
        let mean = Duration::from_millis(50);
        let spans: Vec<_> = (0..DRAWS).map(|_| random.exponential(mean)).collect();
        // The standard deviation of an exponential span is its mean: 0.3 % for the mean of so many,
        // times 4.
        let found = spans.iter().copied().sum::<Duration>() / DRAWS;
        assert!(found.as_micros().abs_diff(50_000) < 650, "{found}");
        // One in e lasts longer than the mean: 36,788 of 100,000, with a standard deviation of 153.
        let longer = spans.iter().filter(|&&span| span > mean).count();
        assert!(longer.abs_diff(36_788) < 600, "{longer}");
        assert!(!random.exponential(Duration::ZERO).is_zero());
    }

    #[test]
    fn events_happen_as_often_as_they_are_likely() {
        let percent = Probability::new(0.01).expect("a probability");
        let mut random = Seed::new(9).sequence();
        let happened = (0..DRAWS).filter(|_| random.happens(percent)).count();
        // 1,000 with a standard deviation of 31.5: four of them.
        assert!(happened.abs_diff(1_000) < 126, "{happened}");
    }
}
