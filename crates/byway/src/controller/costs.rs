//! Prices of the network's relays, the traffic that they report, and their costs.

use std::collections::BTreeMap;

use byway_api::{NetworkCost, RelayPrices, RelayUsage, Role};
use byway_config_types::PriceSheets;
use byway_plan::{DailyPrices, MarginalPrices, Month, PriceSheet};

use super::network::Network;
use crate::cost::PricedRelays;
use crate::settings::price_entries;

/// Seconds of a day.
const DAY_SECONDS: u64 = 86_400;

/// Prices of relays, and the traffic that they report.
#[derive(Debug, Default)]
pub(super) struct RelayCosts {
    /// Prices of relays by name, members or not.
    prices: PriceSheets,
    /// Latest reports, by the relay's number.
    usages: BTreeMap<u32, RelayUsage>,
    /// Prices of next bytes, by the relay's number.
    daily: BTreeMap<u32, DailyPrices>,
    /// Prices as maps carry them, by the relay's number.
    entries: BTreeMap<u32, RelayPrices>,
    /// Generation of the network, and the day, of `entries`.
    current: Option<(u64, u64)>,
}

impl RelayCosts {
    /// Replaces the prices.
    pub(super) fn set_prices(&mut self, prices: PriceSheets) {
        (self.prices, self.current) = (prices, None);
        self.daily.clear();
    }

    /// Records the traffic of a member; ignores agents, other relays that are no members, and times
    /// of another month or of the future.
    pub(super) fn report(&mut self, network: &Network, number: u32, usage: &RelayUsage, now: u64) {
        let is_relay = |number: u32| network.node(number).is_some_and(|node| node.role == Role::Relay);
        let RelayUsage { since_unix_seconds: since, until_unix_seconds: until, .. } = *usage;
        // Clocks may differ by some minutes.
        let is_current = since <= until && until <= now.saturating_add(3_600);
        if is_relay(number) && is_current {
            let mut usage = usage.clone();
            usage.sent.retain(|sent| sent.relay.is_none_or(is_relay));
            if self.usages.insert(number, usage).is_none() {
                // The prices of the relay's next bytes follow the forecast from now on.
                self.current = None;
            }
        }
    }

    /// Forgets a former member.
    pub(super) fn forget(&mut self, number: u32) {
        self.usages.remove(&number);
        self.daily.remove(&number);
    }

    /// Updates the prices that maps carry, if the network has changed since then, or the day.
    /// Returns true if they differ.
    pub(super) fn refresh(&mut self, network: &Network, generation: u64, now: u64) -> bool {
        let key = (generation, now / DAY_SECONDS);
        if self.current == Some(key) {
            return false;
        }
        self.current = Some(key);
        let Self { prices, usages, daily, .. } = self;
        let numbers = network.relays().map(|relay| (relay.name.as_str(), relay.number)).collect();
        let relays = priced(network, prices);
        let entries = price_entries(prices, &numbers, |number, sheet| {
            next_prices(&relays, sheet, usages.get(&number), daily.entry(number).or_default(), now)
        });
        let differs = entries != self.entries;
        self.entries = entries;
        differs
    }

    /// Returns the prices of a relay's next bytes, as maps carry them.
    pub(super) fn entry(&self, relay: u32) -> Option<RelayPrices> {
        self.entries.get(&relay).cloned()
    }

    /// Returns the costs of all relays that have reported their traffic of this month.
    pub(super) fn costs(&mut self, name: &str, network: &Network, now: u64) -> NetworkCost {
        let Self { prices, usages, daily, .. } = self;
        let relays = priced(network, prices);
        let of_month =
            |usage: &RelayUsage| Month::containing(usage.since_unix_seconds) == Month::containing(now);
        let cost = |(number, usage): (&u32, &RelayUsage)| {
            let relay = relays.names.get(number)?;
            let next = relays.prices.sheet(relay).map(|sheet| {
                next_prices(&relays, sheet, Some(usage), daily.entry(*number).or_default(), now)
            });
            Some(relays.cost(relay, usage, next.as_ref()))
        };
        let current = usages.iter().filter(|(_, usage)| of_month(usage));
        NetworkCost { name: name.to_owned(), relays: current.filter_map(cost).collect() }
    }
}

fn priced<'a>(network: &'a Network, prices: &'a PriceSheets) -> PricedRelays<'a> {
    let names = network.relays().map(|relay| (relay.number, relay.name.as_str())).collect();
    PricedRelays { names, prices }
}

/// Returns the prices of a relay's next bytes: those of the month's forecast, which change once a
/// day, or those of the expected volume while no traffic is known.
fn next_prices(
    relays: &PricedRelays<'_>,
    sheet: &PriceSheet,
    usage: Option<&RelayUsage>,
    daily: &mut DailyPrices,
    now: u64,
) -> MarginalPrices {
    let usage = usage.filter(|usage| Month::containing(usage.since_unix_seconds) == Month::containing(now));
    match usage {
        Some(usage) => daily.at(now, sheet, &relays.totals(sheet, usage)).clone(),
        None => sheet.marginal_as_expected(),
    }
}
