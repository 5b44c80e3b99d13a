//! Message packets: a sealed row of messages.

use super::{Kind, checked_header};
use crate::coded::Sealed;
use crate::error::ParseError;
use crate::ids::SessionIndex;
use crate::limits::TAG_BYTES;

/// The header of a message packet, which is its associated data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageHeader {
    /// The receiver's index of the session.
    pub receiver: SessionIndex,
    /// The low 32 bits of the counter.
    pub counter_low: u32,
}

impl MessageHeader {
    /// Bytes of the header; the ciphertext follows.
    pub const BYTES: usize = 9;

    /// Writes the header.
    #[inline]
    pub const fn emit(&self, header: &mut [u8; Self::BYTES]) {
        let [i0, i1, i2, i3] = self.receiver.number().to_be_bytes();
        let [c0, c1, c2, c3] = self.counter_low.to_be_bytes();
        *header = [Kind::Message.first_byte(), i0, i1, i2, i3, c0, c1, c2, c3];
    }
}

/// A checked message packet.
#[derive(Clone, Copy, Debug)]
pub struct MessagePacket<B> {
    header: MessageHeader,
    bytes: B,
}

/// Bytes of a message packet beyond its messages.
pub const MESSAGE_OVERHEAD: usize = MessageHeader::BYTES + TAG_BYTES;

impl<B: AsRef<[u8]>> MessagePacket<B> {
    /// Checks the length.
    ///
    /// # Errors
    /// If the packet is of another kind or shorter than [`MESSAGE_OVERHEAD`].
    #[inline]
    pub fn parse(bytes: B) -> Result<Self, ParseError> {
        let header = checked_header("message packet", Kind::Message, MESSAGE_OVERHEAD, bytes.as_ref())?;
        let [_, i0, i1, i2, i3, c0, c1, c2, c3] = *header;
        let header = MessageHeader {
            receiver: SessionIndex::new(u32::from_be_bytes([i0, i1, i2, i3])),
            counter_low: u32::from_be_bytes([c0, c1, c2, c3]),
        };
        Ok(Self { header, bytes })
    }

    /// The header.
    #[inline]
    #[must_use]
    pub const fn header(&self) -> &MessageHeader {
        &self.header
    }

    /// Ciphertext and tag, in one piece.
    #[inline]
    #[must_use]
    pub fn sealed(&self) -> &[u8] {
        &self.bytes.as_ref()[MessageHeader::BYTES..]
    }
}

impl<'a> MessagePacket<&'a mut [u8]> {
    /// The whole packet.
    #[inline]
    #[must_use]
    pub const fn into_bytes(self) -> &'a mut [u8] {
        self.bytes
    }

    /// Associated data, which are the header, and what is sealed.
    #[inline]
    #[must_use]
    pub fn into_parts(self) -> (&'a [u8], Sealed<'a>) {
        let (header, sealed) = self.bytes.split_at_mut(MessageHeader::BYTES);
        (header, Sealed::checked(sealed))
    }
}
