//! Lost: what a cooperating receiver cannot give.

use crate::error::{Full, ParseError};
use crate::ids::Alias;
use crate::ranges::Ranges;
use crate::reader::Reader;
use crate::writer::Writer;

/// A cooperating receiver asked for these packets itself, and does not have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost<'a> {
    /// What stands for the flow.
    pub alias: Alias,
    /// The packets.
    pub ranges: Ranges<'a>,
}

impl<'a> Lost<'a> {
    /// The message's type.
    pub const TYPE: u8 = 22;

    /// Reads the body.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("lost", body);
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
