//! What is inside a source packet.

use crate::ecn::Ecn;
use crate::error::ParseError;
use crate::quantities::Timestamp;
use crate::reader::Reader;

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
    /// The ECN field to deliver the datagram with.
    pub ecn: Ecn,
    /// Which packets before this one cannot be repaired.
    pub uncopied: Uncopied,
    /// The application's datagram, or one of its two pieces.
    pub datagram: &'a [u8],
}

impl<'a> Plaintext<'a> {
    /// Bytes in front of the datagram.
    pub const HEAD_BYTES: usize = HEAD_BYTES;

    /// Reads an opened plaintext.
    ///
    /// # Errors
    /// If it is shorter than [`Plaintext::HEAD_BYTES`].
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("plaintext of a source packet", bytes);
        let sent = Timestamp::new(reader.u32("sent")?);
        let marks = reader.u8("marks")?;
        let (ecn, uncopied) = (Ecn::from_bits(marks), Uncopied::from_bits(marks >> 2));
        Ok(Self { sent, ecn, uncopied, datagram: reader.rest() })
    }

    /// The bytes that belong in front of the datagram.
    #[inline]
    #[must_use]
    pub const fn head(&self) -> [u8; HEAD_BYTES] {
        let [s0, s1, s2, s3] = self.sent.micros().to_be_bytes();
        [s0, s1, s2, s3, self.uncopied.bits() << 2 | self.ecn.bits()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_that_is_copied_later_is_taken_out() {
        let uncopied = Uncopied::NONE.then(false).then(true).then(false);
        assert_eq!(uncopied.bits(), 0b101);
        let without = |before| uncopied.except(before).bits();
        assert_eq!([without(0), without(1), without(2), without(3)], [0b101, 0b100, 0b101, 0b001]);
        assert_eq!((without(7), without(u64::MAX)), (0b101, 0b101));
    }
}
