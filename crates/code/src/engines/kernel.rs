//! Kernel of all vector engines, generic over the vector.
//!
//! Outputs are computed in groups of up to [`ROWS`], so each input vector is loaded once for each
//! group. They are computed in tiles of several vectors, so each coefficient's multiplier is used
//! for several products. The rest at the end of a span is covered by one vector that ends exactly
//! there and overlaps finished bytes.
//!
//! Everything here is `inline(always)`: the functions have to be compiled inside the engines' entry
//! points, which have the processor features.

use core::ops::Range;

use crate::coefficients::Row;
use crate::limits::SOURCE_PACKETS_MAX;

/// Outputs computed in one pass over the inputs: four sums of two vectors each leave enough of the
/// 16 registers for the operands.
const ROWS: usize = 4;

/// Bytes in the longest vector.
const BYTES_MAX: usize = 64;

/// A vector register and its operations in the kernel.
///
/// # Safety
/// An implementor's [`Vector::BYTES`] is the length that its loads and stores touch, at most
/// [`BYTES_MAX`].
///
/// Every method may only be called inside a function that has the vector's processor features;
/// pointers must be valid for the bytes read or written, at any alignment.
pub(super) unsafe trait Vector: Copy {
    /// Prepared multiplication by one coefficient.
    type Multiplier: Copy;

    /// Bytes in a vector, at most [`BYTES_MAX`].
    const BYTES: usize;

    unsafe fn zero() -> Self;
    /// Reads [`Vector::BYTES`] bytes.
    unsafe fn load(from: *const u8) -> Self;
    /// Writes [`Vector::BYTES`] bytes.
    unsafe fn store(self, to: *mut u8);

    /// Reads `bytes` bytes, fewer than a vector, and fills the rest with zeros.
    #[inline(always)]
    unsafe fn load_part(from: *const u8, bytes: usize) -> Self {
        let mut whole = [0_u8; BYTES_MAX];
        // SAFETY: the caller promises `bytes` readable bytes, fewer than the array holds; the load
        // reads the array.
        unsafe {
            whole.as_mut_ptr().copy_from_nonoverlapping(from, bytes);
            Self::load(whole.as_ptr())
        }
    }

    /// Writes the first `bytes` bytes, fewer than a vector.
    #[inline(always)]
    unsafe fn store_part(self, to: *mut u8, bytes: usize) {
        let mut whole = [0_u8; BYTES_MAX];
        // SAFETY: the store fits in the array; the caller promises `bytes` writable bytes, fewer
        // than it holds.
        unsafe {
            self.store(whole.as_mut_ptr());
            to.copy_from_nonoverlapping(whole.as_ptr(), bytes);
        }
    }

    unsafe fn add(self, other: Self) -> Self;
    unsafe fn multiplier(coefficient: u8) -> Self::Multiplier;
    unsafe fn multiply(self, multiplier: Self::Multiplier) -> Self;
}

/// Computes what [`super::CombineFn`] describes, with vectors of type `V`.
///
/// # Safety
/// As [`super::CombineFn`]; the caller has the vector's features.
#[inline(always)]
pub(super) unsafe fn combine<V: Vector>(
    coefficients: &[Row],
    inputs: &[&[u8]],
    outputs: &mut [&mut [u8]],
    span: Range<usize>,
) {
    const { assert!(V::BYTES <= BYTES_MAX, "a part of a vector fits in the array it passes through") };
    let mut rest = (coefficients, outputs);
    while !rest.1.is_empty() {
        let count = rest.1.len().min(ROWS);
        let (rows, rows_rest) = rest.0.split_at(count);
        let (outputs, outputs_rest) = rest.1.split_at_mut(count);
        rest = (rows_rest, outputs_rest);
        // The whole row is compared, used or not: one comparison of fixed length.
        let plain = rows[0] == [1; SOURCE_PACKETS_MAX];
        let span = span.clone();
        // SAFETY: each call has as many rows as the group has outputs; the rest are the caller's
        // promises.
        unsafe {
            match (count, plain) {
                (1, _) => combine_rows::<V, 1, { tile(1) }, false>(rows, inputs, outputs, span),
                (2, true) => combine_rows::<V, 2, { tile(2) }, true>(rows, inputs, outputs, span),
                (2, false) => combine_rows::<V, 2, { tile(2) }, false>(rows, inputs, outputs, span),
                (3, true) => combine_rows::<V, 3, { tile(3) }, true>(rows, inputs, outputs, span),
                (3, false) => combine_rows::<V, 3, { tile(3) }, false>(rows, inputs, outputs, span),
                (_, true) => combine_rows::<V, ROWS, { tile(ROWS) }, true>(rows, inputs, outputs, span),
                (_, false) => combine_rows::<V, ROWS, { tile(ROWS) }, false>(rows, inputs, outputs, span),
            }
        }
    }
}

