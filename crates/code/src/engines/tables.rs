//! Multiplication tables of the engines, computed at compile time from the bitwise product.

use crate::field::multiply_bitwise;

/// Products of one coefficient with every half byte.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(super) struct Nibbles {
    /// Products with the low half: `low[x]` is the coefficient times `x`.
    pub(super) low: [u8; 16],
    /// Products with the high half: `high[x]` is the coefficient times `16 * x`.
    pub(super) high: [u8; 16],
}

impl Nibbles {
    /// Returns the coefficient's product with any byte: the sum of the products with its halves.
    #[inline]
    pub(super) fn product(&self, byte: u8) -> u8 {
        self.low[usize::from(byte & 15)] ^ self.high[usize::from(byte >> 4)]
    }
}

/// Multiplication tables of all coefficients, 8 KiB, which fit into the first-level cache beside
/// the packets.
pub(super) static NIBBLES: [Nibbles; 256] = nibbles();

#[allow(clippy::cast_possible_truncation, reason = "indices are below 256")]
const fn nibbles() -> [Nibbles; 256] {
    let mut table = [Nibbles { low: [0; 16], high: [0; 16] }; 256];
    let mut coefficient = 0;
    while coefficient < 256 {
        let mut half = 0;
        while half < 16 {
            table[coefficient].low[half] = multiply_bitwise(coefficient as u8, half as u8);
            table[coefficient].high[half] = multiply_bitwise(coefficient as u8, (half << 4) as u8);
            half += 1;
        }
        coefficient += 1;
    }
    table
}

/// `AFFINE[c]` is multiplication by `c` as the 8x8 bit matrix of the instruction `gf2p8affineqb`.
///
/// Multiplication by a constant is linear over the bits, so any field polynomial will do. In the
/// instruction's operand, byte `7 - i` is the row of result bit `i`. Bit `j` of that row is set if
/// input bit `j` contributes.
#[cfg(target_arch = "x86_64")]
pub(super) static AFFINE: [u64; 256] = affine();

#[cfg(target_arch = "x86_64")]
#[allow(clippy::cast_possible_truncation, reason = "indices are below 256")]
const fn affine() -> [u64; 256] {
    let mut table = [0; 256];
    let mut coefficient = 0;
    while coefficient < 256 {
        let mut input_bit = 0;
        while input_bit < 8 {
            let column = multiply_bitwise(coefficient as u8, 1 << input_bit) as u64;
            let mut output_bit = 0;
            while output_bit < 8 {
                table[coefficient] |= (column >> output_bit & 1) << (8 * (7 - output_bit) + input_bit);
                output_bit += 1;
            }
            input_bit += 1;
        }
        coefficient += 1;
    }
    table
}
