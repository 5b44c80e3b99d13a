//! Queries of readers of a table.

use core::error::Error;
use core::fmt;

use crate::limits::{ENTRIES_MAX, HISTORY_ENTRIES};

/// Query for the entries of a path after one index (`LastIdx` and `MaxEntr`, section 3.2.2 of the
/// paper).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateQuery {
    last: u64,
    entries_max: usize,
}

impl StateQuery {
    /// Creates a query for at most `entries_max` entries after the index `last`.
    ///
    /// `last` is 0 for a reader that has none. More entries than a table holds count as that many.
    #[must_use]
    pub fn new(last: u64, entries_max: usize) -> Self {
        Self { last, entries_max: entries_max.min(ENTRIES_MAX) }
    }

    /// Creates the first query of a reader: history of 2 s, so that averages begin warm.
    #[must_use]
    pub fn first() -> Self {
        Self::new(0, HISTORY_ENTRIES)
    }

    /// Reads a query as it is written in an address. Without a maximum, it is that of
    /// [`StateQuery::first`].
    ///
    /// Numbers of 2⁶⁴ and more count as the largest one. For the index, that is beyond any newest
    /// entry, and answered like 0.
    ///
    /// # Errors
    /// If a text has other characters than digits, or none: a sign makes a number invalid.
    pub fn parse(last: &str, entries_max: Option<&str>) -> Result<Self, QueryError> {
        let last = number(last).ok_or(QueryError::LastIndex)?;
        let entries_max = match entries_max {
            Some(text) => number(text).ok_or(QueryError::EntriesMax)?,
            None => return Ok(Self { last, ..Self::first() }),
        };
        Ok(Self::new(last, usize::try_from(entries_max).unwrap_or(ENTRIES_MAX)))
    }

    /// Returns the last index that the reader has; 0 if it has none.
    #[must_use]
    pub const fn last(&self) -> u64 {
        self.last
    }

    /// Returns the most entries of the answer, at most 100.
    #[must_use]
    pub const fn entries_max(&self) -> usize {
        self.entries_max
    }
}

/// Returns the number that the digits are, and [`u64::MAX`] for larger ones.
fn number(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(text.parse().unwrap_or(u64::MAX))
}

/// Error of a query, which its reader has to correct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryError {
    /// The last index is not a whole number from 0 on.
    LastIndex,
    /// The largest number of entries is not a whole number from 0 on.
    EntriesMax,
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::LastIndex => "LastIdx",
            Self::EntriesMax => "MaxEntr",
        };
        write!(f, "state query invalid: {name} is not a whole number from 0 on")
    }
}

impl Error for QueryError {}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn digits_are_a_query() {
        assert_eq!(StateQuery::parse("812", Some("7")), Ok(StateQuery::new(812, 7)));
        assert_eq!(StateQuery::parse("0", None), Ok(StateQuery::first()));
        assert_eq!(StateQuery::parse("00", Some("0")), Ok(StateQuery::new(0, 0)));
    }

    #[test]
    fn huge_numbers_are_the_largest() {
        let huge = "18446744073709551616";
        assert_eq!(StateQuery::parse(huge, Some(huge)), Ok(StateQuery::new(u64::MAX, 100)));
        assert_eq!(StateQuery::new(0, usize::MAX).entries_max(), 100);
    }

    #[test]
    fn signs_fractions_and_nothing_are_refused() {
        for text in ["", "-1", "+1", "1.5", "1e3", " 1", "0x1", "١", "NaN"] {
            assert_eq!(StateQuery::parse(text, None), Err(QueryError::LastIndex), "{text}");
            assert_eq!(StateQuery::parse("1", Some(text)), Err(QueryError::EntriesMax), "{text}");
        }
        assert!(QueryError::LastIndex.to_string().contains("LastIdx"));
        assert!(QueryError::EntriesMax.to_string().contains("MaxEntr"));
    }

    proptest! {
        #[test]
        fn any_text_has_an_answer(last in ".*", entries_max in prop::option::of(".*")) {
            if let Ok(query) = StateQuery::parse(&last, entries_max.as_deref()) {
                prop_assert!(query.entries_max() <= ENTRIES_MAX);
            }
        }
    }
}
