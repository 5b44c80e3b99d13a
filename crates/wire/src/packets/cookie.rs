//! Cookies: what a busy or doubtful responder answers.

use super::{Kind, checked_header, split_start_mut, too_long};
use crate::error::ParseError;
use crate::ids::SessionIndex;
use crate::limits::TAG_BYTES;

const SALT_BYTES: usize = 16;
const COOKIE_BYTES: usize = 16;

/// The header of a cookie packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CookieHeader {
    /// The index that the initiation gave as its sender's.
    pub receiver: SessionIndex,
    /// Random; goes into the key under which the cookie is sealed.
    pub salt: [u8; SALT_BYTES],
}

impl CookieHeader {
    /// Bytes of the header; the sealed cookie follows.
    pub const BYTES: usize = 8 + SALT_BYTES;

    /// Writes the header.
    pub fn emit(&self, header: &mut [u8; Self::BYTES]) {
        let [i0, i1, i2, i3] = self.receiver.number().to_be_bytes();
        let (fields, salt) = header.split_at_mut(8);
        fields.copy_from_slice(&[Kind::Cookie.first_byte(), 0, 0, 0, i0, i1, i2, i3]);
        salt.copy_from_slice(&self.salt);
    }
}

/// A checked cookie packet.
#[derive(Clone, Copy, Debug)]
pub struct Cookie<B> {
    header: CookieHeader,
    bytes: B,
}

/// Bytes of a cookie packet, no more and no fewer.
pub const COOKIE_PACKET_BYTES: usize = CookieHeader::BYTES + COOKIE_BYTES + TAG_BYTES;

impl<B: AsRef<[u8]>> Cookie<B> {
    /// Checks the length.
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

    /// The header.
    #[must_use]
    pub const fn header(&self) -> &CookieHeader {
        &self.header
    }

    /// The sealed cookie and its tag, in one piece.
    #[must_use]
    pub fn sealed(&self) -> &[u8] {
        &self.bytes.as_ref()[CookieHeader::BYTES..]
    }
}

/// What is sealed in a cookie packet, for decrypting in place.
#[derive(Debug)]
pub struct CookieParts<'a> {
    /// The sealed cookie.
    pub cookie: &'a mut [u8; COOKIE_BYTES],
    /// Its tag.
    pub tag: &'a [u8; TAG_BYTES],
}

impl<'a> Cookie<&'a mut [u8]> {
    /// The sealed cookie and its tag.
    #[must_use]
    pub fn into_parts(self) -> CookieParts<'a> {
        let (_, sealed) = split_start_mut::<{ CookieHeader::BYTES }>(self.bytes);
        let (cookie, tag) = split_start_mut(sealed);
        let (tag, _) = split_start_mut(tag);
        CookieParts { cookie, tag }
    }
}
