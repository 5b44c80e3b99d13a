//! Coded bytes: what repair packets are computed over, and what every copy of a source packet has in common.

use byway_units::FlowId;

use crate::codes::codes;
use crate::error::ParseError;
use crate::ids::Epoch;
use crate::limits::TAG_BYTES;
use crate::plaintext::Plaintext;
use crate::traffic_class::TrafficClass;

codes! {
    /// Which part of the application's datagram a source packet holds.
    pub enum Piece {
        /// All of it.
        Whole = 0,
        /// The first of two pieces, the larger one.
        First = 1,
        /// The second of two pieces, under the next sequence number.
        Second = 2,
        /// A piece of a datagram that was sent whole before and is taken for lost: a [`Resent`](crate::Resent).
        Again = 3,
    }
}

/// The flags of a source packet: two bits of the epoch, the piece, and a bit for the DSCP.
///
/// Bits without a meaning are kept: they are part of what is authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flags(u8);

/// The flag of a packet whose plaintext holds a DSCP.
pub(crate) const HAS_DSCP: u8 = 1 << 6;

impl Flags {
    /// The flags of a packet sealed in `epoch`, without a DSCP.
    #[inline]
    #[must_use]
    pub const fn new(epoch: Epoch, piece: Piece) -> Self {
        Self(epoch.low_bits() | (piece as u8) << 2)
    }

    /// The same for a packet of this traffic class: the flag is set if its DSCP takes a byte of the plaintext.
    #[inline]
    #[must_use]
    pub const fn with_dscp_of(self, traffic_class: TrafficClass) -> Self {
        if traffic_class.dscp_bytes() > 0 { Self(self.0 | HAS_DSCP) } else { self }
    }

    /// True if a DSCP stands in front of the datagram.
    #[inline]
    #[must_use]
    pub const fn has_dscp(self) -> bool {
        self.0 & HAS_DSCP != 0
    }

    /// The flags in this byte.
    #[inline]
    #[must_use]
    pub const fn from_wire(byte: u8) -> Self {
        Self(byte)
    }

    /// The byte on the wire.
    #[inline]
    #[must_use]
    pub const fn to_wire(self) -> u8 {
        self.0
    }

    /// The [low bits](Epoch::low_bits) of the epoch's number: 0 to 3.
    #[inline]
    #[must_use]
    pub const fn epoch_low_bits(self) -> u8 {
        self.0 & 0b11
    }

    /// Which part of the datagram the packet holds.
    #[inline]
    #[must_use]
    pub const fn piece(self) -> Piece {
        match self.0 >> 2 & 0b11 {
            0 => Piece::Whole,
            1 => Piece::First,
            2 => Piece::Second,
            _ => Piece::Again,
        }
    }
}

/// A source packet without what flow and sequence number say: `flags ‖ ciphertext ‖ tag`.
///
/// Whether it came directly, in an envelope or out of a repair, it is opened the same way.
#[derive(Clone, Copy, Debug)]
pub struct CodedBytes<B> {
    flags: Flags,
    bytes: B,
}

/// Bytes of the flags.
pub(crate) const FLAGS_BYTES: usize = 1;

/// Coded bytes beyond the application's datagram: flags, `sent`, marks and tag. None are shorter.
pub const CODED_OVERHEAD: usize = FLAGS_BYTES + Plaintext::HEAD_BYTES + TAG_BYTES;

impl<B: AsRef<[u8]>> CodedBytes<B> {
    /// Checks length and flags.
    ///
    /// # Errors
    /// If there are fewer than [`CODED_OVERHEAD`] bytes.
    #[inline]
    pub fn parse(bytes: B) -> Result<Self, ParseError> {
        const THING: &str = "coded bytes";
        let (left, needed) = (bytes.as_ref().len(), CODED_OVERHEAD);
        if left < needed {
            return Err(ParseError::TooShort { thing: THING, field: "all", needed, left });
        }
        let flags = Flags::from_wire(bytes.as_ref()[0]);
        Ok(Self { flags, bytes })
    }

    /// Coded bytes that have been checked as part of a packet.
    #[inline]
    pub(crate) const fn checked(flags: Flags, bytes: B) -> Self {
        Self { flags, bytes }
    }

    /// The flags.
    #[inline]
    #[must_use]
    pub const fn flags(&self) -> Flags {
        self.flags
    }

    /// All of them, for good.
    #[inline]
    #[must_use]
    pub fn into_bytes(self) -> B {
        self.bytes
    }

    /// All of them, for the coder and for envelopes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

impl<'a> CodedBytes<&'a mut [u8]> {
    /// Ciphertext and tag, for opening in place.
    #[inline]
    #[must_use]
    pub fn into_sealed(self) -> Sealed<'a> {
        Sealed::checked(&mut self.bytes[FLAGS_BYTES..])
    }
}

/// The associated data of a source packet: `flow ‖ sequence number (low 32 bits) ‖ flags`.
#[inline]
#[must_use]
pub const fn associated_data(flow: FlowId, sequence_low: u32, flags: Flags) -> [u8; 7] {
    let ([f0, f1], [s0, s1, s2, s3]) = (flow.number().to_be_bytes(), sequence_low.to_be_bytes());
    [f0, f1, s0, s1, s2, s3, flags.0]
}

/// Ciphertext and the tag behind it.
#[derive(Debug)]
pub struct Sealed<'a> {
    bytes: &'a mut [u8],
}

impl<'a> Sealed<'a> {
    /// `bytes` have room for a tag.
    #[inline]
    pub(crate) fn checked(bytes: &'a mut [u8]) -> Self {
        debug_assert!(bytes.len() >= TAG_BYTES);
        Self { bytes }
    }

    /// Ciphertext and tag.
    #[inline]
    #[must_use]
    pub fn split(self) -> (&'a mut [u8], &'a [u8; TAG_BYTES]) {
        let (ciphertext, tag) = self.split_mut();
        (ciphertext, tag)
    }

    /// Plaintext, and where the tag is written.
    #[inline]
    pub(crate) fn split_mut(self) -> (&'a mut [u8], &'a mut [u8; TAG_BYTES]) {
        self.bytes.split_last_chunk_mut().expect("sealed bytes end in a tag")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ecn::Ecn;

    #[test]
    fn flags_say_epoch_and_piece() {
        for (piece, byte) in
            [(Piece::Whole, 0b0010), (Piece::First, 0b0110), (Piece::Second, 0b1010), (Piece::Again, 0b1110)]
        {
            let flags = Flags::new(Epoch::new(254), piece);
            assert_eq!((flags.to_wire(), flags.epoch_low_bits(), flags.piece()), (byte, 2, piece));
            assert_eq!(Flags::from_wire(byte), flags);
        }
    }

    #[test]
    fn flags_say_if_there_is_a_dscp() {
        for (dscp, byte) in [(0, 0b0000_0101), (1, 0b0100_0101), (46, 0b0100_0101), (63, 0b0100_0101)] {
            let traffic_class = TrafficClass::new(dscp, Ecn::CongestionExperienced);
            let flags = Flags::new(Epoch::new(1), Piece::First).with_dscp_of(traffic_class);
            assert_eq!((flags.to_wire(), flags.has_dscp()), (byte, dscp > 0), "{dscp}");
            assert_eq!((flags.piece(), flags.epoch_low_bits()), (Piece::First, 1));
        }
    }

    #[test]
    fn bits_without_a_meaning_are_kept() {
        assert_eq!(Flags::from_wire(0b1111_0001).to_wire(), 0b1111_0001);
    }
}
