//! Table of the report in the terminal.

use std::fmt::Write as _;

use super::Targets;
use super::numbers::{self, NOTHING};
use crate::{Results, Row};

/// Longest text of a published result in the terminal, in characters. The HTML page shows all of
/// it.
const PUBLISHED_MAX: usize = 44;

/// Renders the results of an experiment for a terminal: a line `ID: measured / published / target`
/// for each row. The line ends with the measure and `met`, `missed` or `no target`.
#[must_use]
pub fn terminal(results: &Results) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}", results.title);
    let rows: Vec<_> = results.rows.iter().map(|row| row_cells(results, row)).collect();
    let width = |column: usize| rows.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 5] = std::array::from_fn(width);
    for [measured, published, target, metric, verdict] in &rows {
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
    // Plain spaces make the text searchable.
    text.replace(['\u{a0}', '\u{202f}'], " ")
}

fn row_cells(results: &Results, row: &Row) -> [String; 5] {
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
    let start: String = text.chars().take(PUBLISHED_MAX - 1).collect();
    format!("{}…", start.trim_end())
}
