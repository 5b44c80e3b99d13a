//! Losses in bursts of packets: a Gilbert model whose state changes per packet.

use byway_units::Probability;

use crate::link::Offer;
use crate::random::Seed;

/// Loses a packet with one probability after a loss, and with another after a delivery.
///
/// The state does not change with time: the packet after a lost one is lost with the second
/// probability at any interval. A change of the link's properties resets the state.
#[derive(Debug)]
pub(crate) struct Gilbert {
    first: Probability,
    next: Probability,
    has_lost: bool,
    losses: Seed,
}

impl Gilbert {
    pub(crate) const fn new(first: Probability, next: Probability, losses: Seed) -> Self {
        Self { first, next, has_lost: false, losses }
    }

    pub(crate) fn loses(&mut self, offer: &Offer) -> bool {
        let probability = if self.has_lost { self.next } else { self.first };
        self.has_lost = self.losses.at(offer.time, offer.nth).happens(probability);
        self.has_lost
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use byway_units::Duration;

    use super::*;

    fn lost(interval: Duration) -> Vec<bool> {
        let probability = |share| Probability::new(share).expect("a probability");
        let mut chain = Gilbert::new(probability(0.01), probability(0.5), Seed::new(3));
        Offer::regular(interval, 1_000_000).map(|offer| chain.loses(&offer)).collect()
    }

    #[test]
    #[allow(clippy::cast_precision_loss, reason = "counts of a test are far below 2^53")]
    fn bursts_count_packets_and_not_time() {
        for interval in [Duration::from_micros(10), Duration::from_secs(1)] {
            let lost = lost(interval);
            let count = lost.iter().filter(|lost| **lost).count() as f64;
            let bursts = lost.chunk_by(|a, b| a == b).filter(|run| run[0]).count() as f64;
            // 1 of 51 is lost, in bursts of 2: some 9,800 bursts, so 1 % off is a standard
            // deviation. Four of them.
            assert!((count / 1_000_000.0 * 51.0 - 1.0).abs() < 0.05, "{count} lost");
            assert!((count / bursts / 2.0 - 1.0).abs() < 0.04, "{count} lost in {bursts} bursts");
        }
    }
}
