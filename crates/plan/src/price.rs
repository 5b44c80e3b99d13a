//! Prices of relays' bytes: prices per gigabyte, and tariffs.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};
use core::fmt;

use byway_units::{Bytes, Duration, Money, Rate};
use thiserror::Error;

/// Gigabyte as in prices: 10^9 bytes.
pub const GIGABYTE: Bytes = Bytes::new(1_000_000_000);

/// Month as in prices: 730 hours.
pub const MONTH: Duration = Duration::from_secs(730 * 3_600);

/// Price of 10^9 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PricePerGigabyte(Money);

impl PricePerGigabyte {
    /// Price of bytes that cost nothing.
    pub const FREE: Self = Self(Money::ZERO);

    /// Creates a price of `money` for each 10^9 bytes.
    #[must_use]
    pub const fn new(money: Money) -> Self {
        Self(money)
    }

    /// Returns the price of 10^9 bytes.
    #[must_use]
    pub const fn money(self) -> Money {
        self.0
    }

    /// Returns the price of these bytes, to the nearest billionth of a dollar; at most
    /// [`Money::MAX`].
    #[must_use]
    pub fn of(self, bytes: Bytes) -> Money {
        let gigabyte = i128::from(GIGABYTE.count());
        let scaled = i128::from(self.0.nanodollars()) * i128::from(bytes.count());
        let nearest = (scaled + scaled.signum() * gigabyte / 2) / gigabyte;
        i64::try_from(nearest).map_or(Money::MAX, Money::from_nanodollars)
    }

    /// Returns the mean price, if `bytes` cost `money`; free if there are no bytes.
    #[must_use]
    pub fn mean(money: Money, bytes: Bytes) -> Self {
        if bytes.is_zero() {
            return Self::FREE;
        }
        let scaled = i128::from(money.nanodollars()) * i128::from(GIGABYTE.count());
        let nanodollars = scaled / i128::from(bytes.count());
        Self(i64::try_from(nanodollars).map_or(Money::MAX, Money::from_nanodollars))
    }
}

impl fmt::Display for PricePerGigabyte {
    /// Writes the price in dollars: `$0.098/GB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/GB", self.0)
    }
}

/// Step of a price that falls with the month's volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tier {
    /// Volume of a month from which on the price is valid.
    pub from: Bytes,
    /// Price of the month's bytes from this volume to the next tier.
    pub price: PricePerGigabyte,
}

/// Tariff of a provider for the outgoing bytes of a machine in a month.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tariff {
    /// Price by volume, in tiers of rising volume; below the first, bytes are free. One tier from 0
    /// is a fixed price, one from an included volume a quota.
    PerGigabyte(Vec<Tier>),
    /// A port without a volume limit. The machine's price includes the first port; each further
    /// port has this price.
    FlatRate {
        /// Price of another port for a month.
        port_per_month: Money,
        /// Rate of each port.
        port: Rate,
    },
    /// Price by the megabit per second that is used all month, or at the 95th percentile of use.
    PerMegabit {
        /// Price of one megabit per second for a month.
        per_month: Money,
    },
}

/// Step of a price as a provider states it, with its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TierRange {
    /// Volume of a month from which on the price is valid; `None` for the end of the step before,
    /// or 0.
    pub from: Option<Bytes>,
    /// Volume of a month up to which the price is valid; `None` for the begin of the next step, or
    /// any volume.
    pub to: Option<Bytes>,
    /// Price of the bytes between the two.
    pub price: PricePerGigabyte,
}

/// Reason why steps of a price are no tariff.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct TierError {
    /// Index of the step; `None` if there are none.
    pub index: Option<usize>,
    /// Key of the step with the wrong value: `from`, `to` or `price`.
    pub key: &'static str,
    /// Problem, with the remedy.
    pub message: String,
}

impl Tariff {
    /// Returns a tariff with one price for every byte.
    #[must_use]
    pub fn fixed(price: PricePerGigabyte) -> Self {
        Self::PerGigabyte(vec![Tier { from: Bytes::ZERO, price }])
    }

    /// Returns a tariff with a free volume in each month, and a price beyond it.
    #[must_use]
    pub fn quota(included: Bytes, beyond: PricePerGigabyte) -> Self {
        Self::PerGigabyte(vec![Tier { from: included, price: beyond }])
    }

