//! From what is typed to what is meant: everything that can be wrong with a scenario is found here.

mod commands;
mod conversations;
mod expectations;
mod flows;
mod links;
mod names;
mod nats;
mod rates;
mod steps;

use std::io;
use std::path::{Path, PathBuf};

use byway_typed::{KeyPath, Problem, Source};
use byway_units::Duration;
use toml::Table;

use crate::change::Change;
use crate::limits::{LENGTH_MAX, NAME_BYTES_MAX};
use crate::scenario::Scenario;
use crate::typed::TypedScenario;
use names::Names;

/// A file while it is understood.
pub(crate) struct Reader<'a> {
    source: &'a Source,
    /// Where the files that it names are.
    folder: PathBuf,
    /// How files are read.
    read: &'a dyn Fn(&Path) -> io::Result<String>,
}

impl Reader<'_> {
    fn problem(&self, path: &KeyPath, message: impl std::fmt::Display) -> Problem {
        self.source.problem(path, message)
    }

    /// That no time is longer than this.
    fn no_longer_than(
        &self,
        path: &KeyPath,
        times: impl IntoIterator<Item = Duration>,
        most: Duration,
    ) -> Result<(), Problem> {
        match times.into_iter().find(|time| *time > most) {
            Some(time) => Err(self.problem(path, format!("{time} is too long: at most {most}"))),
            None => Ok(()),
        }
    }

    /// That a name needs no quotes wherever it stands.
    fn expect_plain(&self, path: &KeyPath, name: &str) -> Result<(), Problem> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.chars().all(is_plain) {
            return Ok(());
        }
        Err(self.problem(
            path,
            format!("{name:?} is no name: use letters, digits, - and _, {NAME_BYTES_MAX} at most"),
        ))
    }

    /// What is in a file that the scenario names.
    fn trace<T, E: std::fmt::Display>(
        &self,
        path: &KeyPath,
        name: &Path,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<T, Problem> {
        let file = self.folder.join(name);
        let wrong = |message: String| self.problem(path, format!("{}: {message}", file.display()));
        let text = (self.read)(&file)
            .map_err(|error| wrong(format!("{error}; name a text file beside the scenario")))?;
        parse(&text).map_err(|error| wrong(error.to_string()))
    }
}

impl Scenario {
    /// Reads a scenario, and the traces that it names, by `read`, which gives a file's text.
    ///
    /// # Errors
    /// If something in it is wrong; the error names file, line, key and remedy.
    pub fn read(file: &Path, read: &dyn Fn(&Path) -> io::Result<String>) -> Result<Self, Problem> {
        let text = read(file).map_err(|error| {
            Problem::nowhere(format!("{}: {error}; name a scenario's file", file.display()))
        })?;
        let source = Source::new(file, text);
        let typed: TypedScenario =
            toml::from_str(source.text()).map_err(|error| source.parse_problem(&error))?;
        let folder = file.parent().map(Path::to_owned).unwrap_or_default();
        Reader { source: &source, folder, read }.meaning(typed)
    }

    /// The same with some values in the place of its own.
    ///
    /// # Errors
    /// As [`Scenario::read`]; or if there is nothing to change where a change leads. Lines are those of the changed file.
    pub fn read_changed(
        file: &Path,
        changes: &[Change],
        read: &dyn Fn(&Path) -> io::Result<String>,
    ) -> Result<Self, Problem> {
        if changes.is_empty() {
            return Self::read(file, read);
        }
        // What is wrong with the file itself is said with its own lines.
        Self::read(file, read)?;
        let wrong = |message: String| Problem::nowhere(format!("{}: {message}", file.display()));
        let text = read(file).map_err(|error| wrong(error.to_string()))?;
        let mut table: Table = text.parse().map_err(|error: toml::de::Error| wrong(error.to_string()))?;
        changes.iter().try_for_each(|change| change.apply(&mut table)).map_err(wrong)?;
        let text = table.to_string();
        let scenario =
            Self::read(file, &|wanted| if wanted == file { Ok(text.clone()) } else { read(wanted) });
        scenario.map_err(|problem| {
            Problem::nowhere(format!(
                "with what is changed, the scenario is wrong (lines are of the changed file): {problem}"
            ))
        })
    }

    /// Reads a scenario that names no files.
    ///
    /// # Errors
    /// As [`Scenario::read`].
    pub fn parse(text: &str) -> Result<Self, Problem> {
        let own = Path::new("scenario.toml");
        Self::read(own, &|file| {
            if file == own { Ok(text.to_owned()) } else { Err(io::ErrorKind::NotFound.into()) }
        })
    }
}

impl Reader<'_> {
    fn meaning(&self, typed: TypedScenario) -> Result<Scenario, Problem> {
        let length = typed.length.0;
        if length.is_zero() || length > LENGTH_MAX {
            let message = format!("is out of range: more than 0 s, and at most {LENGTH_MAX}");
            return Err(self.problem(&KeyPath::of("length"), message));
        }
        let mut names = Names::of(self, &typed.node)?;
        let (shapes, links) = self.links(&typed.link, &names)?;
        self.put_behind_nats(&mut names, &links)?;
        let (flows, conversations) = self.flows(&typed.flow, &names, length)?;
        let steps = self.steps(&typed.step, &names, (&shapes, &links), length)?;
        let commands = self.commands(&typed.command, &names, &flows, length)?;
        let expectations = self.expectations(&typed.expect, &typed.flow, &typed.command, &typed.link)?;
        Ok(Scenario {
            title: typed.title,
            description: typed.description,
            seed: typed.seed.unwrap_or(1),
            length,
            nodes: names.nodes(),
            shapes,
            links,
            flows,
            conversations,
            steps,
            commands,
            expectations,
        })
    }
}

/// The path to an element of a list of tables.
fn element(list: &'static str, place: usize) -> KeyPath {
    KeyPath::of(list).place(place)
}

#[cfg(test)]
mod tests;
