//! The table in the terminal.

use std::fmt::Write as _;

use super::Targets;
use super::numbers::{self, NOTHING};
use crate::{Results, Row};

/// What was published is cut here: the page has all of it.
const PUBLISHED_MAX: usize = 44;

/// What an experiment has found, for a terminal: a line of the form `ID: measured / published / target` for each row,
/// with what is measured, and `met`, `missed` or `no target` at its end.
#[must_use]
pub fn terminal(results: &Results) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}", results.title);
    let lines: Vec<_> = results.rows.iter().map(|row| line(results, row)).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 5] = std::array::from_fn(width);
    for [measured, published, target, metric, verdict] in &lines {
        let [first, second, third, fourth, _] = widths;
        let _ = writeln!(
            text,
            "{}: {measured:>first$} / {published:<second$} / {target:<third$}  {metric:<fourth$}  {verdict}",
            results.id
        );
    }
    for run in &results.stopped {
        let _ = writeln!(text, "{}: STOPPED: {run}", results.id);
    }
    let Targets { met, all } = results.targets();
    let _ = match all {
        0 => writeln!(text, "{}: no targets", results.id),
        _ => writeln!(text, "{}: {met} of {all} targets met", results.id),
    };
    // Plain spaces, so that what is seen can be searched for.
    text.replace(['\u{a0}', '\u{202f}'], " ")
}

fn line(results: &Results, row: &Row) -> [String; 5] {
    let seeds = if results.seeds.len() > 1 && row.worst.is_some() {
        format!(" (worst seed {})", numbers::worst(row))
    } else {
        String::new()
    };
    let verdict = match row.met {
        Some(true) => "met",
        Some(false) => "missed",
        None => "no target",
    };
    [
        numbers::measured(row),
        cut(row.published.as_deref().unwrap_or(NOTHING)),
        numbers::target(row),
        format!("{}{seeds}", row.metric),
        verdict.into(),
    ]
}

fn cut(text: &str) -> String {
    if text.chars().count() <= PUBLISHED_MAX {
        return text.into();
    }
    let kept: String = text.chars().take(PUBLISHED_MAX - 1).collect();
    format!("{}…", kept.trim_end())
}
