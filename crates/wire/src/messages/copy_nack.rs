//! Copy NACK: copies that did not reach a relay.

use crate::error::{MessageFullError, ParseError};
use crate::ids::Alias;
use crate::ranges::Ranges;
use crate::reader::Reader;
use crate::writer::Writer;

/// A relay requests copies that did not arrive: an ingress relay from the sender, an egress relay
/// from the ingress relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyNack<'a> {
    /// Alias of the flow.
    pub alias: Alias,
    /// Packets of the flow whose copies are missing.
    pub ranges: Ranges<'a>,
}

impl<'a> CopyNack<'a> {
    /// Type number of a copy NACK on the wire.
    pub const TYPE: u8 = 19;

    /// Reads a copy NACK from the body of a message.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("copy NACK", body);
        Ok(Self { alias: reader.alias()?, ranges: Ranges::parse(&mut reader)? })
    }

    /// Appends the copy NACK to the messages of a packet.
    ///
    /// # Errors
    /// If the packet has too few bytes left; then no byte is written.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), MessageFullError> {
        writer.append(Self::TYPE, |output| {
            output.u16(self.alias.number());
            self.ranges.emit(output);
        })
    }
}
