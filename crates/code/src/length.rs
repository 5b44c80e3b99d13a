//! Length column: the source packets' lengths, coded like two more bytes of payload.

use crate::coefficients::Row;
use crate::engines::Inputs;
use crate::field::multiply;
use crate::limits::PACKET_BYTES_MAX;
use crate::repair::LengthSymbol;

/// Returns the symbol of a packet's length in the length column: the length in big-endian bytes.
///
/// Callers have checked that the length fits.
#[allow(clippy::cast_possible_truncation, reason = "callers have checked lengths against PACKET_BYTES_MAX")]
pub(crate) const fn symbol(length: usize) -> LengthSymbol {
    debug_assert!(length <= PACKET_BYTES_MAX);
    (length as u16).to_be_bytes()
}

/// Adds `coefficient * addend` to `sum`, byte by byte in the field.
pub(crate) fn accumulate(sum: &mut LengthSymbol, coefficient: u8, addend: LengthSymbol) {
    for (sum, addend) in sum.iter_mut().zip(product(coefficient, addend)) {
        *sum ^= addend;
    }
}

/// Returns the sum over `j` of `coefficients[j]` times the length of input `j`, given the sum of
/// the coefficients.
///
/// Packets in a batch mostly have equal lengths. So a common symbol t is factored out:
/// Σ c·s = (Σ c)·t + Σ c·(s - t), where most of the last terms are zero and skipped.
#[inline]
pub(crate) fn combine(coefficients: &Row, sum_of_coefficients: u8, inputs: &Inputs<'_>) -> LengthSymbol {
    let common = product(sum_of_coefficients, symbol(inputs.longest()));
    if inputs.have_one_length() { common } else { add_differences(common, coefficients, inputs) }
}

fn add_differences(mut sum: LengthSymbol, coefficients: &Row, inputs: &Inputs<'_>) -> LengthSymbol {
    let [high, low] = symbol(inputs.longest());
    for (coefficient, input) in coefficients.iter().zip(inputs.packets()) {
        if input.len() != inputs.longest() {
            let symbol = symbol(input.len());
            accumulate(&mut sum, *coefficient, [symbol[0] ^ high, symbol[1] ^ low]);
        }
    }
    sum
}

fn product(coefficient: u8, symbol: LengthSymbol) -> LengthSymbol {
    symbol.map(|byte| multiply(coefficient, byte))
}
