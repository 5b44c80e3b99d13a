//! Source packets: application data on the direct path.

use byway_units::FlowId;

use super::{Kind, checked_header};
use crate::coded::{CODED_OVERHEAD, CodedBytes, FLAGS_BYTES, Flags};
use crate::error::ParseError;
use crate::ids::SessionIndex;

/// Header of a source packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceHeader {
    /// Session index that the receiver of the packet has chosen.
    pub receiver: SessionIndex,
    /// Number of the flow, which its sender has assigned.
    pub flow: FlowId,
    /// Low 32 bits of the sequence number.
    pub sequence_low: u32,
    /// Low bits of the epoch, fragment, and flag of the DSCP.
    pub flags: Flags,
}

impl SourceHeader {
    /// Length of the header, in bytes, flags included; the ciphertext follows.
    pub const BYTES: usize = 12;

    /// Offset of the coded bytes. They begin with the flags, which end the header.
    pub const CODED_START: usize = Self::BYTES - FLAGS_BYTES;

    /// Encodes the header of a source packet into `header`.
    #[inline]
    pub const fn emit(&self, header: &mut [u8; Self::BYTES]) {
        let [i0, i1, i2, i3] = self.receiver.number().to_be_bytes();
        let [f0, f1] = self.flow.number().to_be_bytes();
        let [s0, s1, s2, s3] = self.sequence_low.to_be_bytes();
        let kind = Kind::Source.first_byte();
        *header = [kind, i0, i1, i2, i3, f0, f1, s0, s1, s2, s3, self.flags.to_wire()];
    }
}

/// Source packet whose kind and length have been checked.
#[derive(Clone, Copy, Debug)]
pub struct SourcePacket<B> {
    header: SourceHeader,
    bytes: B,
}

/// Number of bytes of a source packet besides the application's datagram.
pub const SOURCE_OVERHEAD: usize = SourceHeader::CODED_START + CODED_OVERHEAD;

impl<B: AsRef<[u8]>> SourcePacket<B> {
    /// Checks the kind and length of a source packet.
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

    /// Returns the header of the packet.
    #[inline]
    #[must_use]
    pub const fn header(&self) -> &SourceHeader {
        &self.header
    }

    /// Returns the coded bytes, over which repair packets are computed and which caches store.
    #[inline]
    #[must_use]
    pub fn coded(&self) -> CodedBytes<&[u8]> {
        CodedBytes::checked(self.header.flags, &self.bytes.as_ref()[SourceHeader::CODED_START..])
    }
}

impl<'a> SourcePacket<&'a mut [u8]> {
    /// Returns the coded bytes, for decryption in place.
    #[inline]
    #[must_use]
    pub fn into_coded(self) -> CodedBytes<&'a mut [u8]> {
        CodedBytes::checked(self.header.flags, &mut self.bytes[SourceHeader::CODED_START..])
    }
}
