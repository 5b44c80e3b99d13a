//! Formatting of numbers by their units.

use byway_plot::grouped;

use crate::{Bound, Row};

/// Text in the report for a missing number.
pub(super) const NOTHING: &str = "–";

/// No-break space between a number and its unit.
const SPACE: char = '\u{a0}';

/// Most decimals of a number in the report; more are not informative.
const DECIMALS_MAX: usize = 6;

/// Formats a row's measured value with its unit: `97.0 %`, `41.2 ms`, `1.15×`, `12 345 packets`.
pub(super) fn measured(row: &Row) -> String {
    row.measured.map_or_else(|| NOTHING.into(), |value| beside(row, value))
}

/// Formats a row's value of the worst seed with its unit.
pub(super) fn worst(row: &Row) -> String {
    row.worst.map_or_else(|| NOTHING.into(), |value| beside(row, value))
}

/// Describes a row's target: `at least 97 %`.
pub(super) fn target(row: &Row) -> String {
    match row.target {
        None => NOTHING.into(),
        Some(Bound::AtLeast(bound)) => format!("at least {}", bare(bound, &row.unit)),
        Some(Bound::AtMost(bound)) => format!("at most {}", bare(bound, &row.unit)),
    }
}

/// Formats a value with enough decimals to differ from the row's target: 0.9697 does not appear as
/// 97.0 % if the target is 97 %.
fn beside(row: &Row, value: f64) -> String {
    let usual = with_decimals(value, &row.unit, decimals(value, &row.unit));
    let Some(Bound::AtLeast(bound) | Bound::AtMost(bound)) = row.target else { return usual };
    if value.total_cmp(&bound).is_eq() {
        return usual;
    }
    let exact =
        |decimals| (with_decimals(value, &row.unit, decimals), with_decimals(bound, &row.unit, decimals));
    let texts = (decimals(value, &row.unit)..=DECIMALS_MAX).map(exact);
    texts.into_iter().find(|(value, bound)| value != bound).map_or(usual, |(value, _)| value)
}

/// Formats a value with its unit, without superfluous decimals.
fn bare(value: f64, unit: &str) -> String {
    let all: Vec<_> = (0..=DECIMALS_MAX).map(|decimals| with_decimals(value, unit, decimals)).collect();
    let (scaled, _) = scaled(value, unit);
    let is_exact = |decimals: usize| {
        let shown: Result<f64, _> = format!("{scaled:.decimals$}").parse();
        shown.is_ok_and(|shown| (shown - scaled).abs() <= 1e-9 * scaled.abs())
    };
    let decimals = (0..DECIMALS_MAX).find(|&decimals| is_exact(decimals)).unwrap_or(DECIMALS_MAX);
    all[decimals].clone()
}

/// Returns the number to display and the suffix with its unit. Shares become percent.
fn scaled(value: f64, unit: &str) -> (f64, String) {
    match unit {
        "share" => (100.0 * value, format!("{SPACE}%")),
        "ratio" => (value, "×".into()),
        "" => (value, String::new()),
        unit => (value, format!("{SPACE}{unit}")),
    }
}

fn with_decimals(value: f64, unit: &str, decimals: usize) -> String {
    if value.is_nan() {
        return NOTHING.into();
    }
    let (value, unit) = scaled(value, unit);
    if value.is_infinite() {
        let sign = if value < 0.0 { "−" } else { "" };
        return format!("{sign}∞{unit}");
    }
    format!("{}{unit}", grouped(value, decimals))
}

/// Returns the number of decimals that a value of this unit usually has.
fn decimals(value: f64, unit: &str) -> usize {
    let (value, _) = scaled(value, unit);
    let size = value.abs();
    match unit {
        // Shares near 100 % need more decimals, because differences matter most there.
        "share" if size == 0.0 || (size - 100.0).abs() < 1e-9 => 0,
        "share" if size < 0.1 => 3,
        "share" if size < 1.0 || (99.0..100.0).contains(&size) => 2,
        "dB" if size < 1.0 => 2,
        "share" | "dB" => 1,
        "ratio" if size < 10.0 => 2,
        _ if size.fract() == 0.0 => 0,
        _ if size >= 100.0 => 0,
        _ if size >= 10.0 => 1,
        _ if size >= 1.0 => 2,
        _ => 3,
    }
}

