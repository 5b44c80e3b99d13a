//! Prices of relays' bytes: prices per gigabyte, and tariffs.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use byway_units::{Bytes, Duration, Money, Rate};

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
    /// is a fixed price.
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
    /// A volume that is included in the machine's price, and a price beyond it.
    Quota {
        /// Volume of a month that the machine's price includes.
        included: Bytes,
        /// Price of bytes that exceed the volume.
        beyond: PricePerGigabyte,
    },
}

impl Tariff {
    /// Returns a tariff with one price for every byte.
    #[must_use]
    pub fn fixed(price: PricePerGigabyte) -> Self {
        Self::PerGigabyte(vec![Tier { from: Bytes::ZERO, price }])
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
            Self::Quota { included, beyond } => {
                let free = included.saturating_sub(sent);
                beyond.of(more.saturating_sub(free))
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

/// Returns the bill for a month with this volume.
fn volume_price(tiers: &[Tier], volume: Bytes) -> Money {
    let ends = tiers.iter().skip(1).map(|tier| tier.from).chain([Bytes::MAX]);
    let bills = tiers.iter().zip(ends).map(|(tier, end)| {
        let in_tier = volume.min(end).saturating_sub(tier.from);
        tier.price.of(in_tier)
    });
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
        let tariff = Tariff::Quota { included: gigabytes(1_000), beyond: cents(1) };
        assert_eq!(tariff.marginal(gigabytes(999)), PricePerGigabyte::FREE);
        assert_eq!(tariff.marginal(gigabytes(1_000)), cents(1));
        assert_eq!(tariff.added(gigabytes(999), gigabytes(3)), Money::from_cents(2));
    }

    #[test]
    fn a_megabit_is_spread_over_its_month() {
        let tariff = Tariff::PerMegabit { per_month: Money::from_cents(50) };
        // 328.5 GB for half a dollar.
        assert_eq!(tariff.marginal(Bytes::ZERO).money().nanodollars(), 1_522_070);
    }
}
