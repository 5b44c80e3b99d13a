//! Text tables for the terminal.

use std::fmt::Write as _;

/// Formats rows as a table with aligned columns, the first to the left and the others to the right.
/// A horizontal rule separates the first row.
pub(crate) fn aligned<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: [usize; COLUMNS] = std::array::from_fn(width);
    let mut text = String::new();
    for (row, index) in rows.iter().zip(0_u32..) {
        let cells = row.iter().zip(widths).enumerate().map(|(column, (cell, width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
        if index == 0 {
            let _ = writeln!(text, "{}", "─".repeat(widths.iter().sum::<usize>() + 2 * (COLUMNS - 1)));
        }
    }
    text
}

/// Formats a number with up to three decimals, without zeros at the end.
pub(crate) fn rounded(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_digits_that_matter() {
        assert_eq!([12.0, 0.25, 161.248_9, 100.0].map(rounded), ["12", "0.25", "161.249", "100"]);
    }

    #[test]
    fn columns_are_aligned_by_characters() {
        let rows = [["run", "x"], ["a–b", "10"], ["c", "7"]].map(|row| row.map(String::from));
        assert_eq!(aligned(&rows), "run   x\n───────\na–b  10\nc     7\n");
    }
}
