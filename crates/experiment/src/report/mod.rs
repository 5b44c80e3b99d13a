//! Report of experiments: an HTML page, tables in the terminal and in Markdown, and plots as files.

mod charts;
mod markdown;
mod numbers;
mod page;
mod section;
mod terminal;
#[cfg(test)]
mod tests;

pub use charts::svg;
pub use markdown::markdown;
pub use page::page;
pub use terminal::terminal;

use crate::Results;

impl Results {
    /// Counts the targets of an experiment, and those that are met.
    pub(super) fn targets(&self) -> Targets {
        let verdicts = || self.rows.iter().filter_map(|row| row.met);
        Targets { met: verdicts().filter(|&is_met| is_met).count(), all: verdicts().count() }
    }
}

/// Number of targets of experiments, and of those that are met.
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
