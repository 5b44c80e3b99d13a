//! Cooperative refusal: packets that a cooperating receiver does not have.

use crate::error::{MessageFullError, ParseError};
use crate::ids::Alias;
use crate::ranges::Ranges;
use crate::reader::Reader;
use crate::writer::Writer;

/// A cooperating receiver does not have these packets: it has sent NACKs for them itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CooperativeRefusal<'a> {
    /// Alias of the flow.
    pub alias: Alias,
    /// Packets of the flow that the receiver does not have.
    pub ranges: Ranges<'a>,
}

impl<'a> CooperativeRefusal<'a> {
    /// Type number of a cooperative refusal on the wire.
    pub const TYPE: u8 = 22;

    /// Reads a cooperative refusal from the body of a message.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("cooperative refusal", body);
        Ok(Self { alias: reader.alias()?, ranges: Ranges::parse(&mut reader)? })
    }

    /// Appends the cooperative refusal to the messages of a packet.
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
