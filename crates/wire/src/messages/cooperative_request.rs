//! Cooperative request: packets for somebody else's repair.

use crate::error::{Full, ParseError};
use crate::ids::Alias;
use crate::quantities::Microseconds;
use crate::ranges::Ranges;
use crate::reader::Reader;
use crate::writer::Writer;

/// An egress relay asks a receiver for packets of the receiver's own flow, to complete somebody else's batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CooperativeRequest<'a> {
    /// What stands for the receiver's flow.
    pub alias: Alias,
    /// How long an answer is of use.
    pub patience: Microseconds,
    /// The packets.
    pub ranges: Ranges<'a>,
}

impl<'a> CooperativeRequest<'a> {
    /// The message's type.
    pub const TYPE: u8 = 21;

    /// Reads the body.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("cooperative request", body);
        Ok(Self {
            alias: reader.alias()?,
            patience: Microseconds::new(reader.u32("patience")?),
            ranges: Ranges::parse(&mut reader)?,
        })
    }

    /// Appends the message.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), Full> {
        writer.append(Self::TYPE, |output| {
            output.u16(self.alias.number());
            output.u32(self.patience.count());
            self.ranges.emit(output);
        })
    }
}
