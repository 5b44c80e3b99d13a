//! Table of all targets, as Markdown.

use std::fmt::Write as _;

use super::Targets;
use super::numbers::{self, NOTHING};
use crate::{Results, Row};

/// Renders all rows with a target as one table of Markdown, followed by the number of targets that
/// are met, and by the runs that were stopped. Rows without a target are left out.
///
/// `results` have the order of the table.
#[must_use]
pub fn markdown(results: &[Results]) -> String {
    let mut text = String::from(
        "| experiment | measure | measured | worst seed | target | published | verdict |\n|---|---|---|---|---|---|---|\n",
    );
    let mut count = Targets::default();
    for one in results {
        for row in one.rows.iter().filter(|row| row.target.is_some()) {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "| {} |", row_cells(one, row).map(|cell| escaped(&cell)).join(" | "));
        }
        count = count + one.targets();
    }
    let _ = writeln!(text, "\n{} of {} targets are met.", count.met, count.all);
    for (one, run) in results.iter().flat_map(|one| one.stopped.iter().map(move |run| (one, run))) {
        let _ = writeln!(text, "\n`{}`: {run}.", one.id);
    }
    text.replace(['\u{a0}', '\u{202f}'], " ")
}

fn row_cells(results: &Results, row: &Row) -> [String; 7] {
    let worst =
        if results.seeds.len() > 1 && row.worst.is_some() { numbers::worst(row) } else { NOTHING.into() };
    [
        format!("`{}`", results.id),
        row.metric.clone(),
        numbers::measured(row),
        worst,
        numbers::target(row),
        row.published.clone().unwrap_or_else(|| NOTHING.into()),
        (if row.met == Some(true) { "met" } else { "**missed**" }).into(),
    ]
}

/// Returns a text that is one cell of a table: a vertical bar would end it.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|")
}
