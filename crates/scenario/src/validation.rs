//! Validation of scenarios: conversion of raw settings, and all checks of their values.

mod commands;
mod conversations;
mod expectations;
mod flows;
mod links;
mod names;
mod nats;
mod prices;
mod rates;
mod steps;

use std::io;
use std::path::{Path, PathBuf};

use byway_config_types::{KeyPath, Problem, Source};
use byway_units::{Duration, Probability};
use toml::Table;

use crate::change::Change;
use crate::limits::{LENGTH_MAX, NAME_BYTES_MAX};
use crate::raw::ScenarioSetting;
use crate::scenario::Scenario;
use names::Names;

/// Scenario file during its validation, with access to the files that it names.
pub(crate) struct Reader<'a> {
    source: &'a Source,
    /// Folder of the scenario file, to which the paths in it are relative.
    folder: PathBuf,
    /// Function that returns the text of a file.
    read: &'a dyn Fn(&Path) -> io::Result<String>,
}

impl Reader<'_> {
    fn problem(&self, path: &KeyPath, message: impl std::fmt::Display) -> Problem {
        self.source.problem(path, message)
    }

    /// Checks that no time of a setting is longer than `most`.
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

    /// Checks that a name needs no quotes in commands, keys and file names.
    fn expect_plain(&self, path: &KeyPath, name: &str) -> Result<(), Problem> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.chars().all(is_plain) {
            return Ok(());
        }
        Err(self.problem(
            path,
            format!("invalid name {name:?}: use letters, digits, - and _, at most {NAME_BYTES_MAX}"),
        ))
    }

    /// Reads and parses a trace file that the scenario names.
    fn trace<T, E: std::fmt::Display>(
        &self,
        path: &KeyPath,
        name: &Path,
        parse: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<T, Problem> {
        let file = self.folder.join(name);
        let wrong = |message: String| self.problem(path, format!("{}: {message}", file.display()));
        let text = (self.read)(&file)
            .map_err(|error| wrong(format!("{error}; name a text file in the scenario's folder")))?;
        parse(&text).map_err(|error| wrong(error.to_string()))
    }
}

impl Scenario {
    /// Reads a scenario, and the traces that it names, with `read`, which returns a file's text.
    ///
    /// # Errors
    /// If it is invalid; the error names file, line, key and remedy.
    pub fn read(file: &Path, read: &dyn Fn(&Path) -> io::Result<String>) -> Result<Self, Problem> {
        let text = read(file).map_err(|error| {
            Problem::without_location(format!("{}: {error}; name a scenario file", file.display()))
        })?;
        let source = Source::new(file, text);
        let typed: ScenarioSetting =
            toml::from_str(source.text()).map_err(|error| source.parse_problem(&error))?;
        let folder = file.parent().map(Path::to_owned).unwrap_or_default();
        Reader { source: &source, folder, read }.validate(typed)
    }

    /// Reads a scenario with overrides of some values.
    ///
    /// # Errors
    /// As [`Scenario::read`]; or if the key of an override does not exist. Line numbers are those
    /// of the changed file.
    pub fn read_changed(
        file: &Path,
        changes: &[Change],
        read: &dyn Fn(&Path) -> io::Result<String>,
    ) -> Result<Self, Problem> {
        if changes.is_empty() {
            return Self::read(file, read);
        }
        // Errors of the unchanged file have its own line numbers.
        Self::read(file, read)?;
        let wrong = |message: String| Problem::without_location(format!("{}: {message}", file.display()));
        let text = read(file).map_err(|error| wrong(error.to_string()))?;
        let mut table: Table = text.parse().map_err(|error: toml::de::Error| wrong(error.to_string()))?;
        changes.iter().try_for_each(|change| change.apply(&mut table)).map_err(wrong)?;
        let text = table.to_string();
        let scenario =
            Self::read(file, &|wanted| if wanted == file { Ok(text.clone()) } else { read(wanted) });
        scenario.map_err(|problem| {
            Problem::without_location(format!(
                "invalid scenario after the changes (lines are of the changed file): {problem}"
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
    fn validate(&self, typed: ScenarioSetting) -> Result<Scenario, Problem> {
        let length = typed.length.0;
        if length.is_zero() || length > LENGTH_MAX {
            let message = format!("is out of range: more than 0 s, and at most {LENGTH_MAX}");
            return Err(self.problem(&KeyPath::of("length"), message));
        }
        let mut names = Names::of(self, &typed.node)?;
        let prices = prices::prices(self, &typed.node, &names)?;
        let explain_at = prices::explain_at(self, typed.explain, length)?;
        let (shapes, links) = self.links(&typed.link, &names)?;
        self.put_behind_nats(&mut names, &links)?;
        let is_corrupting = shapes.iter().any(|shape| shape.corruption > Probability::ZERO);
        if let Some(location) =
            names.all().iter().find_map(|node| node.bare.as_ref()).filter(|_| is_corrupting)
        {
            let message = "conflicts with `corruption` of links, because plain UDP would need its checksum";
            return Err(Problem::without_location(format!("{location}{message}: omit one of them")));
        }
        let (flows, conversations) = self.flows(&typed.flow, &names, length)?;
        let steps = self.steps(&typed.step, &names, (&shapes, &links), length)?;
        let commands = self.commands(&typed.command, &names, &flows, length)?;
        let expectations = self.expectations(&typed.expect, &typed.flow, &typed.command, &typed.link)?;
        Ok(Scenario {
            title: typed.title,
            description: typed.description,
            seed: typed.seed.unwrap_or(1),
            length,
            explain_at,
            nodes: names.nodes(),
            prices,
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

/// Returns the path to an element of a list of tables.
fn element(list: &'static str, index: usize) -> KeyPath {
    KeyPath::of(list).index(index)
}

#[cfg(test)]
mod tests;
