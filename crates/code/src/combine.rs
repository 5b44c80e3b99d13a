//! Linear combinations of packets that differ in length.

use crate::coefficients::Row;
use crate::engine::Engine;
use crate::engines::Inputs;
use crate::limits::{REPAIR_PACKETS_MAX, SOURCE_PACKETS_MAX};

/// Sets the beginning of `outputs[i]`, as long as the longest input, to the sum over `j` of
/// `coefficients[i][j] * inputs[j]`, each input standing for itself followed by zeros.
#[inline]
pub(crate) fn combine(engine: Engine, coefficients: &[Row], inputs: &Inputs<'_>, outputs: &mut [&mut [u8]]) {
    if inputs.have_one_length() {
        engine.implementation().combine(coefficients, inputs, outputs, 0..inputs.longest());
    } else {
        combine_by_spans(engine, coefficients, inputs, outputs);
    }
}

/// Cuts the length into spans at whose every byte the same inputs are still going, and combines those.
///
/// Bytes past the end of an input are never read, so no packet has to be padded.
///
/// A function of its own, so that packets of one length do not pay for the arrays that it needs.
#[inline(never)]
fn combine_by_spans(engine: Engine, coefficients: &[Row], inputs: &Inputs<'_>, outputs: &mut [&mut [u8]]) {
    let mut start = 0;
    while start < inputs.longest() {
        let mut going: [&[u8]; SOURCE_PACKETS_MAX] = [&[]; SOURCE_PACKETS_MAX];
        // What is not used stays 1, so that a row of ones stays one.
        let mut rows = [[1; SOURCE_PACKETS_MAX]; REPAIR_PACKETS_MAX];
        let (mut count, mut end) = (0, inputs.longest());
        for (column, input) in inputs.packets().iter().enumerate().filter(|(_, input)| input.len() > start) {
            going[count] = input;
            for (row, coefficients) in rows.iter_mut().zip(coefficients) {
                row[count] = coefficients[column];
            }
            count += 1;
            end = end.min(input.len());
        }
        let rows = &rows[..coefficients.len()];
        engine.implementation().combine(rows, &Inputs::new(&going[..count]), outputs, start..end);
        start = end;
    }
}
