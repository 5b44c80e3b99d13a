//! Probe: measurement of a session's round-trip time.

use crate::error::{MessageFullError, ParseError};
use crate::quantities::{Microseconds, Timestamp};
use crate::reader::Reader;
use crate::writer::Writer;

/// A node measures the round-trip time of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Number of the probe in its session.
    pub number: u32,
    /// Time of sending, by the prober's clock.
    pub sent: Timestamp,
    /// Round-trip time that the prober has measured so far; 0 if none.
    pub round_trip: Microseconds,
}

impl Probe {
    /// Type number of a probe on the wire.
    pub const TYPE: u8 = 32;

    /// Reads a probe from the body of a message.
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

    /// Appends the probe to the messages of a packet.
    ///
    /// # Errors
    /// If the packet has too few bytes left; then no byte is written.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), MessageFullError> {
        self.emit_padded(&[], writer)
    }

    /// Appends the message with padding, for a packet of a certain length. The padding is zeros,
    /// which the receiver ignores.
    ///
    /// # Errors
    /// If the packet has too few bytes left; then no byte is written.
    pub fn emit_padded(&self, padding: &[u8], writer: &mut Writer<'_>) -> Result<(), MessageFullError> {
        writer.append(Self::TYPE, |output| {
            output.u32(self.number);
            output.u32(self.sent.micros());
            output.u32(self.round_trip.count());
            output.bytes(padding);
        })
    }
}
