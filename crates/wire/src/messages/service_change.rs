//! Service change: a flow's sender changes the flow's service.

use crate::codes::Code;
use crate::error::{MessageFullError, ParseError};
use crate::ids::FlowKey;
use crate::reader::Reader;
use crate::service::Service;
use crate::writer::Writer;

/// A sender informs the receiver of a flow of the flow's new service, before it uses that service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceChange {
    /// Key of the flow.
    pub flow_key: FlowKey,
    /// Number of the change. It increases from one change of a flow to the next, modulo 256.
    pub number: u8,
    /// New service of the flow.
    pub service: Service,
}

impl ServiceChange {
    /// Type number of a service change on the wire.
    pub const TYPE: u8 = 29;

    /// Reads a service change from the body of a message.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("service change", body);
        Ok(Self {
            flow_key: reader.flow_key()?,
            number: reader.u8("number")?,
            service: reader.code("service")?,
        })
    }

    /// Appends the service change to the messages of a packet.
    ///
    /// # Errors
    /// If the packet has too few bytes left; then no byte is written.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), MessageFullError> {
        writer.append(Self::TYPE, |output| {
            output.bytes(&self.flow_key.to_bytes());
            output.u8(self.number);
            output.u8(self.service.code());
        })
    }
}
