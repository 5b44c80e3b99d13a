//! Packet kinds, and the dispatch of datagrams by kind.
//!
//! Each kind has a view, which checks a datagram once and gives access to its parts, and a header.
//! A header can only have legal values, and serves for reading and writing.

mod cookie;
mod envelope;
mod initiation;
mod message;
mod response;
mod source;
mod transit;

pub use cookie::{COOKIE_PACKET_BYTES, CookieHeader, CookiePacket};
pub use envelope::{ENVELOPE_OVERHEAD, Envelope, EnvelopeHeader, EnvelopeRole};
pub use initiation::{
    INITIATION_BYTES_MIN, INITIATION_OVERHEAD, InitiationHeader, InitiationPacket, Purpose, Suite,
};
pub use message::{MESSAGE_OVERHEAD, MessageHeader, MessagePacket};
pub use response::{RESPONSE_BYTES_MIN, RESPONSE_OVERHEAD, ResponseHeader, ResponsePacket};
pub use source::{SOURCE_OVERHEAD, SourceHeader, SourcePacket};
pub use transit::TransitPacket;

use crate::codes::{Code, codes};
use crate::error::ParseError;
use crate::ids::SessionIndex;
use crate::limits::DATAGRAM_BYTES_MAX;

codes! {
    /// Kind of a packet: its first byte.
    pub enum Kind {
        /// First packet of a handshake, from the initiator.
        Initiation = 4,
        /// Answer to an initiation, which completes a handshake.
        Response = 5,
        /// Answer of a responder that requires proof of the address.
        Cookie = 6,
        /// Packet with application data, on the direct path.
        Source = 7,
        /// Packet with sealed messages.
        Message = 8,
        /// Packet with the coded bytes of a source packet, sent through relays.
        Envelope = 9,
        /// Message packet of a session between two relays that a third relay passes on.
        TransitMessage = 10,
        /// Envelope of a session between two relays that a third relay passes on.
        TransitEnvelope = 11,
    }
}

impl Kind {
    /// First byte of grease packets. They have no meaning and 8 to 32 random bytes. Peers send them
    /// because an implementation must tolerate unknown kinds.
    pub const GREASE: u8 = 15;

    /// Returns the kind with this first byte.
    #[inline]
    #[must_use]
    pub fn from_first_byte(byte: u8) -> Option<Self> {
        Self::from_code(byte)
    }

    /// Returns the first byte of packets of this kind.
    #[inline]
    #[must_use]
    pub const fn first_byte(self) -> u8 {
        self as u8
    }
}

