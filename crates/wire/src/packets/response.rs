//! Responses: the second and last packet of a handshake.

use alloc::vec;
use alloc::vec::Vec;

use super::{Kind, checked_header, part_mut};
use crate::error::ParseError;
use crate::ids::SessionIndex;
use crate::limits::{KEY_BYTES, TAG_BYTES};
use crate::payloads::ResponsePayload;

/// Header of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseHeader {
    /// Session index of the initiator, as in its initiation.
    pub receiver: SessionIndex,
}

impl ResponseHeader {
    /// Length of the header, in bytes; the Noise message follows.
    pub const BYTES: usize = 8;

    /// Encodes the header of a response into `header`.
    pub const fn emit(&self, header: &mut [u8; Self::BYTES]) {
        let [i0, i1, i2, i3] = self.receiver.number().to_be_bytes();
        *header = [Kind::Response.first_byte(), 0, 0, 0, i0, i1, i2, i3];
    }
}

/// Response whose kind and length have been checked.
#[derive(Clone, Copy, Debug)]
pub struct ResponsePacket<B> {
    header: ResponseHeader,
    bytes: B,
}

/// Number of bytes of a response besides its payload: header, ephemeral key and tag.
pub const RESPONSE_OVERHEAD: usize = ResponseHeader::BYTES + KEY_BYTES + TAG_BYTES;

/// Length of a response without messages, in bytes.
pub const RESPONSE_BYTES_MIN: usize = RESPONSE_OVERHEAD + ResponsePayload::BYTES;

// A response must not exceed its initiation, so the shortest response must fit for all of them.
const _: () = assert!(RESPONSE_BYTES_MIN <= super::INITIATION_BYTES_MIN);

impl<B: AsRef<[u8]>> ResponsePacket<B> {
    /// Checks the kind and length of a response.
    ///
    /// # Errors
    /// If the packet is of another kind or shorter than [`RESPONSE_BYTES_MIN`].
    pub fn parse(bytes: B) -> Result<Self, ParseError> {
        let header = checked_header("response", Kind::Response, RESPONSE_BYTES_MIN, bytes.as_ref())?;
        let [_, _, _, _, i0, i1, i2, i3] = *header;
        let receiver = SessionIndex::new(u32::from_be_bytes([i0, i1, i2, i3]));
        Ok(Self { header: ResponseHeader { receiver }, bytes })
    }

    /// Returns the header of the response.
    #[must_use]
    pub const fn header(&self) -> &ResponseHeader {
        &self.header
    }

    /// Returns the second Noise message: ephemeral key, sealed payload.
    #[must_use]
    pub fn noise_message(&self) -> &[u8] {
        &self.bytes.as_ref()[ResponseHeader::BYTES..]
    }
}

impl ResponsePacket<Vec<u8>> {
    /// Creates a packet with this header, and with zeros for a Noise message with `messages_bytes`
    /// bytes of messages.
    pub(crate) fn with_capacity(header: ResponseHeader, messages_bytes: usize) -> Self {
        let mut bytes = vec![0; RESPONSE_BYTES_MIN + messages_bytes];
        header.emit(part_mut(&mut bytes, 0));
        Self { header, bytes }
    }

    /// Returns the space of the second Noise message, for writing.
    pub(crate) fn noise_message_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[ResponseHeader::BYTES..]
    }

    /// Returns the packet as bytes, for sending.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}
