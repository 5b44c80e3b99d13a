//! ACK: the direct path delivers again.

use crate::error::{MessageFullError, ParseError};
use crate::ids::Alias;
use crate::reader::Reader;
use crate::writer::Writer;

/// A receiver reports to the egress relay that the direct path delivers again. The message ends an
/// open-ended NACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// Alias of the flow.
    pub alias: Alias,
    /// Low 32 bits of the first sequence number that the direct path has delivered again.
    pub from_low: u32,
}

impl Ack {
    /// Type number of an ACK on the wire.
    pub const TYPE: u8 = 20;

    /// Reads an ACK from the body of a message.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("ACK", body);
        Ok(Self { alias: reader.alias()?, from_low: reader.u32("from")? })
    }

    /// Appends the ACK to the messages of a packet.
    ///
    /// # Errors
    /// If the packet has too few bytes left; then no byte is written.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), MessageFullError> {
        writer.append(Self::TYPE, |output| {
            output.u16(self.alias.number());
            output.u32(self.from_low);
        })
    }
}
