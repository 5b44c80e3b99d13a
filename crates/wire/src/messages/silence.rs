//! Silence: a receiver reports that no more packets of a flow arrive.

use crate::error::{MessageFullError, ParseError};
use crate::ids::FlowKey;
use crate::quantities::Microseconds;
use crate::reader::Reader;
use crate::writer::Writer;

/// A receiver informs the sender that no packets arrive on the direct path.
///
/// Only the sender knows if it has sent any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silence {
    /// Flow of which the receiver gets no packets on the direct path.
    pub flow_key: FlowKey,
    /// Low 32 bits of the first sequence number that did not arrive.
    pub from_low: u32,
    /// Time since the latest packet arrived on the direct path.
    pub elapsed: Microseconds,
    /// Packets that the direct path delivered before any repair, as in a report.
    pub direct: u32,
}

impl Silence {
    /// Type number of a silence message on the wire.
    pub const TYPE: u8 = 26;

    /// Reads a silence message from the body of a message.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("silence", body);
        Ok(Self {
            flow_key: reader.flow_key()?,
            from_low: reader.u32("from")?,
            elapsed: Microseconds::new(reader.u32("elapsed")?),
            direct: reader.u32("direct")?,
        })
    }

    /// Appends the silence message to the messages of a packet.
    ///
    /// # Errors
    /// If the packet has too few bytes left; then no byte is written.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), MessageFullError> {
        writer.append(Self::TYPE, |output| {
            output.bytes(&self.flow_key.to_bytes());
            output.u32(self.from_low);
            output.u32(self.elapsed.count());
            output.u32(self.direct);
        })
    }
}
