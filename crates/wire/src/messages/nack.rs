//! NACK: a receiver's request for packets that the direct path has lost.

use crate::error::{MessageFullError, ParseError};
use crate::ids::Alias;
use crate::quantities::Microseconds;
use crate::ranges::Ranges;
use crate::reader::Reader;
use crate::writer::Writer;

const OPEN_ENDED: u8 = 1 << 0;
const NOTICED_BY_TIMER: u8 = 1 << 1;
const ANSWERS_CONFIRM: u8 = 1 << 2;
const QUEUE_GROWS: u8 = 1 << 3;

/// A receiver requests packets that the direct path has lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nack<'a> {
    /// Alias of the flow.
    pub alias: Alias,
    /// Open-ended NACK: low 32 bits of the first sequence number from which all packets are
    /// missing, until an ACK.
    pub open_from_low: Option<u32>,
    /// True if a timer detected the loss, and not a later packet.
    pub noticed_by_timer: bool,
    /// True if this NACK answers a confirm.
    pub answers_confirm: bool,
    /// True if the queueing delay of the direct path grows, so the loss is likely a sign of
    /// congestion.
    pub queue_grows: bool,
    /// Time for which a repair is useful. For a packet after the open end, it counts from the first
    /// time at which a repair is possible; otherwise from now.
    pub repair_lifetime: Microseconds,
    /// Packets of the flow that the receiver misses, below the open end if there is one.
    pub ranges: Ranges<'a>,
}

impl<'a> Nack<'a> {
    /// Type number of a NACK on the wire.
    pub const TYPE: u8 = 18;

    /// Reads a NACK from the body of a message.
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
            queue_grows: flags & QUEUE_GROWS != 0,
            repair_lifetime: Microseconds::new(reader.u32("repair lifetime")?),
            ranges: Ranges::parse(&mut reader)?,
        })
    }

    /// Appends the NACK to the messages of a packet.
    ///
    /// # Errors
    /// If the packet has too few bytes left; then no byte is written.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), MessageFullError> {
        writer.append(Self::TYPE, |output| {
            output.u16(self.alias.number());
            output.u8(self.flags());
            output.u32(self.open_from_low.unwrap_or(0));
            output.u32(self.repair_lifetime.count());
            self.ranges.emit(output);
        })
    }

    fn flags(&self) -> u8 {
        let bit = |is_set: bool, bit: u8| if is_set { bit } else { 0 };
        bit(self.open_from_low.is_some(), OPEN_ENDED)
            | bit(self.noticed_by_timer, NOTICED_BY_TIMER)
            | bit(self.answers_confirm, ANSWERS_CONFIRM)
            | bit(self.queue_grows, QUEUE_GROWS)
    }
}
