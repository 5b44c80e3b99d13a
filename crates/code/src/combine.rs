//! Linear combinations of packets that differ in length.

use crate::coefficients::Row;
use crate::engine::Engine;
use crate::engines::Inputs;
use crate::limits::{REPAIR_PACKETS_MAX, SOURCE_PACKETS_MAX};

/// Computes linear combinations of packets: writes the sum over `j` of
/// `coefficients[i][j] * inputs[j]` to the beginning of `outputs[i]`, as many bytes as the longest
/// input. Shorter inputs count as padded with zeros.
#[inline]
pub(crate) fn combine(engine: Engine, coefficients: &[Row], inputs: &Inputs<'_>, outputs: &mut [&mut [u8]]) {
    if inputs.have_one_length() {
        engine.implementation().combine(coefficients, inputs, outputs, 0..inputs.longest());
    } else {
        combine_by_spans(engine, coefficients, inputs, outputs);
    }
}

/// Combines inputs of different lengths: divides the length into spans in which the set of inputs
/// is constant.
///
/// Bytes past the end of an input are never read, so no packet has to be padded. It is a function
/// of its own, because packets of equal length do not need its arrays.
#[inline(never)]
fn combine_by_spans(engine: Engine, coefficients: &[Row], inputs: &Inputs<'_>, outputs: &mut [&mut [u8]]) {
    let mut start = 0;
    while start < inputs.longest() {
        let mut active: [&[u8]; SOURCE_PACKETS_MAX] = [&[]; SOURCE_PACKETS_MAX];
        // Unused entries stay 1, because a row of ones must remain one.
        let mut rows = [[1; SOURCE_PACKETS_MAX]; REPAIR_PACKETS_MAX];
        let (mut count, mut end) = (0, inputs.longest());
        for (column, input) in inputs.packets().iter().enumerate().filter(|(_, input)| input.len() > start) {
            active[count] = input;
            for (row, coefficients) in rows.iter_mut().zip(coefficients) {
                row[count] = coefficients[column];
            }
            count += 1;
            end = end.min(input.len());
        }
        let rows = &rows[..coefficients.len()];
        engine.implementation().combine(rows, &Inputs::new(&active[..count]), outputs, start..end);
        start = end;
    }
}
