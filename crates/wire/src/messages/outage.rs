//! Outage: a flow's direct path is dark.

use crate::error::{Full, ParseError};
use crate::ids::Alias;
use crate::reader::Reader;
use crate::writer::Writer;

/// The egress relay lets the ingress relay know that a flow loses all its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// What stands for the flow.
    pub alias: Alias,
    /// Whether the direct path is dark; otherwise it delivers again.
    pub is_dark: bool,
}

impl Outage {
    /// The message's type.
    pub const TYPE: u8 = 25;

    /// Reads the body.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("outage", body);
        let alias = reader.alias()?;
        let is_dark = match reader.u8("dark")? {
            0 => false,
            1 => true,
            other => return Err(reader.illegal("dark", other, "0, 1")),
        };
        Ok(Self { alias, is_dark })
    }

    /// Appends the message.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), Full> {
        writer.append(Self::TYPE, |output| {
            output.u16(self.alias.number());
            output.u8(u8::from(self.is_dark));
        })
    }
}
