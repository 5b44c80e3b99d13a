//! In-stream repair: a repair packet for packets of one flow.

use crate::error::{MessageFullError, ParseError};
use crate::ids::Alias;
use crate::reader::Reader;
use crate::repair::{LengthSymbol, RepairIndex};
use crate::writer::{MESSAGE_HEADER_BYTES, Output, Writer, emit_in_front};

/// Set of the packets that a repair packet covers, as offsets from the first one. The first one is
/// always covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mask(u32);

impl Mask {
    /// Mask that covers the first packet alone.
    pub const FIRST: Self = Self(1);

    /// Number of offsets that a mask can express.
    pub const SPAN_MAX: u64 = u32::BITS as u64;

    /// Returns the mask with these bits, one for each offset. `None` unless the lowest bit is set.
    #[must_use]
    pub const fn new(bits: u32) -> Option<Self> {
        if bits & 1 == 1 { Some(Self(bits)) } else { None }
    }

    /// Returns the mask as bits: bit i stands for offset i.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Returns the number of covered packets: 1 to [`Mask::SPAN_MAX`].
    #[must_use]
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// True if the packet at this offset from the first is covered.
    #[must_use]
    pub const fn contains(self, offset: u64) -> bool {
        offset < Self::SPAN_MAX && self.0 >> offset & 1 == 1
    }

    /// Returns this mask with the packet at `offset`; `None` if that is [`Mask::SPAN_MAX`] or more.
    #[must_use]
    pub const fn with(self, offset: u64) -> Option<Self> {
        if offset < Self::SPAN_MAX { Some(Self(self.0 | 1 << offset)) } else { None }
    }

    /// Returns the number of offsets up to the last covered packet: one more than its offset.
    #[must_use]
    pub const fn span(self) -> u64 {
        (u32::BITS - self.0.leading_zeros()) as u64
    }

    /// Returns the offsets of the covered packets from the first, rising.
    pub fn offsets(self) -> impl Iterator<Item = u32> {
        (0..u32::BITS).filter(move |offset| self.0 >> offset & 1 == 1)
    }
}

/// An in-stream repair without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InStreamHead {
    /// Alias of the flow.
    pub alias: Alias,
    /// The low 32 bits of the first covered packet's sequence number.
    pub first_low: u32,
    /// Covered packets, as offsets from the first.
    pub mask: Mask,
    /// Index of the repair packet in its block.
    pub repair_index: RepairIndex,
    /// Combination of the covered packets' lengths.
    pub length_symbol: LengthSymbol,
}

impl InStreamHead {
    /// Length of type, length and head in bytes.
    pub const BYTES: usize = MESSAGE_HEADER_BYTES + 13;

    /// Writes type, length and head at the end of `front`, directly before the payload. Returns the
    /// message's offset in `front`.
    ///
    /// # Errors
    /// If `front` is too short for the head, or the payload is too long for any packet. No bytes
    /// are written then.
    pub fn emit_in_front(&self, front: &mut [u8], payload_bytes: usize) -> Result<usize, MessageFullError> {
        let message_type = InStreamRepair::TYPE;
        emit_in_front(front, message_type, Self::BYTES, payload_bytes, |output| self.emit(output))
    }

    fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let alias = reader.alias()?;
        let first_low = reader.u32("first")?;
        let bits = reader.u32("mask")?;
        let mask = Mask::new(bits).ok_or_else(|| reader.illegal("mask", bits, "one with bit 0 set"))?;
        let repair_index = RepairIndex::parse(reader)?;
        let length_symbol = *reader.array("length symbol")?;
        Ok(Self { alias, first_low, mask, repair_index, length_symbol })
    }

    fn emit(&self, output: &mut Output<'_>) {
        output.u16(self.alias.number());
        output.u32(self.first_low);
        output.u32(self.mask.bits());
        output.u8(self.repair_index.to_byte());
        output.bytes(&self.length_symbol);
    }
}

/// A repair packet for packets of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InStreamRepair<'a> {
    /// Covered source packets, and index of the repair packet in the block.
    pub head: InStreamHead,
    /// Combination of the covered packets' coded bytes.
    pub payload: &'a [u8],
}

impl<'a> InStreamRepair<'a> {
    /// Type number of an in-stream repair on the wire.
    pub const TYPE: u8 = 16;

    /// Reads an in-stream repair from the body of a message.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("in-stream repair", body);
        let head = InStreamHead::parse(&mut reader)?;
        Ok(Self { head, payload: reader.rest() })
    }

    /// Appends the message, and copies its payload. [`InStreamHead::emit_in_front`] avoids the
    /// copy.
    ///
    /// # Errors
    /// If the packet has too few bytes left; then no byte is written.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), MessageFullError> {
        writer.append(Self::TYPE, |output| {
            self.head.emit(output);
            output.bytes(self.payload);
        })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    #[test]
    fn a_mask_covers_its_first_packet() {
        assert_eq!(Mask::new(0b110), None);
        let mask = Mask::new(0b1001_0001).expect("bit 0 is set");
        assert!(mask.count() == 3 && mask.offsets().eq([0, 4, 7]));
    }

    #[test]
    fn a_mask_grows_offset_by_offset_up_to_its_last_bit() {
        let mask = [7, 4, 0, 7].into_iter().try_fold(Mask::FIRST, Mask::with).expect("there are such bits");
        assert!(mask.offsets().eq([0, 4, 7]));
        let full = (0..Mask::SPAN_MAX).try_fold(Mask::FIRST, Mask::with);
        assert_eq!(full, Mask::new(u32::MAX));
        for offset in [Mask::SPAN_MAX, Mask::SPAN_MAX + 1, u64::MAX] {
            assert_eq!(mask.with(offset), None, "{offset}");
        }
    }

    #[test]
    fn a_mask_contains_its_offsets_and_spans_to_the_last() {
        let mask = Mask::new(0b1001_0001).expect("bit 0 is set");
        let contained: Vec<_> = (0..200).filter(|offset| mask.contains(*offset)).collect();
        assert_eq!(contained, [0, 4, 7]);
        assert!(!mask.contains(u64::MAX));
        let last = Mask::FIRST.with(Mask::SPAN_MAX - 1).expect("it is the last bit");
        assert!(last.contains(31) && !last.contains(32));
        assert_eq!([Mask::FIRST.span(), mask.span(), last.span()], [1, 8, Mask::SPAN_MAX]);
    }
}
