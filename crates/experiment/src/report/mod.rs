//! What experiments have found, for people: a page, a table in the terminal, and plots as files.

mod numbers;
mod page;
mod picture;
mod section;
mod terminal;
#[cfg(test)]
mod tests;

pub use page::page;
pub use picture::svg;
pub use terminal::terminal;

use crate::Results;

impl Results {
    /// How many targets there are, and how many of them are met.
    pub(super) fn targets(&self) -> Targets {
        let verdicts = || self.rows.iter().filter_map(|row| row.met);
        Targets { met: verdicts().filter(|&is_met| is_met).count(), all: verdicts().count() }
    }
}

/// How many targets there are, and how many of them are met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Targets {
    pub(super) met: usize,
    pub(super) all: usize,
}

impl std::ops::Add for Targets {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { met: self.met + other.met, all: self.all + other.all }
    }
}
