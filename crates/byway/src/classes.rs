//! Table of the counters of simulated links' classes, for people.

use byway_scenario::{ClassOutcome, ClassesOutcome};

use crate::table::aligned;

/// Formats the counters of links' classes as a table. Each link has the names of its two ends. The
/// text is empty if no link has classes.
pub(crate) fn table<'a>(links: impl Iterator<Item = (&'a str, &'a str, &'a ClassesOutcome)>) -> String {
    let heads = ["classes", "offered", "dropped", "marked", "MB", "mean sojourn ms", "max sojourn ms"];
    let mut rows = vec![heads.map(str::to_owned)];
    for (from, to, classes) in links {
        let of_class = |(name, class)| row(format!("{from} → {to}, {name}"), class);
        rows.extend(classes.by_name().map(of_class));
    }
    if rows.len() == 1 { String::new() } else { format!("\n{}", aligned(&rows)) }
}

#[allow(clippy::cast_precision_loss, reason = "bytes of a day are far below 2^53")]
fn row(name: String, class: &ClassOutcome) -> [String; 7] {
    [
        name,
        class.offered.to_string(),
        class.dropped.to_string(),
        class.marked.to_string(),
        format!("{:.2}", class.dequeued_bytes as f64 / 1e6),
        class.sojourn_ms_mean.map_or_else(|| "–".to_owned(), |wait| format!("{wait:.2}")),
        format!("{:.2}", class.sojourn_ms_max),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_of_a_link_has_a_row_and_without_classes_there_is_nothing() {
        let low_delay = ClassOutcome {
            offered: 7,
            sojourn_ms_mean: Some(1.5),
            sojourn_ms_max: 9.0,
            ..ClassOutcome::default()
        };
        let classes = ClassesOutcome { low_delay, ..ClassesOutcome::default() };
        let text = table([("left", "right", &classes)].into_iter());
        let rows: Vec<Vec<&str>> = text.lines().skip(3).map(|row| row.split_whitespace().collect()).collect();
        assert_eq!(rows[0][3..], ["high", "rate", "0", "0", "0", "0.00", "–", "0.00"]);
        assert_eq!(rows[1][3..], ["low", "delay", "7", "0", "0", "0.00", "1.50", "9.00"]);
        assert_eq!(table(std::iter::empty()), "");
    }
}
