//! Findings of checks.

use std::fmt;

/// One violation of one rule, at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file, from the repository's root.
    pub path: String,
    /// The line, counted from one.
    pub line: usize,
    /// Violation, as a phrase.
    pub problem: String,
    /// Change that ends it.
    pub remedy: String,
}

impl Finding {
    pub(crate) fn new(
        path: impl Into<String>,
        line: usize,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { path: path.into(), line, problem: problem.into(), remedy: remedy.into() }
    }
}

/// Findings of a check on a right input.
#[cfg(test)]
pub(crate) const NONE: [Finding; 0] = [];

impl fmt::Display for Finding {
    /// Writes `path:line: what is wrong: remedy`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, problem, remedy } = self;
        write!(f, "{path}:{line}: {problem}: {remedy}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_names_place_problem_and_remedy() {
        let finding = Finding::new("docs/relay.md", 7, "a second title", "make it `##`");
        assert_eq!(finding.to_string(), "docs/relay.md:7: a second title: make it `##`");
    }
}