/// A datagram with a valid kind, length and unprotected fields. Its authenticity is not checked
/// yet.
#[derive(Debug)]
pub enum Packet<'a> {
    /// First packet of a handshake, from the initiator.
    Initiation(InitiationPacket<&'a [u8]>),
    /// Answer to an initiation, which completes a handshake.
    Response(ResponsePacket<&'a [u8]>),
    /// Answer of a responder that requires proof of the address.
    Cookie(CookiePacket<&'a [u8]>),
    /// Packet with application data, on the direct path.
    Source(SourcePacket<&'a mut [u8]>),
    /// Packet with sealed messages.
    Message(MessagePacket<&'a mut [u8]>),
    /// Packet with the coded bytes of a source packet, sent through relays.
    Envelope(Envelope<&'a mut [u8]>),
    /// Message packet or envelope between two relays that a third relay passes on.
    Transit(TransitPacket<&'a mut [u8]>),
}

impl<'a> Packet<'a> {
    /// Parses a datagram without copying it. Sealed packets can be opened in place.
    ///
    /// # Errors
    /// If its kind is unknown, its length impossible, or a field of its header illegal.
    #[inline]
    pub fn parse(datagram: &'a mut [u8]) -> Result<Self, ParseError> {
        if datagram.len() > DATAGRAM_BYTES_MAX {
            return Err(too_long("datagram", datagram, DATAGRAM_BYTES_MAX));
        }
        let Some(&first_byte) = datagram.first() else {
            return Err(too_short("datagram", "kind", 1, datagram));
        };
        match Kind::from_first_byte(first_byte) {
            Some(Kind::Initiation) => InitiationPacket::parse(&*datagram).map(Self::Initiation),
            Some(Kind::Response) => ResponsePacket::parse(&*datagram).map(Self::Response),
            Some(Kind::Cookie) => CookiePacket::parse(&*datagram).map(Self::Cookie),
            Some(Kind::Source) => SourcePacket::parse(datagram).map(Self::Source),
            Some(Kind::Message) => MessagePacket::parse(datagram).map(Self::Message),
            Some(Kind::Envelope) => Envelope::parse(datagram).map(Self::Envelope),
            Some(Kind::TransitMessage | Kind::TransitEnvelope) => {
                TransitPacket::parse(datagram).map(Self::Transit)
            }
            None => Err(ParseError::UnknownKind { kind: first_byte }),
        }
    }

    /// Reads the receiver's index from the beginning of a sealed packet, as routers quote it in
    /// ICMP errors. `None` for other packets, or if the index is cut off.
    #[must_use]
    pub fn receiver_in(quoted: &[u8]) -> Option<SessionIndex> {
        let start = match Kind::from_first_byte(*quoted.first()?)? {
            Kind::Source | Kind::Message | Kind::TransitMessage => 1,
            Kind::Envelope | Kind::TransitEnvelope => 2,
            Kind::Initiation | Kind::Response | Kind::Cookie => return None,
        };
        let index = quoted.get(start..)?.first_chunk()?;
        Some(SessionIndex::new(u32::from_be_bytes(*index)))
    }

    /// Returns the kind of the packet.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Initiation(_) => Kind::Initiation,
            Self::Response(_) => Kind::Response,
            Self::Cookie(_) => Kind::Cookie,
            Self::Source(_) => Kind::Source,
            Self::Message(_) => Kind::Message,
            Self::Envelope(_) => Kind::Envelope,
            Self::Transit(packet) => packet.kind(),
        }
    }
}

/// Returns the header of a packet, after a check of its kind and of its least length.
#[inline]
fn checked_header<'a, const N: usize>(
    thing: &'static str,
    kind: Kind,
    bytes_min: usize,
    bytes: &'a [u8],
) -> Result<&'a [u8; N], ParseError> {
    match bytes.first_chunk() {
        Some(header) if bytes.len() >= bytes_min => {
            if bytes[0] == kind.first_byte() {
                Ok(header)
            } else {
                Err(foreign(thing, kind, bytes[0]))
            }
        }
        _ => Err(too_short(thing, "all", bytes_min.max(N), bytes)),
    }
}

#[cold]
fn foreign(thing: &'static str, kind: Kind, first_byte: u8) -> ParseError {
    let allowed = match kind {
        Kind::Initiation => "4",
        Kind::Response => "5",
        Kind::Cookie => "6",
        Kind::Source => "7",
        Kind::Message => "8",
        Kind::Envelope => "9",
        Kind::TransitMessage => "10",
        Kind::TransitEnvelope => "11",
    };
    ParseError::Illegal { thing, field: "kind", found: first_byte.into(), allowed }
}

#[cold]
fn too_short(thing: &'static str, field: &'static str, needed: usize, bytes: &[u8]) -> ParseError {
    ParseError::TooShort { thing, field, needed, left: bytes.len() }
}

#[cold]
fn too_long(thing: &'static str, bytes: &[u8], allowed: usize) -> ParseError {
    ParseError::TooLong { thing, bytes: bytes.len(), allowed }
}

#[cold]
fn illegal(
    thing: &'static str,
    field: &'static str,
    found: impl Into<u64>,
    allowed: &'static str,
) -> ParseError {
    ParseError::Illegal { thing, field, found: found.into(), allowed }
}

/// Returns `N` bytes from `start`, in a packet whose length has been checked.
#[inline]
fn part<const N: usize>(bytes: &[u8], start: usize) -> &[u8; N] {
    bytes[start..].first_chunk().expect("the length of the packet has been checked")
}

/// Returns `N` bytes from `start` for writing, in a packet whose length has been checked.
fn part_mut<const N: usize>(bytes: &mut [u8], start: usize) -> &mut [u8; N] {
    bytes[start..].first_chunk_mut().expect("the length of the packet has been checked")
}

/// Splits a packet, whose length has been checked, into its last `N` bytes and the bytes before
/// them.
#[inline]
fn split_end<const N: usize>(bytes: &[u8]) -> (&[u8], &[u8; N]) {
    bytes.split_last_chunk().expect("the length of the packet has been checked")
}
