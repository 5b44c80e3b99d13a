//! Small linear systems over GF(2^8).

use crate::field::{inverse, multiply};
use crate::limits::REPAIR_PACKETS_MAX;

/// Square matrix; only its first `order` rows and columns count.
pub(crate) type Square = [[u8; REPAIR_PACKETS_MAX]; REPAIR_PACKETS_MAX];

/// Returns the inverse of the `order` x `order` matrix in `matrix`; `None` if it is singular.
pub(crate) fn invert(matrix: Square, order: usize) -> Option<Square> {
    match order {
        2 => invert_pair(matrix),
        _ => eliminate(matrix, order),
    }
}

/// Returns the inverse of a 2 x 2 matrix: swapped diagonal (signs do not matter here) over the
/// determinant.
///
/// Batches usually have two repair packets, and elimination takes several times as long at this
/// size.
fn invert_pair([[a, b, ..], [c, d, ..], ..]: Square) -> Option<Square> {
    let scale = inverse(multiply(a, d) ^ multiply(b, c))?;
    let [a, b, c, d] = [a, b, c, d].map(|entry| multiply(entry, scale));
    let mut inverted = Square::default();
    (inverted[0][0], inverted[0][1], inverted[1][0], inverted[1][1]) = (d, b, c, a);
    Some(inverted)
}

/// Returns the inverse of a matrix of any order, by Gauss-Jordan elimination; `None` if it is
/// singular.
fn eliminate(mut matrix: Square, order: usize) -> Option<Square> {
    let mut inverted = identity();
    for pivot in 0..order {
        let row = (pivot..order).find(|row| matrix[*row][pivot] != 0)?;
        matrix.swap(pivot, row);
        inverted.swap(pivot, row);
        let scale = inverse(matrix[pivot][pivot])?;
        scale_row(&mut matrix[pivot], scale, order);
        scale_row(&mut inverted[pivot], scale, order);
        for row in (0..order).filter(|row| *row != pivot) {
            let factor = matrix[row][pivot];
            add_scaled_row(&mut matrix, row, pivot, factor, order);
            add_scaled_row(&mut inverted, row, pivot, factor, order);
        }
    }
    Some(inverted)
}

fn identity() -> Square {
    let mut identity = Square::default();
    for (i, row) in identity.iter_mut().enumerate() {
        row[i] = 1;
    }
    identity
}

fn scale_row(row: &mut [u8; REPAIR_PACKETS_MAX], scale: u8, order: usize) {
    for entry in &mut row[..order] {
        *entry = multiply(*entry, scale);
    }
}

fn add_scaled_row(matrix: &mut Square, row: usize, addend: usize, factor: u8, order: usize) {
    let addend = matrix[addend];
    for (entry, addend) in matrix[row][..order].iter_mut().zip(addend) {
        *entry ^= multiply(factor, addend);
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::coefficients::coefficient;

    fn times(a: &Square, b: &Square, order: usize) -> Square {
        let entry =
            |row: usize, column: usize| (0..order).fold(0, |sum, i| sum ^ multiply(a[row][i], b[i][column]));
        core::array::from_fn(|row| core::array::from_fn(|column| entry(row, column)))
    }

    #[test]
    fn a_matrix_times_its_inverse_is_the_identity() {
        for order in 1..=REPAIR_PACKETS_MAX {
            let mut matrix = Square::default();
            for (row, entries) in matrix.iter_mut().enumerate() {
                for (column, entry) in entries.iter_mut().enumerate() {
                    *entry = coefficient(row, 3 * column);
                }
            }
            let inverted = invert(matrix, order).expect("a Cauchy matrix has an inverse");
            let product = times(&matrix, &inverted, order);
            for (row, expected) in product.iter().zip(identity()).take(order) {
                assert_eq!(row[..order], expected[..order]);
            }
        }
    }

    #[test]
    fn a_pair_is_inverted_as_elimination_does() {
        for entries in 0..=u16::MAX {
            let mut pair = Square::default();
            let [high, low] = entries.to_be_bytes();
            (pair[0][0], pair[0][1], pair[1][0], pair[1][1]) = (high, low, low ^ 0x35, high.rotate_left(3));
            let entries = |inverted: Square| -> Vec<u8> {
                inverted[..2].iter().flat_map(|row| row[..2].to_vec()).collect()
            };
            assert_eq!(invert_pair(pair).map(entries), eliminate(pair, 2).map(entries));
        }
    }

    #[test]
    fn rows_are_swapped_when_the_pivot_is_zero() {
        let mut swap = Square::default();
        (swap[0][1], swap[1][0]) = (1, 1);
        let inverted = eliminate(swap, 2).expect("a permutation has an inverse");
        assert_eq!((inverted[0][..2] == [0, 1], inverted[1][..2] == [1, 0]), (true, true));
    }

    #[test]
    fn a_singular_matrix_has_no_inverse() {
        let mut singular = Square::default();
        (singular[0][0], singular[0][1], singular[1][0], singular[1][1]) = (3, 5, 3, 5);
        assert_eq!((invert(singular, 2), eliminate(singular, 2)), (None, None));
    }
}
