//! What repair messages say beside the coded bytes.

use crate::error::ParseError;
use crate::limits::{REPAIR_PACKETS_MAX, SOURCE_PACKETS_MAX};
use crate::reader::Reader;

/// A repair packet's symbol of the length column, as the block code has it.
pub type LengthSymbol = [u8; 2];

/// How many source packets a block or a full batch has, and how many repair packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockShape {
    source_packets: u8,
    repair_packets: u8,
}

impl BlockShape {
    /// A block of up to [`SOURCE_PACKETS_MAX`] and [`REPAIR_PACKETS_MAX`]; `None` beyond, or if one of the numbers is 0.
    #[must_use]
    pub fn new(source_packets: u8, repair_packets: u8) -> Option<Self> {
        let is_legal = (1..=SOURCE_PACKETS_MAX).contains(&source_packets)
            && (1..=REPAIR_PACKETS_MAX).contains(&repair_packets);
        is_legal.then_some(Self { source_packets, repair_packets })
    }

    /// How many source packets: 1 to [`SOURCE_PACKETS_MAX`].
    #[must_use]
    pub const fn source_packets(self) -> u8 {
        self.source_packets
    }

    /// How many repair packets: 1 to [`REPAIR_PACKETS_MAX`].
    #[must_use]
    pub const fn repair_packets(self) -> u8 {
        self.repair_packets
    }

    /// Reads both numbers; zeros for none.
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

    /// Both numbers; zeros for none.
    pub(crate) fn to_bytes(shape: Option<Self>) -> [u8; 2] {
        shape.map_or([0, 0], |shape| [shape.source_packets, shape.repair_packets])
    }
}

/// Which of the repair packets of its block or batch a repair packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// As in packets, since many are kept: the index in the high four bits, the count in the low four.
    byte: u8,
}

impl Place {
    /// The repair packet `index` of `count`; `None` unless `index` < `count` <= [`REPAIR_PACKETS_MAX`].
    #[must_use]
    pub fn new(index: u8, count: u8) -> Option<Self> {
        let is_legal = index < count && count <= REPAIR_PACKETS_MAX;
        is_legal.then_some(Self { byte: index << 4 | count })
    }

    /// Which one it is, from 0.
    #[must_use]
    pub const fn index(self) -> u8 {
        self.byte >> 4
    }

    /// How many there are.
    #[must_use]
    pub const fn count(self) -> u8 {
        self.byte & 0x0F
    }

    pub(crate) fn parse(reader: &mut Reader<'_>) -> Result<Self, ParseError> {
        let byte = reader.u8("place")?;
        let allowed = "an index in the high four bits below a count of at most 8 in the low four";
        Self::new(byte >> 4, byte & 0x0F).ok_or_else(|| reader.illegal("place", byte, allowed))
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
        let legal = |index, count| Place::new(index, count).is_some();
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
