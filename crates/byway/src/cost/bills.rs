//! Bills of relays, from their traffic of the month and their prices.

use byway_config_types::PriceSheets;
use std::collections::BTreeMap;

use byway_api::{BytesToDestination, BytesToRelay, RelayBill, RelayBillItem, RelayCost, RelayUsage};
use byway_plan::{Destination, MarginalPrices, Month, MonthUsage, PriceSheet, UsageTotals};
use byway_units::{Bytes, RelayId};

use crate::settings::price_entry;

/// Relays of a network by number, with their prices.
#[derive(Clone, Debug)]
pub(crate) struct PricedRelays<'a> {
    pub(crate) names: BTreeMap<u32, &'a str>,
    pub(crate) prices: &'a PriceSheets,
}

impl PricedRelays<'_> {
    /// Returns the totals by which a relay with these prices is billed.
    pub(crate) fn totals(&self, sheet: &PriceSheet, usage: &RelayUsage) -> UsageTotals {
        let mut sent: BTreeMap<Destination, Bytes> = BTreeMap::new();
        for BytesToRelay { relay, bytes } in &usage.sent {
            let to = relay.and_then(|relay| self.names.get(&relay)).copied();
            let known = sent.entry(self.prices.destination(sheet, to)).or_default();
            *known = known.saturating_add(Bytes::new(*bytes));
        }
        UsageTotals {
            since: usage.since_unix_seconds,
            until: usage.until_unix_seconds,
            received: Bytes::new(usage.received_bytes),
            sent,
            percentile_95: Bytes::new(usage.percentile_95_sample_bytes),
        }
    }

    /// Returns a relay's traffic and bill. `next` are the prices of its next bytes; `None` for
    /// those of the forecast.
    pub(crate) fn cost(&self, relay: &str, usage: &RelayUsage, next: Option<&MarginalPrices>) -> RelayCost {
        let sent = usage.sent.iter().map(|BytesToRelay { relay, bytes }| BytesToDestination {
            to: relay.map_or_else(|| "agents".to_owned(), |relay| self.name(relay)),
            relay: *relay,
            bytes: *bytes,
        });
        let bill = self.prices.sheet(relay).map(|sheet| self.bill(sheet, relay, usage, next));
        let note =
            "prices of this relay not known: set them in [network.relays.prices] or [[controller.relays]]";
        RelayCost {
            name: relay.to_owned(),
            month: Month::containing(usage.since_unix_seconds).to_string(),
            since_unix_seconds: usage.since_unix_seconds,
            until_unix_seconds: usage.until_unix_seconds,
            received_bytes: usage.received_bytes,
            sent: sent.collect(),
            percentile_95_sample_bytes: usage.percentile_95_sample_bytes,
            note: bill.is_none().then(|| note.to_owned()),
            bill,
            tenants: vec![],
        }
    }

    fn bill(
        &self,
        sheet: &PriceSheet,
        relay: &str,
        usage: &RelayUsage,
        next: Option<&MarginalPrices>,
    ) -> RelayBill {
        const CENT_NANOUNITS: i64 = 10_000_000;
        let totals = self.totals(sheet, usage);
        let bill = sheet.bill(&totals);
        let others = self.names.iter().filter(|(_, name)| **name != relay);
        let others = others.filter_map(|(number, name)| Some((*number, self.prices.sheet(name)?)));
        let forecast = || sheet.marginal_at_forecast(&totals);
        let next = price_entry(sheet, &next.cloned().unwrap_or_else(forecast), others);
        let items = bill.items.iter().map(|item| RelayBillItem {
            name: item.name.clone(),
            bytes: item.bytes.count(),
            nanounits: item.amount().nanodollars(),
        });
        RelayBill {
            currency: sheet.currency.code().to_owned(),
            items: items.collect(),
            total_nanounits: bill.amount().nanodollars(),
            invoiced_cents: bill.invoiced().nanodollars() / CENT_NANOUNITS,
            next,
        }
    }

    fn name(&self, relay: u32) -> String {
        self.names.get(&relay).map_or_else(|| RelayId::new(relay).to_string(), |name| (*name).to_owned())
    }
}

/// Returns a month's usage as a relay reports it.
pub(crate) fn reported(usage: &MonthUsage) -> RelayUsage {
    let (since_unix_seconds, until_unix_seconds) = usage.recorded();
    let sent = usage.sent().iter();
    let sent = sent.map(|(to, bytes)| BytesToRelay { relay: to.map(RelayId::number), bytes: bytes.count() });
    RelayUsage {
        since_unix_seconds,
        until_unix_seconds,
        received_bytes: usage.received().count(),
        sent: sent.collect(),
        percentile_95_sample_bytes: usage.percentile_95().count(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-01, the begin of a month of 30 days.
    const NOVEMBER: u64 = 1_793_491_200;

    #[test]
    fn a_relay_is_billed_by_the_destinations_of_its_bytes() {
        let text = "[controller]\n\
            [[controller.relays]]\nname = \"east\"\nprices = { provider = \"aws\", region = \"eu-central-1\" }\n\
            [[controller.relays]]\nname = \"west\"\nprices = { provider = \"aws\", region = \"us-east-1\" }\n";
        let prices = crate::settings::controller_prices_of(text).expect("right prices");
        let relays =
            PricedRelays { names: BTreeMap::from([(1, "east"), (2, "west"), (3, "north")]), prices: &prices };
        let mut usage = MonthUsage::new(NOVEMBER);
        let gigabytes = |count: u64| Bytes::new(count * 1_000_000_000);
        let relay = |number| Some(RelayId::new(number));
        let sent = [(None, gigabytes(100)), (relay(2), gigabytes(50)), (relay(3), gigabytes(1))];
        usage.record(NOVEMBER + 86_400, gigabytes(151), &sent);
        let cost = relays.cost("east", &reported(&usage), None);
        let bill = cost.bill.expect("its prices are known");
        let items: Vec<_> =
            bill.items.iter().map(|item| (item.name.as_str(), item.bytes, item.nanounits)).collect();
        // 24 hours, then 101 GB at 9 cents and 50 GB at 2 cents.
        assert_eq!(
            items[1..],
            [
                ("ingress", 151_000_000_000, 0),
                ("egress to Internet", 101_000_000_000, 9_090_000_000),
                ("egress to aws", 50_000_000_000, 1_000_000_000),
            ]
        );
        assert_eq!(bill.total_nanounits, items.iter().map(|(_, _, nanounits)| nanounits).sum::<i64>());
        assert_eq!((cost.month.as_str(), bill.next.to_relay(2)), ("2026-11", 20_000_000));
        let names: Vec<_> = cost.sent.iter().map(|sent| sent.to.as_str()).collect();
        assert_eq!(names, ["agents", "west", "north"]);
        let unpriced = relays.cost("north", &reported(&usage), None);
        assert!(
            unpriced.bill.is_none()
                && unpriced.note.is_some_and(|note| note.contains("[[controller.relays]]"))
        );
    }
}
