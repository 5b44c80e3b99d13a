//! Parser of tables: comma-separated text with a first row of column names.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use byway_units::{Duration, Money};

use crate::price::PricePerGigabyte;

/// Largest number of rows that a table may have: the largest public one has 8,010; more would be
/// another kind of file.
pub const ROWS_MAX: usize = 100_000;

/// Largest number of columns that a table may have: a matrix of 490 hosts has 491.
pub const COLUMNS_MAX: usize = 1_000;

/// Longest one-way delay that a table may have, in milliseconds: no path takes ten seconds.
const DELAY_MS_MAX: f64 = 10_000.0;

/// Highest price that a table may have, in dollars for a gigabyte or an hour: a thousand times the
/// usual.
const DOLLARS_MAX: f64 = 1_000.0;

/// Error in a table, with its location and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{table}:{line}: {column}: {problem}")]
pub struct TableError {
    /// Name of the table.
    pub table: String,
    /// Number of the line in the table's text, from 1.
    pub line: usize,
    /// Name of the column, or `all` for the whole line.
    pub column: String,
    /// Description of the error, with the remedy.
    pub problem: String,
}

/// Table whose rows all have as many cells as it has columns.
///
/// Lines that begin with `#`, and empty ones, are comments. A cell in double quotes may contain
/// commas; two quotes in it mean one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    name: String,
    columns: Vec<String>,
    rows: Vec<(usize, Vec<String>)>,
}

/// Row of a [`Table`].
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    table: &'a Table,
    line: usize,
    cells: &'a [String],
}

impl Table {
    /// Parses a table; `name` is for errors.
    ///
    /// # Errors
    /// If there is no row of column names, or a row has a different number of cells. If a quote is
    /// not closed. If there are more than [`ROWS_MAX`] rows or [`COLUMNS_MAX`] columns.
    pub fn parse(name: &str, text: &str) -> Result<Self, TableError> {
        let mut table = Self { name: name.to_owned(), columns: Vec::new(), rows: Vec::new() };
        let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim_end()));
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        for (number, line) in lines {
            let cells = cells(line).ok_or_else(|| {
                table.error(number, "all", "unterminated quote: end the cell with \"".to_owned())
            })?;
            table.push(number, cells)?;
        }
        if table.columns.is_empty() {
            return Err(table.error(1, "all", "empty table: start with the names of columns".to_owned()));
        }
        Ok(table)
    }

    fn push(&mut self, line: usize, cells: Vec<String>) -> Result<(), TableError> {
        let problem = if cells.len() > COLUMNS_MAX {
            format!("{} cells: at most {COLUMNS_MAX} are allowed", cells.len())
        } else if self.columns.is_empty() {
            self.columns = cells;
            return Ok(());
        } else if cells.len() != self.columns.len() {
            format!("{} cells: give one for each of the {} columns", cells.len(), self.columns.len())
        } else if self.rows.len() == ROWS_MAX {
            format!("too many rows: at most {ROWS_MAX} are allowed")
        } else {
            self.rows.push((line, cells));
            return Ok(());
        };
        Err(self.error(line, "all", problem))
    }

    /// Returns the names of the table's columns, in order.
    #[must_use]
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Returns the rows, in the order of the text.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|(line, cells)| Row { table: self, line: *line, cells })
    }

    fn error(&self, line: usize, column: &str, problem: String) -> TableError {
        TableError { table: self.name.clone(), line, column: column.to_owned(), problem }
    }
}

impl<'a> Row<'a> {
    /// Returns the cells of the row, each with the name of its column.
    pub fn cells(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        self.table.columns.iter().zip(self.cells).map(|(column, cell)| (column.as_str(), cell.as_str()))
    }

    /// Returns the text in this column of the row.
    ///
    /// # Errors
    /// If the table has no such column.
    pub fn text(&self, column: &str) -> Result<&'a str, TableError> {
        let cell = self.cells().find(|(name, _)| *name == column).map(|(_, cell)| cell);
        cell.ok_or_else(|| self.problem(column, "column not found: add it to the first line"))
    }

    /// Returns the number in this column of the row, which has to be in `allowed`.
    ///
    /// # Errors
    /// If the table has no such column, or the text is no such number.
    pub fn number(&self, column: &str, allowed: RangeInclusive<f64>) -> Result<f64, TableError> {
        let text = self.text(column)?;
        let number = text.parse().ok().filter(|number| allowed.contains(number));
        number.ok_or_else(|| {
            let (least, most) = (allowed.start(), allowed.end());
            self.problem(column, format!("invalid number \"{text}\": give one from {least} to {most}"))
        })
    }

    /// Returns the duration in this column in milliseconds, at most ten seconds.
    ///
    /// # Errors
    /// As [`Row::number`].
    pub fn milliseconds(&self, column: &str) -> Result<Duration, TableError> {
        self.number(column, 0.0..=DELAY_MS_MAX).map(milliseconds)
    }

    /// Returns the amount in this column in dollars, at most a thousand.
    ///
    /// # Errors
    /// As [`Row::number`].
    pub fn dollars(&self, column: &str) -> Result<Money, TableError> {
        self.number(column, 0.0..=DOLLARS_MAX).map(dollars)
    }

    /// Returns the price in this column in dollars per gigabyte, at most a thousand.
    ///
    /// # Errors
    /// As [`Row::number`].
    pub fn price(&self, column: &str) -> Result<PricePerGigabyte, TableError> {
        self.dollars(column).map(PricePerGigabyte::new)
    }

    /// Returns an error about the cell of this column, with the remedy.
    #[must_use]
    pub fn problem(&self, column: &str, problem: impl Into<String>) -> TableError {
        self.table.error(self.line, column, problem.into())
    }
}

