//! Probabilities, shares and ratios from 0 to 1.

use core::cmp::Ordering;
use core::fmt;
use core::ops::Mul;

use thiserror::Error;

/// Number between 0 and 1, both included: a loss rate, a share, the chance of an event.
///
/// It is never NaN, so it has a total order.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Probability(f64);

/// Error of a number that is no probability.
#[derive(Clone, Copy, Debug, PartialEq, Error)]
#[error("{value} is no probability: give a number from 0 to 1 (one per cent is 0.01)")]
pub struct ProbabilityError {
    /// The number that was rejected.
    pub value: f64,
}

impl Probability {
    /// Probability of an impossible event.
    pub const ZERO: Self = Self(0.0);
    /// Probability of a certain event.
    pub const ONE: Self = Self(1.0);

    /// Creates the probability `value`.
    ///
    /// # Errors
    /// If `value` is NaN, below 0 or above 1.
    pub fn new(value: f64) -> Result<Self, ProbabilityError> {
        if !(0.0..=1.0).contains(&value) {
            return Err(ProbabilityError { value });
        }
        // Adding positive zero turns -0.0 into 0.0: equal values then have equal bits.
        Ok(Self(value + 0.0))
    }

    /// Returns the share of `part` in `whole`; `None` if `whole` is zero or smaller than `part`.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "a share is known to 53 bits")]
    pub fn from_ratio(part: u64, whole: u64) -> Option<Self> {
        (whole > 0 && part <= whole).then(|| Self(part as f64 / whole as f64))
    }

    /// Returns the number, from 0 to 1.
    #[must_use]
    pub const fn value(self) -> f64 {
        self.0
    }

    /// Returns the probability that the event does not happen.
    #[must_use]
    pub fn complement(self) -> Self {
        Self(1.0 - self.0)
    }

    /// True if the event happens, given 64 uniformly random bits.
    ///
    /// The caller supplies the random bits, because one seed has to give one trace. Zero never
    /// happens and one always does, whatever the bits.
    #[must_use]
    #[allow(
        clippy::cast_precision_loss,
        reason = "the upper 53 bits are exactly representable and enough for any loss rate"
    )]
    pub fn happens(self, random: u64) -> bool {
        ((random >> 11) as f64) < self.0 * (1_u64 << 53) as f64
    }
}

impl Mul for Probability {
    type Output = Self;

    /// Returns the probability that two independent events both happen.
    fn mul(self, other: Self) -> Self {
        Self(self.0 * other.0)
    }
}

impl Eq for Probability {}

impl PartialOrd for Probability {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Probability {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl fmt::Display for Probability {
    /// Writes the probability in per cent; a precision is supported: `{:.2}` gives `12.50 %`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&(self.0 * 100.0), f)?;
        f.write_str(" %")
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::format;

    use super::*;

    #[test]
    fn only_numbers_from_zero_to_one_are_probabilities() {
        for value in [0.0, 0.01, 0.5, 1.0] {
            assert_eq!(Probability::new(value).map(Probability::value), Ok(value));
        }
        for value in [-0.01, 1.000_1, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(Probability::new(value), Err(ProbabilityError { value }));
        }
        assert!(Probability::new(f64::NAN).is_err());
    }

    #[test]
    fn negative_zero_is_zero() {
        let zero = Probability::new(-0.0).expect("zero is a probability");
        assert_eq!(zero.cmp(&Probability::ZERO), Ordering::Equal);
    }

    #[test]
    fn the_error_names_the_number_and_the_remedy() {
        let error = Probability::new(5.0).expect_err("five is no probability");
        assert_eq!(
            format!("{error}"),
            "5 is no probability: give a number from 0 to 1 (one per cent is 0.01)"
        );
    }

    #[test]
    fn ratios_are_shares() {
        assert_eq!(Probability::from_ratio(1, 4), Some(Probability(0.25)));
        assert_eq!(Probability::from_ratio(0, 0), None);
        assert_eq!(Probability::from_ratio(2, 1), None);
    }

    #[test]
    fn the_impossible_never_happens_and_the_certain_always_does() {
        for random in [0, 1, u64::MAX / 2, u64::MAX] {
            assert!(!Probability::ZERO.happens(random));
            assert!(Probability::ONE.happens(random));
        }
    }

    #[test]
    fn an_event_happens_below_its_threshold() {
        let half = Probability(0.5);
        assert!(half.happens((1 << 63) - 1));
        assert!(!half.happens(1 << 63));
    }

    #[test]
    fn probabilities_combine_order_and_print() {
        let (tenth, half) = (Probability(0.1), Probability(0.5));
        assert!(tenth < half);
        assert_eq!(half * half, Probability(0.25));
        assert_eq!(half.complement(), half);
        assert_eq!(format!("{half}, {:.2}", Probability(0.125)), "50 %, 12.50 %");
    }
}