/// Computes what [`super::SumFn`] describes, with vectors of type `V`.
///
/// # Safety
/// As [`super::SumFn`]; the caller has the vector's features.
#[inline(always)]
pub(super) unsafe fn sum<V: Vector>(inputs: &[&[u8]], output: &mut [u8], span: Range<usize>) {
    // SAFETY: one row and one output; the rest are the caller's promises.
    unsafe {
        combine_rows::<V, 1, { tile(1) }, true>(&[[1; SOURCE_PACKETS_MAX]], inputs, &mut [output], span);
    }
}

/// Returns the number of vectors in a tile for so many outputs: eight sums fit into the registers
/// besides the operands.
const fn tile(rows: usize) -> usize {
    match rows {
        1 => 8,
        2 => 4,
        _ => 2,
    }
}

/// Combines into exactly `R` outputs, in tiles of `T` vectors; with `PLAIN`, the first row of
/// coefficients is all ones.
///
/// # Safety
/// As [`super::CombineFn`], with `R` outputs; the caller has the vector's features.
#[inline(always)]
unsafe fn combine_rows<V: Vector, const R: usize, const T: usize, const PLAIN: bool>(
    coefficients: &[Row],
    inputs: &[&[u8]],
    outputs: &mut [&mut [u8]],
    span: Range<usize>,
) {
    let Range { start, end } = span;
    let rows: &[Row; R] = coefficients.try_into().expect("the caller has as many rows as it names");
    let outputs: [*mut u8; R] = core::array::from_fn(|row| outputs[row].as_mut_ptr());
    // SAFETY: every tile lies within the span, which lies within all inputs and outputs; the last
    // vector starts at or after `start` because the span is at least one vector long.
    unsafe {
        let mut position = start;
        while end - position >= T * V::BYTES {
            let sums = sum_tile::<V, R, T, PLAIN>(rows, inputs, |p| load_tile(p.add(position)));
            store_tile(sums, outputs, position);
            position += T * V::BYTES;
        }
        while end - position >= 2 * V::BYTES {
            let sums = sum_tile::<V, R, 2, PLAIN>(rows, inputs, |p| load_tile(p.add(position)));
            store_tile(sums, outputs, position);
            position += 2 * V::BYTES;
        }
        if end - position >= V::BYTES {
            let sums = sum_tile::<V, R, 1, PLAIN>(rows, inputs, |p| load_tile(p.add(position)));
            store_tile(sums, outputs, position);
            position += V::BYTES;
        }
        if position == end {
            return;
        }
        if end - start >= V::BYTES {
            let last = end - V::BYTES;
            let sums = sum_tile::<V, R, 1, PLAIN>(rows, inputs, |p| load_tile(p.add(last)));
            store_tile(sums, outputs, last);
            return;
        }
        let bytes = end - start;
        let sums = sum_tile::<V, R, 1, PLAIN>(rows, inputs, |p| [V::load_part(p.add(start), bytes)]);
        for (output, [sum]) in outputs.into_iter().zip(sums) {
            sum.store_part(output.add(start), bytes);
        }
    }
}

