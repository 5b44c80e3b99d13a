//! Byte buffer on a cache-line boundary, in safe code.

use alloc::vec;
use alloc::vec::Vec;

use crate::limits::ALIGNMENT;

/// Buffer of fixed length whose first byte is on an [`ALIGNMENT`] boundary; initially zeros.
///
/// It is for coded payloads, because an aligned vector touches only one cache line.
#[derive(Debug)]
pub struct AlignedBuffer {
    /// Allocated bytes: more than `length`, because the aligned start is somewhere inside.
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl AlignedBuffer {
    /// Creates a buffer of `length` zero bytes.
    #[must_use]
    pub fn new(length: usize) -> Self {
        let bytes = vec![0; length + ALIGNMENT - 1];
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        Self { bytes, start, length }
    }
}

impl AsRef<[u8]> for AlignedBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[self.start..][..self.length]
    }
}

impl AsMut<[u8]> for AlignedBuffer {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..][..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_start_on_a_cache_line() {
        for length in [0, 1, 63, 64, 1_200] {
            let mut buffer = AlignedBuffer::new(length);
            assert_eq!(buffer.as_ref().as_ptr().addr() % ALIGNMENT, 0);
            assert_eq!(buffer.as_mut().len(), length);
        }
    }
}
