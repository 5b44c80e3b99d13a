//! Message packets: sealed sequences of messages.

use super::{Kind, checked_header};
use crate::coded::SealedBytes;
use crate::error::ParseError;
use crate::ids::SessionIndex;
use crate::limits::TAG_BYTES;

/// Header of a message packet, which is its associated data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageHeader {
    /// Session index that the receiver of the packet has chosen.
    pub receiver: SessionIndex,
    /// Low 32 bits of the packet's counter; envelopes use the same counters.
    pub counter_low: u32,
}

impl MessageHeader {
    /// Length of the header, in bytes; the ciphertext follows.
    pub const BYTES: usize = 9;

    /// Encodes the header of a message packet into `header`.
    #[inline]
    pub const fn emit(&self, header: &mut [u8; Self::BYTES]) {
        let [i0, i1, i2, i3] = self.receiver.number().to_be_bytes();
        let [c0, c1, c2, c3] = self.counter_low.to_be_bytes();
        *header = [Kind::Message.first_byte(), i0, i1, i2, i3, c0, c1, c2, c3];
    }
}

/// Message packet whose kind and length have been checked.
#[derive(Clone, Copy, Debug)]
pub struct MessagePacket<B> {
    header: MessageHeader,
    bytes: B,
}

/// Number of bytes of a message packet besides its messages: header and tag.
pub const MESSAGE_OVERHEAD: usize = MessageHeader::BYTES + TAG_BYTES;

impl<B: AsRef<[u8]>> MessagePacket<B> {
    /// Checks the kind and length of a message packet.
    ///
    /// # Errors
    /// If the packet is of another kind or shorter than [`MESSAGE_OVERHEAD`].
    #[inline]
    pub fn parse(bytes: B) -> Result<Self, ParseError> {
        Self::parse_kind(Kind::Message, bytes)
    }

    /// Checks the kind and length of a message packet that arrived through a third relay.
    ///
    /// # Errors
    /// If the packet is of another kind or shorter than [`MESSAGE_OVERHEAD`].
    pub fn parse_transit(bytes: B) -> Result<Self, ParseError> {
        Self::parse_kind(Kind::TransitMessage, bytes)
    }

    #[inline]
    fn parse_kind(kind: Kind, bytes: B) -> Result<Self, ParseError> {
        let header = checked_header("message packet", kind, MESSAGE_OVERHEAD, bytes.as_ref())?;
        let [_, i0, i1, i2, i3, c0, c1, c2, c3] = *header;
        let header = MessageHeader {
            receiver: SessionIndex::new(u32::from_be_bytes([i0, i1, i2, i3])),
            counter_low: u32::from_be_bytes([c0, c1, c2, c3]),
        };
        Ok(Self { header, bytes })
    }

    /// Returns the header of the packet.
    #[inline]
    #[must_use]
    pub const fn header(&self) -> &MessageHeader {
        &self.header
    }

    /// Returns the ciphertext together with its tag.
    #[inline]
    #[must_use]
    pub fn sealed(&self) -> &[u8] {
        &self.bytes.as_ref()[MessageHeader::BYTES..]
    }
}

impl<'a> MessagePacket<&'a mut [u8]> {
    /// Returns the whole packet as bytes.
    #[inline]
    #[must_use]
    pub const fn into_bytes(self) -> &'a mut [u8] {
        self.bytes
    }

    /// Splits the packet into its associated data, which is the header, and its sealed bytes.
    #[inline]
    #[must_use]
    pub fn into_parts(self) -> (&'a [u8], SealedBytes<'a>) {
        let (header, sealed) = self.bytes.split_at_mut(MessageHeader::BYTES);
        (header, SealedBytes::checked(sealed))
    }
}
