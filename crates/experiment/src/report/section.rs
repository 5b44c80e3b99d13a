//! Section of an experiment on the page.

use std::fmt::Write as _;

use byway_plot::escaped;

use super::charts;
use super::numbers::{self, NOTHING, count, seeds};
use crate::{Plot, Results, Row, Table, World};

/// Renders an experiment as a section of the report's page.
pub(super) fn section(results: &Results) -> String {
    let id = escaped(&results.id);
    let parts = [
        heading(results),
        paragraphs("p", &results.description),
        stopped_runs(results),
        rows(results),
        plots(results),
        results.tables.iter().map(table).collect(),
        notes(results),
        again(results),
    ];
    format!("<section id=\"{id}\">{}</section>", parts.concat())
}

fn heading(results: &Results) -> String {
    let targets = results.targets();
    let verdict = match (targets.all, results.is_met()) {
        (0, true) => "<span class=\"badge\">no targets</span>".into(),
        (all, true) => format!("<span class=\"badge good\">✓ {} of {all} targets met</span>", targets.met),
        (all, false) => format!("<span class=\"badge bad\">✗ {} of {all} targets met</span>", targets.met),
    };
    let source = if results.source.trim().is_empty() {
        String::new()
    } else {
        format!("<p class=\"source\">Published in {}</p>", escaped(&results.source))
    };
    format!(
        "<div class=\"top\"><p class=\"id\"><code>{}</code></p>{verdict}</div><h2>{}</h2>{source}",
        escaped(&results.id),
        escaped(&results.title),
    )
}

/// Renders each text as an element with this tag.
fn elements(tag: &str, texts: impl Iterator<Item = String>) -> String {
    texts.fold(String::new(), |mut elements, text| {
        // A line must not break between a number and its percent sign. Writing to a string cannot
        // fail.
        let _ = write!(elements, "<{tag}>{}</{tag}>", escaped(&text).replace(" %", "\u{a0}%"));
        elements
    })
}

/// Renders text as paragraphs with this tag. Empty lines in the text separate paragraphs.
fn paragraphs(tag: &str, text: &str) -> String {
    let lines: Vec<_> = text.lines().map(str::trim).collect();
    let paragraphs = lines.split(|line| line.is_empty()).filter(|lines| !lines.is_empty());
    elements(tag, paragraphs.map(|lines| lines.join(" ")))
}

fn rows(results: &Results) -> String {
    if results.rows.is_empty() {
        return String::new();
    }
    // A column without any value is left out.
    let has_worst = results.rows.iter().any(|row| row.worst.is_some());
    let worst_head = if has_worst { "<th>worst seed</th>" } else { "" };
    let mut body = String::new();
    for row in &results.rows {
        let worst =
            if has_worst { format!("<td>{}</td>", escaped(&numbers::worst(row))) } else { String::new() };
        // Writing to a string cannot fail.
        let _ = write!(
            body,
            "<tr><th scope=\"row\">{}</th><td class=\"measured\">{}</td>{worst}<td class=\"words\">{}</td><td>{}</td><td>{}</td></tr>",
            escaped(&row.metric),
            escaped(&numbers::measured(row)),
            escaped(row.published.as_deref().unwrap_or(NOTHING)),
            escaped(&numbers::target(row)),
            verdict(row),
        );
    }
    format!(
        "<div class=\"wide\" tabindex=\"0\"><table \
         class=\"rows\"><thead><tr><th>measure</th><th>measured</th>{worst_head}<th \
         class=\"words\">published</th><th>target</th><th>verdict</th></tr></thead><tbody>{body}</tbody></table></div>"
    )
}

/// Returns the verdict on a row's target as HTML: a sign and a word, with a colour as well.
pub(super) fn verdict(row: &Row) -> &'static str {
    match row.met {
        Some(true) => "<span class=\"good\">✓&nbsp;met</span>",
        Some(false) => "<span class=\"bad\">✗&nbsp;missed</span>",
        None => "<span class=\"none\">no&nbsp;target</span>",
    }
}

