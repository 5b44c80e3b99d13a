//! Bill of one relay for a calendar month, exact to the cent, and the prices of its next bytes.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use byway_units::{Bytes, Money, RelayId};

use crate::month::{DAY_SECONDS, Month, SAMPLE_SECONDS};
use crate::price::{GIGABYTE, Tariff, bytes_in_tiers};
use crate::price_sheet::{Destination, MarginalPrices, PriceSheet};

/// Share of a month's samples that a port at the 95th percentile may exceed for free: one in 20.
const FREE_SAMPLES: usize = 20;

/// Shortest time of a month from which its volume is forecast. Before, a busy hour would count as a
/// busy month.
const FORECAST_AFTER_SECONDS: u64 = DAY_SECONDS;

/// Traffic of one relay in a calendar month, as its provider measures it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonthUsage {
    month: Month,
    /// Time of the first record, in seconds of Unix time.
    since: u64,
    /// Time of the latest record, in seconds of Unix time.
    until: u64,
    received: Bytes,
    sent: BTreeMap<Option<RelayId>, Bytes>,
    /// Received and sent bytes of each five minutes from the month's begin, up to the latest with
    /// traffic.
    samples: Vec<[u64; 2]>,
}

impl MonthUsage {
    /// Returns the usage of a month without traffic, from this time on. The time is in seconds of
    /// Unix time.
    #[must_use]
    pub fn new(unix_seconds: u64) -> Self {
        Self {
            month: Month::containing(unix_seconds),
            since: unix_seconds,
            until: unix_seconds,
            received: Bytes::ZERO,
            sent: BTreeMap::new(),
            samples: Vec::new(),
        }
    }

    /// Returns the usage with these bytes, as an earlier process recorded them from `since` to
    /// `until`. `samples` are the received and sent bytes of each five minutes since the month's
    /// begin; those past its end are ignored.
    #[must_use]
    pub fn restored(
        (since, until): (u64, u64),
        received: Bytes,
        sent: BTreeMap<Option<RelayId>, Bytes>,
        mut samples: Vec<[u64; 2]>,
    ) -> Self {
        let month = Month::containing(since);
        samples.truncate(month.samples_until(month.ends()));
        Self { month, since, until: until.clamp(since, month.ends()), received, sent, samples }
    }

    /// Records bytes that the relay received or sent since the latest record: to agents (`None`)
    /// and to other relays. Bytes of another month are ignored: begin another usage for it. The
    /// time is in seconds of Unix time.
    pub fn record(&mut self, unix_seconds: u64, received: Bytes, sent: &[(Option<RelayId>, Bytes)]) {
        if Month::containing(unix_seconds) != self.month {
            return;
        }
        self.until = self.until.max(unix_seconds);
        self.received = self.received.saturating_add(received);
        let mut all = Bytes::ZERO;
        for (to, bytes) in sent {
            all = all.saturating_add(*bytes);
            let known = self.sent.entry(*to).or_default();
            *known = known.saturating_add(*bytes);
        }
        let index = self.month.sample_at(unix_seconds);
        if self.samples.len() <= index && (received, all) != (Bytes::ZERO, Bytes::ZERO) {
            self.samples.resize(index + 1, [0; 2]);
        }
        if let Some([received_bytes, sent_bytes]) = self.samples.get_mut(index) {
            *received_bytes = received_bytes.saturating_add(received.count());
            *sent_bytes = sent_bytes.saturating_add(all.count());
        }
    }

    /// Returns the month.
    #[must_use]
    pub const fn month(&self) -> Month {
        self.month
    }

    /// Returns the times of the first and the latest record, in seconds of Unix time.
    #[must_use]
    pub const fn recorded(&self) -> (u64, u64) {
        (self.since, self.until)
    }

    /// Returns the bytes that the relay received.
    #[must_use]
    pub const fn received(&self) -> Bytes {
        self.received
    }

    /// Returns the bytes that the relay sent to agents (`None`) and to each other relay.
    #[must_use]
    pub const fn sent(&self) -> &BTreeMap<Option<RelayId>, Bytes> {
        &self.sent
    }

    /// Returns the received and sent bytes of each five minutes, from the month's begin up to the
    /// latest with traffic.
    #[must_use]
    pub fn samples(&self) -> &[[u64; 2]] {
        &self.samples
    }

