//! Checked state of one link over one interval.

use core::error::Error;
use core::fmt;

use byway_units::{Bytes, Duration, Rate};

use crate::convert::{bytes, bytes_per_second, float, rate, seconds};
use crate::limits::{
    BACKLOG_BYTES_MAX, BACKLOG_TIME_MAX, INTERVAL_MAX, LINK_DELAY_MAX, LINK_RATE_MAX, LINK_RATE_MIN,
    SENT_RATIO_MAX,
};

/// State of one link's interactive queue over one interval: a *link entry* (Naman et al.,
/// *Responsive high throughput congestion control for interactive applications over SDN-enabled
/// networks*, section 3.2.2).
///
/// Every entry is checked: its values are within the ranges of [`LinkEntry::new`]. So windows that
/// are computed from entries are finite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkEntry {
    interval: Duration,
    sent: Bytes,
    backlog: Bytes,
    shown: Rate,
    delay: Duration,
}

impl LinkEntry {
    /// Creates an entry, in the paper's order Δ, b, q, R, d.
    ///
    /// - `interval`: time since the entry before, at most 10 s.
    /// - `sent`: bytes of IP packets that left in it, at most 100 times the shown rate allows.
    /// - `backlog`: bytes that wait at its end, without the packet being sent; at most 16 MiB, or
    ///   10 s at the shown rate if that is more.
    /// - `shown`: rate that interactive flows may count on, 8 kbit/s to 10 Tbit/s.
    /// - `delay`: propagation, and a full packet's time if the link stores and forwards; at most
    ///   10 s.
    ///
    /// An entry of interval zero has no news. It keeps rate and delay, and neither sent bytes nor a
    /// backlog (section 6.2).
    ///
    /// # Errors
    /// If a value is out of its range.
    pub fn new(
        interval: Duration,
        sent: Bytes,
        backlog: Bytes,
        shown: Rate,
        delay: Duration,
    ) -> Result<Self, EntryError> {
        check(interval <= INTERVAL_MAX, EntryField::Interval)?;
        check((LINK_RATE_MIN..=LINK_RATE_MAX).contains(&shown), EntryField::Shown)?;
        check(delay <= LINK_DELAY_MAX, EntryField::Delay)?;
        if interval.is_zero() && !(sent.is_zero() && backlog.is_zero()) {
            return Err(EntryError::NoInterval);
        }
        check(sent <= sent_max(shown, interval), EntryField::Sent)?;
        check(backlog <= backlog_max(shown), EntryField::Backlog)?;
        Ok(Self { interval, sent, backlog, shown, delay })
    }

    /// Creates an entry without news: interval, sent bytes and backlog are zero.
    ///
    /// # Errors
    /// If rate or delay are out of the ranges of [`LinkEntry::new`].
    pub fn without_news(shown: Rate, delay: Duration) -> Result<Self, EntryError> {
        Self::new(Duration::ZERO, Bytes::ZERO, Bytes::ZERO, shown, delay)
    }

    /// Reads the published form: interval in seconds, sent bytes, backlog in bytes, shown rate in
    /// bytes per second, delay in seconds.
    ///
    /// # Errors
    /// If a number is NaN, infinite, negative or out of the ranges of [`LinkEntry::new`].
    pub fn from_published(numbers: [f64; 5]) -> Result<Self, EntryError> {
        for (number, field) in numbers.into_iter().zip(EntryField::PUBLISHED) {
            if !(number.is_finite() && number >= 0.0) {
                return Err(EntryError::NotANumber(field));
            }
        }
        let [interval, sent, backlog, shown, delay] = numbers;
        Self::new(seconds(interval), bytes(sent), bytes(backlog), rate(shown), seconds(delay))
    }

    /// Returns the published form; see [`LinkEntry::from_published`].
    #[must_use]
    pub fn published(&self) -> [f64; 5] {
        [
            self.interval.as_secs_f64(),
            float(self.sent.count()),
            float(self.backlog.count()),
            bytes_per_second(self.shown),
            self.delay.as_secs_f64(),
        ]
    }

    /// Returns the time since the entry before (Δ); zero without news.
    #[must_use]
    pub const fn interval(&self) -> Duration {
        self.interval
    }

