//! Amounts of data.

use core::fmt;
use core::ops::Div;

use crate::quantity::{additive_quantity, write_decimal};
use crate::{Duration, Rate};

/// Amount of data in bytes, never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(u64);

additive_quantity!(Bytes, u64, u64);

impl Bytes {
    /// Creates an amount of `count` bytes.
    #[must_use]
    pub const fn new(count: u64) -> Self {
        Self(count)
    }

    /// Returns the number of bytes.
    #[must_use]
    pub const fn count(self) -> u64 {
        self.0
    }

    /// Returns the number of bits, in 128 bits, which always suffice.
    #[must_use]
    pub const fn bits(self) -> u128 {
        self.0 as u128 * 8
    }
}

impl From<usize> for Bytes {
    fn from(count: usize) -> Self {
        Self(count as u64)
    }
}

impl Div<Rate> for Bytes {
    type Output = Duration;

    /// Returns the time that these bytes take at `rate`, rounded up to a nanosecond (see
    /// [`Rate::time_for`]).
    ///
    /// # Panics
    /// If the rate is zero or the time does not fit.
    fn div(self, rate: Rate) -> Duration {
        match rate.time_for(self) {
            Some(duration) => duration,
            None => panic!("{self:?} / {rate:?} has no answer"),
        }
    }
}

impl Div<Duration> for Bytes {
    type Output = Rate;

    /// Returns the mean rate of these bytes over `duration`, rounded down to a bit per second
    /// (see [`Rate::over`]).
    ///
    /// # Panics
    /// If the duration is zero or the rate does not fit.
    fn div(self, duration: Duration) -> Rate {
        match Rate::over(self, duration) {
            Some(rate) => rate,
            None => panic!("{self:?} / {duration:?} has no answer"),
        }
    }
}

impl fmt::Display for Bytes {
    /// Writes the amount with a decimal prefix and at most three decimals, rounded down: `1.5 MB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit_bytes, unit) = match self.0 {
            0..1_000 => return write!(f, "{} B", self.0),
            1_000..1_000_000 => (1_000, "kB"),
            1_000_000..1_000_000_000 => (1_000_000, "MB"),
            1_000_000_000..1_000_000_000_000 => (1_000_000_000, "GB"),
            _ => (1_000_000_000_000, "TB"),
        };
        write_decimal(f, self.0 / (unit_bytes / 1_000), 3, 0)?;
        write!(f, " {unit}")
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    #[test]
    fn amounts_are_shown_with_decimal_prefixes() {
        assert_eq!(Bytes::new(999).to_string(), "999 B");
        assert_eq!(Bytes::new(1_000).to_string(), "1 kB");
        assert_eq!(Bytes::new(1_500_000).to_string(), "1.5 MB");
        assert_eq!(Bytes::new(1_234_567_890_123).to_string(), "1.234 TB");
    }

    #[test]
    fn bytes_add_subtract_and_sum() {
        let total: Bytes = [Bytes::new(1), Bytes::new(2), Bytes::new(3)].into_iter().sum();
        assert_eq!(total, Bytes::new(6));
        assert_eq!(total.checked_sub(Bytes::new(7)), None);
        assert_eq!(total.saturating_sub(Bytes::new(7)), Bytes::ZERO);
        assert_eq!(Bytes::MAX.checked_add(Bytes::new(1)), None);
        assert_eq!(Bytes::MAX.saturating_add(Bytes::new(1)), Bytes::MAX);
        assert!(Bytes::ZERO.is_zero() && !total.is_zero());
    }

    #[test]
    fn the_largest_amount_has_a_number_of_bits() {
        assert_eq!(Bytes::MAX.bits(), u128::from(u64::MAX) * 8);
    }

    #[test]
    #[should_panic(expected = "has no answer")]
    fn a_zero_rate_takes_forever() {
        let _ = Bytes::new(1) / Rate::ZERO;
    }
}
