//! Warnings about environment variables that look like settings and are not. They are never errors.
//!
//! A container orchestrator sets variables by itself: for a service `byway-relay`, Kubernetes sets
//! `BYWAY_RELAY_PORT`, `BYWAY_RELAY_SERVICE_HOST` and so on in each of its containers.

use clap::CommandFactory as _;

/// Prefix of the environment variables that Byway reads.
const PREFIX: &str = "BYWAY_";

/// Largest edit distance between an unknown variable and a setting that it is reported as a typing
/// error of.
const EDIT_DISTANCE_MAX: usize = 2;

/// Returns a warning about environment variables that begin with `BYWAY_` and are no settings;
/// `None` if there are none.
pub(crate) fn foreign_variables() -> Option<String> {
    #[allow(clippy::disallowed_methods, reason = "this is where the program reads its settings")]
    let names = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    warning(names, &known_variables())
}

/// Returns the names of the environment variables that flags of any subcommand read.
fn known_variables() -> Vec<String> {
    fn add(command: &clap::Command, names: &mut Vec<String>) {
        let variables = command.get_arguments().filter_map(clap::Arg::get_env);
        names.extend(variables.map(|name| name.to_string_lossy().into_owned()));
        command.get_subcommands().for_each(|command| add(command, names));
    }
    let mut names = Vec::new();
    add(&crate::Cli::command(), &mut names);
    names.sort_unstable();
    names.dedup();
    names
}

fn warning(names: impl Iterator<Item = String>, known: &[String]) -> Option<String> {
    let is_foreign = |name: &String| name.starts_with(PREFIX) && !known.contains(name);
    let mut foreign: Vec<String> = names.filter(is_foreign).collect();
    foreign.sort_unstable();
    let ignored = foreign.iter().map(|name| match suggestion(name, known) {
        Some(meant) => format!("{name} (is {meant} meant?)"),
        None => name.clone(),
    });
    let ignored: Vec<String> = ignored.collect();
    (!ignored.is_empty()).then(|| {
        format!(
            "ignoring environment variables that are no settings: {}; `--help` of a command names \
             those that it reads",
            ignored.join(", ")
        )
    })
}

/// Returns the known setting that an unknown variable's name most resembles; `None` if the
/// difference is more than a typing error.
fn suggestion<'a>(name: &str, known: &'a [String]) -> Option<&'a String> {
    let nearest = known.iter().map(|known| (edit_distance(name, known), known)).min()?;
    (nearest.0 <= EDIT_DISTANCE_MAX).then_some(nearest.1)
}

/// Returns the Levenshtein distance: the number of letters to add, remove or replace in one word to
/// get the other.
fn edit_distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (position, letter) in one.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = position + 1;
        for (column, other_letter) in other.bytes().enumerate() {
            let replaced = diagonal + usize::from(letter != other_letter);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warned(names: &[&str]) -> Option<String> {
        warning(names.iter().map(|name| (*name).to_owned()), &known_variables())
    }

    #[test]
    fn settings_and_variables_of_others_are_no_warning() {
        assert_eq!(warned(&["BYWAY_TOKEN", "BYWAY_LOG_LEVEL", "PATH", "XBYWAY_PORT"]), None);
    }

    #[test]
    fn a_typing_error_names_what_is_meant_and_an_orchestrators_variable_nothing() {
        let message = warned(&["BYWAY_RELAY_PORT_4600_UDP_ADDR", "BYWAY_TOKENS"]).expect("a warning");
        assert!(message.contains("BYWAY_TOKENS (is BYWAY_TOKEN meant?)"), "{message}");
        assert!(message.contains("BYWAY_RELAY_PORT_4600_UDP_ADDR, "), "{message}");
    }

    #[test]
    fn words_are_as_far_apart_as_the_letters_that_differ() {
        for (one, other, expected) in
            [("level", "level", 0), ("lexel", "level", 1), ("kitten", "sitting", 3), ("", "ab", 2)]
        {
            assert_eq!(edit_distance(one, other), expected, "{one} {other}");
        }
    }
}
