//! Silence: nothing of a flow comes any more.

use crate::error::{Full, ParseError};
use crate::ids::FlowKey;
use crate::quantities::Microseconds;
use crate::reader::Reader;
use crate::writer::Writer;

/// A receiver tells the sender that nothing comes on the direct path.
///
/// The receiver does not know whether anything was sent. The sender does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silence {
    /// The flow.
    pub flow_key: FlowKey,
    /// The low 32 bits of the first sequence number that did not come.
    pub from_low: u32,
    /// How long ago the packet before it came, or the latest one that came by the direct path.
    pub elapsed: Microseconds,
    /// Packets first delivered by the direct path so far, as in a report.
    pub direct: u32,
}

impl Silence {
    /// The message's type.
    pub const TYPE: u8 = 26;

    /// Reads the body.
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

    /// Appends the message.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), Full> {
        writer.append(Self::TYPE, |output| {
            output.bytes(&self.flow_key.to_bytes());
            output.u32(self.from_low);
            output.u32(self.elapsed.count());
            output.u32(self.direct);
        })
    }
}
