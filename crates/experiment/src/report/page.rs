//! HTML page of the report: a single file without external resources.

use std::fmt::Write as _;

use byway_plot::{PAGE_STYLE, STYLE, escaped};

use super::Targets;
use super::numbers::{self, NOTHING, count};
use super::section::{section, verdict};
use crate::{Results, Row};

/// Renders the report on these experiments, in this order, as one HTML file. The same results give
/// the same bytes.
///
/// The page needs neither network nor scripts, has a light and a dark theme, and can be printed.
#[must_use]
pub fn page(results: &[Results]) -> String {
    let sections: String = results.iter().map(section).collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\" id=\"top\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><meta name=\"color-scheme\" content=\"light dark\">\
         <title>Byway: published results, reproduced</title><style>{PAGE_STYLE}{STYLE}{OWN_STYLE}</style></head><body><main>{}{}\
         {sections}</main></body></html>\n",
        head(results),
        summary(results),
    )
}

fn head(results: &[Results]) -> String {
    let Targets { met, all } =
        results.iter().map(Results::targets).fold(Targets::default(), |sum, one| sum + one);
    let missed = all - met;
    let complete = results.iter().filter(|results| results.is_met() && results.targets().all > 0).count();
    let tiles = [
        (count(results.len()), if results.len() == 1 { "experiment" } else { "experiments" }, ""),
        (format!("{} of {}", count(met), count(all)), "targets met", ""),
        (
            count(missed),
            if missed == 1 { "target missed" } else { "targets missed" },
            if missed > 0 { "bad" } else { "" },
        ),
        (count(complete), "with all their targets met", ""),
    ];
    let mut text = String::new();
    for (number, words, class) in tiles {
        // Writing to a string cannot fail.
        let _ = write!(text, "<div><b class=\"{class}\">{number}</b><span>{words}</span></div>");
    }
    format!(
        "<header><p class=\"brand\">Byway</p><h1>Published results, reproduced</h1><p \
         class=\"lead\">Published results about overlays, delay classes, network state and network \
         coding, measured with Byway: the measured value beside the published one and Byway's target. \
         Results that could not be reproduced are listed with the reason.</p><div \
         class=\"tiles\">{text}</div></header>"
    )
}

fn summary(results: &[Results]) -> String {
    if results.is_empty() {
        return "<section><h2>All experiments</h2><p>No results yet: <code>byway experiment run</code> \
                runs the experiments.</p></section>"
            .into();
    }
    let rows: String = results.iter().map(summary_row).collect();
    format!(
        "<section><h2>All experiments</h2><p>Each with its first target.</p><div class=\"wide\" \
         tabindex=\"0\"><table class=\"summary\"><thead><tr><th>experiment</th><th>targets met</th><th \
         class=\"words\">measure</th><th>measured</th><th \
         class=\"words\">published</th><th>target</th><th>verdict</th></tr></thead><tbody>{rows}</tbody></table></div></section>"
    )
}

fn summary_row(results: &Results) -> String {
    let Targets { met, all } = results.targets();
    let id = escaped(&results.id);
    let targets = match (all, met == all) {
        (0, _) => NOTHING.into(),
        (_, true) => format!("<span class=\"good\">✓&nbsp;{met} of {all}</span>"),
        (_, false) => format!("<span class=\"bad\">✗&nbsp;{met} of {all}</span>"),
    };
    let title = escaped(&results.title);
    format!(
        "<tr><th scope=\"row\"><a href=\"#{id}\">{id}</a><small>{title}</small></th><td>{targets}</td>{}</tr>",
        main_row(results).map_or_else(|| "<td></td>".repeat(5), summary_cells)
    )
}

fn summary_cells(row: &Row) -> String {
    format!(
        "<td class=\"words\">{}</td><td class=\"measured\">{}</td><td class=\"words\">{}</td><td>{}</td><td>{}</td>",
        escaped(&row.metric),
        escaped(&numbers::measured(row)),
        escaped(row.published.as_deref().unwrap_or(NOTHING)),
        escaped(&numbers::target(row)),
        verdict(row),
    )
}

/// Returns the row that represents an experiment in the summary: the first with a target, or the
/// first.
fn main_row(results: &Results) -> Option<&Row> {
    results.rows.iter().find(|row| row.target.is_some()).or_else(|| results.rows.first())
}

const OWN_STYLE: &str = include_str!("page.css");
