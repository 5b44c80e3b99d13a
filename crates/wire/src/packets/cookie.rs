//! Cookies: a responder's answer to an initiation when it is busy, or when the initiation may be a
//! replay.

use super::{Kind, checked_header, part, part_mut, too_long};
use crate::error::ParseError;
use crate::ids::SessionIndex;
use crate::limits::{MAC_BYTES, TAG_BYTES};

/// Header of a cookie packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CookieHeader {
    /// Session index of the initiator, as in its initiation.
    pub receiver: SessionIndex,
    /// Random input of the key that seals the cookie.
    pub salt: [u8; Self::SALT_BYTES],
}

impl CookieHeader {
    /// Length of the header, in bytes; the sealed cookie follows.
    pub const BYTES: usize = 8 + Self::SALT_BYTES;

    /// Length of the salt, in bytes.
    pub const SALT_BYTES: usize = 16;

    /// Encodes the header of a cookie packet into `header`.
    pub fn emit(&self, header: &mut [u8; Self::BYTES]) {
        let [i0, i1, i2, i3] = self.receiver.number().to_be_bytes();
        let (fields, salt) = header.split_at_mut(8);
        fields.copy_from_slice(&[Kind::Cookie.first_byte(), 0, 0, 0, i0, i1, i2, i3]);
        salt.copy_from_slice(&self.salt);
    }
}

/// Cookie packet whose kind and length have been checked.
#[derive(Clone, Copy, Debug)]
pub struct CookiePacket<B> {
    header: CookieHeader,
    bytes: B,
}

const COOKIE_START: usize = CookieHeader::BYTES;
const TAG_START: usize = COOKIE_START + MAC_BYTES;

/// Exact length of a cookie packet, in bytes.
pub const COOKIE_PACKET_BYTES: usize = TAG_START + TAG_BYTES;

impl<B: AsRef<[u8]>> CookiePacket<B> {
    /// Checks the kind and length of a cookie packet.
    ///
    /// # Errors
    /// If the packet is of another kind, or its length is not [`COOKIE_PACKET_BYTES`].
    pub fn parse(bytes: B) -> Result<Self, ParseError> {
        const THING: &str = "cookie";
        let all = bytes.as_ref();
        let header: &[u8; CookieHeader::BYTES] =
            checked_header(THING, Kind::Cookie, COOKIE_PACKET_BYTES, all)?;
        if all.len() > COOKIE_PACKET_BYTES {
            return Err(too_long(THING, all, COOKIE_PACKET_BYTES));
        }
        let [_, _, _, _, i0, i1, i2, i3, salt @ ..] = *header;
        let receiver = SessionIndex::new(u32::from_be_bytes([i0, i1, i2, i3]));
        Ok(Self { header: CookieHeader { receiver, salt }, bytes })
    }

    /// Returns the header of the packet.
    #[must_use]
    pub const fn header(&self) -> &CookieHeader {
        &self.header
    }

    /// Returns the sealed cookie and its authentication tag.
    #[must_use]
    pub fn sealed(&self) -> (&[u8; MAC_BYTES], &[u8; TAG_BYTES]) {
        let bytes = self.bytes.as_ref();
        (part(bytes, COOKIE_START), part(bytes, TAG_START))
    }
}

impl CookiePacket<[u8; COOKIE_PACKET_BYTES]> {
    /// Builds a packet of this header and sealed cookie.
    pub(crate) fn new(header: CookieHeader, cookie: &[u8; MAC_BYTES], tag: &[u8; TAG_BYTES]) -> Self {
        let mut bytes = [0; COOKIE_PACKET_BYTES];
        header.emit(part_mut(&mut bytes, 0));
        *part_mut(&mut bytes, COOKIE_START) = *cookie;
        *part_mut(&mut bytes, TAG_START) = *tag;
        Self { header, bytes }
    }

    /// Returns the packet as bytes, for sending.
    pub(crate) const fn into_bytes(self) -> [u8; COOKIE_PACKET_BYTES] {
        self.bytes
    }
}
