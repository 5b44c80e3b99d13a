//! Confirm: the egress relay announces packets that it can now repair.

use crate::error::{MessageFullError, ParseError};
use crate::ids::Alias;
use crate::ranges::Ranges;
use crate::reader::Reader;
use crate::writer::Writer;

/// An egress relay can now repair these packets, and asks if they are still missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirm<'a> {
    /// Alias of the flow.
    pub alias: Alias,
    /// Packets of the flow that the relay can repair now.
    pub ranges: Ranges<'a>,
}

impl<'a> Confirm<'a> {
    /// Type number of a confirm message on the wire.
    pub const TYPE: u8 = 23;

    /// Reads a confirm message from the body of a message.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("confirm", body);
        Ok(Self { alias: reader.alias()?, ranges: Ranges::parse(&mut reader)? })
    }

    /// Appends the confirm message to the messages of a packet.
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
