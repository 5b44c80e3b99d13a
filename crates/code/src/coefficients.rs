//! Coding coefficients: a normalised Cauchy matrix.
//!
//! Row `i` has the point `255 - i`, column `j` the point `j`. The Cauchy coefficient is the inverse
//! of their sum, as in J. Blömer et al., "An XOR-Based Erasure-Resilient Coding Scheme", ICSI
//! TR-95-048, 1995. Each column is then divided by its first entry, which makes the first row all
//! ones: the first repair packet is a plain XOR. Scaling columns keeps every square submatrix
//! invertible, so any `e` rows restore any `e` columns (`algorithm.md` has the argument).

use crate::field::{inverse, multiply};
use crate::limits::{REPAIR_PACKETS_MAX, SOURCE_PACKETS_MAX};

/// Returns the coefficient by which repair packet `row` contains source packet `column`, both
/// counted from 0.
///
/// It depends on neither the number of source packets nor the number of repair packets. So a batch
/// can be closed early and repair packets can be left out, and the other repair packets do not
/// change.
///
/// # Panics
/// If `row + column` is 256 or more: the field has no points left.
#[must_use]
pub const fn coefficient(row: usize, column: usize) -> u8 {
    assert!(row <= 255 && column <= 255 - row, "row and column must add up to at most 255");
    if row == 0 {
        return 1;
    }
    match inverse(point(row) ^ column_point(column)) {
        Some(inverse) => multiply(point(0) ^ column_point(column), inverse),
        None => panic!("a row and a column never share a point"),
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the caller has checked the range")]
const fn point(row: usize) -> u8 {
    (255 - row) as u8
}

#[allow(clippy::cast_possible_truncation, reason = "the caller has checked the range")]
const fn column_point(column: usize) -> u8 {
    column as u8
}

/// Coefficients of one repair packet in the block code, by source packet.
pub(crate) type Row = [u8; SOURCE_PACKETS_MAX];

/// Coefficients of the block code by repair packet: `ROWS[i][j]` is `coefficient(i, j)`.
pub(crate) static ROWS: [Row; REPAIR_PACKETS_MAX] = rows();

const fn rows() -> [Row; REPAIR_PACKETS_MAX] {
    let mut rows = [[0; SOURCE_PACKETS_MAX]; REPAIR_PACKETS_MAX];
    let mut row = 0;
    while row < REPAIR_PACKETS_MAX {
        let mut column = 0;
        while column < SOURCE_PACKETS_MAX {
            rows[row][column] = coefficient(row, column);
            column += 1;
        }
        row += 1;
    }
    rows
}

/// Coefficients of one source packet in the block code, by repair packet.
type Column = [u8; REPAIR_PACKETS_MAX];

/// Coefficients of the block code by source packet: `COLUMNS[j][i]` is `ROWS[i][j]`, so those of
/// one source packet are contiguous.
pub(crate) static COLUMNS: [Column; SOURCE_PACKETS_MAX] = columns();

const fn columns() -> [Column; SOURCE_PACKETS_MAX] {
    let mut columns = [[0; REPAIR_PACKETS_MAX]; SOURCE_PACKETS_MAX];
    let mut column = 0;
    while column < SOURCE_PACKETS_MAX {
        let mut row = 0;
        while row < REPAIR_PACKETS_MAX {
            columns[column][row] = coefficient(row, column);
            row += 1;
        }
        column += 1;
    }
    columns
}

/// Sums of coefficients: `SUMS[i][k]` is the sum of the first `k` coefficients of row `i`.
pub(crate) static SUMS: [[u8; SOURCE_PACKETS_MAX + 1]; REPAIR_PACKETS_MAX] = sums();

const fn sums() -> [[u8; SOURCE_PACKETS_MAX + 1]; REPAIR_PACKETS_MAX] {
    let mut sums = [[0; SOURCE_PACKETS_MAX + 1]; REPAIR_PACKETS_MAX];
    let mut row = 0;
    while row < REPAIR_PACKETS_MAX {
        let mut count = 0;
        while count < SOURCE_PACKETS_MAX {
            sums[row][count + 1] = sums[row][count] ^ coefficient(row, count);
            count += 1;
        }
        row += 1;
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solve::{Square, invert};

    #[test]
    fn the_first_row_is_all_ones() {
        assert_eq!(ROWS[0], [1; SOURCE_PACKETS_MAX]);
    }

    #[test]
    fn coefficients_are_normalised_cauchy() {
        for row in 0..=15_u8 {
            for column in 0..=200_u8 {
                let sum = inverse((255 - row) ^ column).expect("rows and columns have different points");
                let expected = multiply(255 ^ column, sum);
                assert_eq!(coefficient(row.into(), column.into()), expected, "row {row}, column {column}");
            }
        }
    }

    #[test]
    fn columns_are_the_rows_seen_the_other_way() {
        for (index, column) in COLUMNS.iter().enumerate() {
            assert_eq!(*column, ROWS.map(|row| row[index]));
        }
    }

    #[test]
    fn sums_are_of_the_first_coefficients() {
        for (row, sums) in ROWS.iter().zip(SUMS) {
            for (count, expected) in sums.into_iter().enumerate() {
                assert_eq!(row[..count].iter().fold(0, |sum, coefficient| sum ^ coefficient), expected);
            }
        }
    }

    /// Returns all rising choices of `count` numbers from `0..bound`.
    fn choices(count: usize, bound: usize) -> alloc::vec::Vec<[usize; 3]> {
        let mut choices = alloc::vec::Vec::new();
        for a in 0..bound {
            for b in if count > 1 { a + 1..bound } else { 0..1 } {
                for c in if count > 2 { b + 1..bound } else { 0..1 } {
                    choices.push([a, b, c]);
                }
            }
        }
        choices
    }

    #[test]
    fn any_three_rows_restore_any_three_columns() {
        let mut squares = 0;
        for order in 1..=3 {
            let columns = choices(order, SOURCE_PACKETS_MAX);
            for rows in choices(order, REPAIR_PACKETS_MAX) {
                for columns in &columns {
                    let mut square = Square::default();
                    for (entries, row) in square.iter_mut().zip(&rows[..order]) {
                        for (entry, column) in entries.iter_mut().zip(&columns[..order]) {
                            *entry = ROWS[*row][*column];
                        }
                    }
                    assert!(invert(square, order).is_some(), "rows {rows:?}, columns {columns:?}");
                    squares += 1;
                }
            }
        }
        assert_eq!(squares, 8 * 32 + 28 * 496 + 56 * 4_960);
    }

    #[test]
    #[should_panic(expected = "at most 255")]
    fn a_row_and_a_column_never_share_a_point() {
        let _ = coefficient(200, 56);
    }
}