/// Returns the duration of `count` milliseconds, rounded to the microsecond.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the number is in range, and the cast saturates"
)]
pub(crate) fn milliseconds(count: f64) -> Duration {
    Duration::from_nanos((count * 1e3 + 0.5) as u64 * 1_000)
}

/// Returns the amount of `count` dollars, rounded to the billionth.
#[allow(clippy::cast_possible_truncation, reason = "the number is in range, and the cast saturates")]
pub(crate) fn dollars(count: f64) -> Money {
    Money::from_nanodollars((count * 1e9 + 0.5) as i64)
}

/// Splits a line into its cells; `None` if a quote is not closed.
fn cells(line: &str) -> Option<Vec<String>> {
    let mut cells = vec![String::new()];
    let mut characters = line.chars().peekable();
    let mut quoted = false;
    while let Some(character) = characters.next() {
        let cell = cells.last_mut()?;
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => cell.extend(characters.next()),
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            _ => cell.push(character),
        }
    }
    (!quoted).then_some(cells)
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use proptest::prelude::*;

    use super::*;

    fn error(text: &str) -> String {
        let table = match Table::parse("t.csv", text) {
            Ok(table) => table,
            Err(error) => return error.to_string(),
        };
        let price = table.rows().map(|row| row.price("usd")).find_map(Result::err);
        price.expect("the test gives a table with an error").to_string()
    }

    #[test]
    fn cells_may_have_commas_and_quotes() {
        let table =
            Table::parse("t", "# a comment\na,b\n\"x, y\",\"say \"\"1\"\"\"\n").expect("it is a table");
        let row = table.rows().next().expect("it has a row");
        assert_eq!((row.text("a"), row.text("b")), (Ok("x, y"), Ok("say \"1\"")));
        assert_eq!(table.columns(), ["a", "b"]);
    }

    #[test]
    fn errors_name_the_place_and_the_remedy() {
        assert_eq!(error(""), "t.csv:1: all: empty table: start with the names of columns");
        assert_eq!(error("a,b\n1"), "t.csv:2: all: 1 cells: give one for each of the 2 columns");
        assert_eq!(error("a\n\"1"), "t.csv:2: all: unterminated quote: end the cell with \"");
        assert_eq!(error("a\n1"), "t.csv:2: usd: column not found: add it to the first line");
        let remedy = "give one from 0 to 1000";
        assert_eq!(error("a,usd\n1,2\n1,x"), format!("t.csv:3: usd: invalid number \"x\": {remedy}"));
        assert_eq!(error("usd\nNaN"), format!("t.csv:2: usd: invalid number \"NaN\": {remedy}"));
        assert_eq!(error("usd\n-1"), format!("t.csv:2: usd: invalid number \"-1\": {remedy}"));
    }

    #[test]
    fn tables_have_limits() {
        let wide = ",".repeat(COLUMNS_MAX);
        assert!(error(&wide).contains("at most 1000 are allowed"));
        let long = "a\n".repeat(ROWS_MAX + 2);
        assert!(error(&long).contains("at most 100000 are allowed"));
    }

    #[test]
    fn numbers_become_quantities() {
        let table = Table::parse("t", "ms,usd\n34.15,0.1118\n").expect("it is a table");
        let row = table.rows().next().expect("it has a row");
        assert_eq!(row.milliseconds("ms"), Ok(Duration::from_micros(34_150)));
        assert_eq!(row.dollars("usd"), Ok(Money::from_nanodollars(111_800_000)));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(?s).{0,200}") {
            if let Ok(table) = Table::parse("t", &text) {
                for row in table.rows() {
                    for (column, _) in row.cells() {
                        let _ = (row.milliseconds(column), row.price(column));
                    }
                }
            }
        }
    }
}
