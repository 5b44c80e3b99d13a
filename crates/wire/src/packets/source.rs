//! Source packets: application data on the direct path.

use byway_units::FlowId;

use super::{Kind, checked_header};
use crate::coded::{CODED_OVERHEAD, CodedBytes, FLAGS_BYTES, Flags};
use crate::error::ParseError;
use crate::ids::SessionIndex;

/// The header of a source packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceHeader {
    /// The receiver's index of the session.
    pub receiver: SessionIndex,
    /// What the sender calls the flow.
    pub flow: FlowId,
    /// The low 32 bits of the sequence number.
    pub sequence_low: u32,
    /// Epoch and piece.
    pub flags: Flags,
}

impl SourceHeader {
    /// Bytes of the header, flags included; the ciphertext follows.
    pub const BYTES: usize = 12;

    /// Where the coded bytes begin: at the flags, which end the header.
    pub const CODED_START: usize = Self::BYTES - FLAGS_BYTES;

    /// Writes the header.
    #[inline]
    pub const fn emit(&self, header: &mut [u8; Self::BYTES]) {
        let [i0, i1, i2, i3] = self.receiver.number().to_be_bytes();
        let [f0, f1] = self.flow.number().to_be_bytes();
        let [s0, s1, s2, s3] = self.sequence_low.to_be_bytes();
        let kind = Kind::Source.first_byte();
        *header = [kind, i0, i1, i2, i3, f0, f1, s0, s1, s2, s3, self.flags.to_wire()];
    }
}

/// A checked source packet.
#[derive(Clone, Copy, Debug)]
pub struct SourcePacket<B> {
    header: SourceHeader,
    bytes: B,
}

/// Bytes of a source packet beyond the application's datagram.
pub const SOURCE_OVERHEAD: usize = SourceHeader::CODED_START + CODED_OVERHEAD;

impl<B: AsRef<[u8]>> SourcePacket<B> {
    /// Checks length and header.
    ///
    /// # Errors
    /// If the packet is of another kind or shorter than [`SOURCE_OVERHEAD`].
    #[inline]
    pub fn parse(bytes: B) -> Result<Self, ParseError> {
        const THING: &str = "source packet";
        let header = checked_header(THING, Kind::Source, SOURCE_OVERHEAD, bytes.as_ref())?;
        let [_, i0, i1, i2, i3, f0, f1, s0, s1, s2, s3, flags] = *header;
        let header = SourceHeader {
            receiver: SessionIndex::new(u32::from_be_bytes([i0, i1, i2, i3])),
            flow: FlowId::new(u16::from_be_bytes([f0, f1])),
            sequence_low: u32::from_be_bytes([s0, s1, s2, s3]),
            flags: Flags::from_wire(flags),
        };
        Ok(Self { header, bytes })
    }

    /// The header.
    #[inline]
    #[must_use]
    pub const fn header(&self) -> &SourceHeader {
        &self.header
    }

    /// The coded bytes, as repairs and caches know the packet.
    #[inline]
    #[must_use]
    pub fn coded(&self) -> CodedBytes<&[u8]> {
        CodedBytes::checked(self.header.flags, &self.bytes.as_ref()[SourceHeader::CODED_START..])
    }
}

impl<'a> SourcePacket<&'a mut [u8]> {
    /// The coded bytes, for opening in place.
    #[inline]
    #[must_use]
    pub fn into_coded(self) -> CodedBytes<&'a mut [u8]> {
        CodedBytes::checked(self.header.flags, &mut self.bytes[SourceHeader::CODED_START..])
    }
}
