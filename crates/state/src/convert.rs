//! Conversions between quantities, which are integers, and the floats of the equations.

use byway_units::{Bytes, Duration, Rate};

const NANOS_PER_SECOND: f64 = 1e9;

/// Returns an integer as a float, to 53 bits.
#[allow(clippy::cast_precision_loss, reason = "measured quantities are known to far fewer than 53 bits")]
pub(crate) const fn float(number: u64) -> f64 {
    number as f64
}

/// Returns the nearest integer; the nearest bound for numbers out of range, and zero for NaN.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "casts of floats saturate, and half a unit more makes truncation rounding"
)]
pub(crate) fn nearest(number: f64) -> u64 {
    (number + 0.5) as u64
}

/// Returns a number of bytes, rounded to the nearest.
pub(crate) fn bytes(count: f64) -> Bytes {
    Bytes::new(nearest(count))
}

/// Returns a rate in bytes per second.
pub(crate) fn bytes_per_second(rate: Rate) -> f64 {
    float(rate.bits_per_second()) / 8.0
}

/// Returns the rate of so many bytes per second, rounded to the nearest bit per second.
pub(crate) fn rate(bytes_per_second: f64) -> Rate {
    Rate::from_bits_per_second(nearest(bytes_per_second * 8.0))
}

/// Returns a duration of so many seconds, rounded to the nearest nanosecond.
pub(crate) fn seconds(seconds: f64) -> Duration {
    Duration::from_nanos(nearest(seconds * NANOS_PER_SECOND))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_round_to_the_nearest_integer() {
        assert_eq!([0.4, 0.5, 1.499, 1.5].map(nearest), [0, 1, 1, 2]);
        assert_eq!(seconds(0.05), Duration::from_millis(50));
        assert_eq!(rate(625_000.0), Rate::from_megabits_per_second(5));
        assert!((bytes_per_second(Rate::from_megabits_per_second(5)) - 625_000.0).abs() < f64::EPSILON);
    }

    #[test]
    fn floats_out_of_range_become_the_nearest_bound_and_nan_zero() {
        assert_eq!([f64::NAN, -1.0, f64::NEG_INFINITY].map(nearest), [0; 3]);
        assert_eq!([1e30, f64::INFINITY].map(nearest), [u64::MAX; 2]);
    }
}
