//! Prices of a network's relays, as typed for a controller and in the form of maps.

use std::collections::BTreeMap;

use byway_api::{PriceToRelay, RelayPrices};
use byway_config_types::{PriceSheets, PricesSetting};
use byway_plan::{MarginalPrices, NextBytePrices, PricePerGigabyte, PriceSheet};
use byway_units::RelayId;
use schemars::JsonSchema;
use serde::Deserialize;

/// A relay of the controller's network.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawControllerRelay {
    /// Name of the relay. It may join later.
    pub(crate) name: String,
    pub(crate) prices: PricesSetting,
}

/// Returns the prices of the relays' next bytes, by the relay's number. `next` computes those of
/// one. Relays without a number are not in the network (yet).
pub(crate) fn entries(
    prices: &PriceSheets,
    numbers: &BTreeMap<&str, u32>,
    mut next: impl FnMut(u32, &PriceSheet) -> MarginalPrices,
) -> BTreeMap<u32, RelayPrices> {
    let with_number = |(relay, sheet)| Some((*numbers.get(relay)?, sheet));
    let sheets: Vec<(u32, &PriceSheet)> = prices.iter().filter_map(with_number).collect();
    let entry = |(number, sheet): &(u32, &PriceSheet)| {
        let others = sheets.iter().filter(|(other, _)| other != number);
        (*number, entry(sheet, &next(*number, sheet), others.copied()))
    };
    sheets.iter().map(entry).collect()
}

/// Returns the prices of a relay's next bytes in the form of maps. `others` are the numbers and
/// sheets of other relays.
pub(crate) fn entry<'a>(
    sheet: &PriceSheet,
    next: &MarginalPrices,
    others: impl Iterator<Item = (u32, &'a PriceSheet)>,
) -> RelayPrices {
    let others = others.map(|(relay, other)| (RelayId::new(relay), other));
    let NextBytePrices { incoming, to_internet, to_relays } = NextBytePrices::of_relay(sheet, next, others);
    let to_relay = |(relay, price): (RelayId, PricePerGigabyte)| PriceToRelay {
        relay: relay.number(),
        nanounits_per_gigabyte: price.money().nanodollars(),
    };
    RelayPrices {
        currency: next.currency.code().to_owned(),
        ingress_nanounits_per_gigabyte: incoming.money().nanodollars(),
        egress_nanounits_per_gigabyte: to_internet.money().nanodollars(),
        machine_nanounits_per_hour: next.machine_per_hour.nanodollars(),
        to_relays: to_relays.into_iter().map(to_relay).collect(),
    }
}

#[cfg(test)]
mod tests;
