//! Responses: the second and last packet of a handshake.

use alloc::vec;
use alloc::vec::Vec;

use super::{Kind, checked_header, part_mut};
use crate::error::ParseError;
use crate::ids::SessionIndex;
use crate::limits::{KEY_BYTES, TAG_BYTES};
use crate::payloads::ResponsePayload;

/// The header of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseHeader {
    /// The index that the initiation gave as its sender's.
    pub receiver: SessionIndex,
}

impl ResponseHeader {
    /// Bytes of the header; the Noise message follows.
    pub const BYTES: usize = 8;

    /// Writes the header.
    pub const fn emit(&self, header: &mut [u8; Self::BYTES]) {
        let [i0, i1, i2, i3] = self.receiver.number().to_be_bytes();
        *header = [Kind::Response.first_byte(), 0, 0, 0, i0, i1, i2, i3];
    }
}

/// A checked response.
#[derive(Clone, Copy, Debug)]
pub struct ResponsePacket<B> {
    header: ResponseHeader,
    bytes: B,
}

/// Bytes of a response beyond its payload: header, ephemeral key and tag.
pub const RESPONSE_OVERHEAD: usize = ResponseHeader::BYTES + KEY_BYTES + TAG_BYTES;

/// Bytes of a response without messages.
pub const RESPONSE_BYTES_MIN: usize = RESPONSE_OVERHEAD + ResponsePayload::BYTES;

// A response is never longer than its initiation, so the shortest has to be allowed for all.
const _: () = assert!(RESPONSE_BYTES_MIN <= super::INITIATION_BYTES_MIN);

impl<B: AsRef<[u8]>> ResponsePacket<B> {
    /// Checks the length.
    ///
    /// # Errors
    /// If the packet is of another kind or shorter than [`RESPONSE_BYTES_MIN`].
    pub fn parse(bytes: B) -> Result<Self, ParseError> {
        let header = checked_header("response", Kind::Response, RESPONSE_BYTES_MIN, bytes.as_ref())?;
        let [_, _, _, _, i0, i1, i2, i3] = *header;
        let receiver = SessionIndex::new(u32::from_be_bytes([i0, i1, i2, i3]));
        Ok(Self { header: ResponseHeader { receiver }, bytes })
    }

    /// The header.
    #[must_use]
    pub const fn header(&self) -> &ResponseHeader {
        &self.header
    }

    /// The second Noise message: ephemeral key, sealed payload.
    #[must_use]
    pub fn noise_message(&self) -> &[u8] {
        &self.bytes.as_ref()[ResponseHeader::BYTES..]
    }
}

impl ResponsePacket<Vec<u8>> {
    /// A packet with this header, and zeros where a Noise message with `messages_bytes` of messages belongs.
    pub(crate) fn with_room(header: ResponseHeader, messages_bytes: usize) -> Self {
        let mut bytes = vec![0; RESPONSE_BYTES_MIN + messages_bytes];
        header.emit(part_mut(&mut bytes, 0));
        Self { header, bytes }
    }

    /// Where the second Noise message is written.
    pub(crate) fn noise_message_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[ResponseHeader::BYTES..]
    }

    /// The packet.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}
