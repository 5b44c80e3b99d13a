//! Responses: the second and last packet of a handshake.

use super::initiation::KEY_BYTES;
use super::{Kind, checked_header, split_start_mut};
use crate::error::ParseError;
use crate::handshake::ResponsePayload;
use crate::ids::SessionIndex;
use crate::limits::TAG_BYTES;

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
pub struct Response<B> {
    header: ResponseHeader,
    bytes: B,
}

/// Bytes of a response beyond its payload: header, ephemeral key and tag.
pub const RESPONSE_OVERHEAD: usize = ResponseHeader::BYTES + KEY_BYTES + TAG_BYTES;

impl<B: AsRef<[u8]>> Response<B> {
    /// Checks the length.
    ///
    /// # Errors
    /// If the packet is of another kind or too short for the fixed part of its payload.
    pub fn parse(bytes: B) -> Result<Self, ParseError> {
        let bytes_min = RESPONSE_OVERHEAD + ResponsePayload::BYTES;
        let header = checked_header("response", Kind::Response, bytes_min, bytes.as_ref())?;
        let [_, _, _, _, i0, i1, i2, i3] = *header;
        let receiver = SessionIndex::new(u32::from_be_bytes([i0, i1, i2, i3]));
        Ok(Self { header: ResponseHeader { receiver }, bytes })
    }

    /// The header.
    #[must_use]
    pub const fn header(&self) -> &ResponseHeader {
        &self.header
    }

    /// The second Noise message, in one piece.
    #[must_use]
    pub fn noise_message(&self) -> &[u8] {
        &self.bytes.as_ref()[ResponseHeader::BYTES..]
    }
}

/// The parts of the second Noise message, for decrypting in place.
#[derive(Debug)]
pub struct ResponseParts<'a> {
    /// The responder's ephemeral public key.
    pub ephemeral: &'a [u8; KEY_BYTES],
    /// The sealed payload and its tag.
    pub sealed_payload: &'a mut [u8],
}

impl<'a> Response<&'a mut [u8]> {
    /// The parts of the second Noise message.
    #[must_use]
    pub fn into_parts(self) -> ResponseParts<'a> {
        let (_, noise_message) = split_start_mut::<{ ResponseHeader::BYTES }>(self.bytes);
        let (ephemeral, sealed_payload) = split_start_mut(noise_message);
        ResponseParts { ephemeral, sealed_payload }
    }
}
