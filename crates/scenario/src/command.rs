//! Programs that a lab runs in the machines of a scenario.

use std::path::PathBuf;

use byway_units::Duration;

/// A program in a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// What the scenario calls it.
    pub name: String,
    /// Where it stands in its file, as it stands before a problem.
    pub place: String,
    /// Its machine.
    pub node: usize,
    /// The program and its arguments.
    pub run: Vec<Template>,
    /// Files of its folder, by their paths in that.
    pub files: Vec<(PathBuf, Template)>,
    /// Variables of its environment.
    pub environment: Vec<(String, Template)>,
    /// When it runs.
    pub life: Life,
}

/// When a command runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Life {
    /// All the time; what shows that it works, if there is more to see than that it runs.
    Service(Option<Ready>),
    /// From a time on, and so long at most.
    Task {
        /// How long after the begin.
        at: Duration,
        /// How long at most.
        within: Duration,
    },
}

/// What shows that a service works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ready {
    /// A TCP port on which something listens.
    Tcp(u16),
    /// A UDP port that is bound.
    Udp(u16),
    /// A text in what it writes.
    Output(String),
}

/// A text with places for what only a lab knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Filled(Placeholder),
}

/// What only a lab knows; machines and flows are meant by their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placeholder {
    /// The IPv4 addresses of a machine, or of all of a kind: how many from this place on.
    Address(usize, usize),
    /// Their IPv6 addresses.
    Address6(usize, usize),
    /// The command's folder.
    Folder,
    /// The scenario's folder.
    Here,
    /// The program that runs the lab.
    Byway,
    /// Where to send what goes through a flow.
    To(usize),
    /// The address of that.
    ToHost(usize),
    /// The port of that.
    ToPort(usize),
}

impl Template {
    /// The text with what stands for each placeholder.
    #[must_use]
    pub fn fill(&self, with: impl Fn(Placeholder) -> String) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Filled(placeholder) => with(*placeholder),
        };
        self.0.iter().map(piece).collect()
    }

    /// Reads a text; `meaning` says what `{WORD}` and `{WORD:NAME}` mean. Other braces stand as they are.
    pub(crate) fn read(
        text: &str,
        meaning: impl Fn(&str, Option<&str>) -> Result<Placeholder, String>,
    ) -> Result<Self, String> {
        let (mut pieces, mut plain, mut rest) = (Vec::new(), String::new(), text);
        while let Some(at) = rest.find('{') {
            plain.push_str(&rest[..at]);
            rest = &rest[at..];
            if let Some(form) = Form::at(&rest[1..]) {
                // One brace is taken away.
                plain.push_str(&rest[1..=form.bytes]);
                rest = &rest[1 + form.bytes..];
            } else if let Some(form) = Form::at(rest) {
                let wrong = |message| {
                    let typed = &rest[..form.bytes];
                    format!("{typed}: {message}; to have {typed} itself there, write {{{typed}")
                };
                pieces.push(Piece::Text(std::mem::take(&mut plain)));
                pieces.push(Piece::Filled(meaning(form.word, form.name).map_err(wrong)?));
                rest = &rest[form.bytes..];
            } else {
                plain.push('{');
                rest = &rest[1..];
            }
        }
        plain.push_str(rest);
        pieces.push(Piece::Text(plain));
        Ok(Self(pieces))
    }
}

/// `{WORD}` or `{WORD:NAME}`.
struct Form<'a> {
    word: &'a str,
    name: Option<&'a str>,
    bytes: usize,
}

impl<'a> Form<'a> {
    /// The one that a text begins with.
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
                name.parse().map(|place| Placeholder::Address(place, 1)).map_err(|_| "no machine".to_owned())
            }
            _ => Err("means nothing".to_owned()),
        }
    }

    fn filled(text: &str) -> Result<String, String> {
        Template::read(text, meaning).map(|template| {
            template.fill(|placeholder| match placeholder {
                Placeholder::Address(place, _) => format!("10.77.0.{place}"),
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
        let said = filled("awk {print}").expect_err("no such word");
        assert_eq!(said, "{print}: means nothing; to have {print} itself there, write {{print}");
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
