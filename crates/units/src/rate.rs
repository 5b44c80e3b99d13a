//! Bit rates, and their arithmetic with bytes and time.

use core::fmt;
use core::ops::Mul;

use crate::quantity::{additive_quantity, write_decimal};
use crate::{Bytes, Duration, Probability};

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// Rate in bits per second, never negative.
///
/// Rounding never overstates a link: bytes that fit in a time are rounded down, and the time that
/// bytes take is rounded up. So no sum of steps exceeds the rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

additive_quantity!(Rate, u64, u64);

impl Rate {
    /// Creates a rate of `bits` bits per second.
    #[must_use]
    pub const fn from_bits_per_second(bits: u64) -> Self {
        Self(bits)
    }

    /// Creates a rate of `kilobits` thousand bits per second.
    ///
    /// # Panics
    /// If that is more than [`Rate::MAX`].
    #[must_use]
    pub const fn from_kilobits_per_second(kilobits: u64) -> Self {
        Self::scaled(kilobits, 1_000)
    }

    /// Creates a rate of `megabits` million bits per second.
    ///
    /// # Panics
    /// If that is more than [`Rate::MAX`].
    #[must_use]
    pub const fn from_megabits_per_second(megabits: u64) -> Self {
        Self::scaled(megabits, 1_000_000)
    }

    const fn scaled(count: u64, bits_each: u64) -> Self {
        match count.checked_mul(bits_each) {
            Some(bits) => Self(bits),
            None => panic!("a rate of more than 18 exabits per second"),
        }
    }

    /// Returns the mean rate of `bytes` over `duration`, rounded down; `None` if the duration is
    /// zero or the rate does not fit.
    #[must_use]
    pub const fn over(bytes: Bytes, duration: Duration) -> Option<Self> {
        if duration.is_zero() {
            return None;
        }
        // 2^67 bits times 10^9 is under 2^97: the product fits.
        match narrow(bytes.bits() * NANOS_PER_SECOND / duration.as_nanos() as u128) {
            Some(bits) => Some(Self(bits)),
            None => None,
        }
    }

    /// Returns the rate in bits per second.
    #[must_use]
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }

    /// Returns the bytes sent at this rate in `duration`, rounded down; `None` if they do not fit.
    #[must_use]
    pub const fn bytes_in(self, duration: Duration) -> Option<Bytes> {
        match narrow(self.0 as u128 * duration.as_nanos() as u128 / (8 * NANOS_PER_SECOND)) {
            Some(count) => Some(Bytes::new(count)),
            None => None,
        }
    }

    /// Returns the time that `bytes` take at this rate, rounded up to a nanosecond; `None` if the
    /// rate is zero or the time does not fit.
    #[must_use]
    pub const fn time_for(self, bytes: Bytes) -> Option<Duration> {
        if self.is_zero() {
            return None;
        }
        match narrow((bytes.bits() * NANOS_PER_SECOND).div_ceil(self.0 as u128)) {
            Some(nanos) => Some(Duration::from_nanos(nanos)),
            None => None,
        }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the range is checked on the line before")]
const fn narrow(wide: u128) -> Option<u64> {
    if wide > u64::MAX as u128 {
        return None;
    }
    Some(wide as u64)
}

impl Mul<Duration> for Rate {
    type Output = Bytes;

    /// Returns the bytes sent at this rate in `duration`, rounded down.
    ///
    /// # Panics
    /// If they do not fit.
    fn mul(self, duration: Duration) -> Bytes {
        match self.bytes_in(duration) {
            Some(bytes) => bytes,
            None => panic!("{self:?} * {duration:?} does not fit"),
        }
    }
}

impl Mul<Probability> for Rate {
    type Output = Self;

    /// Returns this share of the rate, to the nearest bit per second.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share is known to 53 bits; the product is never negative and the cast saturates"
    )]
    fn mul(self, share: Probability) -> Self {
        Self(((self.0 as f64 * share.value() + 0.5) as u64).min(self.0))
    }
}

impl fmt::Display for Rate {
    /// Writes the rate with a decimal prefix and at most three decimals, rounded down:
    /// `1.5 Mbit/s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit_bits, unit) = match self.0 {
            0..1_000 => return write!(f, "{} bit/s", self.0),
            1_000..1_000_000 => (1_000, "kbit/s"),
            1_000_000..1_000_000_000 => (1_000_000, "Mbit/s"),
            _ => (1_000_000_000, "Gbit/s"),
        };
        write_decimal(f, self.0 / (unit_bits / 1_000), 3, 0)?;
        write!(f, " {unit}")
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rates_are_shown_with_decimal_prefixes() {
        assert_eq!(Rate::from_bits_per_second(12).to_string(), "12 bit/s");
        assert_eq!(Rate::from_kilobits_per_second(242).to_string(), "242 kbit/s");
        assert_eq!(Rate::from_kilobits_per_second(1_500).to_string(), "1.5 Mbit/s");
        assert_eq!(Rate::from_megabits_per_second(40_000).to_string(), "40 Gbit/s");
    }

    #[test]
    fn what_has_no_answer_is_none() {
        assert_eq!(Rate::over(Bytes::new(1), Duration::ZERO), None);
        assert_eq!(Rate::over(Bytes::MAX, Duration::from_nanos(1)), None);
        assert_eq!(Rate::ZERO.time_for(Bytes::new(1)), None);
        assert_eq!(Rate::from_bits_per_second(1).time_for(Bytes::MAX), None);
        assert_eq!(Rate::MAX.bytes_in(Duration::MAX), None);
    }

    #[test]
    fn a_share_of_a_rate_rounds_to_the_nearest_bit() {
        let third = Probability::new(1.0 / 3.0).expect("a third is a probability");
        assert_eq!(Rate::from_bits_per_second(100) * third, Rate::from_bits_per_second(33));
        assert_eq!(Rate::MAX * Probability::ONE, Rate::MAX);
        assert_eq!(Rate::MAX * Probability::ZERO, Rate::ZERO);
    }

    proptest! {
        #[test]
        fn time_for_bytes_is_enough_and_not_a_nanosecond_more(bits in 1_000_u64.., count in 0_u64..1 << 40) {
            let (rate, bytes) = (Rate::from_bits_per_second(bits), Bytes::new(count));
            let time = bytes / rate;
            prop_assert!(rate * time >= bytes);
            if !time.is_zero() {
                let sooner = time - Duration::from_nanos(1);
                // Compared in bit-nanoseconds: bytes_in alone would hide a part of a byte.
                let sent = u128::from(bits) * u128::from(sooner.as_nanos());
                prop_assert!(sent < bytes.bits() * NANOS_PER_SECOND);
            }
        }

        #[test]
        fn steps_never_carry_more_than_the_whole(bits in 1_u64..1 << 40, a in 0_u64..1 << 33, b in 0_u64..1 << 33) {
            let rate = Rate::from_bits_per_second(bits);
            let (a, b) = (Duration::from_nanos(a), Duration::from_nanos(b));
            prop_assert!(rate * a + rate * b <= rate * (a + b));
        }

        #[test]
        fn a_mean_rate_never_exceeds_what_was_carried(count in 0_u64..1 << 40, nanos in 1_u64..1 << 40) {
            let (bytes, duration) = (Bytes::new(count), Duration::from_nanos(nanos));
            if let Some(rate) = Rate::over(bytes, duration) {
                prop_assert!(rate * duration <= bytes);
            }
        }
    }
}