    /// Returns the bytes of the sample at the 95th percentile, of the direction in which there are
    /// more. Samples without a record count as 0, up to the latest record.
    #[must_use]
    pub fn percentile_95(&self) -> Bytes {
        let count = self.month.samples_until(self.until).max(self.samples.len());
        let of_direction = |direction: usize| {
            let mut bytes: Vec<u64> = self.samples.iter().map(|sample| sample[direction]).collect();
            bytes.sort_unstable_by(|one, other| other.cmp(one));
            bytes.get(count / FREE_SAMPLES).copied().unwrap_or_default()
        };
        Bytes::new(of_direction(0).max(of_direction(1)))
    }

    /// Returns the totals by which the month is billed. `destination` returns the destination of
    /// bytes to another relay.
    #[must_use]
    pub fn totals(&self, destination: impl Fn(RelayId) -> Destination) -> UsageTotals {
        let mut sent: BTreeMap<Destination, Bytes> = BTreeMap::new();
        for (to, bytes) in &self.sent {
            let known = sent.entry(to.map_or(Destination::Internet, &destination)).or_default();
            *known = known.saturating_add(*bytes);
        }
        UsageTotals {
            since: self.since,
            until: self.until,
            received: self.received,
            sent,
            percentile_95: self.percentile_95(),
        }
    }
}

/// Totals of a calendar month by which a relay is billed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageTotals {
    /// Time of the month's first record, in seconds of Unix time.
    pub since: u64,
    /// Time of the month's latest record, in seconds of Unix time; not before the first.
    pub until: u64,
    /// Bytes that the relay received.
    pub received: Bytes,
    /// Bytes that the relay sent, by destination.
    pub sent: BTreeMap<Destination, Bytes>,
    /// Bytes of the five-minute sample at the 95th percentile: see [`MonthUsage::percentile_95`].
    pub percentile_95: Bytes,
}

impl UsageTotals {
    /// Returns the volume to a destination that the whole month is forecast to have: the volume so
    /// far, extended to the month's end. `expected` counts during the first day of records.
    #[must_use]
    pub fn forecast(&self, to: &Destination, expected: Bytes) -> Bytes {
        let recorded = self.until.saturating_sub(self.since);
        if recorded < FORECAST_AFTER_SECONDS {
            return expected;
        }
        let sent = self.sent.get(to).copied().unwrap_or_default();
        let rest = Month::containing(self.since).ends().saturating_sub(self.until);
        let more = u128::from(sent.count()) * u128::from(rest) / u128::from(recorded);
        sent.saturating_add(Bytes::new(u64::try_from(more).unwrap_or(u64::MAX)))
    }
}

/// Amount as a fraction: its exact value, which is rounded once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ExactAmount {
    nanounits: i128,
    per: i128,
}

impl ExactAmount {
    /// Returns the amount, rounded to the nearest multiple of `unit` billionths; a half counts up.
    fn rounded_to(self, unit: i128) -> Money {
        let divisor = self.per * unit;
        let units = self.nanounits.saturating_add(divisor / 2).div_euclid(divisor);
        i64::try_from(units.saturating_mul(unit)).map_or(Money::MAX, Money::from_nanodollars)
    }
}

/// Item of a bill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BillItem {
    /// Name of the item: `machine`, `port`, `ingress`, or `egress to` and the destination.
    pub name: String,
    /// Bytes that the item is for; 0 of a machine.
    pub bytes: Bytes,
    amount: ExactAmount,
}

impl BillItem {
    /// Returns the price of the item, to the nearest billionth of the currency's unit.
    #[must_use]
    pub fn amount(&self) -> Money {
        self.amount.rounded_to(1)
    }

    /// Returns the price of the item as on an invoice, to the nearest cent.
    #[must_use]
    pub fn invoiced(&self) -> Money {
        self.amount.rounded_to(CENT)
    }
}

/// Billionths of the currency's unit in its hundredth.
const CENT: i128 = 10_000_000;

/// Bill of one relay for a month, up to the latest record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bill {
    /// Items of the bill.
    pub items: Vec<BillItem>,
}

impl Bill {
    /// Returns the sum of all items, each to the nearest billionth of the currency's unit.
    #[must_use]
    pub fn amount(&self) -> Money {
        self.items.iter().fold(Money::ZERO, |sum, item| sum.saturating_add(item.amount()))
    }

    /// Returns the sum of an invoice, whose items are rounded to the nearest cent.
    #[must_use]
    pub fn invoiced(&self) -> Money {
        self.items.iter().fold(Money::ZERO, |sum, item| sum.saturating_add(item.invoiced()))
    }
}

