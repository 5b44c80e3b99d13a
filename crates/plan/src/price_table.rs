//! Prices of the next bytes of a network's relays, by which services of flows are compared.

use alloc::collections::BTreeMap;

use byway_units::{Money, RelayId};

use crate::cost::{Prices, RelayPrices};
use crate::decision_log::PriceBasis;
use crate::price::PricePerGigabyte;

/// Least price of 10^9 bytes that relays send, in a comparison: a tenth of a thousandth of the
/// currency's unit. If bytes cost nothing, the service with the fewest bytes is chosen, not just
/// any.
const COMPARED_MIN: PricePerGigabyte = PricePerGigabyte::new(Money::from_nanodollars(100_000));

/// Prices of the next bytes of one relay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NextBytePrices {
    /// Price of bytes that the relay receives.
    pub incoming: PricePerGigabyte,
    /// Price of bytes to agents, and to relays that `to_relays` does not list.
    pub to_internet: PricePerGigabyte,
    /// Prices of bytes to other relays, where they differ.
    pub to_relays: BTreeMap<RelayId, PricePerGigabyte>,
}

/// Prices of the next bytes of all relays that an agent may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RelayPriceTable(BTreeMap<RelayId, NextBytePrices>);

impl RelayPriceTable {
    /// Returns the prices of the next bytes of a flow with these relays; `None` if those of one of
    /// them are not known. Bytes of the endpoints are free, and machines run anyway.
    #[must_use]
    pub fn between(&self, ingress: RelayId, egress: RelayId) -> Option<Prices> {
        let [from, to] = [self.0.get(&ingress)?, self.0.get(&egress)?];
        // A flow that enters and leaves at one relay crosses nothing between the two halves.
        let between = match from.to_relays.get(&egress) {
            _ if ingress == egress => PricePerGigabyte::FREE,
            listed => listed.copied().unwrap_or(from.to_internet),
        };
        let nominal = Prices::nominal();
        let relay = |incoming, outgoing| RelayPrices { incoming, outgoing, ..nominal.ingress_relay };
        Some(Prices {
            ingress_relay: relay(from.incoming, between),
            egress_relay: relay(to.incoming, to.to_internet),
            sender_access: PricePerGigabyte::FREE,
            ..nominal
        })
    }

    /// Returns the prices by which services of a flow with these relays are compared: nominal ones
    /// if those of one of them are not known. Bytes on the uplink have a small price, so the
    /// service with the fewest is chosen of those that cost the same.
    #[must_use]
    pub fn compared(&self, ingress: RelayId, egress: RelayId) -> (Prices, PriceBasis) {
        let nominal = Prices::nominal();
        let Some(mut prices) = self.between(ingress, egress) else {
            return (nominal, PriceBasis::Nominal);
        };
        for relay in [&mut prices.ingress_relay, &mut prices.egress_relay] {
            relay.outgoing = relay.outgoing.max(COMPARED_MIN);
        }
        prices.sender_access = nominal.sender_access;
        (prices, PriceBasis::Listed)
    }
}

impl FromIterator<(RelayId, NextBytePrices)> for RelayPriceTable {
    fn from_iter<T: IntoIterator<Item = (RelayId, NextBytePrices)>>(relays: T) -> Self {
        Self(relays.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(nanodollars: i64) -> PricePerGigabyte {
        PricePerGigabyte::new(Money::from_nanodollars(nanodollars))
    }

    const fn relay(number: u32) -> RelayId {
        RelayId::new(number)
    }

    fn table() -> RelayPriceTable {
        let dear = NextBytePrices {
            incoming: price(1),
            to_internet: price(90_000_000),
            to_relays: BTreeMap::from([(relay(8), price(20_000_000))]),
        };
        let free = NextBytePrices { incoming: price(2), ..NextBytePrices::default() };
        [(relay(7), dear), (relay(8), free)].into_iter().collect()
    }

    #[test]
    fn the_ingress_relay_pays_for_bytes_to_the_egress_relay() {
        let outgoing = |ingress, egress| {
            let prices = table().between(relay(ingress), relay(egress)).expect("both are known");
            [prices.ingress_relay, prices.egress_relay].map(|relay| relay.outgoing.money().nanodollars())
        };
        assert_eq!(outgoing(7, 8), [20_000_000, 0]);
        assert_eq!(outgoing(8, 7), [0, 90_000_000]);
        assert_eq!(outgoing(7, 7), [0, 90_000_000], "nothing is sent between the halves of one relay");
        let prices = table().between(relay(7), relay(8)).expect("both are known");
        assert_eq!([prices.ingress_relay.incoming, prices.egress_relay.incoming], [price(1), price(2)]);
    }

    #[test]
    fn without_the_prices_of_both_relays_the_comparison_is_nominal() {
        assert_eq!(table().compared(relay(7), relay(9)), (Prices::nominal(), PriceBasis::Nominal));
        let (prices, basis) = table().compared(relay(7), relay(8));
        assert_eq!((prices.egress_relay.outgoing, basis), (COMPARED_MIN, PriceBasis::Listed));
        assert_eq!(prices.ingress_relay.outgoing, price(20_000_000));
    }
}
