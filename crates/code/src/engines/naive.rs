//! The naive engine: the sums of the definition, one byte and one bit at a time.
//!
//! Every other engine is checked against this one; read it first.

use core::ops::Range;

use super::Implementation;
use crate::coefficients::Row;
use crate::field::multiply_bitwise;

pub(super) const IMPLEMENTATION: Implementation =
    Implementation { name: "naive", needs: "nothing", is_available: || true, combine, sum, accumulate };

fn combine(coefficients: &[Row], inputs: &[&[u8]], outputs: &mut [&mut [u8]], span: Range<usize>) {
    for (row, output) in coefficients.iter().zip(outputs) {
        for position in span.clone() {
            output[position] = row
                .iter()
                .zip(inputs)
                .fold(0, |sum, (coefficient, input)| sum ^ multiply_bitwise(*coefficient, input[position]));
        }
    }
}

fn sum(inputs: &[&[u8]], output: &mut [u8], span: Range<usize>) {
    for position in span {
        output[position] = inputs.iter().fold(0, |sum, input| sum ^ input[position]);
    }
}

fn accumulate(coefficients: &[u8], input: &[u8], outputs: &mut [&mut [u8]]) {
    for (coefficient, output) in coefficients.iter().zip(outputs) {
        for (sum, byte) in output.iter_mut().zip(input) {
            *sum ^= multiply_bitwise(*coefficient, *byte);
        }
    }
}
