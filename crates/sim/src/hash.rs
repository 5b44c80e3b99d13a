//! Digest of bytes for the checksums of simulated worlds, where nobody forges packets. It takes a
//! fraction of the time of cryptographic hashes.

use crate::random::{STEP, mix};

/// Difference of the second word's key from the first's: the fraction of the square root of 2, in
/// 64 bits.
const OTHER: u64 = 0x6a09_e667_f3bc_c908;

/// Returns a digest of bytes under a key.
///
/// The two halves of each block of 16 bytes are multiplied, under keys that depend on the block's
/// index, and the halves of the products are added. Blocks do not depend on each other, and a block
/// that changes, or moves, changes the sum.
pub(crate) fn digest(key: u64, bytes: &[u8]) -> u64 {
    let (blocks, rest) = bytes.as_chunks::<16>();
    // Key and length are mixed separately, because both are usually small numbers.
    let mut block_key = mix(mix(key ^ OTHER) ^ bytes.len() as u64);
    let mut sum = block_key;
    for block in blocks {
        sum = sum.wrapping_add(product(block, block_key));
        // The step is odd, so no key occurs twice.
        block_key = block_key.wrapping_add(STEP);
    }
    if !rest.is_empty() {
        let mut block = [0; 16];
        block[..rest.len()].copy_from_slice(rest);
        sum = sum.wrapping_add(product(&block, block_key));
    }
    mix(sum)
}

#[allow(clippy::cast_possible_truncation, reason = "the halves of a product of 64-bit numbers have 64 bits")]
#[inline]
fn product(block: &[u8; 16], block_key: u64) -> u64 {
    let both = u128::from_le_bytes(*block);
    let (first, second) = (both as u64 ^ block_key, (both >> 64) as u64 ^ block_key ^ OTHER);
    let product = u128::from(first) * u128::from(second);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::collections::BTreeSet;
    use std::vec::Vec;

    use super::*;

    #[test]
    fn every_bit_the_length_and_the_key_count() {
        let mut seen = BTreeSet::new();
        let mut count = 0;
        for length in 0..70 {
            let mut bytes: Vec<u8> = std::vec![0; length];
            for key in [0, 1, u64::MAX] {
                count += 1;
                seen.insert(digest(key, &bytes));
            }
            for bit in 0..length * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                seen.insert(digest(0, &bytes));
                bytes[bit / 8] ^= 1 << (bit % 8);
                count += 1;
            }
        }
        assert_eq!(seen.len(), count);
    }

    #[test]
    fn blocks_that_change_places_count() {
        let (one, other) = ([1; 16], [2; 16]);
        assert_ne!(digest(0, &[one, other].concat()), digest(0, &[other, one].concat()));
    }
}
