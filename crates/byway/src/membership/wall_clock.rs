//! Wall-clock time, which decides about the end of grants and tokens.

#![allow(clippy::disallowed_methods, reason = "reads the machine's clock for the controller and its members")]

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

const SECONDS_PER_DAY: u64 = 86_400;

/// Clock that shows the time of day.
#[derive(Clone)]
pub(crate) struct WallClock(Arc<dyn Fn() -> u64 + Send + Sync>);

impl WallClock {
    /// Returns the machine's clock. Before 1970, it shows 1970.
    pub(crate) fn system() -> Self {
        Self::new(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
        })
    }

    /// Creates a clock whose time is the value of `unix_microseconds`.
    pub(crate) fn new(unix_microseconds: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(unix_microseconds))
    }

    /// Returns the time in microseconds of Unix time.
    pub(crate) fn unix_microseconds(&self) -> u64 {
        (self.0)()
    }

    /// Returns the time in seconds of Unix time.
    pub(crate) fn unix_seconds(&self) -> u64 {
        self.unix_microseconds() / 1_000_000
    }
}

impl fmt::Debug for WallClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WallClock({})", Date(self.unix_seconds()))
    }
}

/// Time in seconds of Unix time, formatted as in RFC 3339.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Date(pub(crate) u64);

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil(self.0 / SECONDS_PER_DAY);
        let seconds = self.0 % SECONDS_PER_DAY;
        let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

/// Duration in seconds, formatted in its two largest units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) u64);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, hours) = (self.0 / SECONDS_PER_DAY, self.0 / 3_600 % 24);
        let (minutes, seconds) = (self.0 / 60 % 60, self.0 % 60);
        match (days, hours, minutes) {
            (0, 0, 0) => write!(f, "{seconds} s"),
            (0, 0, _) => write!(f, "{minutes} min {seconds} s"),
            (0, _, _) => write!(f, "{hours} h {minutes} min"),
            _ => write!(f, "{days} d {hours} h"),
        }
    }
}

/// Returns year, month and day of a day, by its number since 1 January 1970. The calculation counts
/// from 1 March of the year 0, which puts leap days at the ends of years.
fn civil(days: u64) -> (u64, u64, u64) {
    const DAYS_TO_1970: u64 = 719_468;
    const DAYS_PER_ERA: u64 = 146_097;
    let days = days + DAYS_TO_1970;
    let (era, day_of_era) = (days / DAYS_PER_ERA, days % DAYS_PER_ERA);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_shown_in_two_units() {
        let known =
            [(9, "9 s"), (301, "5 min 1 s"), (3_600, "1 h 0 min"), (20 * 365 * 86_400 + 7_200, "7300 d 2 h")];
        for (seconds, span) in known {
            assert_eq!(Span(seconds).to_string(), span);
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        let known = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_709_210_096, "2024-02-29T12:34:56Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ];
        for (unix_seconds, date) in known {
            assert_eq!(Date(unix_seconds).to_string(), date);
        }
    }
}
