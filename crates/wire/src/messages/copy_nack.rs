//! Copy NACK: copies that did not reach the ingress relay.

use crate::error::{Full, ParseError};
use crate::ids::Alias;
use crate::ranges::Ranges;
use crate::reader::Reader;
use crate::writer::Writer;

/// An ingress relay asks a sender for copies that did not reach it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyNack<'a> {
    /// What stands for the flow.
    pub alias: Alias,
    /// The packets.
    pub ranges: Ranges<'a>,
}

impl<'a> CopyNack<'a> {
    /// The message's type.
    pub const TYPE: u8 = 19;

    /// Reads the body.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("copy NACK", body);
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
