//! Coded bytes: the part that all copies of a source packet share. Repair packets are computed over
//! it.

use byway_units::FlowId;

use crate::codes::codes;
use crate::error::ParseError;
use crate::ids::Epoch;
use crate::limits::TAG_BYTES;
use crate::plaintext::Plaintext;
use crate::traffic_class::TrafficClass;

codes! {
    /// Part of the application's datagram that a source packet contains.
    pub enum Fragment {
        /// The whole datagram.
        Whole = 0,
        /// The first of two fragments, the larger one.
        First = 1,
        /// The second of two fragments, under the next sequence number.
        Second = 2,
        /// A fragment of a datagram that was first sent whole and is presumed lost: a
        /// [`ResentFragment`](crate::ResentFragment).
        Resent = 3,
    }
}

/// Flags of a source packet: two bits of the epoch, two for the fragment, and one for the DSCP.
///
/// Undefined bits are preserved because they are authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flags(u8);

/// Flag of a source packet whose plaintext contains a DSCP.
pub(crate) const HAS_DSCP: u8 = 1 << 6;

impl Flags {
    /// Returns the flags of a packet sealed in `epoch`, without a DSCP.
    #[inline]
    #[must_use]
    pub const fn new(epoch: Epoch, fragment: Fragment) -> Self {
        Self(epoch.low_bits() | (fragment as u8) << 2)
    }

    /// Returns these flags for a packet of this traffic class. The DSCP flag is set if the DSCP
    /// occupies a byte of the plaintext.
    #[inline]
    #[must_use]
    pub const fn with_dscp_of(self, traffic_class: TrafficClass) -> Self {
        if traffic_class.dscp_bytes() > 0 { Self(self.0 | HAS_DSCP) } else { self }
    }

    /// True if the plaintext has a byte for the DSCP, before the datagram.
    #[inline]
    #[must_use]
    pub const fn has_dscp(self) -> bool {
        self.0 & HAS_DSCP != 0
    }

    /// Returns the flags in this byte of a packet.
    #[inline]
    #[must_use]
    pub const fn from_wire(byte: u8) -> Self {
        Self(byte)
    }

    /// Returns the flags as a byte of a packet.
    #[inline]
    #[must_use]
    pub const fn to_wire(self) -> u8 {
        self.0
    }

    /// Returns the [low bits](Epoch::low_bits) of the epoch's number: 0 to 3.
    #[inline]
    #[must_use]
    pub const fn epoch_low_bits(self) -> u8 {
        self.0 & 0b11
    }

    /// Returns the part of the datagram that the packet contains.
    #[inline]
    #[must_use]
    pub const fn fragment(self) -> Fragment {
        match self.0 >> 2 & 0b11 {
            0 => Fragment::Whole,
            1 => Fragment::First,
            2 => Fragment::Second,
            _ => Fragment::Resent,
        }
    }
}

/// A source packet without its flow and sequence number: `flags ‖ ciphertext ‖ tag`.
///
/// The packet is opened in the same manner after direct delivery, in an envelope or from a repair.
#[derive(Clone, Copy, Debug)]
pub struct CodedBytes<B> {
    flags: Flags,
    bytes: B,
}

/// Length of the flags, in bytes.
pub(crate) const FLAGS_BYTES: usize = 1;

/// Number of coded bytes besides the application's datagram: flags, `sent`, marks and tag. This is
/// also the least length.
pub const CODED_OVERHEAD: usize = FLAGS_BYTES + Plaintext::HEAD_BYTES + TAG_BYTES;

impl<B: AsRef<[u8]>> CodedBytes<B> {
    /// Checks the length of coded bytes, and reads their flags.
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

    /// Wraps coded bytes that have been checked as part of a packet.
    #[inline]
    pub(crate) const fn checked(flags: Flags, bytes: B) -> Self {
        Self { flags, bytes }
    }

    /// Returns the flags of the source packet.
    #[inline]
    #[must_use]
    pub const fn flags(&self) -> Flags {
        self.flags
    }

    /// Returns the coded bytes as they were wrapped.
    #[inline]
    #[must_use]
    pub fn into_bytes(self) -> B {
        self.bytes
    }

    /// Returns a reference to the coded bytes, for the coder and for envelopes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.as_ref()
    }
}

impl<'a> CodedBytes<&'a mut [u8]> {
    /// Returns the ciphertext and its tag, for decryption in place.
    #[inline]
    #[must_use]
    pub fn into_sealed(self) -> SealedBytes<'a> {
        SealedBytes::checked(&mut self.bytes[FLAGS_BYTES..])
    }
}

/// Returns the associated data of a source packet: `flow ‖ sequence number (low 32 bits) ‖ flags`.
#[inline]
#[must_use]
pub const fn associated_data(flow: FlowId, sequence_low: u32, flags: Flags) -> [u8; 7] {
    let ([f0, f1], [s0, s1, s2, s3]) = (flow.number().to_be_bytes(), sequence_low.to_be_bytes());
    [f0, f1, s0, s1, s2, s3, flags.0]
}

/// Ciphertext of a packet, followed by its authentication tag.
#[derive(Debug)]
pub struct SealedBytes<'a> {
    bytes: &'a mut [u8],
}

impl<'a> SealedBytes<'a> {
    /// Wraps `bytes`, which the caller has checked to be no shorter than a tag.
    #[inline]
    pub(crate) fn checked(bytes: &'a mut [u8]) -> Self {
        debug_assert!(bytes.len() >= TAG_BYTES);
        Self { bytes }
    }

    /// Splits the bytes into ciphertext and tag, for opening.
    #[inline]
    #[must_use]
    pub fn split(self) -> (&'a mut [u8], &'a [u8; TAG_BYTES]) {
        let (ciphertext, tag) = self.split_mut();
        (ciphertext, tag)
    }

    /// Splits the bytes into plaintext and space for the tag, for sealing.
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
    fn flags_say_epoch_and_fragment() {
        for (fragment, byte) in [
            (Fragment::Whole, 0b0010),
            (Fragment::First, 0b0110),
            (Fragment::Second, 0b1010),
            (Fragment::Resent, 0b1110),
        ] {
            let flags = Flags::new(Epoch::new(254), fragment);
            assert_eq!((flags.to_wire(), flags.epoch_low_bits(), flags.fragment()), (byte, 2, fragment));
            assert_eq!(Flags::from_wire(byte), flags);
        }
    }

    #[test]
    fn flags_say_if_there_is_a_dscp() {
        for (dscp, byte) in [(0, 0b0000_0101), (1, 0b0100_0101), (46, 0b0100_0101), (63, 0b0100_0101)] {
            let traffic_class = TrafficClass::new(dscp, Ecn::CongestionExperienced);
            let flags = Flags::new(Epoch::new(1), Fragment::First).with_dscp_of(traffic_class);
            assert_eq!((flags.to_wire(), flags.has_dscp()), (byte, dscp > 0), "{dscp}");
            assert_eq!((flags.fragment(), flags.epoch_low_bits()), (Fragment::First, 1));
        }
    }

    #[test]
    fn bits_without_a_meaning_are_kept() {
        assert_eq!(Flags::from_wire(0b1111_0001).to_wire(), 0b1111_0001);
    }
}
