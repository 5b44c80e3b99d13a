//! A byte buffer on a cache-line boundary, in safe code.

use alloc::vec;
use alloc::vec::Vec;

use crate::limits::ALIGNMENT;

/// A zeroed buffer of fixed length whose first byte lies on an [`ALIGNMENT`] boundary.
///
/// For coded payloads: aligned vectors touch one cache line each.
#[derive(Debug)]
pub struct AlignedBuffer {
    /// A little longer than asked for, so that an aligned start can be found inside.
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl AlignedBuffer {
    /// A buffer of `length` zero bytes.
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