    /// Returns the bytes that left in the interval (b).
    #[must_use]
    pub const fn sent(&self) -> Bytes {
        self.sent
    }

    /// Returns the bytes that wait at the end of the interval (q).
    #[must_use]
    pub const fn backlog(&self) -> Bytes {
        self.backlog
    }

    /// Returns the rate that interactive flows may count on (R, which is the paper's `R_S`).
    #[must_use]
    pub const fn shown(&self) -> Rate {
        self.shown
    }

    /// Returns the propagation delay (d).
    #[must_use]
    pub const fn delay(&self) -> Duration {
        self.delay
    }

    /// True if the entry reports an interval. Averages ignore those that do not.
    #[must_use]
    pub const fn has_news(&self) -> bool {
        !self.interval.is_zero()
    }

    /// Returns the entry with the measurements of several checked entries of the link. They are cut
    /// to what the entry's rate allows, because the rates of the others may have been higher.
    pub(crate) fn with_measurements(self, interval: Duration, sent: Bytes, backlog: Bytes) -> Self {
        let sent = sent.min(sent_max(self.shown, interval));
        Self { interval, sent, backlog: backlog.min(backlog_max(self.shown)), ..self }
    }
}

fn sent_max(shown: Rate, interval: Duration) -> Bytes {
    let allowed = shown.bytes_in(interval).and_then(|bytes| bytes.checked_mul(SENT_RATIO_MAX));
    allowed.unwrap_or(Bytes::MAX)
}

fn backlog_max(shown: Rate) -> Bytes {
    shown.bytes_in(BACKLOG_TIME_MAX).unwrap_or(Bytes::MAX).max(BACKLOG_BYTES_MAX)
}

const fn check(is_within: bool, field: EntryField) -> Result<(), EntryError> {
    if is_within { Ok(()) } else { Err(EntryError::OutOfRange(field)) }
}

/// Field of a link entry, or of the state beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryField {
    /// Interval (Δ).
    Interval,
    /// Sent bytes (b).
    Sent,
    /// Backlog (q).
    Backlog,
    /// Shown rate (R).
    Shown,
    /// Propagation delay (d).
    Delay,
    /// Age.
    Age,
    /// Target backlog (S).
    Target,
    /// Guaranteed rate (`R_L`).
    Guaranteed,
}

impl EntryField {
    const PUBLISHED: [Self; 5] = [Self::Interval, Self::Sent, Self::Backlog, Self::Shown, Self::Delay];
}

impl fmt::Display for EntryField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Interval => "interval",
            Self::Sent => "sent bytes",
            Self::Backlog => "backlog",
            Self::Shown => "shown rate",
            Self::Delay => "delay",
            Self::Age => "age",
            Self::Target => "target backlog",
            Self::Guaranteed => "guaranteed rate",
        })
    }
}

/// Error of a link entry, which is refused. The reporter of the entry is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryError {
    /// A number is NaN, infinite or negative.
    NotANumber(EntryField),
    /// A value is out of its range.
    OutOfRange(EntryField),
    /// Bytes without an interval in which they were sent or counted.
    NoInterval,
}

impl fmt::Display for EntryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotANumber(field) => write!(f, "link entry invalid: {field} is no finite number from 0 on"),
            Self::OutOfRange(field) => write!(f, "link entry invalid: {field} is out of range"),
            Self::NoInterval => f.write_str("link entry invalid: bytes are reported without an interval"),
        }
    }
}

