//! Plaintext of a source packet.

use crate::coded::Flags;
use crate::ecn::Ecn;
use crate::error::ParseError;
use crate::quantities::Timestamp;
use crate::reader::Reader;
use crate::traffic_class::TrafficClass;

/// Set of packets before a source packet that their sender did not copy to any relay: they cannot
/// be repaired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnprotectedMask(u8);

impl UnprotectedMask {
    /// The empty set: no preceding packet is marked as unprotected.
    pub const NONE: Self = Self(0);

    /// Number of preceding packets that the set can contain: the free bits of the marks.
    pub const REACH: u8 = 6;

    /// Returns the set with these bits: bit i is the packet i + 1 before. Bits from
    /// [`UnprotectedMask::REACH`] on are ignored.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & ((1 << Self::REACH) - 1))
    }

    /// Returns the bits of the set: bit i is the packet i + 1 before.
    #[inline]
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Returns the set for the next packet of the flow. The current packet becomes the nearest
    /// preceding one; `is_copied` is true if it was copied.
    #[inline]
    #[must_use]
    pub const fn then(self, is_copied: bool) -> Self {
        Self::from_bits(self.0 << 1 | !is_copied as u8)
    }

    /// Returns the set without the packet at distance `before`, because the sender has copied it
    /// later.
    #[must_use]
    pub const fn except(self, before: u64) -> Self {
        match before {
            1..=6 => Self(self.0 & !(1 << (before - 1))),
            _ => self,
        }
    }
}

const HEAD_BYTES: usize = 5;

/// Plaintext of a source packet: a datagram or fragment, and the sender's metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plaintext<'a> {
    /// Time at which the packet was sent, by the sender's clock.
    pub sent: Timestamp,
    /// Traffic class of the datagram for its delivery.
    pub traffic_class: TrafficClass,
    /// Set of the preceding packets that cannot be repaired.
    pub unprotected: UnprotectedMask,
    /// The application's datagram, or one of its two fragments.
    pub datagram: &'a [u8],
}

impl<'a> Plaintext<'a> {
    /// Length of the fields before the datagram, in bytes, without [the
    /// DSCP's](TrafficClass::dscp_bytes).
    pub const HEAD_BYTES: usize = HEAD_BYTES;

    /// Reads a decrypted plaintext of a packet with these flags.
    ///
    /// # Errors
    /// If it is cut off, or if the DSCP is illegal: 0, which takes no byte, or above 63.
    #[inline]
    pub fn parse(bytes: &'a [u8], flags: Flags) -> Result<Self, ParseError> {
        let mut reader = Reader::new("plaintext of a source packet", bytes);
        let sent = Timestamp::new(reader.u32("sent")?);
        let marks = reader.u8("marks")?;
        let (ecn, unprotected) = (Ecn::from_bits(marks), UnprotectedMask::from_bits(marks >> 2));
        let mut traffic_class = TrafficClass::from(ecn);
        if flags.has_dscp() {
            traffic_class = TrafficClass::new(parse_dscp(&mut reader)?, ecn);
        }
        Ok(Self { sent, traffic_class, unprotected, datagram: reader.rest() })
    }

    /// Encodes the fields before the DSCP and the datagram.
    #[inline]
    #[must_use]
    pub const fn head(&self) -> [u8; HEAD_BYTES] {
        let [s0, s1, s2, s3] = self.sent.micros().to_be_bytes();
        [s0, s1, s2, s3, self.unprotected.bits() << 2 | self.traffic_class.ecn().bits()]
    }

    /// Returns the DSCP, which precedes the datagram; `None` for 0, which takes no byte.
    #[inline]
    #[must_use]
    pub fn dscp(&self) -> Option<u8> {
        Some(self.traffic_class.dscp()).filter(|dscp| *dscp > 0)
    }
}

/// Reads the DSCP of a packet whose flags announce one.
#[cold]
fn parse_dscp(reader: &mut Reader<'_>) -> Result<u8, ParseError> {
    match reader.u8("DSCP")? {
        dscp @ 1..=63 => Ok(dscp),
        other => Err(reader.illegal("DSCP", other, "1 to 63")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Epoch, Fragment};

    const FLAGS: Flags = Flags::new(Epoch::new(1), Fragment::Whole);

    fn with_dscp(byte: u8) -> Result<u8, ParseError> {
        let flags = FLAGS.with_dscp_of(TrafficClass::new(1, Ecn::NotCapable));
        let bytes = [1, 2, 3, 4, 0b10, byte, b'x'];
        Plaintext::parse(&bytes, flags).map(|plaintext| {
            assert_eq!((plaintext.traffic_class.ecn(), plaintext.datagram), (Ecn::Capable0, &b"x"[..]));
            plaintext.traffic_class.dscp()
        })
    }

    #[test]
    fn a_dscp_has_six_bits_and_is_not_zero() {
        for dscp in 1..64 {
            assert_eq!(with_dscp(dscp), Ok(dscp));
        }
        for byte in [0, 64, 128, 255] {
            let thing = "plaintext of a source packet";
            let illegal =
                ParseError::Illegal { thing, field: "DSCP", found: byte.into(), allowed: "1 to 63" };
            assert_eq!(with_dscp(byte), Err(illegal));
        }
    }

    #[test]
    fn a_dscp_stands_where_the_flags_say_so_alone() {
        let bytes = [0, 0, 0, 0, 0, 46];
        let parsed = Plaintext::parse(&bytes, FLAGS).expect("it is whole");
        assert_eq!((parsed.traffic_class, parsed.datagram), (TrafficClass::DEFAULT, &[46][..]));
        assert_eq!(parsed.dscp(), None);
        let flags = FLAGS.with_dscp_of(TrafficClass::from_bits(46 << 2));
        assert!(Plaintext::parse(&bytes[..5], flags).is_err(), "the DSCP is cut off");
        let parsed = Plaintext::parse(&bytes, flags).expect("it is whole");
        assert_eq!((parsed.dscp(), parsed.datagram), (Some(46), &[][..]));
    }

    #[test]
    fn a_packet_that_is_copied_later_is_taken_out() {
        let unprotected = UnprotectedMask::NONE.then(false).then(true).then(false);
        assert_eq!(unprotected.bits(), 0b101);
        let without = |before| unprotected.except(before).bits();
        assert_eq!([without(0), without(1), without(2), without(3)], [0b101, 0b100, 0b101, 0b001]);
        assert_eq!((without(7), without(u64::MAX)), (0b101, 0b101));
    }
}
