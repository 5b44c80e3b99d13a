//! Programs that a lab runs on the machines of a scenario.

use std::path::PathBuf;

use byway_units::Duration;

/// Program that a lab runs on a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Name of the command in the scenario.
    pub name: String,
    /// Location of the command in the scenario file, as a prefix of problems.
    pub location: String,
    /// Index of the machine that runs the command.
    pub node: usize,
    /// Program and its arguments.
    pub run: Vec<Template>,
    /// Files that the lab creates in the command's folder, by their relative paths.
    pub files: Vec<(PathBuf, Template)>,
    /// Environment variables of the program, by name.
    pub environment: Vec<(String, Template)>,
    /// Start and end of the program.
    pub lifecycle: Lifecycle,
}

/// Start and end of a [`Command`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lifecycle {
    /// Runs all the time. The scenario begins after the readiness check, or without one, after the
    /// start of the process.
    Service(Option<ReadinessCheck>),
    /// Runs once, and must end by itself within a time limit.
    Task {
        /// Start of the program, relative to the scenario's beginning.
        at: Duration,
        /// Time limit from the start.
        within: Duration,
    },
}

/// Check by which a lab finds that a service is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadinessCheck {
    /// The service listens on this TCP port.
    Tcp(u16),
    /// The service has bound this UDP port.
    Udp(u16),
    /// The service's output contains this text.
    Output(String),
}

/// Text of a command with placeholders for values that only a lab knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Filled(Placeholder),
}

/// Value that only a lab knows, for use in a [`Template`]; machines and flows are indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placeholder {
    /// IPv4 addresses of a machine, or of all machines of a name: index of the first, and their
    /// number.
    Address(usize, usize),
    /// IPv6 addresses of a machine, or of all machines of a name: index of the first, and their
    /// number.
    Address6(usize, usize),
    /// Folder of the command.
    Folder,
    /// Folder of the scenario file.
    Here,
    /// Path of the program that runs the lab.
    Byway,
    /// Address and port to which a program sends for the flow with this index.
    To(usize),
    /// Address, without the port, to which a program sends for the flow with this index.
    ToHost(usize),
    /// Port to which a program sends for the flow with this index.
    ToPort(usize),
}

impl Template {
    /// Returns the text with the value that `with` has for each placeholder.
    #[must_use]
    pub fn fill(&self, with: impl Fn(Placeholder) -> String) -> String {
        let part = |part: &Piece| match part {
            Piece::Text(text) => text.clone(),
            Piece::Filled(placeholder) => with(*placeholder),
        };
        self.0.iter().map(part).collect()
    }

    /// Parses a text; `meaning` resolves `{WORD}` and `{WORD:NAME}`. Other braces are literal.
    pub(crate) fn read(
        text: &str,
        meaning: impl Fn(&str, Option<&str>) -> Result<Placeholder, String>,
    ) -> Result<Self, String> {
        let (mut parts, mut plain, mut rest) = (Vec::new(), String::new(), text);
        while let Some(at) = rest.find('{') {
            plain.push_str(&rest[..at]);
            rest = &rest[at..];
            if let Some(form) = PlaceholderForm::at(&rest[1..]) {
                // Of two braces, the first is an escape and is removed.
                plain.push_str(&rest[1..=form.bytes]);
                rest = &rest[1 + form.bytes..];
            } else if let Some(form) = PlaceholderForm::at(rest) {
                let wrong = |message| {
                    let typed = &rest[..form.bytes];
                    format!("{typed}: {message}; for the text {typed} itself, write {{{typed}")
                };
                parts.push(Piece::Text(std::mem::take(&mut plain)));
                parts.push(Piece::Filled(meaning(form.word, form.name).map_err(wrong)?));
                rest = &rest[form.bytes..];
            } else {
                plain.push('{');
                rest = &rest[1..];
            }
        }
        plain.push_str(rest);
        parts.push(Piece::Text(plain));
        Ok(Self(parts))
    }
}

/// `{WORD}` or `{WORD:NAME}`.
struct PlaceholderForm<'a> {
    word: &'a str,
    name: Option<&'a str>,
    bytes: usize,
}

impl<'a> PlaceholderForm<'a> {
    /// Returns the placeholder at the start of a text.
    fn at(text: &'a str) -> Option<Self> {
        let inner = text.strip_prefix('{')?;
        let inner = &inner[..inner.find(['{', '}', '\n'])?];
        if !text[1 + inner.len()..].starts_with('}') {
            return None;
        }
        let (word, name) = match inner.split_once(':') {
            Some((word, name)) => (word, Some(name)),
            None => (inner, None),
        };
        let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
        let is_form = word.starts_with(|c: char| c.is_ascii_lowercase()) && word.chars().all(is_word);
        is_form.then_some(Self { word, name, bytes: inner.len() + 2 })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn meaning(word: &str, name: Option<&str>) -> Result<Placeholder, String> {
        match (word, name) {
            ("folder", None) => Ok(Placeholder::Folder),
            ("address", Some(name)) => {
                name.parse().map(|index| Placeholder::Address(index, 1)).map_err(|_| "no machine".to_owned())
            }
            _ => Err("means nothing".to_owned()),
        }
    }

    fn filled(text: &str) -> Result<String, String> {
        Template::read(text, meaning).map(|template| {
            template.fill(|placeholder| match placeholder {
                Placeholder::Address(index, _) => format!("10.77.0.{index}"),
                _ => "/scratch".to_owned(),
            })
        })
    }

    #[test]
    fn placeholders_are_filled_and_other_braces_stand() {
        for (text, expected) in [
            ("", ""),
            ("udp://{address:3}:5{folder}", "udp://10.77.0.3:5/scratch"),
            ("{{folder} {folder}", "{folder} /scratch"),
            ("events {}\nhttp { server { listen 80; } }", "events {}\nhttp { server { listen 80; } }"),
            ("{\"a\":{\"b\":1}} {1} {A} { x", "{\"a\":{\"b\":1}} {1} {A} { x"),
            ("{{{folder}}", "{{folder}}"),
        ] {
            assert_eq!(filled(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_means_nothing_is_said_with_how_to_write_it_all_the_same() {
        let error = filled("awk {print}").expect_err("no such word");
        assert_eq!(error, "{print}: means nothing; for the text {print} itself, write {{print}");
        assert!(filled("{address:bob}").is_err() && filled("{folder:bob}").is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".*|[{}a-z:]*") {
            if let Ok(filled) = filled(&text) {
                let has_brace = text.contains('{');
                prop_assert!(has_brace || filled == text);
            }
        }
    }
}
