//! Variables of the environment that look like settings and are none: a warning, never an error.
//!
//! A container orchestrator sets variables by itself: for a service `byway-relay`, Kubernetes sets `BYWAY_RELAY_PORT`,
//! `BYWAY_RELAY_SERVICE_HOST` and so on in every container beside it.

use clap::CommandFactory as _;

/// With what Byway's variables begin.
const PREFIX: &str = "BYWAY_";

/// Most changes of one letter between a typing error and what was meant.
const CHANGES_MAX: usize = 2;

/// A warning that names all variables that look like settings and are none.
pub(crate) fn foreign_variables() -> Option<String> {
    #[allow(clippy::disallowed_methods, reason = "this is where the program reads its settings")]
    let given = std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned());
    warning(given, &known())
}

/// The variables that flags know.
fn known() -> Vec<String> {
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

fn warning(given: impl Iterator<Item = String>, known: &[String]) -> Option<String> {
    let is_foreign = |name: &String| name.starts_with(PREFIX) && !known.contains(name);
    let mut foreign: Vec<String> = given.filter(is_foreign).collect();
    foreign.sort_unstable();
    let named = foreign.iter().map(|name| match meant(name, known) {
        Some(meant) => format!("{name} (is {meant} meant?)"),
        None => name.clone(),
    });
    let named: Vec<String> = named.collect();
    (!named.is_empty()).then(|| {
        format!(
            "variables of the environment that are no settings are ignored: {}; `--help` of a command names those that it reads",
            named.join(", ")
        )
    })
}

/// The setting that a name is a typing error for.
fn meant<'a>(name: &str, known: &'a [String]) -> Option<&'a String> {
    let nearest = known.iter().map(|known| (changes(name, known), known)).min()?;
    (nearest.0 <= CHANGES_MAX).then_some(nearest.1)
}

/// How many letters have to be added, removed or replaced to make one word the other (Levenshtein).
fn changes(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, letter) in one.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, with) in other.bytes().enumerate() {
            let replaced = diagonal + usize::from(letter != with);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warned(given: &[&str]) -> Option<String> {
        warning(given.iter().map(|name| (*name).to_owned()), &known())
    }

    #[test]
    fn settings_and_variables_of_others_are_no_warning() {
        assert_eq!(warned(&["BYWAY_TOKEN", "BYWAY_LOG_LEVEL", "PATH", "XBYWAY_PORT"]), None);
    }

    #[test]
    fn a_typing_error_names_what_is_meant_and_an_orchestrators_variable_nothing() {
        let said = warned(&["BYWAY_RELAY_PORT_4600_UDP_ADDR", "BYWAY_TOKENS"]).expect("a warning");
        assert!(said.contains("BYWAY_TOKENS (is BYWAY_TOKEN meant?)"), "{said}");
        assert!(said.contains("BYWAY_RELAY_PORT_4600_UDP_ADDR, "), "{said}");
    }

    #[test]
    fn words_are_as_far_apart_as_the_letters_that_differ() {
        for (one, other, expected) in
            [("level", "level", 0), ("lexel", "level", 1), ("kitten", "sitting", 3), ("", "ab", 2)]
        {
            assert_eq!(changes(one, other), expected, "{one} {other}");
        }
    }
}