    /// Returns the tariff of these steps, if the first `included` bytes of a month are free. The
    /// steps count from 0, with the free bytes.
    ///
    /// # Errors
    /// If there is no step, a price is negative, or the steps leave a gap, overlap or end.
    pub fn from_ranges(ranges: &[TierRange], included: Bytes) -> Result<Self, TierError> {
        if ranges.is_empty() {
            return Err(TierError {
                index: None,
                key: "price",
                message: "no tier: state a price".to_owned(),
            });
        }
        let mut tiers: Vec<Tier> = Vec::with_capacity(ranges.len());
        let mut end = Some(Bytes::ZERO);
        for (index, range) in ranges.iter().enumerate() {
            let error = |key, message| Err(TierError { index: Some(index), key, message });
            if range.price.money() < Money::ZERO {
                return error("price", "negative price: set 0 or more".to_owned());
            }
            let Some(from) = range.from.or(end) else {
                return error(
                    "from",
                    "begin of the tier unknown: set `from`, or `to` of the one before".to_owned(),
                );
            };
            match end {
                Some(end) if from > end => {
                    return error("from", format!("no price from {end} to {from}: set `from` to {end}"));
                }
                Some(end) if from < end => {
                    return error("from", format!("overlap: the tier before ends at {end}; begin there"));
                }
                _ => {}
            }
            if tiers.last().is_some_and(|before| from <= before.from) {
                return error("from", "overlap: not above the begin of the tier before; raise it".to_owned());
            }
            if range.to.is_some_and(|to| to <= from) {
                return error("to", format!("empty tier: set `to` above {from}"));
            }
            tiers.push(Tier { from, price: range.price });
            end = range.to;
        }
        if let Some(end) = end {
            let message = format!("no price beyond {end}: delete `to` of the last tier, or add a tier");
            return Err(TierError { index: Some(ranges.len() - 1), key: "to", message });
        }
        Ok(Self::PerGigabyte(beyond(&tiers, included)))
    }

    /// Returns the cost of `more` bytes on a month's bill if `sent` bytes have left the machine
    /// already.
    ///
    /// A flat rate adds nothing while the port has free capacity, and then the share of another
    /// port that is fully used. A price by the megabit is spread over the bytes of a megabit per
    /// second in a month, which is correct for flows that always send. At the 95th percentile, a
    /// flow that sends for at most 36 hours of a month adds nothing. A flow that sends only in the
    /// busy hours adds as much as one that always sends.
    #[must_use]
    pub fn added(&self, sent: Bytes, more: Bytes) -> Money {
        match self {
            Self::PerGigabyte(tiers) => {
                // After any number of bytes, further ones have the price of the last tier.
                let sent = sent.min(Bytes::MAX.saturating_sub(more));
                volume_price(tiers, sent.saturating_add(more)).saturating_sub(volume_price(tiers, sent))
            }
            Self::FlatRate { port_per_month, port } => {
                let port_bytes = port.bytes_in(MONTH).unwrap_or(Bytes::MAX);
                let free = port_bytes.saturating_sub(sent);
                PricePerGigabyte::mean(*port_per_month, port_bytes).of(more.saturating_sub(free))
            }
            Self::PerMegabit { per_month } => {
                let megabit_bytes = Rate::from_megabits_per_second(1) * MONTH;
                PricePerGigabyte::mean(*per_month, megabit_bytes).of(more)
            }
        }
    }

    /// Returns the price of the next gigabyte, if `sent` bytes have left the machine in this month
    /// already. A further flow pays this price for its bytes.
    #[must_use]
    pub fn marginal(&self, sent: Bytes) -> PricePerGigabyte {
        PricePerGigabyte::mean(self.added(sent, GIGABYTE), GIGABYTE)
    }
}

/// Returns the tiers beyond a free volume.
fn beyond(tiers: &[Tier], included: Bytes) -> Vec<Tier> {
    let at = tiers.iter().rposition(|tier| tier.from <= included).unwrap_or(0);
    let mut tiers = tiers[at..].to_vec();
    if let Some(first) = tiers.first_mut() {
        first.from = first.from.max(included);
    }
    tiers
}

/// Returns the bytes of a month's volume in each tier, with the tier's price.
pub(crate) fn bytes_in_tiers(
    tiers: &[Tier],
    volume: Bytes,
) -> impl Iterator<Item = (Bytes, PricePerGigabyte)> + '_ {
    let ends = tiers.iter().skip(1).map(|tier| tier.from).chain([Bytes::MAX]);
    tiers.iter().zip(ends).map(move |(tier, end)| (volume.min(end).saturating_sub(tier.from), tier.price))
}

