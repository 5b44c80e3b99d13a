//! NACK: packets that the direct path has lost.

use crate::error::{Full, ParseError};
use crate::ids::Alias;
use crate::quantities::Microseconds;
use crate::ranges::Ranges;
use crate::reader::Reader;
use crate::writer::Writer;

const OPEN_ENDED: u8 = 1 << 0;
const NOTICED_BY_TIMER: u8 = 1 << 1;
const ANSWERS_CONFIRM: u8 = 1 << 2;

/// A receiver asks for packets that the direct path has lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nack<'a> {
    /// What stands for the flow.
    pub alias: Alias,
    /// The low 32 bits of the sequence number from which on everything is missing, until an ACK.
    pub open_from_low: Option<u32>,
    /// Whether a timer noticed, not a later packet.
    pub noticed_by_timer: bool,
    /// Whether this answers a confirm.
    pub answers_confirm: bool,
    /// How long a repair is of use, from now on or from when it could first be made.
    pub patience: Microseconds,
    /// The packets.
    pub ranges: Ranges<'a>,
}

impl<'a> Nack<'a> {
    /// The message's type.
    pub const TYPE: u8 = 18;

    /// Reads the body.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("NACK", body);
        let alias = reader.alias()?;
        let flags = reader.u8("flags")?;
        let open_from_low = reader.u32("open from")?;
        Ok(Self {
            alias,
            open_from_low: (flags & OPEN_ENDED != 0).then_some(open_from_low),
            noticed_by_timer: flags & NOTICED_BY_TIMER != 0,
            answers_confirm: flags & ANSWERS_CONFIRM != 0,
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
            output.u8(self.flags());
            output.u32(self.open_from_low.unwrap_or(0));
            output.u32(self.patience.count());
            self.ranges.emit(output);
        })
    }

    fn flags(&self) -> u8 {
        let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        bit(self.open_from_low.is_some(), OPEN_ENDED)
            | bit(self.noticed_by_timer, NOTICED_BY_TIMER)
            | bit(self.answers_confirm, ANSWERS_CONFIRM)
    }
}