fn plots(results: &Results) -> String {
    if results.series.is_empty() {
        return String::new();
    }
    // Narrow plots stand two in a row; an odd one has its caption at its side.
    let narrow: Vec<_> = results.series.values().filter(|plot| !charts::is_wide(plot)).collect();
    let alone = if narrow.len() % 2 == 1 { narrow.len() - 1 } else { narrow.len() };
    let mut figures = String::new();
    for (index, plot) in narrow.iter().enumerate() {
        figures.push_str(&figure(if index == alone { "alone" } else { "half" }, plot));
    }
    for plot in results.series.values().filter(|plot| charts::is_wide(plot)) {
        figures.push_str(&figure("whole", plot));
    }
    format!("<div class=\"plots\">{figures}</div>")
}

fn figure(class: &str, plot: &Plot) -> String {
    let caption = paragraphs("span", &plot.caption);
    format!(
        "<figure class=\"{class}\"><div class=\"plot\"><h3>{}</h3><div class=\"wide\">{}</div></div><figcaption>{caption}</figcaption></figure>",
        escaped(&plot.title),
        charts::inline(plot),
    )
}

fn table(table: &Table) -> String {
    let is_number =
        |column: usize| table.rows.iter().filter_map(|row| row.get(column)).all(|cell| is_numeric(cell));
    let classes: Vec<_> = (0..table.columns.len())
        .map(|column| if is_number(column) { "" } else { " class=\"words\"" })
        .collect();
    let cell =
        |tag: &str, (text, class): (&String, &&str)| format!("<{tag}{class}>{}</{tag}>", escaped(text));
    let head: String = table.columns.iter().zip(&classes).map(|pair| cell("th", pair)).collect();
    let mut body = String::new();
    for row in &table.rows {
        let cells = row.iter().zip(&classes).map(|pair| cell("td", pair));
        let _ = write!(body, "<tr>{}</tr>", cells.collect::<String>());
    }
    format!(
        "<h3>{}</h3><div class=\"wide\" tabindex=\"0\"><table class=\"data\"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>",
        escaped(&table.title)
    )
}

/// True if a table cell is a number or empty, so it is aligned to the right.
fn is_numeric(cell: &str) -> bool {
    let cell = cell.trim().trim_start_matches(['−', '-', '+', '<', '>', '≤', '≥', '~', ' ']);
    cell.is_empty()
        || cell == NOTHING
        || cell.starts_with(|character: char| character.is_ascii_digit() || character == '∞')
}

fn notes(results: &Results) -> String {
    if results.notes.is_empty() {
        return String::new();
    }
    let notes = elements("li", results.notes.iter().cloned());
    format!("<h3>Differences from the publication</h3><ul>{notes}</ul>")
}

/// Renders the list of runs that did not reach their end; empty if all did.
fn stopped_runs(results: &Results) -> String {
    if results.stopped.is_empty() {
        return String::new();
    }
    let runs = elements("li", results.stopped.iter().map(ToString::to_string));
    format!("<h3>Stopped runs: no target counts as met</h3><ul class=\"bad\">{runs}</ul>")
}

/// Describes the environment of an experiment's runs, and the command that repeats them.
fn again(results: &Results) -> String {
    let world = match results.world {
        World::Sim => "In virtual time",
        World::Lab => "Real processes, on one machine",
        World::Model => "Computed from tables, without a run",
    };
    let scale = if results.is_full { "in full" } else { "as in the default suite, shorter than in full" };
    let seeds = match results.seeds.len() {
        0 => String::new(),
        1 => format!("; seed {}", seeds(&results.seeds)),
        many => format!("; {} seeds: {}", count(many), seeds(&results.seeds)),
    };
    format!(
        "<p class=\"again\">{world}, {scale}{seeds}. To repeat it: <code>byway experiment run \
         {}</code> <a href=\"#top\">↑ all experiments</a></p>",
        escaped(&results.id)
    )
}
