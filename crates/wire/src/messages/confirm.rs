//! Confirm: what can be repaired now.

use crate::error::{Full, ParseError};
use crate::ids::Alias;
use crate::ranges::Ranges;
use crate::reader::Reader;
use crate::writer::Writer;

/// An egress relay can repair these packets now, and asks whether they are still missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirm<'a> {
    /// What stands for the flow.
    pub alias: Alias,
    /// The packets.
    pub ranges: Ranges<'a>,
}

impl<'a> Confirm<'a> {
    /// The message's type.
    pub const TYPE: u8 = 23;

    /// Reads the body.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("confirm", body);
        Ok(Self { alias: reader.alias()?, ranges: Ranges::parse(&mut reader)? })
    }

    /// Appends the message.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), Full> {
        writer.append(Self::TYPE, |output| {
            output.u16(self.alias.number());
            self.ranges.emit(output);
        })
    }
}
