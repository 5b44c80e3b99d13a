//! Early packet: a packet of a flow that its receiver has not accepted yet.

use byway_units::FlowId;

use crate::SequenceNumber;
use crate::coded::{Flags, Fragment, HAS_DSCP};
use crate::codes::Code;
use crate::error::{MessageFullError, ParseError};
use crate::ids::Epoch;
use crate::plaintext::Plaintext;
use crate::quantities::Microseconds;
use crate::reader::Reader;
use crate::writer::Writer;

/// A packet sent with its flow's offer, before the other agent has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EarlyPacket<'a> {
    /// Number of the offered flow.
    pub flow: FlowId,
    /// Sequence number of the packet in the flow. It remains the same if the packet is sent again
    /// as a source packet.
    pub sequence: SequenceNumber,
    /// Part of the datagram in this packet.
    pub fragment: Fragment,
    /// Time from the application's sending to the sending of this message.
    pub waited: Microseconds,
    /// The plaintext, as in a source packet.
    pub plaintext: Plaintext<'a>,
}

impl<'a> EarlyPacket<'a> {
    /// Type number of an early packet on the wire.
    pub const TYPE: u8 = 9;

    /// Length of the message's header and of the fields before the datagram, in bytes, without the
    /// DSCP's byte.
    pub const OVERHEAD: usize = crate::writer::MESSAGE_HEADER_BYTES + 2 + 8 + 1 + 4 + Plaintext::HEAD_BYTES;

    /// Reads an early packet from the body of a message.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("early packet", body);
        let flow = FlowId::new(reader.u16("flow")?);
        let sequence = SequenceNumber::new(reader.u64("sequence number")?);
        let byte = reader.u8("fragment")?;
        let fragment = match Fragment::from_code(byte & !HAS_DSCP) {
            Some(fragment @ (Fragment::Whole | Fragment::First | Fragment::Second)) => fragment,
            Some(Fragment::Resent) | None => {
                return Err(reader.illegal("fragment", byte, "0, 1, 2, with 64 or without"));
            }
        };
        let waited = Microseconds::new(reader.u32("waited")?);
        let flags = Flags::from_wire(byte & HAS_DSCP);
        Ok(Self { flow, sequence, fragment, waited, plaintext: Plaintext::parse(reader.rest(), flags)? })
    }

    /// Returns the packet's flags, as for a source packet in a session's first epoch.
    #[must_use]
    pub const fn flags(&self) -> Flags {
        Flags::new(Epoch::new(0), self.fragment).with_dscp_of(self.plaintext.traffic_class)
    }

    /// Appends the early packet to the messages of a packet.
    ///
    /// # Errors
    /// If the packet has too few bytes left; then no byte is written.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), MessageFullError> {
        writer.append(Self::TYPE, |output| {
            output.u16(self.flow.number());
            output.u64(self.sequence.number());
            output.u8(self.fragment.code() | self.flags().to_wire() & HAS_DSCP);
            output.u32(self.waited.count());
            output.bytes(&self.plaintext.head());
            output.bytes(self.plaintext.dscp().as_slice());
            output.bytes(self.plaintext.datagram);
        })
    }
}
