//! Probe reply: the answer to a probe.

use crate::address::Address;
use crate::error::{Full, ParseError};
use crate::quantities::Timestamp;
use crate::reader::Reader;
use crate::writer::Writer;

/// The answer to a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeReply {
    /// The probe's number.
    pub number: u32,
    /// When the probe was sent, by the prober's clock.
    pub sent: Timestamp,
    /// When it arrived, by the replier's clock.
    pub received: Timestamp,
    /// Envelopes that have arrived in this epoch.
    pub envelopes: u32,
    /// Where the probe came from.
    pub address: Address,
    /// Packets of the session that have arrived and are longer than every path carries: with more than 1,232 bytes of
    /// UDP payload. Modulo 2^32; 0 also if the replier does not count.
    pub long_packets: u32,
}

impl ProbeReply {
    /// The message's type.
    pub const TYPE: u8 = 33;

    /// Reads the body.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("probe reply", body);
        Ok(Self {
            number: reader.u32("number")?,
            sent: Timestamp::new(reader.u32("sent")?),
            received: Timestamp::new(reader.u32("received")?),
            envelopes: reader.u32("envelopes")?,
            address: Address::parse(&mut reader)?,
            long_packets: if reader.rest().is_empty() { 0 } else { reader.u32("long packets")? },
        })
    }

    /// Appends the message.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), Full> {
        writer.append(Self::TYPE, |output| {
            output.u32(self.number);
            output.u32(self.sent.micros());
            output.u32(self.received.micros());
            output.u32(self.envelopes);
            self.address.emit(output);
            if self.long_packets > 0 {
                output.u32(self.long_packets);
            }
        })
    }
}
