//! Calendar months, by which providers bill, in UTC.

use core::fmt;

/// Seconds of a day.
pub(crate) const DAY_SECONDS: u64 = 86_400;

/// Length of a sample of a port's traffic: five minutes, as every provider has it.
pub const SAMPLE_SECONDS: u64 = 300;

/// Most samples of a month: those of 31 days.
pub const SAMPLES_OF_MONTH_MAX: usize = 31 * (DAY_SECONDS / SAMPLE_SECONDS) as usize;

/// Last year of which months are known; later times count as its last month.
const YEAR_MAX: u16 = 9_999;

/// A calendar month of UTC, from 1970-01 to 9999-12.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Month {
    year: u16,
    /// Number of the month in its year, 1 to 12.
    number: u8,
    /// Days from 1970-01-01 to the month's first day.
    first_day: u32,
}

impl Month {
    /// Returns the month that contains a time, in seconds of Unix time.
    #[must_use]
    pub fn containing(unix_seconds: u64) -> Self {
        let day = u32::try_from(unix_seconds / DAY_SECONDS).unwrap_or(u32::MAX);
        let mut found = Self { year: 1970, number: 1, first_day: 0 };
        while found.year < YEAR_MAX && day >= found.first_day + days_of_year(found.year) {
            found.first_day += days_of_year(found.year);
            found.year += 1;
        }
        while found.number < 12 && day >= found.first_day + found.days() {
            found.first_day += found.days();
            found.number += 1;
        }
        found
    }

    /// Returns the number of the month's days, 28 to 31.
    #[must_use]
    pub const fn days(self) -> u32 {
        match self.number {
            4 | 6 | 9 | 11 => 30,
            2 if is_leap(self.year) => 29,
            2 => 28,
            _ => 31,
        }
    }

    /// Returns the time at which the month begins, in seconds of Unix time.
    #[must_use]
    pub fn begins(self) -> u64 {
        u64::from(self.first_day) * DAY_SECONDS
    }

    /// Returns the time at which the next month begins, in seconds of Unix time.
    #[must_use]
    pub fn ends(self) -> u64 {
        self.begins() + self.seconds()
    }

    /// Returns the length of the month in seconds.
    #[must_use]
    pub fn seconds(self) -> u64 {
        u64::from(self.days()) * DAY_SECONDS
    }

    /// Returns the seconds of the month that have passed, at most its length.
    #[must_use]
    pub fn elapsed(self, unix_seconds: u64) -> u64 {
        unix_seconds.saturating_sub(self.begins()).min(self.seconds())
    }

    /// Returns the index of the five-minute sample that contains a time of the month.
    #[must_use]
    pub fn sample_at(self, unix_seconds: u64) -> usize {
        let last = SAMPLES_OF_MONTH_MAX - 1;
        usize::try_from(self.elapsed(unix_seconds) / SAMPLE_SECONDS).unwrap_or(last).min(last)
    }

    /// Returns the number of five-minute samples that have begun until this time, all at the end.
    #[must_use]
    pub fn samples_until(self, unix_seconds: u64) -> usize {
        let begun = self.elapsed(unix_seconds).div_ceil(SAMPLE_SECONDS);
        usize::try_from(begun).unwrap_or(SAMPLES_OF_MONTH_MAX).min(SAMPLES_OF_MONTH_MAX)
    }
}

impl fmt::Display for Month {
    /// Writes the month as in `2026-11`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}", self.year, self.number)
    }
}

const fn is_leap(year: u16) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

const fn days_of_year(year: u16) -> u32 {
    if is_leap(year) { 366 } else { 365 }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn months_begin_where_the_calendar_says() {
        for (unix_seconds, name, days, begins) in [
            (0, "1970-01", 31, 0),
            (951_782_400, "2000-02", 29, 949_363_200),
            (1_795_823_190, "2026-11", 30, 1_793_491_200),
            (1_798_761_599, "2026-12", 31, 1_796_083_200),
            (1_798_761_600, "2027-01", 31, 1_798_761_600),
            (4_107_542_399, "2100-02", 28, 4_105_123_200),
        ] {
            let month = Month::containing(unix_seconds);
            assert_eq!((month.to_string().as_str(), month.days(), month.begins()), (name, days, begins));
        }
        assert_eq!(Month::containing(u64::MAX).to_string(), "9999-12");
    }

    #[test]
    fn samples_are_five_minutes_long() {
        let month = Month::containing(1_795_823_190);
        let at = |seconds| {
            (month.sample_at(month.begins() + seconds), month.samples_until(month.begins() + seconds))
        };
        assert_eq!([at(0), at(299), at(300), at(301)], [(0, 0), (0, 1), (1, 1), (1, 2)]);
        assert_eq!(month.samples_until(u64::MAX), 30 * 288);
    }

    proptest! {
        #[test]
        fn months_follow_one_another(unix_seconds in 0..253_402_300_800_u64) {
            let month = Month::containing(unix_seconds);
            prop_assert!((month.begins()..month.ends()).contains(&unix_seconds));
            let next = Month::containing(month.ends());
            prop_assert!(next > month || month.to_string() == "9999-12");
            prop_assert_eq!(Month::containing(month.ends() - 1), month);
        }
    }
}
