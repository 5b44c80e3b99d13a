//! Headers of tile-parts, and the lengths of packets in them.

use crate::fault::{CodestreamError, Fault, Field, Limit};
use crate::limits::PACKET_BYTES_MAX;
use crate::marker::Marker;
use crate::reader::{Reader, Segment};

/// Shortest tile-part: the segment SOT and the marker SOD.
const LENGTH_MIN: u32 = 14;

/// Contents of SOT (ISO/IEC 15444-1, annex A.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TilePartStart {
    pub(crate) tile: u32,
    /// Number of the tile-part in its tile.
    pub(crate) number: u8,
    /// Bytes from SOT on; `None` for a tile-part that ends with the codestream.
    pub(crate) length: Option<u32>,
}

impl TilePartStart {
    pub(crate) fn read(segment: &Segment<'_>) -> Result<Self, CodestreamError> {
        let mut content = segment.content;
        let numbers = content.u16().zip(content.u32()).zip(content.array::<2>());
        let ((tile, length), [number, _count]) =
            numbers.filter(|_| content.is_empty()).ok_or(segment.error(Fault::SegmentLength))?;
        if (1..LENGTH_MIN).contains(&length) {
            return Err(segment.error(Fault::OutOfRange(Field::TilePartLength)));
        }
        Ok(Self { tile: u32::from(tile), number, length: (length > 0).then_some(length) })
    }
}

/// Reads the rest of a tile-part header up to the data, and passes on its packet lengths (PLT).
/// Returns the byte of the file at which SOD is.
///
/// # Errors
/// If a segment is faulty, or changes the packets in a way that is not supported.
pub(crate) fn read_header<'a>(
    reader: &mut Reader<'a>,
    mut on_lengths: impl FnMut(&Segment<'a>) -> Result<(), CodestreamError>,
) -> Result<u64, CodestreamError> {
    loop {
        let (marker, offset) = reader.marker(Marker::SOD)?;
        let error = |fault| CodestreamError::new(marker, offset, fault);
        match marker {
            Marker::SOD => return Ok(offset),
            Marker::PLT => on_lengths(&reader.segment(marker, offset)?)?,
            Marker::COD | Marker::COC | Marker::POC | Marker::PPT => return Err(error(Fault::Unsupported)),
            Marker::SIZ | Marker::SOT | Marker::TLM | Marker::PLM | Marker::PPM => {
                return Err(error(Fault::Unexpected));
            }
            _ => {
                reader.segment(marker, offset)?;
            }
        }
    }
}

/// Reading of the packet lengths of one tile-part header (annex A.7.3): seven bits in a byte, and
/// the eighth in all bytes of a length but the last. A length may go on in the next segment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PacketLengths {
    value: u32,
    is_open: bool,
    /// Number of the last segment, and its byte of the file.
    last: Option<(u8, u64)>,
}

impl PacketLengths {
    /// Reads a segment, and passes on its lengths.
    pub(crate) fn read(
        &mut self,
        segment: &Segment<'_>,
        mut on_length: impl FnMut(u32) -> Result<(), Fault>,
    ) -> Result<(), CodestreamError> {
        let mut content = segment.content;
        let number = content.u8().ok_or(segment.error(Fault::SegmentLength))?;
        if self.last.is_some_and(|(last, _)| last.wrapping_add(1) != number) {
            return Err(segment.error(Fault::OutOfRange(Field::SegmentNumber)));
        }
        self.last = Some((number, segment.offset));
        while let Some(byte) = content.u8() {
            // At most 2²⁰ before, so nothing is shifted out.
            self.value = (self.value << 7) | u32::from(byte & 0x7F);
            self.is_open = byte & 0x80 != 0;
            if self.value > PACKET_BYTES_MAX {
                return Err(segment.error(Fault::TooMany(Limit::PacketBytes)));
            }
            if !self.is_open {
                let length = core::mem::take(&mut self.value);
                if length == 0 {
                    return Err(segment.error(Fault::OutOfRange(Field::PacketLength)));
                }
                on_length(length).map_err(|fault| segment.error(fault))?;
            }
        }
        Ok(())
    }

