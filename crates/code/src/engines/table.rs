//! The table engine: two look-ups a byte, on any processor.

use core::ops::Range;

use super::Implementation;
use super::tables::NIBBLES;
use crate::coefficients::Row;

pub(super) const IMPLEMENTATION: Implementation =
    Implementation { name: "table", needs: "nothing", is_available: || true, combine, sum, accumulate };

fn combine(coefficients: &[Row], inputs: &[&[u8]], outputs: &mut [&mut [u8]], span: Range<usize>) {
    for (row, output) in coefficients.iter().zip(outputs) {
        let output = &mut output[span.clone()];
        output.fill(0);
        for (coefficient, input) in row.iter().zip(inputs) {
            add_product(*coefficient, &input[span.clone()], output);
        }
    }
}

fn sum(inputs: &[&[u8]], output: &mut [u8], span: Range<usize>) {
    let output = &mut output[span.clone()];
    output.fill(0);
    for input in inputs {
        add_product(1, &input[span.clone()], output);
    }
}

fn accumulate(coefficients: &[u8], input: &[u8], outputs: &mut [&mut [u8]]) {
    for (coefficient, output) in coefficients.iter().zip(outputs) {
        add_product(*coefficient, input, output);
    }
}

fn add_product(coefficient: u8, input: &[u8], output: &mut [u8]) {
    let pairs = output.iter_mut().zip(input);
    if coefficient == 1 {
        pairs.for_each(|(sum, byte)| *sum ^= byte);
    } else {
        let nibbles = &NIBBLES[usize::from(coefficient)];
        pairs.for_each(|(sum, byte)| *sum ^= nibbles.product(*byte));
    }
}
