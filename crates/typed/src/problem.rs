//! What is wrong with a file, and where.

use std::fmt;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// What is wrong with what was typed, where, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}{message}")]
pub struct Problem {
    /// `FILE:LINE: KEY: `, or what stands in for it.
    place: String,
    message: String,
}

impl Problem {
    /// Something that has no place in a file.
    #[must_use]
    pub fn nowhere(message: impl Into<String>) -> Self {
        Self { place: String::new(), message: message.into() }
    }

    /// Something about a setting that was given on the command line or in the environment.
    #[must_use]
    pub fn flag(flag: &str, message: impl fmt::Display) -> Self {
        Self { place: format!("{flag}: "), message: message.to_string() }
    }
}

/// One step from a table to a value in it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(&'static str),
    /// A key that somebody chose.
    Named(String),
    Place(usize),
}

/// The way to a value: `forward[1].peer`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyPath(Vec<Step>);

impl KeyPath {
    /// The way to a key of the file.
    #[must_use]
    pub fn of(key: &'static str) -> Self {
        Self(vec![Step::Key(key)])
    }

    /// The way to a key below this one.
    #[must_use]
    pub fn key(&self, key: &'static str) -> Self {
        self.with(Step::Key(key))
    }

    /// The way to a key below this one that somebody chose.
    #[must_use]
    pub fn named(&self, key: &str) -> Self {
        self.with(Step::Named(key.to_owned()))
    }

    /// The way to an element below this one.
    #[must_use]
    pub fn place(&self, place: usize) -> Self {
        self.with(Step::Place(place))
    }

    fn with(&self, step: Step) -> Self {
        let mut longer = self.clone();
        longer.0.push(step);
        longer
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, step) in self.0.iter().enumerate() {
            match step {
                Step::Key(key) if number == 0 => write!(f, "{key}")?,
                Step::Key(key) => write!(f, ".{key}")?,
                Step::Named(key) => write!(f, ".{key:?}")?,
                Step::Place(place) => write!(f, "[{place}]")?,
            }
        }
        Ok(())
    }
}

/// The text that settings were read from; empty if there is no file.
#[derive(Clone, Debug, Default)]
pub struct Source {
    file: String,
    text: String,
}

impl Source {
    /// A file's text.
    #[must_use]
    pub fn new(file: &Path, text: String) -> Self {
        Self { file: file.display().to_string(), text }
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// A problem with the value at this path; with the nearest table around it, if it is not in the file.
    #[must_use]
    pub fn problem(&self, path: &KeyPath, message: impl fmt::Display) -> Problem {
        Problem { place: self.place(path), message: message.to_string() }
    }

    /// Where the value at this path is, or the nearest table around it, as it stands before a problem.
    #[must_use]
    pub fn place(&self, path: &KeyPath) -> String {
        let line = self.find(path).map(|span| self.line(span.start));
        match (self.file.as_str(), line) {
            ("", _) => format!("{path}: "),
            (file, Some(line)) => format!("{file}:{line}: {path}: "),
            (file, None) => format!("{file}: {path}: "),
        }
    }

    /// A problem that the parser found.
    #[must_use]
    pub fn parse_problem(&self, error: &toml::de::Error) -> Problem {
        let message = error.message().trim_end();
        let Some(span) = error.span() else {
            return Problem { place: format!("{}: ", self.file), message: message.to_owned() };
        };
        let line = self.line(span.start);
        let typed = self.text.lines().nth(line - 1).unwrap_or_default().trim();
        Problem {
            place: format!("{}:{line}: ", self.file),
            message: format!("{message}\n  in the line: {typed}"),
        }
    }

    fn line(&self, offset: usize) -> usize {
        1 + self.text.char_indices().take_while(|(at, _)| *at < offset).filter(|(_, c)| *c == '\n').count()
    }

    /// Where the value at the path is, or as much of the way to it as there is.
    fn find(&self, path: &KeyPath) -> Option<Range<usize>> {
        let root = DeTable::parse(&self.text).ok()?;
        let mut found = None;
        let mut value: Option<&Spanned<DeValue<'_>>> = None;
        for step in &path.0 {
            let next = match (step, value.map(Spanned::get_ref)) {
                (Step::Key(key), None) => child(root.get_ref(), key),
                (Step::Key(key), Some(DeValue::Table(table))) => child(table, key),
                (Step::Named(key), Some(DeValue::Table(table))) => child(table, key),
                (Step::Place(place), Some(DeValue::Array(array))) => array.get(*place),
                _ => None,
            };
            let Some(next) = next else {
                break;
            };
            found = Some(next.span());
            value = Some(next);
        }
        found
    }
}

fn child<'a, 'i>(table: &'a DeTable<'i>, key: &str) -> Option<&'a Spanned<DeValue<'i>>> {
    table.iter().find(|(name, _)| name.get_ref() == key).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "[agent]\nname = \"a\"\n\n[[forward]]\npeer = \"b\"\n\n[[forward]]\npeer = \"c\"\nto = \"x\"\n";

    #[test]
    fn a_problem_names_file_line_and_key() {
        let source = Source::new(Path::new("byway.toml"), TEXT.to_owned());
        let peer = KeyPath::of("forward").place(1).key("peer");
        let problem = source.problem(&peer, "there is no agent \"c\"");
        assert_eq!(problem.to_string(), "byway.toml:8: forward[1].peer: there is no agent \"c\"");
    }

    #[test]
    fn a_key_that_is_not_there_is_looked_for_in_its_table() {
        let source = Source::new(Path::new("byway.toml"), TEXT.to_owned());
        let absent = KeyPath::of("forward").place(0).key("listen");
        assert_eq!(
            source.problem(&absent, "missing").to_string(),
            "byway.toml:4: forward[0].listen: missing"
        );
        assert_eq!(
            source.problem(&KeyPath::of("relay"), "missing").to_string(),
            "byway.toml: relay: missing"
        );
    }

    #[test]
    fn without_a_file_the_key_alone_is_named() {
        let problem = Source::default().problem(&KeyPath::of("agent").key("name"), "is empty");
        assert_eq!(problem.to_string(), "agent.name: is empty");
    }
}