    /// Checks that the lengths are complete, and add up to the data of the tile-part behind the SOD
    /// at this byte. `None` stands for data that goes on until the end of the codestream.
    pub(crate) fn check_sum(
        &self,
        sum: u64,
        data: Option<u64>,
        data_start: u64,
    ) -> Result<(), CodestreamError> {
        let is_right = !self.is_open && data.is_none_or(|data| data == sum);
        match self.last {
            _ if is_right => Ok(()),
            Some((_, offset)) => Err(CodestreamError::new(Marker::PLT, offset, Fault::LengthSum)),
            None => Err(CodestreamError::new(Marker::PLT, data_start, Fault::Missing)),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;

    /// Reads segments with these contents as one header's, and returns the lengths.
    fn lengths(contents: &[&[u8]]) -> Result<Vec<u32>, Fault> {
        let (mut lengths, mut found) = (PacketLengths::default(), Vec::new());
        for content in contents {
            let segment = Segment { marker: Marker::PLT, offset: 7, content: Reader::new(content) };
            let read = lengths.read(&segment, |length| {
                found.push(length);
                Ok(())
            });
            read.map_err(|error| error.fault)?;
        }
        lengths
            .check_sum(found.iter().map(|length| u64::from(*length)).sum(), None, 9)
            .map_err(|error| error.fault)?;
        Ok(found)
    }

    #[test]
    fn lengths_have_seven_bits_in_each_byte() {
        // 0x81 0x00 is 1 * 128 + 0, and 0x87 0xFF 0x7F is 7 * 16,384 + 127 * 128 + 127.
        assert_eq!(lengths(&[&[0, 5, 0x81, 0x00, 0x87, 0xFF, 0x7F]]), Ok(vec![5, 128, 131_071]));
    }

    #[test]
    fn a_length_may_go_on_in_the_next_segment() {
        assert_eq!(lengths(&[&[255, 0x81], &[0, 0x02, 1]]), Ok(vec![130, 1]));
        assert_eq!(lengths(&[&[0, 0x81]]), Err(Fault::LengthSum));
    }

    #[test]
    fn faulty_lengths_are_refused() {
        assert_eq!(lengths(&[&[]]), Err(Fault::SegmentLength));
        assert_eq!(lengths(&[&[0, 0]]), Err(Fault::OutOfRange(Field::PacketLength)));
        assert_eq!(lengths(&[&[0, 1], &[2, 1]]), Err(Fault::OutOfRange(Field::SegmentNumber)));
        // 2^20 is 0xC0 0x80 0x00, and allowed; one more is not.
        assert_eq!(lengths(&[&[0, 0xC0, 0x80, 0x00]]), Ok(vec![1 << 20]));
        assert_eq!(lengths(&[&[0, 0xC0, 0x80, 0x01]]), Err(Fault::TooMany(Limit::PacketBytes)));
        assert_eq!(lengths(&[&[0, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F]]), Err(Fault::TooMany(Limit::PacketBytes)));
    }

    #[test]
    fn a_start_has_eight_bytes_and_a_possible_length() {
        let start = |content: &[u8]| {
            let segment = Segment { marker: Marker::SOT, offset: 7, content: Reader::new(content) };
            TilePartStart::read(&segment).map_err(|error| error.fault)
        };
        let expected = TilePartStart { tile: 3, number: 1, length: Some(14) };
        assert_eq!(start(&[0, 3, 0, 0, 0, 14, 1, 2]), Ok(expected));
        assert_eq!(start(&[0, 3, 0, 0, 0, 0, 1, 2]), Ok(TilePartStart { length: None, ..expected }));
        assert_eq!(start(&[0, 3, 0, 0, 0, 13, 1, 2]), Err(Fault::OutOfRange(Field::TilePartLength)));
        assert_eq!(start(&[0, 3, 0, 0, 0, 14, 1]), Err(Fault::SegmentLength));
        assert_eq!(start(&[0, 3, 0, 0, 0, 14, 1, 2, 3]), Err(Fault::SegmentLength));
    }
}
