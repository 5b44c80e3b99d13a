//! Cooperative request: the egress relay requests packets for the repair of another flow.

use crate::error::{MessageFullError, ParseError};
use crate::ids::Alias;
use crate::quantities::Microseconds;
use crate::ranges::Ranges;
use crate::reader::Reader;
use crate::writer::Writer;

/// An egress relay requests packets of the receiver's own flow from it, to decode a batch for
/// another receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CooperativeRequest<'a> {
    /// Alias of the receiver's flow.
    pub alias: Alias,
    /// Time for which an answer is useful.
    pub repair_lifetime: Microseconds,
    /// Packets of the flow that the relay requests.
    pub ranges: Ranges<'a>,
}

impl<'a> CooperativeRequest<'a> {
    /// Type number of a cooperative request on the wire.
    pub const TYPE: u8 = 21;

    /// Reads a cooperative request from the body of a message.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("cooperative request", body);
        Ok(Self {
            alias: reader.alias()?,
            repair_lifetime: Microseconds::new(reader.u32("repair lifetime")?),
            ranges: Ranges::parse(&mut reader)?,
        })
    }

    /// Appends the cooperative request to the messages of a packet.
    ///
    /// # Errors
    /// If the packet has too few bytes left; then no byte is written.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), MessageFullError> {
        writer.append(Self::TYPE, |output| {
            output.u16(self.alias.number());
            output.u32(self.repair_lifetime.count());
            self.ranges.emit(output);
        })
    }
}
