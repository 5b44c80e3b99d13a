//! Service change reply: the answer to a service change.

use crate::error::{MessageFullError, ParseError};
use crate::ids::FlowKey;
use crate::reader::Reader;
use crate::writer::Writer;

/// A receiver has changed a flow to its new service, and registers it anew with its relays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceChangeReply {
    /// Key of the flow.
    pub flow_key: FlowKey,
    /// Number of the change.
    pub number: u8,
}

impl ServiceChangeReply {
    /// Type number of a service change reply on the wire.
    pub const TYPE: u8 = 30;

    /// Reads a service change reply from the body of a message.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("service change reply", body);
        Ok(Self { flow_key: reader.flow_key()?, number: reader.u8("number")? })
    }

    /// Appends the service change reply to the messages of a packet.
    ///
    /// # Errors
    /// If the packet has too few bytes left; then no byte is written.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), MessageFullError> {
        writer.append(Self::TYPE, |output| {
            output.bytes(&self.flow_key.to_bytes());
            output.u8(self.number);
        })
    }
}
