//! In-stream repair: a repair packet for packets of one flow.

use crate::error::{Full, ParseError};
use crate::ids::Alias;
use crate::reader::Reader;
use crate::repair::{LengthSymbol, Place};
use crate::writer::{MESSAGE_HEADER_BYTES, Output, Writer, emit_in_front};

/// Which packets from the first on a repair packet covers; the first is among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mask(u32);

impl Mask {
    /// The first packet alone.
    pub const FIRST: Self = Self(1);

    /// How many offsets there are: the bits of a mask.
    pub const SPAN_MAX: u64 = u32::BITS as u64;

    /// The packets at the offsets whose bits are set; `None` unless the lowest is.
    #[must_use]
    pub const fn new(bits: u32) -> Option<Self> {
        if bits & 1 == 1 { Some(Self(bits)) } else { None }
    }

    /// The bits; bit 0 is the lowest.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// How many packets are covered: 1 to [`Mask::SPAN_MAX`].
    #[must_use]
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether the packet at this offset from the first is covered.
    #[must_use]
    pub const fn contains(self, offset: u64) -> bool {
        offset < Self::SPAN_MAX && self.0 >> offset & 1 == 1
    }

    /// These packets and the one at `offset`; `None` if that is [`Mask::SPAN_MAX`] or more.
    #[must_use]
    pub const fn with(self, offset: u64) -> Option<Self> {
        if offset < Self::SPAN_MAX { Some(Self(self.0 | 1 << offset)) } else { None }
    }

    /// One more than the last offset.
    #[must_use]
    pub const fn span(self) -> u64 {
        (u32::BITS - self.0.leading_zeros()) as u64
    }

    /// The offsets of the covered packets from the first, rising.
    pub fn offsets(self) -> impl Iterator<Item = u32> {
        (0..u32::BITS).filter(move |offset| self.0 >> offset & 1 == 1)
    }
}

/// All of an in-stream repair but its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InStreamHead {
    /// What stands for the flow.
    pub alias: Alias,
    /// The low 32 bits of the first covered packet's sequence number.
    pub first_low: u32,
    /// Which packets are covered.
    pub mask: Mask,
    /// Which repair packet of the block this is.
    pub place: Place,
    /// The coded lengths of the covered packets.
    pub length_symbol: LengthSymbol,
}

impl InStreamHead {
    /// Bytes in front of the payload, type and length included.
    pub const BYTES: usize = MESSAGE_HEADER_BYTES + 13;

    /// Writes type, length and head at the end of `front`, which ends where the payload begins; returns where the
    /// message begins in `front`.
    ///
    /// # Errors
    /// If there is no room in front of the payload, or the payload is too long for any packet. Nothing is written
    /// then.
    pub fn emit_in_front(&self, front: &mut [u8], payload_bytes: usize) -> Result<usize, Full> {
        let message_type = InStreamRepair::TYPE;
        emit_in_front(front, message_type, Self::BYTES, payload_bytes, |output| self.emit(output))
    }

    fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let alias = reader.alias()?;
        let first_low = reader.u32("first")?;
        let bits = reader.u32("mask")?;
        let mask = Mask::new(bits).ok_or_else(|| reader.illegal("mask", bits, "one with bit 0 set"))?;
        let place = Place::parse(reader)?;
        let length_symbol = *reader.array("length symbol")?;
        Ok(Self { alias, first_low, mask, place, length_symbol })
    }

    fn emit(&self, output: &mut Output<'_>) {
        output.u16(self.alias.number());
        output.u32(self.first_low);
        output.u32(self.mask.bits());
        output.u8(self.place.to_byte());
        output.bytes(&self.length_symbol);
    }
}

/// A repair packet for packets of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InStreamRepair<'a> {
    /// What it covers, and which of the block's repair packets it is.
    pub head: InStreamHead,
    /// The coded bytes' sum.
    pub payload: &'a [u8],
}

impl<'a> InStreamRepair<'a> {
    /// The message's type.
    pub const TYPE: u8 = 16;

    /// Reads the body.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("in-stream repair", body);
        let head = InStreamHead::parse(&mut reader)?;
        Ok(Self { head, payload: reader.rest() })
    }

    /// Appends the message, and copies its payload: where that matters, [`InStreamHead::emit_in_front`] does not.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), Full> {
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
