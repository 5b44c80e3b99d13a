//! Bytes of relays by destination, and their costs.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use byway_plan::{NextBytePrices, PriceSheet, RelayPriceTable};
use byway_sim::{Record, Step, ip_bytes};
use byway_units::{Bytes, Money, RelayId};
use serde::Serialize;

use crate::build::addresses::{relay_address, relay_number};

/// Costs of all relays with prices, by the bytes that the network carried.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CostOutcome {
    /// Currency of the prices, as its ISO 4217 code.
    pub currency: String,
    /// Costs of the bytes of all relays, in hundredths of the currency's unit.
    pub cents: f64,
    /// Costs from the explanations on, by the hour, in hundredths of the currency's unit. All flows
    /// count. `None` without explanations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explained_cents_per_hour: Option<f64>,
    /// Costs of each relay with prices, in the order of the file.
    pub relays: Vec<RelayCostOutcome>,
}

/// Costs of one relay. Bytes are those of IP packets.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RelayCostOutcome {
    /// Name of the relay's machine.
    pub name: String,
    /// Bytes that reached the relay.
    pub received_bytes: u64,
    /// Bytes that the relay sent to other relays.
    pub to_relays_bytes: u64,
    /// Bytes that the relay sent to agents.
    pub to_agents_bytes: u64,
    /// Cost of these bytes, in hundredths of the currency's unit.
    pub cents: f64,
}

/// Bytes of one relay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct RelayUsage {
    received: Bytes,
    /// Sent bytes by relay, and to agents (`None`).
    sent: BTreeMap<Option<RelayId>, Bytes>,
}

/// Counter of the bytes of all relays of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct RelayMeter {
    /// Indexes of the relays' machines, by their addresses.
    relays: BTreeMap<SocketAddr, usize>,
    usage: BTreeMap<usize, RelayUsage>,
}

impl RelayMeter {
    /// Creates the counter of these relays, by the indexes of their machines.
    pub(crate) fn new(relays: impl Iterator<Item = usize>) -> Self {
        let relays = relays.map(|node| (relay_address(node), node)).collect();
        Self { relays, usage: BTreeMap::new() }
    }

    /// Counts a packet that a relay sends, or that reaches it.
    pub(crate) fn packet(&mut self, record: &Record<'_>) {
        let bytes = ip_bytes(record.payload, record.destination);
        let is = |node: usize, at: u32| node == at as usize;
        match record.step {
            Step::Sent => {
                let from = self.relays.get(&record.source).copied();
                if let Some(from) = from.filter(|from| is(*from, record.from.number())) {
                    let to = self.relays.get(&record.destination).map(|relay| relay_number(*relay));
                    let sent = self.usage.entry(from).or_default().sent.entry(to).or_default();
                    *sent = sent.saturating_add(bytes);
                }
            }
            Step::Delivered => {
                let to = self.relays.get(&record.destination).copied();
                if let Some(to) = to.filter(|to| record.to.is_some_and(|at| is(*to, at.number()))) {
                    let received = &mut self.usage.entry(to).or_default().received;
                    *received = received.saturating_add(bytes);
                }
            }
            _ => {}
        }
    }

    /// Returns the costs of all bytes until now at the relays with prices, in a currency. `nodes`
    /// are the names of all machines by their indexes.
    pub(crate) fn costs<'a>(
        &self,
        nodes: impl Iterator<Item = (usize, &'a str)>,
        prices: &RelayPriceTable,
        currency: &str,
    ) -> CostOutcome {
        let relays = nodes.filter_map(|(node, name)| {
            let prices = prices.relay(relay_number(node))?;
            let usage = self.usage.get(&node).cloned().unwrap_or_default();
            let sent = usage.sent.iter().map(|(to, bytes)| prices.to(*to).of(*bytes));
            let money = sent.fold(prices.incoming.of(usage.received), Money::saturating_add);
            let all: u64 = usage.sent.values().map(|bytes| bytes.count()).sum();
            let to_agents = usage.sent.get(&None).map_or(0, |bytes| bytes.count());
            Some(RelayCostOutcome {
                name: name.to_owned(),
                received_bytes: usage.received.count(),
                to_relays_bytes: all - to_agents,
                to_agents_bytes: to_agents,
                cents: cents(money),
            })
        });
        let relays: Vec<RelayCostOutcome> = relays.collect();
        let cents = relays.iter().map(|relay| relay.cents).sum();
        CostOutcome { currency: currency.to_owned(), cents, explained_cents_per_hour: None, relays }
    }
}

/// Returns the prices of the next bytes of these relays, by the indexes of their machines, at the
/// volumes that their operator expects.
pub(crate) fn relay_prices<'a>(sheets: impl Iterator<Item = (usize, &'a PriceSheet)>) -> RelayPriceTable {
    let sheets = sheets.map(|(node, sheet)| (relay_number(node), sheet));
    let sheets: Vec<(RelayId, &PriceSheet)> = sheets.collect();
    let next = |(relay, sheet): &(RelayId, &PriceSheet)| {
        let others = sheets.iter().filter(|(other, _)| other != relay).copied();
        (*relay, NextBytePrices::of_relay(sheet, &sheet.marginal_as_expected(), others))
    };
    sheets.iter().map(next).collect()
}

/// Returns an amount in hundredths of the currency's unit.
#[allow(clippy::cast_precision_loss, reason = "cents for people have a few digits")]
pub(crate) fn cents(money: Money) -> f64 {
    money.nanodollars() as f64 / 1e7
}
