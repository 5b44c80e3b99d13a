//! Quantities at the resolution and width of the wire format.

use byway_units::{Duration, Rate, Time};

/// Span of time in whole microseconds, up to 71 minutes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Microseconds(u32);

impl Microseconds {
    /// Creates a span of `count` microseconds.
    #[must_use]
    pub const fn new(count: u32) -> Self {
        Self(count)
    }

    /// Returns the number of microseconds.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.0
    }

    /// Converts a duration, rounded down; a longer one than 71 minutes becomes the longest span.
    #[must_use]
    pub fn from_duration(span: Duration) -> Self {
        Self(u32::try_from(span.as_micros()).unwrap_or(u32::MAX))
    }

    /// Converts the span to a duration.
    #[must_use]
    pub fn duration(self) -> Duration {
        Duration::from_micros(self.0.into())
    }
}

/// Rate in whole kbit/s, up to 4.3 Tbit/s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KilobitsPerSecond(u32);

impl KilobitsPerSecond {
    /// Creates a rate of `count` kbit/s.
    #[must_use]
    pub const fn new(count: u32) -> Self {
        Self(count)
    }

    /// Returns the number of kbit/s.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.0
    }

    /// Converts a rate, rounded up, because announced rates are upper bounds; at most the highest
    /// value.
    #[must_use]
    pub fn from_rate(rate: Rate) -> Self {
        Self(u32::try_from(rate.bits_per_second().div_ceil(1_000)).unwrap_or(u32::MAX))
    }

    /// Converts the wire value to a rate.
    #[must_use]
    pub fn rate(self) -> Rate {
        Rate::from_kilobits_per_second(self.0.into())
    }
}

/// Instant of one node's clock in microseconds, modulo 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Timestamp(u32);

impl Timestamp {
    /// Creates the instant `micros` microseconds after the last wrap of the clock.
    #[inline]
    #[must_use]
    pub const fn new(micros: u32) -> Self {
        Self(micros)
    }

    /// Returns the microseconds since the last wrap of the clock.
    #[inline]
    #[must_use]
    pub const fn micros(self) -> u32 {
        self.0
    }

    /// Converts an instant of this node's clock.
    #[inline]
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "the wire carries microseconds modulo 2^32")]
    pub const fn at(now: Time) -> Self {
        Self((now.as_nanos() / 1_000) as u32)
    }

    /// Returns the time from `earlier` to this instant, modulo 2^32 microseconds.
    ///
    /// Between different clocks, only differences of such times have a meaning.
    #[inline]
    #[must_use]
    pub const fn since(self, earlier: Self) -> Microseconds {
        Microseconds(self.0.wrapping_sub(earlier.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_rounded_down_and_bounded() {
        let micros = |nanos| Microseconds::from_duration(Duration::from_nanos(nanos)).count();
        assert_eq!((micros(999), micros(1_999), micros(u64::MAX)), (0, 1, u32::MAX));
        assert_eq!(Microseconds::new(1_500).duration(), Duration::from_nanos(1_500_000));
    }

    #[test]
    fn rates_are_rounded_up_and_bounded() {
        let kilobits = |bits| KilobitsPerSecond::from_rate(Rate::from_bits_per_second(bits)).count();
        assert_eq!((kilobits(0), kilobits(1), kilobits(1_000), kilobits(1_001)), (0, 1, 1, 2));
        assert_eq!(kilobits(u64::MAX), u32::MAX);
        assert_eq!(KilobitsPerSecond::new(7).rate(), Rate::from_bits_per_second(7_000));
    }

    #[test]
    fn clocks_that_begin_anew_still_give_spans() {
        let before = Timestamp::at(Time::from_nanos(u64::from(u32::MAX) * 1_000));
        let after = Timestamp::at(Time::from_nanos((u64::from(u32::MAX) + 6) * 1_000));
        assert_eq!((before.micros(), after.micros()), (u32::MAX, 5));
        assert_eq!(after.since(before), Microseconds::new(6));
    }
}
