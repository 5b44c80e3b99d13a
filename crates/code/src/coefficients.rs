//! The coding coefficients: a normalised Cauchy matrix.
//!
//! Row `i` has the point `255 - i`, column `j` the point `j`, and the Cauchy coefficient is the inverse of
//! their sum. Each column is then divided by its first entry, which makes the first row all ones: the first
//! repair packet is a plain XOR. Scaling columns keeps every square submatrix invertible, so any `e` rows
//! restore any `e` columns (`algorithm.md` has the argument).

use crate::field::{inverse_by_search, multiply_bitwise};
use crate::limits::{REPAIR_PACKETS_MAX, SOURCE_PACKETS_MAX};

/// The coefficient with which source packet `column` enters repair packet `row`, both counted from 0.
///
/// It depends on neither the number of source packets nor the number of repair packets: a batch can be closed
/// early and repair packets can be left out, and the others stay what they were.
///
/// # Panics
/// If `row + column` is 256 or more: the field has no points left.
#[must_use]
pub const fn coefficient(row: usize, column: usize) -> u8 {
    assert!(
        row <= 255 && column <= 255 - row,
        "row and column must add up to at most 255"
    );
    if row == 0 {
        return 1;
    }
    multiply_bitwise(
        point(0) ^ column_point(column),
        inverse_by_search(point(row) ^ column_point(column)),
    )
}

#[allow(clippy::cast_possible_truncation, reason = "the caller has checked the range")]
const fn point(row: usize) -> u8 {
    (255 - row) as u8
}

#[allow(clippy::cast_possible_truncation, reason = "the caller has checked the range")]
const fn column_point(column: usize) -> u8 {
    column as u8
}

/// One row of coefficients for the block code.
pub(crate) type Row = [u8; SOURCE_PACKETS_MAX];

/// `ROWS[i][j]` is `coefficient(i, j)`, for every shape of the block code.
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

/// `SUMS[i][k]` is the sum of the first `k` coefficients of row `i`.
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
