//! Envelopes: source packets on their way through relays.

use super::{Kind, checked_header, illegal, split_end};
use crate::coded::CODED_OVERHEAD;
use crate::codes::{Code, codes};
use crate::error::ParseError;
use crate::ids::{Alias, SessionIndex};
use crate::limits::TAG_BYTES;

codes! {
    /// What an envelope is for; it follows from the direction, and tells the receiver what it costs.
    pub enum EnvelopeRole {
        /// Sender to ingress relay: code, cache or forward this, as the flow is registered.
        Copy = 0,
        /// Sender to ingress relay: the same, in answer to a copy NACK.
        ResentCopy = 1,
        /// Relay to relay: a copy on its way to the egress relay's cache, or to receivers.
        Carried = 2,
        /// Relay to receiver: delivery over the overlay, not asked for.
        Forwarded = 3,
        /// Relay to receiver: answer to a NACK, from the cache.
        CachedRepair = 4,
        /// Relay to receiver: answer to a NACK, decoded with others' help.
        CooperativeRepair = 5,
        /// Receiver to egress relay: a packet of the receiver's own flow, for somebody else's repair.
        CooperativeAnswer = 6,
    }
}

/// The header of an envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnvelopeHeader {
    /// What the envelope is for.
    pub role: EnvelopeRole,
    /// The receiver's index of the session.
    pub receiver: SessionIndex,
    /// The low 32 bits of the counter, which envelopes share with message packets.
    pub counter_low: u32,
    /// What stands for the flow on this hop.
    pub alias: Alias,
    /// The low 32 bits of the sequence number.
    pub sequence_low: u32,
}

impl EnvelopeHeader {
    /// Bytes of the header; the coded bytes follow.
    pub const BYTES: usize = 16;

    /// Writes the header.
    #[inline]
    pub const fn emit(&self, header: &mut [u8; Self::BYTES]) {
        let [i0, i1, i2, i3] = self.receiver.number().to_be_bytes();
        let [c0, c1, c2, c3] = self.counter_low.to_be_bytes();
        let [a0, a1] = self.alias.number().to_be_bytes();
        let [s0, s1, s2, s3] = self.sequence_low.to_be_bytes();
        let (kind, role) = (Kind::Envelope.first_byte(), self.role as u8);
        *header = [kind, role, i0, i1, i2, i3, c0, c1, c2, c3, a0, a1, s0, s1, s2, s3];
    }
}

/// A checked envelope. The coded bytes are not looked at: only who can open them has to understand them.
#[derive(Clone, Copy, Debug)]
pub struct Envelope<B> {
    header: EnvelopeHeader,
    bytes: B,
}

/// Bytes of an envelope beyond its coded bytes.
pub const ENVELOPE_OVERHEAD: usize = EnvelopeHeader::BYTES + TAG_BYTES;

impl<B: AsRef<[u8]>> Envelope<B> {
    /// Checks length and header.
    ///
    /// # Errors
    /// If the packet is of another kind, too short for coded bytes, or its role or alias is illegal.
    #[inline]
    pub fn parse(bytes: B) -> Result<Self, ParseError> {
        const THING: &str = "envelope";
        const BYTES_MIN: usize = ENVELOPE_OVERHEAD + CODED_OVERHEAD;
        let header = checked_header(THING, Kind::Envelope, BYTES_MIN, bytes.as_ref())?;
        let [_, role, i0, i1, i2, i3, c0, c1, c2, c3, a0, a1, s0, s1, s2, s3] = *header;
        let allowed = EnvelopeRole::ALLOWED;
        let header = EnvelopeHeader {
            role: EnvelopeRole::from_code(role).ok_or_else(|| illegal(THING, "role", role, allowed))?,
            receiver: SessionIndex::new(u32::from_be_bytes([i0, i1, i2, i3])),
            counter_low: u32::from_be_bytes([c0, c1, c2, c3]),
            alias: Alias::new(u16::from_be_bytes([a0, a1]))
                .ok_or_else(|| illegal(THING, "alias", 0_u8, "1 to 65535"))?,
            sequence_low: u32::from_be_bytes([s0, s1, s2, s3]),
        };
        Ok(Self { header, bytes })
    }

    /// The header.
    #[inline]
    #[must_use]
    pub const fn header(&self) -> &EnvelopeHeader {
        &self.header
    }

    /// The coded bytes.
    #[inline]
    #[must_use]
    pub fn coded(&self) -> &[u8] {
        let (authenticated, _) = self.authenticated();
        &authenticated[EnvelopeHeader::BYTES..]
    }

    /// What the hop tag authenticates, which is everything before it, and the tag.
    #[inline]
    #[must_use]
    pub fn authenticated(&self) -> (&[u8], &[u8; TAG_BYTES]) {
        split_end(self.bytes.as_ref())
    }
}

impl<'a> Envelope<&'a mut [u8]> {
    /// The whole packet.
    #[inline]
    #[must_use]
    pub const fn into_bytes(self) -> &'a mut [u8] {
        self.bytes
    }

    /// The coded bytes, for opening in place once the tag has been found right.
    #[inline]
    #[must_use]
    pub fn into_coded(self) -> &'a mut [u8] {
        let end = self.bytes.len() - TAG_BYTES;
        &mut self.bytes[EnvelopeHeader::BYTES..end]
    }
}
