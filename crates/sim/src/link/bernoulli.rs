//! Independent losses.

use byway_units::Probability;

use crate::link::Offer;
use crate::random::Seed;

/// Loses each packet with the same probability, independently of others.
#[derive(Debug)]
pub(crate) struct Bernoulli {
    probability: Probability,
    losses: Seed,
}

impl Bernoulli {
    pub(crate) const fn new(probability: Probability, losses: Seed) -> Self {
        Self { probability, losses }
    }

    pub(crate) fn loses(&self, offer: &Offer) -> bool {
        self.losses.at(offer.time, offer.nth).happens(self.probability)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use byway_units::Duration;

    use super::*;

    const INTERVAL: Duration = Duration::from_millis(10);
    const PACKETS: u64 = 1_000_000;

    #[test]
    fn losses_are_as_frequent_as_asked_and_have_no_memory() {
        let probability = Probability::new(0.02).expect("a probability");
        let process = Bernoulli::new(probability, Seed::new(1));
        let lost: Vec<_> = Offer::regular(INTERVAL, PACKETS).map(|offer| process.loses(&offer)).collect();
        // 20,000, with a standard deviation of 140.
        let count = lost.iter().filter(|&&is_lost| is_lost).count();
        assert!(count.abs_diff(20_000) < 560, "{count}");
        // 20,000 packets follow a lost one; 400 of them are lost, with a standard deviation of 20.
        let pairs = lost.windows(2).filter(|pair| pair[0] && pair[1]).count();
        assert!(pairs.abs_diff(400) < 80, "{pairs}");
    }

    #[test]
    fn packets_of_one_instant_are_independent() {
        let process = Bernoulli::new(Probability::new(0.5).expect("a probability"), Seed::new(1));
        let at = |nth| process.loses(&Offer { nth, ..Offer::alone(byway_units::Time::START, 0) });
        let lost = (0..10_000).filter(|&nth| at(nth)).count();
        // 5,000, with a standard deviation of 50.
        assert!(lost.abs_diff(5_000) < 200, "{lost}");
    }
}