impl PriceSheet {
    /// Returns the bill for a month's usage, up to its latest record.
    ///
    /// The machine counts from the first record. A port counts for the whole month. A flat rate
    /// counts one port, and the share of further ones if the bytes exceed what one can carry.
    #[must_use]
    pub fn bill(&self, usage: &UsageTotals) -> Bill {
        let machine = BillItem {
            name: "machine".to_owned(),
            bytes: Bytes::ZERO,
            amount: ExactAmount {
                nanounits: product(self.machine_per_hour, usage.until.saturating_sub(usage.since)),
                per: 3_600,
            },
        };
        let mut items = vec![machine];
        match &self.to_internet.tariff {
            Tariff::PerMegabit { per_month } => items.push(percentile_item(*per_month, usage)),
            Tariff::FlatRate { port_per_month, .. } => {
                let sent = usage.sent.values().fold(Bytes::ZERO, |all, bytes| all.saturating_add(*bytes));
                let more = self.to_internet.tariff.added(Bytes::ZERO, sent);
                let nanounits = i128::from(port_per_month.saturating_add(more).nanodollars());
                let amount = ExactAmount { nanounits, per: 1 };
                items.push(BillItem { name: "port".to_owned(), bytes: sent, amount });
            }
            Tariff::PerGigabyte(_) => self.add_bytes(usage, &mut items),
        }
        Bill { items }
    }

    /// Adds the items of bytes that have a price each.
    fn add_bytes(&self, usage: &UsageTotals, items: &mut Vec<BillItem>) {
        let gigabyte = i128::from(GIGABYTE.count());
        let incoming = product(self.incoming.money(), usage.received.count());
        items.push(BillItem {
            name: "ingress".to_owned(),
            bytes: usage.received,
            amount: ExactAmount { nanounits: incoming, per: gigabyte },
        });
        let mut volumes: BTreeMap<Destination, Bytes> =
            self.destinations().map(|(to, _)| (to, Bytes::ZERO)).collect();
        for (to, bytes) in &usage.sent {
            // A destination whose price was deleted counts as the Internet.
            let to = if volumes.contains_key(to) { to } else { &Destination::Internet };
            volumes.entry(to.clone()).and_modify(|volume| *volume = volume.saturating_add(*bytes));
        }
        for (to, bytes) in volumes {
            let Tariff::PerGigabyte(tiers) = &self.price_to(&to).tariff else { continue };
            let steps = bytes_in_tiers(tiers, bytes);
            let nanounits = steps.map(|(bytes, price)| product(price.money(), bytes.count()));
            let nanounits = nanounits.fold(0, i128::saturating_add);
            let name = String::from("egress to ") + &to.to_string();
            items.push(BillItem { name, bytes, amount: ExactAmount { nanounits, per: gigabyte } });
        }
    }

    /// Returns the prices of the next bytes at the month's forecast.
    #[must_use]
    pub fn marginal_at_forecast(&self, usage: &UsageTotals) -> MarginalPrices {
        self.marginal(|to| usage.forecast(to, self.price_to(to).expected))
    }
}

/// Returns the item of a port at the 95th percentile.
fn percentile_item(per_megabit: Money, usage: &UsageTotals) -> BillItem {
    const BITS_PER_MEGABIT: i128 = 1_000_000;
    let sample = usage.percentile_95;
    let bits = product(per_megabit, sample.count()).saturating_mul(8);
    BillItem {
        name: "port at the 95th percentile".to_owned(),
        bytes: sample,
        amount: ExactAmount { nanounits: bits, per: i128::from(SAMPLE_SECONDS) * BITS_PER_MEGABIT },
    }
}

fn product(price: Money, count: u64) -> i128 {
    i128::from(price.nanodollars()).saturating_mul(i128::from(count))
}

/// Prices of a relay's next bytes, which change at most once a day, so that no flow changes its
/// service with each busy minute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DailyPrices {
    latest: Option<(u64, MarginalPrices)>,
}

impl DailyPrices {
    /// Returns the prices in force. At the first call of a day of UTC, they are those of the
    /// forecast then. The time is in seconds of Unix time.
    pub fn at(&mut self, unix_seconds: u64, sheet: &PriceSheet, usage: &UsageTotals) -> &MarginalPrices {
        let day = unix_seconds / DAY_SECONDS;
        if self.latest.as_ref().is_none_or(|(known, _)| *known != day) {
            self.latest = None;
        }
        let current = || (day, sheet.marginal_at_forecast(usage));
        &self.latest.get_or_insert_with(current).1
    }

    /// Forgets the prices in force, because the sheet is another one.
    pub fn reset(&mut self) {
        self.latest = None;
    }
}

#[cfg(test)]
mod tests;
