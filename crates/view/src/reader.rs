//! Checked reading of bytes, markers and segments.

use crate::fault::{CodestreamError, Fault};
use crate::marker::Marker;

/// Unread bytes of a file, and their position in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    /// The file from its first byte to the end of what may be read.
    bytes: &'a [u8],
    position: usize,
}

/// Segment of a marker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment<'a> {
    pub(crate) marker: Marker,
    /// Byte of the file where the marker is.
    pub(crate) offset: u64,
    /// Content, behind the segment's length.
    pub(crate) content: Reader<'a>,
}

impl Segment<'_> {
    pub(crate) const fn error(&self, fault: Fault) -> CodestreamError {
        CodestreamError::new(self.marker, self.offset, fault)
    }
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    pub(crate) const fn position(&self) -> usize {
        self.position
    }

    pub(crate) const fn offset(&self) -> u64 {
        self.position as u64
    }

    /// Returns the position at which the reader ends.
    pub(crate) const fn end(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.position >= self.bytes.len()
    }

    /// Returns the reader with an earlier end.
    pub(crate) fn until(&self, end: usize) -> Option<Self> {
        Some(Self { bytes: self.bytes.get(..end)?, position: self.position })
    }

    /// Reads this number of bytes; `None`, and none of them, if there are fewer.
    pub(crate) fn read(&mut self, count: usize) -> Option<&'a [u8]> {
        let end = self.position.checked_add(count)?;
        let bytes = self.bytes.get(self.position..end)?;
        self.position = end;
        Some(bytes)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.read(N)?.try_into().ok()
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// Reads a marker, and returns its byte of the file, too.
    ///
    /// # Errors
    /// If the file ends, in the name of the marker that was expected.
    pub(crate) fn marker(&mut self, expected: Marker) -> Result<(Marker, u64), CodestreamError> {
        let offset = self.offset();
        let code = self.u16().ok_or(CodestreamError::new(expected, offset, Fault::CutShort))?;
        Ok((Marker::new(code), offset))
    }

    /// Reads the segment of the marker that has been read.
    ///
    /// # Errors
    /// If the marker has no segment, or if the file is too short for it.
    pub(crate) fn segment(&mut self, marker: Marker, offset: u64) -> Result<Segment<'a>, CodestreamError> {
        let error = |fault| CodestreamError::new(marker, offset, fault);
        if !marker.has_segment() {
            return Err(error(Fault::Unexpected));
        }
        let length = self.u16().ok_or(error(Fault::CutShort))?;
        let count = usize::from(length).checked_sub(2).ok_or(error(Fault::SegmentLength))?;
        let end = self.position.saturating_add(count);
        let content = self.until(end).ok_or(error(Fault::CutShort))?;
        self.position = end;
        Ok(Segment { marker, offset, content })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_in_order_and_never_beyond_the_end() {
        let mut reader = Reader::new(&[1, 2, 3, 4, 5, 6, 7]);
        assert_eq!((reader.u8(), reader.u16(), reader.u32()), (Some(1), Some(0x0203), Some(0x0405_0607)));
        assert_eq!((reader.u8(), reader.position(), reader.is_empty()), (None, 7, true));
    }

    #[test]
    fn too_few_bytes_are_not_consumed() {
        let mut reader = Reader::new(&[1, 2, 3]);
        assert_eq!((reader.u32(), reader.u64(), reader.read(usize::MAX)), (None, None, None));
        assert_eq!(reader.read(3), Some(&[1_u8, 2, 3][..]));
    }

    #[test]
    fn a_segment_ends_where_its_length_says() {
        let mut reader = Reader::new(&[0xFF, 0x64, 0, 4, 8, 9, 7]);
        let (marker, offset) = reader.marker(Marker::COM).expect("a marker");
        let mut segment = reader.segment(marker, offset).expect("a segment");
        assert_eq!(
            (segment.content.u8(), segment.content.u8(), segment.content.u8()),
            (Some(8), Some(9), None)
        );
        assert_eq!(reader.u8(), Some(7));
    }

    #[test]
    fn segments_that_are_too_long_or_too_short_are_errors() {
        let cases: [(&[u8], Fault); 4] = [
            (&[0xFF, 0x64, 0, 5, 8, 9], Fault::CutShort),
            (&[0xFF, 0x64, 0], Fault::CutShort),
            (&[0xFF, 0x64, 0, 1, 8, 9], Fault::SegmentLength),
            (&[0xFF, 0xD9, 0, 2], Fault::Unexpected),
        ];
        for (bytes, fault) in cases {
            let mut reader = Reader::new(bytes);
            let (marker, offset) = reader.marker(Marker::COM).expect("a marker");
            let error = reader.segment(marker, offset).expect_err("the segment is faulty");
            assert_eq!((error.marker, error.offset, error.fault), (marker, 0, fault));
        }
    }
}
