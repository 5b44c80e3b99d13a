//! Helpers of the coder's tests: engines under test, packets at odd offsets, and an oracle.

#![allow(dead_code, reason = "every test file uses its own part of this module")]

use byway_code::field::multiply_bitwise;
use byway_code::{Engine, LengthSymbol, coefficient};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng;

/// The engines under test: all that this processor has, or the one that `BYWAY_ENGINE` names.
pub(crate) fn engines() -> Vec<Engine> {
    #[allow(clippy::disallowed_methods, reason = "the variable is how a test run is held to one engine")]
    let forced = std::env::var("BYWAY_ENGINE").ok();
    engines_from(forced.as_deref())
}

/// All engines, or the one that is forced.
pub(crate) fn engines_from(forced: Option<&str>) -> Vec<Engine> {
    match forced {
        Some(name) => vec![name.parse().unwrap_or_else(|error| panic!("BYWAY_ENGINE: {error}"))],
        None => Engine::available().collect(),
    }
}

/// A packet that starts at a chosen distance from a cache-line boundary.
#[derive(Debug)]
pub(crate) struct OffsetBuffer {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl OffsetBuffer {
    /// `length` random bytes at `offset` from a boundary, with random bytes around them.
    pub(crate) fn random(length: usize, offset: usize, random: &mut Pcg64Mcg) -> Self {
        let mut bytes = vec![0; length + offset + 2 * 64];
        random.fill_bytes(&mut bytes);
        let start = bytes.as_ptr().align_offset(64) + offset;
        Self { bytes, start, length }
    }

    /// Everything in memory but the packet's first `length` bytes.
    pub(crate) fn except(&self, length: usize) -> Vec<u8> {
        [&self.bytes[..self.start], &self.bytes[self.start + length..]].concat()
    }
}

impl AsRef<[u8]> for OffsetBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[self.start..][..self.length]
    }
}

impl AsMut<[u8]> for OffsetBuffer {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..][..self.length]
    }
}

pub(crate) fn random(seed: u64) -> Pcg64Mcg {
    Pcg64Mcg::new(u128::from(seed) << 64 | 0x5851_F42D_4C95_7F2D)
}

/// A random number below `bound`.
pub(crate) fn below(bound: usize, random: &mut Pcg64Mcg) -> usize {
    usize::try_from(random.next_u64() % bound as u64).expect("the bound is a usize")
}

/// `count` distinct numbers below `bound`, in random order.
pub(crate) fn choose(count: usize, bound: usize, random: &mut Pcg64Mcg) -> Vec<usize> {
    let mut numbers: Vec<_> = (0..bound).collect();
    for i in 0..count {
        let j = i + below(bound - i, random);
        numbers.swap(i, j);
    }
    numbers.truncate(count);
    numbers
}

/// The repair packets by definition: pad every packet with zeros, put its length in front, and sum.
pub(crate) fn oracle(sources: &[&[u8]], repairs: usize) -> Vec<(LengthSymbol, Vec<u8>)> {
    let longest = sources.iter().map(|source| source.len()).max().unwrap_or(0);
    let row = |row| {
        let mut sum = vec![0; 2 + longest];
        for (column, source) in sources.iter().enumerate() {
            let length = u16::try_from(source.len()).expect("test packets are short").to_be_bytes();
            for (sum, byte) in sum.iter_mut().zip(length.iter().chain(*source)) {
                *sum ^= multiply_bitwise(coefficient(row, column), *byte);
            }
        }
        ([sum[0], sum[1]], sum.split_off(2))
    };
    (0..repairs).map(row).collect()
}
