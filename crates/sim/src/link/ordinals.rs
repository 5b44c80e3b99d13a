//! Losses by ordinal, for tests that lose particular packets.

use alloc::vec::Vec;

use crate::link::Offer;

/// Loses the packets with these ordinals.
#[derive(Debug)]
pub(crate) struct Ordinals(Vec<u64>);

impl Ordinals {
    pub(crate) fn new(mut ordinals: Vec<u64>) -> Self {
        ordinals.sort_unstable();
        Self(ordinals)
    }

    pub(crate) fn loses(&self, offer: &Offer) -> bool {
        self.0.binary_search(&offer.ordinal).is_ok()
    }
}

/// Loses `first` and every `period`-th packet after it.
#[derive(Debug)]
pub(crate) struct PeriodicLoss {
    pub(crate) first: u64,
    pub(crate) period: u64,
}

impl PeriodicLoss {
    pub(crate) const fn loses(&self, offer: &Offer) -> bool {
        match offer.ordinal.checked_sub(self.first) {
            // Without a period, no packet but the first is a multiple of it.
            Some(after) => after.is_multiple_of(self.period),
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec;

    use byway_units::Duration;

    use super::*;

    fn lost(loses: impl Fn(&Offer) -> bool) -> Vec<u64> {
        let offers = Offer::regular(Duration::from_millis(1), 10);
        offers.filter(loses).map(|offer| offer.ordinal).collect()
    }

    #[test]
    fn exactly_these_packets_are_lost() {
        let ordinals = Ordinals::new(vec![7, 0, 3, 3, 99]);
        assert_eq!(lost(|offer| ordinals.loses(offer)), [0, 3, 7]);
    }

    #[test]
    fn every_so_many_packets_one_is_lost() {
        assert_eq!(lost(|offer| PeriodicLoss { first: 2, period: 3 }.loses(offer)), [2, 5, 8]);
        assert_eq!(lost(|offer| PeriodicLoss { first: 4, period: 0 }.loses(offer)), [4]);
    }
}
