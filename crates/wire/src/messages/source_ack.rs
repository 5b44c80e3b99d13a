//! Source ACK: the direct path of a flow with retransmission delivers again.

use crate::error::{MessageFullError, ParseError};
use crate::ids::FlowKey;
use crate::reader::Reader;
use crate::writer::Writer;

/// A receiver reports to the sender that the direct path delivers again. The message ends the
/// effect of a silence message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceAck {
    /// Key of the flow.
    pub flow_key: FlowKey,
    /// Low 32 bits of the first sequence number that the direct path has delivered again.
    pub from_low: u32,
}

impl SourceAck {
    /// Type number of a source ACK on the wire.
    pub const TYPE: u8 = 28;

    /// Reads a source ACK from the body of a message.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("source ACK", body);
        Ok(Self { flow_key: reader.flow_key()?, from_low: reader.u32("from")? })
    }

    /// Appends the source ACK to the messages of a packet.
    ///
    /// # Errors
    /// If the packet has too few bytes left; then no byte is written.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), MessageFullError> {
        writer.append(Self::TYPE, |output| {
            output.bytes(&self.flow_key.to_bytes());
            output.u32(self.from_low);
        })
    }
}