/// Formats a count, with its digits in groups.
pub(super) fn count(count: usize) -> String {
    grouped(f64::from(u32::try_from(count).unwrap_or(u32::MAX)), 0)
}

/// Lists seeds in order, consecutive ones as a range: `1–20, 33`.
pub(super) fn seeds(seeds: &[u64]) -> String {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for &seed in seeds {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(seed) => *last = seed,
            _ => runs.push((seed, seed)),
        }
    }
    let words = runs.into_iter().map(|(first, last)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first}–{last}"),
    });
    let words: Vec<_> = words.collect();
    if words.is_empty() { NOTHING.into() } else { words.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(unit: &str, measured: f64, target: Option<Bound>) -> Row {
        Row {
            metric: String::new(),
            unit: unit.into(),
            measured: Some(measured),
            worst: None,
            published: None,
            target,
            met: None,
        }
    }

    #[test]
    fn numbers_are_shown_by_what_they_are_counted_in() {
        let cases = [
            ("share", 0.981, "98.1 %"),
            ("share", 1.0, "100 %"),
            ("share", 0.999_3, "99.93 %"),
            ("share", 0.000_42, "0.042 %"),
            ("share", 0.0, "0 %"),
            ("ms", 41.23, "41.2 ms"),
            ("ms", 0.512, "0.512 ms"),
            ("ms", 1_375.4, "1'375 ms"),
            ("s", 9.0, "9 s"),
            ("s", 2.345, "2.35 s"),
            ("dB", 38.87, "38.9 dB"),
            ("ratio", 1.15, "1.15×"),
            ("ratio", 16.04, "16.0×"),
            ("packets", 1_234_567.0, "1'234'567 packets"),
            ("", 3.0, "3"),
            ("ms", -0.2, "−0.200 ms"),
            ("ms", f64::NAN, "–"),
            ("ms", f64::INFINITY, "∞ ms"),
        ];
        for (unit, value, text) in cases {
            let shown = measured(&row(unit, value, None)).replace(SPACE, " ").replace('\u{202f}', "'");
            assert_eq!(shown, text, "{value} {unit}");
        }
    }

    #[test]
    fn targets_are_words() {
        let cases = [
            ("share", Some(Bound::AtLeast(0.97)), "at least 97 %"),
            ("share", Some(Bound::AtMost(0.001)), "at most 0.1 %"),
            ("share", Some(Bound::AtMost(0.07)), "at most 7 %"),
            ("ratio", Some(Bound::AtMost(1.15)), "at most 1.15×"),
            ("ms", Some(Bound::AtMost(10.0)), "at most 10 ms"),
            ("B", Some(Bound::AtMost(1500.0)), "at most 1'500 B"),
            ("ms", None, "–"),
        ];
        for (unit, bound, text) in cases {
            let shown = target(&row(unit, 0.0, bound)).replace(SPACE, " ").replace('\u{202f}', "'");
            assert_eq!(shown, text);
        }
    }

    #[test]
    fn what_misses_a_target_never_looks_as_if_it_met_it() {
        let share_text = |value, bound| measured(&row("share", value, Some(bound))).replace(SPACE, " ");
        assert_eq!(share_text(0.969_7, Bound::AtLeast(0.97)), "96.97 %");
        assert_eq!(share_text(0.97, Bound::AtLeast(0.97)), "97.0 %");
        assert_eq!(share_text(0.010_04, Bound::AtMost(0.01)), "1.004 %");
    }

    #[test]
    fn seeds_that_follow_each_other_are_a_range() {
        assert_eq!(seeds(&[1, 2, 3, 7, 9, 10]), "1–3, 7, 9, 10");
        assert_eq!(seeds(&[]), "–");
        assert_eq!(seeds(&[u64::MAX]), u64::MAX.to_string());
    }
}