impl Error for EntryError {}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use proptest::prelude::*;

    use super::*;
    use crate::test_values::{BUSY, millis};

    fn changed(field: usize, number: f64) -> Result<LinkEntry, EntryError> {
        let mut numbers = BUSY;
        numbers[field] = number;
        LinkEntry::from_published(numbers)
    }

    #[test]
    fn a_usual_entry_is_read_and_written_unchanged() {
        let entry = LinkEntry::from_published(BUSY).expect("the entry is usual");
        assert_eq!(entry.interval(), millis(50));
        assert_eq!((entry.sent(), entry.backlog()), (Bytes::new(31_250), Bytes::new(1_500)));
        assert_eq!(entry.shown(), Rate::from_megabits_per_second(5));
        assert_eq!(entry.delay(), Duration::from_micros(27_400));
        assert!(entry.has_news());
        for (number, expected) in entry.published().into_iter().zip(BUSY) {
            assert!((number - expected).abs() < 1e-9);
        }
    }

    #[test]
    fn numbers_that_are_none_are_refused_in_every_field() {
        for (field, name) in EntryField::PUBLISHED.into_iter().enumerate() {
            for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0, -1e-300] {
                assert_eq!(changed(field, number), Err(EntryError::NotANumber(name)), "{number}");
            }
        }
    }

    #[test]
    fn values_out_of_range_are_refused() {
        let out_of_range = |field| Err(EntryError::OutOfRange(field));
        assert_eq!(changed(0, 1e9), out_of_range(EntryField::Interval));
        assert_eq!(changed(0, 10.001), out_of_range(EntryField::Interval));
        // 50 ms at a hundred times 5 Mbit/s.
        assert!(changed(1, 3_125_000.0).is_ok());
        assert_eq!(changed(1, 3_125_001.0), out_of_range(EntryField::Sent));
        assert!(changed(2, f64::from(16 << 20)).is_ok());
        assert_eq!(changed(2, f64::from((16 << 20) + 1)), out_of_range(EntryField::Backlog));
        for rate in [0.0, 1e18, f64::MAX, 999.0] {
            assert_eq!(changed(3, rate), out_of_range(EntryField::Shown), "{rate}");
        }
        assert_eq!(changed(4, 60.0), out_of_range(EntryField::Delay));
    }

    #[test]
    fn fast_links_may_have_long_queues() {
        let [interval, sent, _, _, delay] = BUSY;
        let at_hundred_gigabits = |backlog| [interval, sent, backlog, 12.5e9, delay];
        assert!(LinkEntry::from_published(at_hundred_gigabits(125e9)).is_ok());
        let error = LinkEntry::from_published(at_hundred_gigabits(126e9));
        assert_eq!(error, Err(EntryError::OutOfRange(EntryField::Backlog)));
    }

    #[test]
    fn an_entry_without_interval_has_no_bytes() {
        assert_eq!(changed(0, 0.0), Err(EntryError::NoInterval));
        let entry = LinkEntry::from_published([0.0, 0.0, 0.0, 625_000.0, 0.01]).expect("it has no news");
        assert!(!entry.has_news());
        assert_eq!(LinkEntry::without_news(entry.shown(), entry.delay()), Ok(entry));
        // Less than half a nanosecond is no interval, either.
        assert_eq!(changed(0, 1e-10), Err(EntryError::NoInterval));
    }

    #[test]
    fn errors_name_the_field() {
        let error = changed(3, 0.0).expect_err("there is no rate");
        assert_eq!(error.to_string(), "link entry invalid: shown rate is out of range");
        assert!(changed(3, f64::NAN).expect_err("it is no number").to_string().contains("shown rate"));
        assert!(EntryError::NoInterval.to_string().contains("without an interval"));
    }

    proptest! {
        #[test]
        fn any_numbers_are_refused_or_survive_the_published_form(
            numbers in prop::array::uniform5(prop::num::f64::ANY),
        ) {
            if let Ok(entry) = LinkEntry::from_published(numbers) {
                prop_assert_eq!(LinkEntry::from_published(entry.published()), Ok(entry));
            }
        }

        #[test]
        fn usual_numbers_survive_the_published_form(
            interval in 1_u64..10_000, sent in 0_u64..10_000, backlog in 0_u64..1 << 24,
            bits in 100_000_u64..10_000_000_000_000, delay in 0_u64..10_000_000_000,
        ) {
            let entry = LinkEntry::new(
                Duration::from_millis(interval),
                Bytes::new(sent * interval / 10),
                Bytes::new(backlog),
                Rate::from_bits_per_second(bits),
                Duration::from_nanos(delay),
            );
            let entry = entry.expect("the numbers are usual");
            prop_assert_eq!(LinkEntry::from_published(entry.published()), Ok(entry));
        }
    }
}
