//! State of all links of a path at one index.

use alloc::vec::Vec;
use core::error::Error;
use core::fmt;

use byway_units::Duration;

use crate::entry::{EntryError, LinkEntry};
use crate::limits::LINKS_MAX;
use crate::link_state::{LinkId, LinkState};
use crate::path::{PathError, check_links};

/// State of all links of a path at one index: a *network state entry* (section 3.2.2 of the paper).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathEntry {
    index: u64,
    links: Vec<LinkState>,
}

impl PathEntry {
    /// Creates the entry with this index, which counts from 1, of these links in the order that
    /// packets pass them.
    ///
    /// # Errors
    /// If the index is 0, or if the links are no [`Path`](crate::Path).
    pub fn new(index: u64, links: Vec<LinkState>) -> Result<Self, PathEntryError> {
        if index == 0 {
            return Err(PathEntryError::Index);
        }
        check_links(&links.iter().map(LinkState::link)).map_err(PathEntryError::Path)?;
        Ok(Self { index, links })
    }

    /// Reads the published form: index, announced number of links, and link entries as in
    /// [`LinkEntry::from_published`].
    ///
    /// The links are named by their position. `age` is an estimate of the caller, such as the time
    /// since its request. At most 5 s of it count.
    ///
    /// # Errors
    /// If the index is 0, if the announced number is not that of the entries, if it is not 1 to 64,
    /// or if a link entry is refused.
    pub fn from_published(
        index: u64,
        announced: u64,
        links: &[[f64; 5]],
        age: Duration,
    ) -> Result<Self, PathEntryError> {
        if usize::try_from(announced) != Ok(links.len()) {
            return Err(PathEntryError::Count { announced, actual: links.len() });
        }
        if !(1..=LINKS_MAX).contains(&links.len()) {
            return Err(PathEntryError::Path(PathError::Length(links.len())));
        }
        let state = |(position, numbers): (u32, &[f64; 5])| {
            let error = |error| PathEntryError::Link { position, error };
            let entry = LinkEntry::from_published(*numbers).map_err(error)?;
            let state = LinkState::new(LinkId::unnamed(position), entry, Duration::ZERO).map_err(error)?;
            Ok(state.older_by(age))
        };
        let links: Result<Vec<LinkState>, PathEntryError> = (0..).zip(links).map(state).collect();
        Self::new(index, links?)
    }

    /// Creates the next entry of a table, whose path is checked.
    pub(crate) const fn of_table(index: u64, links: Vec<LinkState>) -> Self {
        Self { index, links }
    }

    /// Returns the buffer of the entry, for the next one.
    pub(crate) fn into_links(self) -> Vec<LinkState> {
        self.links
    }

    /// Returns the index, from 1.
    #[must_use]
    pub const fn index(&self) -> u64 {
        self.index
    }

    /// Returns the links, in the order that packets pass them: 1 to 64.
    #[must_use]
    pub fn links(&self) -> &[LinkState] {
        &self.links
    }

    /// Returns the link entries in the published form; see [`LinkEntry::published`].
    #[must_use]
    pub fn published(&self) -> impl ExactSizeIterator<Item = [f64; 5]> {
        self.links.iter().map(|state| state.entry().published())
    }
}

/// Error of a path entry, which is refused. Its sender is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathEntryError {
    /// Index 0: indices count from 1.
    Index,
    /// Number of links that is not that of the entries.
    Count {
        /// Announced number of links.
        announced: u64,
        /// Number of link entries.
        actual: usize,
    },
    /// Links that are no path.
    Path(PathError),
    /// Link entry that is refused.
    Link {
        /// Position of the link on the path, from 0.
        position: u32,
        /// Reason.
        error: EntryError,
    },
}

impl fmt::Display for PathEntryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Index => f.write_str("path entry invalid: its index is 0, indices count from 1"),
            Self::Count { announced, actual } => {
                write!(f, "path entry invalid: {announced} links announced, {actual} entries found")
            }
            Self::Path(error) => write!(f, "path entry invalid: {error}"),
            Self::Link { position, error } => write!(f, "path entry invalid: position {position}: {error}"),
        }
    }
}

impl Error for PathEntryError {}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;
    use std::vec;

    use super::*;
    use crate::entry::EntryField;
    use crate::test_values::{BUSY, millis, state};

    fn published(index: u64, announced: u64, links: &[[f64; 5]]) -> Result<PathEntry, PathEntryError> {
        PathEntry::from_published(index, announced, links, millis(20))
    }

    #[test]
    fn a_usual_entry_is_read_with_its_positions_and_age() {
        let fast = [0.05, 31_250.0, 0.0, 12_500_000.0, 0.005];
        let entry = published(812, 2, &[BUSY, fast]).expect("the entry is usual");
        assert_eq!((entry.index(), entry.links().len()), (812, 2));
        assert_eq!(entry.links()[1].link(), LinkId::unnamed(1));
        assert_eq!(entry.links()[0].age(), millis(20));
        assert_eq!(entry.published().len(), 2);
        let slow = PathEntry::from_published(1, 1, &[BUSY], Duration::MAX).expect("old state is state");
        assert_eq!(slow.links()[0].age(), Duration::from_secs(5));
    }

    #[test]
    fn wrong_numbers_of_links_are_refused() {
        let count = |announced, actual| Err(PathEntryError::Count { announced, actual });
        assert_eq!(published(1, 2, &[BUSY]), count(2, 1));
        assert_eq!(published(1, u64::MAX, &[BUSY]), count(u64::MAX, 1));
        let length = |links| Err(PathEntryError::Path(PathError::Length(links)));
        assert_eq!(published(1, 0, &[]), length(0));
        assert!(published(1, 64, &[BUSY; 64]).is_ok());
        assert_eq!(published(1, 65, &[BUSY; 65]), length(65));
    }

    #[test]
    fn index_zero_and_bad_links_are_refused() {
        assert_eq!(published(0, 1, &[BUSY]), Err(PathEntryError::Index));
        let mut bad = BUSY;
        bad[3] = 0.0;
        let error = PathEntryError::Link { position: 1, error: EntryError::OutOfRange(EntryField::Shown) };
        assert_eq!(published(1, 2, &[BUSY, bad]), Err(error));
        assert!(error.to_string().contains("position 1"), "{error}");
    }

    #[test]
    fn a_link_that_occurs_twice_is_refused() {
        let one = state(LinkId::unnamed(0), BUSY);
        let error = PathEntryError::Path(PathError::LinkAgain(one.link()));
        assert_eq!(PathEntry::new(1, vec![one, one]), Err(error));
        assert!(error.to_string().contains("twice"), "{error}");
        assert!(published(1, 2, &[BUSY]).expect_err("one is missing").to_string().contains("2 links"));
        assert!(PathEntryError::Index.to_string().contains("index is 0"));
    }
}
