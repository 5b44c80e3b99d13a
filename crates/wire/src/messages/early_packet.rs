//! Early packet: a packet of a flow that its receiver has not accepted yet.

use byway_units::FlowId;

use crate::SequenceNumber;
use crate::coded::{Flags, HAS_DSCP, Piece};
use crate::codes::Code;
use crate::error::{Full, ParseError};
use crate::ids::Epoch;
use crate::plaintext::Plaintext;
use crate::quantities::Microseconds;
use crate::reader::Reader;
use crate::writer::Writer;

/// A packet that travels with its flow's offer, before the answer to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarlyPacket<'a> {
    /// The number of the offered flow.
    pub flow: FlowId,
    /// The sequence number that the packet has in the flow, also if it is sent again as a source packet.
    pub sequence: SequenceNumber,
    /// The part of the datagram.
    pub piece: Piece,
    /// The time from the application's sending to this packet's sending.
    pub waited: Microseconds,
    /// The plaintext, as in a source packet.
    pub plaintext: Plaintext<'a>,
}

impl<'a> EarlyPacket<'a> {
    /// The message's type.
    pub const TYPE: u8 = 9;

    /// Bytes in front of the datagram, beside the DSCP's: the message's header, and the fields before the datagram.
    pub const OVERHEAD: usize = crate::writer::MESSAGE_HEADER_BYTES + 2 + 8 + 1 + 4 + Plaintext::HEAD_BYTES;

    /// Reads the body.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("early packet", body);
        let flow = FlowId::new(reader.u16("flow")?);
        let sequence = SequenceNumber::new(reader.u64("sequence number")?);
        let byte = reader.u8("piece")?;
        let piece = match Piece::from_code(byte & !HAS_DSCP) {
            Some(piece @ (Piece::Whole | Piece::First | Piece::Second)) => piece,
            Some(Piece::Again) | None => {
                return Err(reader.illegal("piece", byte, "0, 1, 2, with 64 or without"));
            }
        };
        let waited = Microseconds::new(reader.u32("waited")?);
        let flags = Flags::from_wire(byte & HAS_DSCP);
        Ok(Self { flow, sequence, piece, waited, plaintext: Plaintext::parse(reader.rest(), flags)? })
    }

    /// The flags of the packet, as a source packet of a session's first epoch has them.
    #[must_use]
    pub const fn flags(&self) -> Flags {
        Flags::new(Epoch::new(0), self.piece).with_dscp_of(self.plaintext.traffic_class)
    }

    /// Appends the message.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), Full> {
        writer.append(Self::TYPE, |output| {
            output.u16(self.flow.number());
            output.u64(self.sequence.number());
            output.u8(self.piece.code() | self.flags().to_wire() & HAS_DSCP);
            output.u32(self.waited.count());
            output.bytes(&self.plaintext.head());
            output.bytes(self.plaintext.dscp().as_slice());
            output.bytes(self.plaintext.datagram);
        })
    }
}
