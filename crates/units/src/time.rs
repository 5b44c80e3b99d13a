//! Instants and durations of virtual or real time, in whole nanoseconds.

use core::fmt;
use core::ops::{Add, AddAssign, Div, Sub};

use thiserror::Error;

use crate::quantity::{additive_quantity, write_decimal};

const NANOS_PER_MICRO: u64 = 1_000;
const NANOS_PER_MILLI: u64 = 1_000_000;
const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Duration in nanoseconds, never negative, at most 584 years.
///
/// It is an integer, because a simulation has to give the same trace on every machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(u64);

additive_quantity!(Duration, u64, u64);

impl Duration {
    /// Creates a duration of `nanos` nanoseconds.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Creates a duration of `micros` microseconds.
    ///
    /// # Panics
    /// If that is more than [`Duration::MAX`].
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self::scaled(micros, NANOS_PER_MICRO)
    }

    /// Creates a duration of `millis` milliseconds.
    ///
    /// # Panics
    /// If that is more than [`Duration::MAX`].
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self::scaled(millis, NANOS_PER_MILLI)
    }

    /// Creates a duration of `secs` seconds.
    ///
    /// # Panics
    /// If that is more than [`Duration::MAX`].
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self::scaled(secs, NANOS_PER_SECOND)
    }

    const fn scaled(count: u64, nanos_each: u64) -> Self {
        match count.checked_mul(nanos_each) {
            Some(nanos) => Self(nanos),
            None => panic!("a duration of more than 584 years"),
        }
    }

    /// Returns the duration in nanoseconds.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the duration in whole microseconds, rounded down.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0 / NANOS_PER_MICRO
    }

    /// Returns the duration in whole milliseconds, rounded down.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0 / NANOS_PER_MILLI
    }

    /// Returns the duration in seconds, as an approximation: for reports, and for controllers and
    /// models that compute with floats. Times and deadlines stay integers.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "reports show a few digits; exact values stay integers")]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_SECOND as f64
    }
}

impl Div<u64> for Duration {
    type Output = Self;

    /// Returns one of `parts` equal parts, rounded down.
    ///
    /// # Panics
    /// If `parts` is zero.
    fn div(self, parts: u64) -> Self {
        Self(self.0 / parts)
    }
}

impl fmt::Display for Duration {
    /// Writes the duration in the largest of s, ms, us and ns with a whole part: `1.5 ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (decimals, unit) = match self.0 {
            0 => (9, "s"),
            1..NANOS_PER_MICRO => (0, "ns"),
            NANOS_PER_MICRO..NANOS_PER_MILLI => (3, "us"),
            NANOS_PER_MILLI..NANOS_PER_SECOND => (6, "ms"),
            _ => (9, "s"),
        };
        write_decimal(f, self.0, decimals, 0)?;
        write!(f, " {unit}")
    }
}

impl From<Duration> for core::time::Duration {
    fn from(duration: Duration) -> Self {
        Self::from_nanos(duration.0)
    }
}

/// A standard-library duration of more than 584 years, which does not fit into [`Duration`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a duration of {seconds} s is out of range: at most {} s can be represented", u64::MAX / NANOS_PER_SECOND)]
pub struct DurationError {
    /// Whole seconds of the rejected duration.
    pub seconds: u64,
}

impl TryFrom<core::time::Duration> for Duration {
    type Error = DurationError;

    fn try_from(duration: core::time::Duration) -> Result<Self, DurationError> {
        let nanos = u64::try_from(duration.as_nanos());
        nanos.map(Self).map_err(|_| DurationError { seconds: duration.as_secs() })
    }
}