/// Returns the bill for a month with this volume.
fn volume_price(tiers: &[Tier], volume: Bytes) -> Money {
    let bills = bytes_in_tiers(tiers, volume).map(|(bytes, price)| price.of(bytes));
    bills.fold(Money::ZERO, Money::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn cents(cents: i64) -> PricePerGigabyte {
        PricePerGigabyte::new(Money::from_cents(cents))
    }

    const fn gigabytes(count: u64) -> Bytes {
        Bytes::new(count * GIGABYTE.count())
    }

    #[test]
    fn prices_scale_with_bytes() {
        assert_eq!(cents(12).of(gigabytes(5)), Money::from_cents(60));
        assert_eq!(cents(2).of(Bytes::new(1_200)), Money::from_nanodollars(24));
        assert_eq!(cents(1).of(Bytes::new(1)), Money::from_nanodollars(0));
        assert_eq!(PricePerGigabyte::new(Money::MAX).of(Bytes::MAX), Money::MAX);
        assert_eq!(PricePerGigabyte::mean(Money::from_cents(60), gigabytes(5)), cents(12));
        assert_eq!(PricePerGigabyte::mean(Money::MAX, Bytes::ZERO), PricePerGigabyte::FREE);
        assert_eq!(cents(9).to_string(), "$0.09/GB");
    }

    #[test]
    fn tiers_are_paid_one_after_the_other() {
        let tiers = vec![
            Tier { from: Bytes::ZERO, price: cents(12) },
            Tier { from: gigabytes(1_000), price: cents(11) },
            Tier { from: gigabytes(10_000), price: cents(8) },
        ];
        let tariff = Tariff::PerGigabyte(tiers);
        assert_eq!(tariff.added(Bytes::ZERO, gigabytes(2_000)), Money::from_dollars(120 + 110));
        assert_eq!(tariff.marginal(gigabytes(9_999)), cents(11));
        assert_eq!(tariff.marginal(gigabytes(10_000)), cents(8));
        assert_eq!(tariff.added(gigabytes(999), gigabytes(2)), Money::from_cents(23));
    }

    #[test]
    fn a_port_is_free_until_it_is_full() {
        let port = Rate::from_megabits_per_second(200);
        let tariff = Tariff::FlatRate { port_per_month: Money::from_dollars(4), port };
        let volume = port * MONTH;
        assert_eq!(tariff.marginal(Bytes::ZERO), PricePerGigabyte::FREE);
        let full = tariff.marginal(volume);
        // 65.7 TB for four dollars.
        assert_eq!(full.money().nanodollars(), 60_882);
    }

    #[test]
    fn a_quota_is_free_until_it_is_used() {
        let tariff = Tariff::quota(gigabytes(1_000), cents(1));
        assert_eq!(tariff.marginal(gigabytes(999)), PricePerGigabyte::FREE);
        assert_eq!(tariff.marginal(gigabytes(1_000)), cents(1));
        assert_eq!(tariff.added(gigabytes(999), gigabytes(3)), Money::from_cents(2));
        assert_eq!(tariff.marginal(Bytes::MAX), cents(1));
    }

    fn range(from: Option<u64>, to: Option<u64>, price: i64) -> TierRange {
        TierRange { from: from.map(gigabytes), to: to.map(gigabytes), price: cents(price) }
    }

    #[test]
    fn steps_without_gaps_are_a_tariff_and_included_bytes_are_free() {
        let ranges = [range(None, Some(100), 9), range(None, None, 8), range(Some(500), None, 7)];
        let tier = |from, price| Tier { from: gigabytes(from), price: cents(price) };
        let tariff = |included| Tariff::from_ranges(&ranges, gigabytes(included));
        assert_eq!(tariff(0), Ok(Tariff::PerGigabyte(vec![tier(0, 9), tier(100, 8), tier(500, 7)])));
        assert_eq!(tariff(40), Ok(Tariff::PerGigabyte(vec![tier(40, 9), tier(100, 8), tier(500, 7)])));
        assert_eq!(tariff(100), Ok(Tariff::PerGigabyte(vec![tier(100, 8), tier(500, 7)])));
        assert_eq!(tariff(600), Ok(Tariff::PerGigabyte(vec![tier(600, 7)])));
    }

    #[test]
    fn steps_with_gaps_overlaps_ends_and_negative_prices_are_refused_by_name() {
        for (ranges, index, key, problem) in [
            (vec![], None, "price", "no tier"),
            (vec![range(None, None, -9)], Some(0), "price", "negative price"),
            (vec![range(Some(1), None, 9)], Some(0), "from", "no price from 0 B to 1 GB"),
            (vec![range(None, Some(10), 9), range(Some(20), None, 8)], Some(1), "from", "no price from"),
            (vec![range(None, Some(10), 9), range(Some(5), None, 8)], Some(1), "from", "overlap"),
            (vec![range(None, None, 9), range(Some(0), None, 8)], Some(1), "from", "overlap"),
            (vec![range(None, None, 9), range(None, None, 8)], Some(1), "from", "unknown"),
            (vec![range(None, Some(0), 9)], Some(0), "to", "empty tier"),
            (vec![range(None, Some(10), 9)], Some(0), "to", "no price beyond 10 GB"),
        ] {
            let error = Tariff::from_ranges(&ranges, Bytes::ZERO).expect_err(problem);
            assert_eq!((error.index, error.key), (index, key), "{problem}");
            assert!(error.message.contains(problem), "{}", error.message);
        }
    }

    #[test]
    fn a_megabit_is_spread_over_its_month() {
        let tariff = Tariff::PerMegabit { per_month: Money::from_cents(50) };
        // 328.5 GB for half a dollar.
        assert_eq!(tariff.marginal(Bytes::ZERO).money().nanodollars(), 1_522_070);
    }
}
