//! Source NACK: a receiver's request to the sender for packets that the direct path has lost.

use crate::error::{MessageFullError, ParseError};
use crate::ids::FlowKey;
use crate::ranges::Ranges;
use crate::reader::Reader;
use crate::writer::Writer;

/// A receiver requests packets that the direct path has lost from their sender, which sends them
/// again through relays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceNack<'a> {
    /// Key of the flow.
    pub flow_key: FlowKey,
    /// Packets of the flow that the receiver misses.
    pub ranges: Ranges<'a>,
}

impl<'a> SourceNack<'a> {
    /// Type number of a source NACK on the wire.
    pub const TYPE: u8 = 27;

    /// Reads a source NACK from the body of a message.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("source NACK", body);
        Ok(Self { flow_key: reader.flow_key()?, ranges: Ranges::parse(&mut reader)? })
    }

    /// Appends the source NACK to the messages of a packet.
    ///
    /// # Errors
    /// If the packet has too few bytes left; then no byte is written.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), MessageFullError> {
        writer.append(Self::TYPE, |output| {
            output.bytes(&self.flow_key.to_bytes());
            self.ranges.emit(output);
        })
    }
}
