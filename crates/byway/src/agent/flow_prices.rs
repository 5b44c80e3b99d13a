//! Prices of relays from the network's map, for the choice of services.

use byway_api::RelayPrices;
use byway_plan::{NextBytePrices, PricePerGigabyte, RelayPriceTable};
use byway_units::{Money, RelayId};

use super::network_view::NetworkView;

/// Returns the prices of all relays, by which the state machine compares services.
pub(super) fn price_table(view: &NetworkView) -> RelayPriceTable {
    let relays = view.map().relays.iter().map(|relay| RelayId::new(relay.number));
    relays.filter_map(|relay| Some((relay, next_bytes(view.prices(relay)?)))).collect()
}

fn next_bytes(prices: &RelayPrices) -> NextBytePrices {
    let price = |nanounits| PricePerGigabyte::new(Money::from_nanodollars(nanounits));
    let to_relays = prices.to_relays.iter();
    NextBytePrices {
        incoming: price(prices.ingress_nanounits_per_gigabyte),
        to_internet: price(prices.egress_nanounits_per_gigabyte),
        to_relays: to_relays.map(|to| (RelayId::new(to.relay), price(to.nanounits_per_gigabyte))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use byway_api::{NetworkMap, PriceToRelay, RelayEntry};
    use byway_units::AgentId;

    use super::super::network_view::Families;
    use super::*;

    #[test]
    fn a_reload_of_prices_replaces_those_of_the_map() {
        let prices = |nanounits| RelayPrices {
            currency: "EUR".to_owned(),
            ingress_nanounits_per_gigabyte: 1,
            egress_nanounits_per_gigabyte: nanounits,
            machine_nanounits_per_hour: 0,
            to_relays: vec![PriceToRelay { relay: 8, nanounits_per_gigabyte: 20 }],
        };
        let entry = |number, prices| RelayEntry {
            number,
            name: format!("relay-{number}"),
            key: String::new(),
            addresses: vec![],
            shards: 1,
            prices,
        };
        let relays = vec![entry(7, Some(prices(90))), entry(8, Some(prices(50))), entry(9, None)];
        let map = NetworkMap { relays, ..NetworkMap::default() };
        let families = Families { ipv4: true, ipv6: true };
        let mut view = NetworkView::new(AgentId::new(1), map, families);
        let outgoing = |view: &NetworkView, ingress, egress| {
            let prices = price_table(view).between(RelayId::new(ingress), RelayId::new(egress))?;
            Some(
                [prices.ingress_relay, prices.egress_relay].map(|relay| relay.outgoing.money().nanodollars()),
            )
        };
        assert_eq!(outgoing(&view, 7, 8), Some([20, 50]));
        assert_eq!(outgoing(&view, 7, 9), None);
        assert_eq!(view.currency(), Some("EUR"));
        view.set_prices(BTreeMap::from([(7, prices(10)), (9, prices(30))]));
        assert_eq!((outgoing(&view, 7, 8), outgoing(&view, 7, 9)), (None, Some([10, 30])));
        assert!(price_table(&view).between(RelayId::new(9), RelayId::new(7)).is_some());
    }
}