/// Returns the `R` sums over one tile of `T` vectors, which `load` reads from the start of an
/// input.
///
/// # Safety
/// There is a coefficient for each input; `load` reads within every input; the caller has the
/// features.
#[inline(always)]
unsafe fn sum_tile<V: Vector, const R: usize, const T: usize, const PLAIN: bool>(
    rows: &[Row; R],
    inputs: &[&[u8]],
    load: impl Fn(*const u8) -> [V; T],
) -> [[V; T]; R] {
    // SAFETY: a coefficient for each input makes every index below valid.
    unsafe {
        let mut sums = [[V::zero(); T]; R];
        for (column, input) in inputs.iter().enumerate() {
            let tile = load(input.as_ptr());
            for row in 0..R {
                if PLAIN && row == 0 {
                    for i in 0..T {
                        sums[row][i] = sums[row][i].add(tile[i]);
                    }
                } else {
                    let multiplier = V::multiplier(*rows[row].get_unchecked(column));
                    for i in 0..T {
                        sums[row][i] = sums[row][i].add(tile[i].multiply(multiplier));
                    }
                }
            }
        }
        sums
    }
}

/// # Safety
/// `from` is valid for `T` vectors; the caller has the vector's features.
#[inline(always)]
unsafe fn load_tile<V: Vector, const T: usize>(from: *const u8) -> [V; T] {
    // SAFETY: the caller's promise.
    core::array::from_fn(|i| unsafe { V::load(from.add(i * V::BYTES)) })
}

/// # Safety
/// Every output has `T` vectors from `position` on; the caller has the vector's features.
#[inline(always)]
unsafe fn store_tile<V: Vector, const R: usize, const T: usize>(
    sums: [[V; T]; R],
    outputs: [*mut u8; R],
    position: usize,
) {
    for (output, sums) in outputs.into_iter().zip(sums) {
        for (i, sum) in sums.into_iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { sum.store(output.add(position + i * V::BYTES)) };
        }
    }
}

/// Computes what [`super::AccumulateFn`] describes, with vectors of type `V`.
///
/// # Safety
/// As [`super::AccumulateFn`]; the caller has the vector's features.
#[inline(always)]
pub(super) unsafe fn accumulate<V: Vector>(coefficients: &[u8], input: &[u8], outputs: &mut [&mut [u8]]) {
    for (coefficient, output) in coefficients.iter().zip(outputs) {
        // SAFETY: the output is at least as long as the input, by the caller's promise.
        unsafe {
            if *coefficient == 1 {
                add_product::<V>(input, output.as_mut_ptr(), |vector| vector);
            } else {
                let multiplier = V::multiplier(*coefficient);
                add_product::<V>(input, output.as_mut_ptr(), |vector| vector.multiply(multiplier));
            }
        }
    }
}

/// Adds `product` of the input to the bytes at `output`.
///
/// # Safety
/// `output` is valid for the input's length; the caller has the vector's features.
#[inline(always)]
unsafe fn add_product<V: Vector>(input: &[u8], output: *mut u8, product: impl Fn(V) -> V) {
    let (length, input) = (input.len(), input.as_ptr());
    // SAFETY: every access lies below `length`, within both.
    unsafe {
        let sum_at = |at: usize| V::load(output.add(at)).add(product(V::load(input.add(at))));
        if length < V::BYTES {
            let sum = V::load_part(output, length).add(product(V::load_part(input, length)));
            sum.store_part(output, length);
            return;
        }
        // The last vector overlaps the one before it, so its sum is computed while the output is
        // still untouched.
        let last = length - V::BYTES;
        let last_sum = sum_at(last);
        let mut position = 0;
        while position < last {
            sum_at(position).store(output.add(position));
            position += V::BYTES;
        }
        last_sum.store(output.add(last));
    }
}
