//! Problems in a settings file, with their locations.

use std::fmt;
use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Problem of a setting: its location in the file, its cause, and its remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{location}{message}")]
pub struct Problem {
    /// Prefix of the message, `FILE:LINE: KEY: `; without a file, the flag and `: `, or empty.
    location: String,
    message: String,
}

impl Problem {
    /// Creates a problem without a location in a file.
    #[must_use]
    pub fn without_location(message: impl Into<String>) -> Self {
        Self { location: String::new(), message: message.into() }
    }

    /// Creates a problem of a setting on the command line or in the environment.
    #[must_use]
    pub fn flag(flag: &str, message: impl fmt::Display) -> Self {
        Self { location: format!("{flag}: "), message: message.to_string() }
    }
}

/// Step of a [`KeyPath`] from a table or list to a value in it.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PathStep {
    Key(&'static str),
    /// Key that the author of the file chose, not the format.
    Named(String),
    Index(usize),
}

/// Path to a value in a settings file, like `forward[1].peer`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyPath(Vec<PathStep>);

impl KeyPath {
    /// Returns the path to a key of the file.
    #[must_use]
    pub fn of(key: &'static str) -> Self {
        Self(vec![PathStep::Key(key)])
    }

    /// Returns the path to a key below this one.
    #[must_use]
    pub fn key(&self, key: &'static str) -> Self {
        self.with(PathStep::Key(key))
    }

    /// Returns the path to a key below this one that the author of the file chose.
    #[must_use]
    pub fn named(&self, key: &str) -> Self {
        self.with(PathStep::Named(key.to_owned()))
    }

    /// Returns the path to an element below this one.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.with(PathStep::Index(index))
    }

    fn with(&self, step: PathStep) -> Self {
        let mut longer = self.clone();
        longer.0.push(step);
        longer
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, step) in self.0.iter().enumerate() {
            match step {
                PathStep::Key(key) if number == 0 => write!(f, "{key}")?,
                PathStep::Key(key) => write!(f, ".{key}")?,
                PathStep::Named(key) => write!(f, ".{key:?}")?,
                PathStep::Index(location) => write!(f, "[{location}]")?,
            }
        }
        Ok(())
    }
}

/// Text of a settings file, for the locations of problems in it; empty without a file.
#[derive(Clone, Debug, Default)]
pub struct Source {
    file: String,
    text: String,
}

impl Source {
    /// Creates the source from a file's text.
    #[must_use]
    pub fn new(file: &Path, text: String) -> Self {
        Self { file: file.display().to_string(), text }
    }

    /// Returns the text of the file.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Creates a problem with the value at this path; if the file does not have it, with the
    /// nearest table around it.
    #[must_use]
    pub fn problem(&self, path: &KeyPath, message: impl fmt::Display) -> Problem {
        Problem { location: self.location(path), message: message.to_string() }
    }

    /// Returns the location of the value at this path, or of the nearest table around it, as a
    /// prefix of a problem.
    #[must_use]
    pub fn location(&self, path: &KeyPath) -> String {
        let line = self.find(path).map(|span| self.text_row(span.start));
        match (self.file.as_str(), line) {
            ("", _) => format!("{path}: "),
            (file, Some(line)) => format!("{file}:{line}: {path}: "),
            (file, None) => format!("{file}: {path}: "),
        }
    }

    /// Converts an error of the TOML parser to a problem with its location.
    #[must_use]
    pub fn parse_problem(&self, error: &toml::de::Error) -> Problem {
        let message = error.message().trim_end();
        let Some(span) = error.span() else {
            return Problem { location: format!("{}: ", self.file), message: message.to_owned() };
        };
        let line = self.text_row(span.start);
        let typed = self.text.lines().nth(line - 1).unwrap_or_default().trim();
        Problem {
            location: format!("{}:{line}: ", self.file),
            message: format!("{message}\n  in this line: {typed}"),
        }
    }

    fn text_row(&self, offset: usize) -> usize {
        1 + self.text.char_indices().take_while(|(at, _)| *at < offset).filter(|(_, c)| *c == '\n').count()
    }

    /// Returns the byte range of the value at the path, or of the last part of the path that
    /// exists.
    fn find(&self, path: &KeyPath) -> Option<Range<usize>> {
        let root = DeTable::parse(&self.text).ok()?;
        let mut found = None;
        let mut value: Option<&Spanned<DeValue<'_>>> = None;
        for step in &path.0 {
            let next = match (step, value.map(Spanned::get_ref)) {
                (PathStep::Key(key), None) => child(root.get_ref(), key),
                (PathStep::Key(key), Some(DeValue::Table(table))) => child(table, key),
                (PathStep::Named(key), Some(DeValue::Table(table))) => child(table, key),
                (PathStep::Index(index), Some(DeValue::Array(array))) => array.get(*index),
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
        let peer = KeyPath::of("forward").index(1).key("peer");
        let problem = source.problem(&peer, "there is no agent \"c\"");
        assert_eq!(problem.to_string(), "byway.toml:8: forward[1].peer: there is no agent \"c\"");
    }

    #[test]
    fn a_key_that_is_not_there_is_looked_for_in_its_table() {
        let source = Source::new(Path::new("byway.toml"), TEXT.to_owned());
        let absent = KeyPath::of("forward").index(0).key("listen");
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
