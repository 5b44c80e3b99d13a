//! Transit packets: packets between two relays that a third relay passes on.
//!
//! They are message packets and envelopes of a session of the two, with other kinds. The third
//! relay replaces one field, and adds no byte.

use super::{ENVELOPE_OVERHEAD, Kind, MESSAGE_OVERHEAD, checked_header, part, part_mut, split_end};
use crate::coded::CODED_OVERHEAD;
use crate::error::ParseError;
use crate::ids::SessionIndex;
use crate::limits::TAG_BYTES;

/// Bytes that contain the fields of a transit packet that the third relay reads.
const FIELD_BYTES: usize = 10;

/// Transit packet whose kind and length have been checked.
#[derive(Clone, Copy, Debug)]
pub struct TransitPacket<B> {
    kind: Kind,
    index: SessionIndex,
    counter_low: u32,
    bytes: B,
}

/// Returns the offset of the index, as in message packets and envelopes.
const fn index_offset(kind: Kind) -> usize {
    if matches!(kind, Kind::TransitEnvelope) { 2 } else { 1 }
}

impl<B: AsRef<[u8]>> TransitPacket<B> {
    /// Checks the kind and length of a transit packet. The receiving relay checks the other fields.
    ///
    /// # Errors
    /// If the packet is of another kind, or shorter than the shortest one of its kind.
    pub fn parse(bytes: B) -> Result<Self, ParseError> {
        const ENVELOPE_BYTES_MIN: usize = ENVELOPE_OVERHEAD + CODED_OVERHEAD;
        let all = bytes.as_ref();
        let is_envelope = all.first() == Some(&Kind::TransitEnvelope.first_byte());
        let (kind, bytes_min) = if is_envelope {
            (Kind::TransitEnvelope, ENVELOPE_BYTES_MIN)
        } else {
            (Kind::TransitMessage, MESSAGE_OVERHEAD)
        };
        let fields: &[u8; FIELD_BYTES] = checked_header("transit packet", kind, bytes_min, all)?;
        let start = index_offset(kind);
        let index = SessionIndex::new(u32::from_be_bytes(*part(fields, start)));
        let counter_low = u32::from_be_bytes(*part(fields, start + 4));
        Ok(Self { kind, index, counter_low, bytes })
    }

    /// Returns the kind of the packet: [`Kind::TransitMessage`] or [`Kind::TransitEnvelope`].
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the field of the index: towards the third relay, it has a label and a part of a
    /// digest.
    #[must_use]
    pub const fn index(&self) -> SessionIndex {
        self.index
    }

    /// Returns the low 32 bits of the packet's counter.
    #[must_use]
    pub const fn counter_low(&self) -> u32 {
        self.counter_low
    }

    /// Returns the length of the whole packet, in bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        self.bytes.as_ref().len()
    }

    /// Returns the tag, by which the receiving relay authenticates the packet.
    #[must_use]
    pub fn tag(&self) -> &[u8; TAG_BYTES] {
        split_end(self.bytes.as_ref()).1
    }
}

impl<'a> TransitPacket<&'a mut [u8]> {
    /// Returns the whole packet as bytes.
    #[must_use]
    pub const fn into_bytes(self) -> &'a mut [u8] {
        self.bytes
    }

    /// Replaces the field of the index, and returns the whole packet.
    #[must_use]
    pub fn readdressed(self, index: SessionIndex) -> &'a mut [u8] {
        let Self { kind, bytes, .. } = self;
        *part_mut(bytes, index_offset(kind)) = index.number().to_be_bytes();
        bytes
    }
}