/// Instant: nanoseconds since the start of the run.
///
/// Instants are compared and subtracted, never added to each other. The driver defines the start;
/// no protocol logic reads a clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// Start of the run.
    pub const START: Self = Self(0);
    /// Last instant that can be represented, 584 years after the start.
    pub const MAX: Self = Self(u64::MAX);

    /// Creates the instant `nanos` nanoseconds after the start.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// Returns the nanoseconds since the start.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the duration since `earlier`, or `None` if `earlier` is later than this.
    #[must_use]
    pub const fn checked_since(self, earlier: Self) -> Option<Duration> {
        match self.0.checked_sub(earlier.0) {
            Some(nanos) => Some(Duration(nanos)),
            None => None,
        }
    }

    /// Returns the duration since `earlier`, or zero if `earlier` is later than this.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration(self.0.saturating_sub(earlier.0))
    }

    /// Returns the instant `duration` later, or `None` past [`Time::MAX`].
    #[must_use]
    pub const fn checked_add(self, duration: Duration) -> Option<Self> {
        match self.0.checked_add(duration.0) {
            Some(nanos) => Some(Self(nanos)),
            None => None,
        }
    }

    /// Returns the instant `duration` later, or [`Time::MAX`].
    #[must_use]
    pub const fn saturating_add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration.0))
    }

    /// Returns the instant `duration` earlier, or the start.
    #[must_use]
    pub const fn saturating_sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(duration.0))
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        match self.checked_add(duration) {
            Some(time) => time,
            None => panic!("{self:?} + {duration:?} does not fit"),
        }
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub for Time {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        match self.checked_since(earlier) {
            Some(duration) => duration,
            None => panic!("{self:?} is before {earlier:?}"),
        }
    }
}

impl Sub<Duration> for Time {
    type Output = Self;

    fn sub(self, duration: Duration) -> Self {
        match self.0.checked_sub(duration.0) {
            Some(nanos) => Self(nanos),
            None => panic!("{self:?} - {duration:?} is before the start"),
        }
    }
}

impl fmt::Display for Time {
    /// Writes the instant as seconds since the start, to the nanosecond: `1.000000250`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_decimal(f, self.0, 9, 9)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    #[test]
    fn a_duration_is_shown_in_its_natural_unit() {
        let text_of = |nanos| Duration::from_nanos(nanos).to_string();
        assert_eq!(text_of(0), "0 s");
        assert_eq!(text_of(999), "999 ns");
        assert_eq!(text_of(1_000), "1 us");
        assert_eq!(text_of(1_500_000), "1.5 ms");
        assert_eq!(text_of(999_999_999), "999.999999 ms");
        assert_eq!(text_of(60_000_000_001), "60.000000001 s");
        assert_eq!(text_of(u64::MAX), "18446744073.709551615 s");
    }

    #[test]
    fn an_instant_is_shown_to_the_nanosecond() {
        assert_eq!((Time::START + Duration::from_nanos(1_000_000_250)).to_string(), "1.000000250");
    }

    #[test]
    fn instants_give_spans_and_spans_move_instants() {
        let earlier = Time::from_nanos(10);
        let later = earlier + Duration::from_nanos(32);
        assert_eq!(later - earlier, Duration::from_nanos(32));
        assert_eq!(later - Duration::from_nanos(32), earlier);
        assert_eq!(earlier.checked_since(later), None);
        assert_eq!(earlier.saturating_since(later), Duration::ZERO);
        assert_eq!(earlier.saturating_sub(Duration::from_secs(1)), Time::START);
        assert_eq!(later.saturating_add(Duration::MAX), Time::MAX);
        assert_eq!(Time::MAX.checked_add(Duration::from_nanos(1)), None);
    }

    #[test]
    #[should_panic(expected = "does not fit")]
    fn an_instant_past_the_range_panics() {
        let _ = Time::MAX + Duration::from_nanos(1);
    }

    #[test]
    #[should_panic(expected = "is before")]
    fn a_negative_span_panics() {
        let _ = Time::START - Time::from_nanos(1);
    }

    #[test]
    #[should_panic(expected = "does not fit")]
    fn a_product_past_the_range_panics() {
        let _ = Duration::from_secs(1) * u64::MAX;
    }

    #[test]
    fn standard_durations_convert_or_say_why_not() {
        let std = core::time::Duration::from_millis(15);
        assert_eq!(Duration::try_from(std), Ok(Duration::from_millis(15)));
        assert_eq!(core::time::Duration::from(Duration::from_millis(15)), std);
        let refused = Duration::try_from(core::time::Duration::MAX);
        assert_eq!(refused, Err(DurationError { seconds: u64::MAX }));
    }

    #[test]
    fn units_scale_by_thousands() {
        assert_eq!(Duration::from_secs(2), Duration::from_millis(2_000));
        assert_eq!(Duration::from_millis(2), Duration::from_micros(2_000));
        assert_eq!(Duration::from_micros(2), Duration::from_nanos(2_000));
        let span = Duration::from_nanos(1_234_567);
        assert_eq!((span.as_millis(), span.as_micros(), span.as_nanos()), (1, 1_234, 1_234_567));
        assert_eq!(span / 2, Duration::from_nanos(617_283));
    }
}
