//! Fields that the repair messages have in common, besides the coded bytes.

use crate::error::ParseError;
use crate::limits::{REPAIR_PACKETS_MAX, SOURCE_PACKETS_MAX};
use crate::reader::Reader;

/// Symbol of a repair packet for the lengths of its source packets, as the block code defines it.
pub type LengthSymbol = [u8; 2];

/// Numbers of source and repair packets of a block or a full batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockShape {
    source_packets: u8,
    repair_packets: u8,
}

impl BlockShape {
    /// Returns a shape of at most [`SOURCE_PACKETS_MAX`] and [`REPAIR_PACKETS_MAX`]; `None` if one
    /// of the numbers exceeds that, or is 0.
    #[must_use]
    pub fn new(source_packets: u8, repair_packets: u8) -> Option<Self> {
        let is_legal = (1..=SOURCE_PACKETS_MAX).contains(&source_packets)
            && (1..=REPAIR_PACKETS_MAX).contains(&repair_packets);
        is_legal.then_some(Self { source_packets, repair_packets })
    }

    /// Returns the number of source packets: 1 to [`SOURCE_PACKETS_MAX`].
    #[must_use]
    pub const fn source_packets(self) -> u8 {
        self.source_packets
    }

    /// Returns the number of repair packets: 1 to [`REPAIR_PACKETS_MAX`].
    #[must_use]
    pub const fn repair_packets(self) -> u8 {
        self.repair_packets
    }

    /// Reads a shape of two bytes; zeros mean that the flow has no block or batch.
    pub(crate) fn parse(
        reader: &mut Reader<'_>,
        [source_field, repair_field]: [&'static str; 2],
    ) -> Result<Option<Self>, ParseError> {
        let source_packets = reader.u8(source_field)?;
        let repair_packets = reader.u8(repair_field)?;
        if source_packets > SOURCE_PACKETS_MAX {
            return Err(reader.illegal(source_field, source_packets, "0 to 32"));
        }
        let shape = Self::new(source_packets, repair_packets);
        if shape.is_none() && (source_packets, repair_packets) != (0, 0) {
            let allowed = "1 to 8, or 0 with 0 source packets";
            return Err(reader.illegal(repair_field, repair_packets, allowed));
        }
        Ok(shape)
    }

    /// Encodes a shape as two bytes; `None` as zeros.
    pub(crate) fn to_bytes(shape: Option<Self>) -> [u8; 2] {
        shape.map_or([0, 0], |shape| [shape.source_packets, shape.repair_packets])
    }
}

/// Index of a repair packet in its block or batch, and the number of repair packets there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RepairIndex {
    /// Index in the high four bits, number of repair packets in the low four. Relays store many of
    /// them in this compact wire form.
    byte: u8,
}

impl RepairIndex {
    /// Returns the index of repair packet `index` among `count`; `None` unless `index` < `count` <=
    /// [`REPAIR_PACKETS_MAX`].
    #[must_use]
    pub fn new(index: u8, count: u8) -> Option<Self> {
        let is_legal = index < count && count <= REPAIR_PACKETS_MAX;
        is_legal.then_some(Self { byte: index << 4 | count })
    }

    /// Returns the index of the repair packet, from 0.
    #[must_use]
    pub const fn index(self) -> u8 {
        self.byte >> 4
    }

    /// Returns the number of repair packets of the block or batch.
    #[must_use]
    pub const fn count(self) -> u8 {
        self.byte & 0x0F
    }

    pub(crate) fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let byte = reader.u8("repair index")?;
        let allowed = "an index in the high four bits below a count of at most 8 in the low four";
        Self::new(byte >> 4, byte & 0x0F).ok_or_else(|| reader.illegal("repair index", byte, allowed))
    }

    pub(crate) const fn to_byte(self) -> u8 {
        self.byte
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_lie_within_their_block() {
        let legal = |index, count| RepairIndex::new(index, count).is_some();
        assert!(legal(0, 1) && legal(7, 8));
        assert!(!legal(0, 0) && !legal(1, 1) && !legal(0, 9));
    }

    #[test]
    fn blocks_have_both_kinds_of_packets() {
        let legal = |source, repair| BlockShape::new(source, repair).is_some();
        assert!(legal(1, 1) && legal(32, 8));
        assert!(!legal(0, 1) && !legal(1, 0) && !legal(33, 1) && !legal(1, 9));
    }
}
