//! What is inside a source packet.

use crate::coded::Flags;
use crate::ecn::Ecn;
use crate::error::ParseError;
use crate::quantities::Timestamp;
use crate::reader::Reader;
use crate::traffic_class::TrafficClass;

/// Which of the packets before one its sender copied to no relay, so that nobody can repair them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uncopied(u8);

impl Uncopied {
    /// None of them, as far as is said.
    pub const NONE: Self = Self(0);

    /// How many packets back it says so: as many bits as the marks have left.
    pub const REACH: u8 = 6;

    /// Bit i: the packet i + 1 before; higher bits than [`Uncopied::REACH`] of them do not count.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & ((1 << Self::REACH) - 1))
    }

    /// See [`Uncopied::from_bits`].
    #[inline]
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// What the packet after the next one says, when the next one is copied or not.
    #[inline]
    #[must_use]
    pub const fn then(self, is_copied: bool) -> Self {
        Self::from_bits(self.0 << 1 | !is_copied as u8)
    }

    /// Returns the same without the packet so many before, which was copied after all.
    #[must_use]
    pub const fn except(self, before: u64) -> Self {
        match before {
            1..=6 => Self(self.0 & !(1 << (before - 1))),
            _ => self,
        }
    }
}

const HEAD_BYTES: usize = 5;

/// The plaintext of a source packet: a datagram or a piece of one, and what its sender says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plaintext<'a> {
    /// When the packet was sent, by the sender's clock.
    pub sent: Timestamp,
    /// The traffic class to deliver the datagram with.
    pub traffic_class: TrafficClass,
    /// Which packets before this one cannot be repaired.
    pub uncopied: Uncopied,
    /// The application's datagram, or one of its two pieces.
    pub datagram: &'a [u8],
}

impl<'a> Plaintext<'a> {
    /// Bytes in front of the datagram, beside [the DSCP's](TrafficClass::dscp_bytes).
    pub const HEAD_BYTES: usize = HEAD_BYTES;

    /// Reads an opened plaintext of a packet with these flags.
    ///
    /// # Errors
    /// If it is cut off, or if the DSCP is illegal: 0, which takes no byte, or above 63.
    #[inline]
    pub fn parse(bytes: &'a [u8], flags: Flags) -> Result<Self, ParseError> {
        let mut reader = Reader::new("plaintext of a source packet", bytes);
        let sent = Timestamp::new(reader.u32("sent")?);
        let marks = reader.u8("marks")?;
        let (ecn, uncopied) = (Ecn::from_bits(marks), Uncopied::from_bits(marks >> 2));
        let mut traffic_class = TrafficClass::from(ecn);
        if flags.has_dscp() {
            traffic_class = TrafficClass::new(parse_dscp(&mut reader)?, ecn);
        }
        Ok(Self { sent, traffic_class, uncopied, datagram: reader.rest() })
    }

    /// The bytes that belong in front of the DSCP, if there is one, and the datagram.
    #[inline]
    #[must_use]
    pub const fn head(&self) -> [u8; HEAD_BYTES] {
        let [s0, s1, s2, s3] = self.sent.micros().to_be_bytes();
        [s0, s1, s2, s3, self.uncopied.bits() << 2 | self.traffic_class.ecn().bits()]
    }

    /// The DSCP that stands between head and datagram; `None` for 0.
    #[inline]
    #[must_use]
    pub fn dscp(&self) -> Option<u8> {
        Some(self.traffic_class.dscp()).filter(|dscp| *dscp > 0)
    }
}

/// Reads the DSCP of a packet that has one.
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
    use crate::{Epoch, Piece};

    const FLAGS: Flags = Flags::new(Epoch::new(1), Piece::Whole);

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
        let uncopied = Uncopied::NONE.then(false).then(true).then(false);
        assert_eq!(uncopied.bits(), 0b101);
        let without = |before| uncopied.except(before).bits();
        assert_eq!([without(0), without(1), without(2), without(3)], [0b101, 0b100, 0b101, 0b001]);
        assert_eq!((without(7), without(u64::MAX)), (0b101, 0b101));
    }
}
