//! Outage: beginning or end of an outage of a flow's direct path.

use crate::error::{MessageFullError, ParseError};
use crate::ids::Alias;
use crate::reader::Reader;
use crate::writer::Writer;

/// The egress relay, or the sender, informs the ingress relay that the direct path of a flow loses
/// all packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// Alias of the flow.
    pub alias: Alias,
    /// True during the outage; false after the direct path delivers again.
    pub is_active: bool,
}

impl Outage {
    /// Type number of an outage message on the wire.
    pub const TYPE: u8 = 25;

    /// Reads an outage message from the body of a message.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("outage", body);
        let alias = reader.alias()?;
        let is_active = match reader.u8("active")? {
            0 => false,
            1 => true,
            other => return Err(reader.illegal("active", other, "0, 1")),
        };
        Ok(Self { alias, is_active })
    }

    /// Appends the outage message to the messages of a packet.
    ///
    /// # Errors
    /// If the packet has too few bytes left; then no byte is written.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), MessageFullError> {
        writer.append(Self::TYPE, |output| {
            output.u16(self.alias.number());
            output.u8(u8::from(self.is_active));
        })
    }
}
