//! Envelopes: source packets sent through relays.

use super::{Kind, checked_header, illegal, split_end};
use crate::coded::CODED_OVERHEAD;
use crate::codes::{Code, codes};
use crate::error::ParseError;
use crate::ids::{Alias, SessionIndex};
use crate::limits::TAG_BYTES;

codes! {
    /// Role of an envelope, in its header: who sends it to whom, and why. It tells the receiver how
    /// to handle the coded bytes, and which counter to use.
    pub enum EnvelopeRole {
        /// Sender to ingress relay: a copy to code, cache or forward, as the flow is registered.
        Copy = 0,
        /// Sender to ingress relay: a copy in answer to a copy NACK or a source NACK.
        ResentCopy = 1,
        /// Relay to relay: a copy for the egress relay's cache, or for receivers.
        RelayedCopy = 2,
        /// Relay to receiver: delivery over the overlay, without a NACK.
        Forwarded = 3,
        /// Relay to receiver: answer to a NACK, from the cache.
        CachedRepair = 4,
        /// Relay to receiver: answer to a NACK, decoded with packets from other receivers.
        CooperativeRepair = 5,
        /// Receiver to egress relay: a packet of the receiver's own flow, for the repair of another
        /// flow.
        CooperativeAnswer = 6,
        /// Relay to receiver: a packet of a flow with retransmission, which its sender sent again.
        ResentRepair = 8,
        /// Relay to relay: a copy that the sender of a flow with retransmission sent again, for
        /// receivers.
        RelayedResend = 9,
    }
}

/// Header of an envelope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EnvelopeHeader {
    /// Role of the envelope.
    pub role: EnvelopeRole,
    /// Session index that the receiver of the packet has chosen.
    pub receiver: SessionIndex,
    /// Low 32 bits of the packet's counter; message packets use the same counters.
    pub counter_low: u32,
    /// Alias of the flow on this hop.
    pub alias: Alias,
    /// Low 32 bits of the source packet's sequence number.
    pub sequence_low: u32,
}

impl EnvelopeHeader {
    /// Length of the header, in bytes; the coded bytes follow.
    pub const BYTES: usize = 16;

    /// Encodes the header of an envelope into `header`.
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

/// Envelope whose length and header have been checked. The coded bytes are not checked, because
/// only the receiver's agent can open them.
#[derive(Clone, Copy, Debug)]
pub struct Envelope<B> {
    header: EnvelopeHeader,
    bytes: B,
}

/// Number of bytes of an envelope besides its coded bytes: header and tag.
pub const ENVELOPE_OVERHEAD: usize = EnvelopeHeader::BYTES + TAG_BYTES;

impl<B: AsRef<[u8]>> Envelope<B> {
    /// Checks the length and header of an envelope.
    ///
    /// # Errors
    /// If the packet is of another kind, too short for coded bytes, or its role or alias is
    /// illegal.
    #[inline]
    pub fn parse(bytes: B) -> Result<Self, ParseError> {
        Self::parse_kind(Kind::Envelope, bytes)
    }

    /// Checks the length and header of an envelope that arrived through a third relay.
    ///
    /// # Errors
    /// If the packet is of another kind, too short for coded bytes, or its role or alias is
    /// illegal.
    pub fn parse_transit(bytes: B) -> Result<Self, ParseError> {
        Self::parse_kind(Kind::TransitEnvelope, bytes)
    }

    #[inline]
    fn parse_kind(kind: Kind, bytes: B) -> Result<Self, ParseError> {
        const THING: &str = "envelope";
        const BYTES_MIN: usize = ENVELOPE_OVERHEAD + CODED_OVERHEAD;
        let header = checked_header(THING, kind, BYTES_MIN, bytes.as_ref())?;
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

    /// Returns the header of the envelope.
    #[inline]
    #[must_use]
    pub const fn header(&self) -> &EnvelopeHeader {
        &self.header
    }

    /// Returns the coded bytes of the source packet.
    #[inline]
    #[must_use]
    pub fn coded(&self) -> &[u8] {
        let (authenticated, _) = self.authenticated();
        &authenticated[EnvelopeHeader::BYTES..]
    }

    /// Returns the bytes that the hop tag authenticates, and the tag, which follows them.
    #[inline]
    #[must_use]
    pub fn authenticated(&self) -> (&[u8], &[u8; TAG_BYTES]) {
        split_end(self.bytes.as_ref())
    }
}

impl<'a> Envelope<&'a mut [u8]> {
    /// Returns the whole packet as bytes.
    #[inline]
    #[must_use]
    pub const fn into_bytes(self) -> &'a mut [u8] {
        self.bytes
    }

    /// Returns the coded bytes, to be opened in place after the tag has been verified.
    #[inline]
    #[must_use]
    pub fn into_coded(self) -> &'a mut [u8] {
        let end = self.bytes.len() - TAG_BYTES;
        &mut self.bytes[EnvelopeHeader::BYTES..end]
    }
}
