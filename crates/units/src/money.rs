//! Amounts of money.

use core::fmt;
use core::ops::Neg;

use crate::quantity::{additive_quantity, write_decimal};

/// Amount of US dollars in whole billionths, positive or negative, within 9.2 thousand million
/// dollars.
///
/// A billionth of a dollar resolves one packet: 1200 bytes at 0.02 dollars per gigabyte cost 24 of
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Money(i64);

additive_quantity!(Money, i64, i64);

const NANODOLLARS_PER_DOLLAR: i64 = 1_000_000_000;

impl Money {
    /// Creates an amount of `nanodollars` billionths of a dollar.
    #[must_use]
    pub const fn from_nanodollars(nanodollars: i64) -> Self {
        Self(nanodollars)
    }

    /// Creates an amount of `dollars` dollars.
    ///
    /// # Panics
    /// Beyond 9.2 thousand million dollars.
    #[must_use]
    pub const fn from_dollars(dollars: i64) -> Self {
        match dollars.checked_mul(NANODOLLARS_PER_DOLLAR) {
            Some(nanodollars) => Self(nanodollars),
            None => panic!("more than 9.2 thousand million dollars"),
        }
    }

    /// Creates an amount of `cents` hundredths of a dollar.
    ///
    /// # Panics
    /// Beyond 9.2 thousand million dollars.
    #[must_use]
    pub const fn from_cents(cents: i64) -> Self {
        match cents.checked_mul(NANODOLLARS_PER_DOLLAR / 100) {
            Some(nanodollars) => Self(nanodollars),
            None => panic!("more than 9.2 thousand million dollars"),
        }
    }

    /// Returns the amount in billionths of a dollar.
    #[must_use]
    pub const fn nanodollars(self) -> i64 {
        self.0
    }
}

impl Neg for Money {
    type Output = Self;

    fn neg(self) -> Self {
        Self::ZERO - self
    }
}

impl fmt::Display for Money {
    /// Writes the amount in dollars with at least two decimals: `-$1.32`, `$0.000024`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0 < 0 { "-$" } else { "$" })?;
        write_decimal(f, self.0.unsigned_abs(), 9, 2)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    #[test]
    fn amounts_are_shown_in_dollars() {
        assert_eq!(Money::from_cents(132).to_string(), "$1.32");
        assert_eq!(Money::from_dollars(-17).to_string(), "-$17.00");
        assert_eq!(Money::from_nanodollars(24_000).to_string(), "$0.000024");
        assert_eq!(Money::from_nanodollars(i64::MIN).to_string(), "-$9223372036.854775808");
    }

    #[test]
    fn a_saving_is_a_negative_cost() {
        let saving = Money::from_cents(132) - Money::from_cents(662);
        assert_eq!(saving, -Money::from_cents(530));
        assert_eq!(Money::from_cents(3) * 4, Money::from_cents(12));
    }

    #[test]
    #[should_panic(expected = "does not fit")]
    fn the_least_amount_has_no_opposite() {
        let _ = -Money::from_nanodollars(i64::MIN);
    }

    #[test]
    fn sums_out_of_range_are_none_or_the_bound() {
        let least = Money::from_nanodollars(i64::MIN);
        assert_eq!(Money::MAX.checked_add(Money::from_nanodollars(1)), None);
        assert_eq!(least.checked_sub(Money::from_nanodollars(1)), None);
        assert_eq!(least.saturating_sub(Money::MAX), least);
    }
}
