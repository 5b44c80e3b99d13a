//! Quantities as coarse and as wide as the wire carries them.

use byway_units::{Duration, Rate, Time};

/// A span of whole microseconds, up to 71 minutes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Microseconds(u32);

impl Microseconds {
    /// A span of `count` microseconds.
    #[must_use]
    pub const fn new(count: u32) -> Self {
        Self(count)
    }

    /// How many microseconds these are.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.0
    }

    /// The span, rounded down, or the longest there is.
    #[must_use]
    pub fn from_duration(span: Duration) -> Self {
        Self(u32::try_from(span.as_micros()).unwrap_or(u32::MAX))
    }

    /// The span.
    #[must_use]
    pub fn duration(self) -> Duration {
        Duration::from_micros(self.0.into())
    }
}

/// A rate in whole kbit/s, up to 4.3 Tbit/s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KilobitsPerSecond(u32);

impl KilobitsPerSecond {
    /// A rate of `count` kbit/s.
    #[must_use]
    pub const fn new(count: u32) -> Self {
        Self(count)
    }

    /// How many kbit/s these are.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.0
    }

    /// The rate, rounded up since it is announced as an upper bound, or the highest there is.
    #[must_use]
    pub fn from_rate(rate: Rate) -> Self {
        Self(u32::try_from(rate.bits_per_second().div_ceil(1_000)).unwrap_or(u32::MAX))
    }

    /// The rate.
    #[must_use]
    pub fn rate(self) -> Rate {
        Rate::from_kilobits_per_second(self.0.into())
    }
}

/// An instant of one node's clock in microseconds, modulo 2^32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Timestamp(u32);

impl Timestamp {
    /// The instant `micros` microseconds after the clock began anew.
    #[inline]
    #[must_use]
    pub const fn new(micros: u32) -> Self {
        Self(micros)
    }

    /// The microseconds on the wire.
    #[inline]
    #[must_use]
    pub const fn micros(self) -> u32 {
        self.0
    }

    /// What the wire says of `now`.
    #[inline]
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "the wire carries microseconds modulo 2^32")]
    pub const fn at(now: Time) -> Self {
        Self((now.as_nanos() / 1_000) as u32)
    }

    /// The time from `earlier` to this, modulo 2^32 microseconds.
    ///
    /// Between different clocks it means something only relative to other such differences.
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
