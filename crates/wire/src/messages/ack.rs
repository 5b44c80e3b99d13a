//! ACK: the direct path delivers again.

use crate::error::{Full, ParseError};
use crate::ids::Alias;
use crate::reader::Reader;
use crate::writer::Writer;

/// The direct path delivers again, which ends an open-ended NACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// What stands for the flow.
    pub alias: Alias,
    /// The low 32 bits of the sequence number from which on it delivers.
    pub from_low: u32,
}

impl Ack {
    /// The message's type.
    pub const TYPE: u8 = 20;

    /// Reads the body.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("ACK", body);
        Ok(Self { alias: reader.alias()?, from_low: reader.u32("from")? })
    }

    /// Appends the message.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), Full> {
        writer.append(Self::TYPE, |output| {
            output.u16(self.alias.number());
            output.u32(self.from_low);
        })
    }
}
