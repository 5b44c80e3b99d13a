//! What is inside a source packet.

use crate::error::ParseError;
use crate::quantities::Timestamp;
use crate::reader::Reader;

/// The ECN field of the application's packet (RFC 3168 section 5, RFC 9331).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// Not-ECT: its transport does not understand marks.
    #[default]
    NotCapable,
    /// ECT(1): it does, and keeps queues short.
    Capable1,
    /// ECT(0): it does.
    Capable0,
    /// CE: congestion was experienced.
    CongestionExperienced,
}

impl Ecn {
    /// The field in the two lowest bits; the others do not count.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 0b11 {
            0 => Self::NotCapable,
            1 => Self::Capable1,
            2 => Self::Capable0,
            _ => Self::CongestionExperienced,
        }
    }

    /// The two bits.
    #[inline]
    #[must_use]
    pub const fn bits(self) -> u8 {
        self as u8
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
        let ecn = Ecn::from_bits(reader.u8("marks")?);
        Ok(Self { sent, ecn, datagram: reader.rest() })
    }

    /// The bytes that belong in front of the datagram.
    #[inline]
    #[must_use]
    pub const fn head(&self) -> [u8; HEAD_BYTES] {
        let [s0, s1, s2, s3] = self.sent.micros().to_be_bytes();
        [s0, s1, s2, s3, self.ecn.bits()]
    }
}
