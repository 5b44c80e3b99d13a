//! Prices of the next bytes of a network's relays, by which services of flows are compared.

use alloc::collections::BTreeMap;

use byway_units::{Money, RelayId};

use crate::cost::{Prices, RelayPrices};
use crate::decision_log::PriceBasis;
use crate::price::PricePerGigabyte;
use crate::price_sheet::{Destination, MarginalPrices, PriceSheet};

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

impl NextBytePrices {
    /// Returns the prices of a relay's next bytes. `next` are those of its sheet by destination,
    /// and `others` the sheets of other relays.
    #[must_use]
    pub fn of_relay<'a>(
        sheet: &PriceSheet,
        next: &MarginalPrices,
        others: impl Iterator<Item = (RelayId, &'a PriceSheet)>,
    ) -> Self {
        let to_internet = next.to(&Destination::Internet);
        let to_relays = others.filter_map(|(relay, other)| {
            let price = next.to(&sheet.destination(&other.provider, &other.region));
            (price != to_internet).then_some((relay, price))
        });
        Self { incoming: next.incoming, to_internet, to_relays: to_relays.collect() }
    }

    /// Returns the price of bytes to another relay, or to agents (`None`).
    #[must_use]
    pub fn to(&self, relay: Option<RelayId>) -> PricePerGigabyte {
        relay.and_then(|relay| self.to_relays.get(&relay)).copied().unwrap_or(self.to_internet)
    }
}

/// Prices of the next bytes of one relay of a flow's path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OneRelayPrices {
    /// Price of bytes that the relay receives.
    pub incoming: PricePerGigabyte,
    /// Price of bytes to the path's other relay.
    pub to_relay: PricePerGigabyte,
    /// Price of bytes to agents.
    pub to_agents: PricePerGigabyte,
}

/// Prices of the next bytes of both relays of a flow's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentPrices {
    /// Prices of the ingress relay.
    pub ingress: OneRelayPrices,
    /// Prices of the egress relay.
    pub egress: OneRelayPrices,
}

impl SegmentPrices {
    /// Returns the nominal prices of [`Prices::nominal`].
    #[must_use]
    pub fn nominal() -> Self {
        let relay = |RelayPrices { incoming, outgoing, .. }| OneRelayPrices {
            incoming,
            to_relay: outgoing,
            to_agents: outgoing,
        };
        let Prices { ingress_relay, egress_relay, .. } = Prices::nominal();
        Self { ingress: relay(ingress_relay), egress: relay(egress_relay) }
    }
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
        let between = if ingress == egress { PricePerGigabyte::FREE } else { from.to(Some(egress)) };
        let nominal = Prices::nominal();
        let relay = |incoming, outgoing| RelayPrices { incoming, outgoing, ..nominal.ingress_relay };
        Some(Prices {
            ingress_relay: relay(from.incoming, between),
            egress_relay: relay(to.incoming, to.to_internet),
            sender_access: PricePerGigabyte::FREE,
            ..nominal
        })
    }

    /// Returns the prices of the segments of a path; `None` if those of one relay are not known.
    #[must_use]
    pub fn segments(&self, ingress: RelayId, egress: RelayId) -> Option<SegmentPrices> {
        let relay = |relay, other| {
            let prices = self.0.get(&relay)?;
            let (to_relay, to_agents) = (prices.to(Some(other)), prices.to_internet);
            Some(OneRelayPrices { incoming: prices.incoming, to_relay, to_agents })
        };
        Some(SegmentPrices { ingress: relay(ingress, egress)?, egress: relay(egress, ingress)? })
    }

    /// Returns the prices of a relay's next bytes; `None` if they are not known.
    #[must_use]
    pub fn relay(&self, relay: RelayId) -> Option<&NextBytePrices> {
        self.0.get(&relay)
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
