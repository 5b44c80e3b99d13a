//! Probe: how long is the way?

use crate::error::{Full, ParseError};
use crate::quantities::{Microseconds, Timestamp};
use crate::reader::Reader;
use crate::writer::Writer;

/// A node measures a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Counts the probes of a session.
    pub number: u32,
    /// When it was sent, by the prober's clock.
    pub sent: Timestamp,
    /// The round trip that the prober has measured so far; 0 before it has.
    pub round_trip: Microseconds,
}

impl Probe {
    /// The message's type.
    pub const TYPE: u8 = 32;

    /// Reads the body.
    ///
    /// # Errors
    /// If a field is cut off.
    pub fn parse(body: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("probe", body);
        Ok(Self {
            number: reader.u32("number")?,
            sent: Timestamp::new(reader.u32("sent")?),
            round_trip: Microseconds::new(reader.u32("round trip")?),
        })
    }

    /// Appends the message.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), Full> {
        self.emit_padded(&[], writer)
    }

    /// Appends the message, longer by this padding, zeros that its receiver ignores: for a packet of a certain length.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn emit_padded(&self, padding: &[u8], writer: &mut Writer<'_>) -> Result<(), Full> {
        writer.append(Self::TYPE, |output| {
            output.u32(self.number);
            output.u32(self.sent.micros());
            output.u32(self.round_trip.count());
            output.bytes(padding);
        })
    }
}
