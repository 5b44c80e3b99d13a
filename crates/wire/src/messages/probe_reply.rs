//! Probe reply: the answer to a probe.

use crate::address::Address;
use crate::error::{MessageFullError, ParseError};
use crate::quantities::Timestamp;
use crate::reader::Reader;
use crate::writer::Writer;

/// Answer of a session's other side to a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeReply {
    /// The probe's number.
    pub number: u32,
    /// Time of the probe's sending, by the prober's clock.
    pub sent: Timestamp,
    /// Time of the probe's arrival, by the replier's clock.
    pub received: Timestamp,
    /// Number of envelopes that the replier has received in this epoch, for loss measurement.
    pub envelopes: u32,
    /// Address from which the probe arrived at the replier.
    pub address: Address,
    /// Number of received packets of the session with more than 1,232 bytes of UDP payload, the
    /// length that every path supports.
    ///
    /// Modulo 2^32; 0 also if the replier does not count them.
    pub long_packets: u32,
    /// Number of packets of the session that arrived through third relays, modulo 2^32.
    pub transit_packets: u32,
}

impl ProbeReply {
    /// Type number of a probe reply on the wire.
    pub const TYPE: u8 = 33;

    /// Reads a probe reply from the body of a message.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("probe reply", body);
        let mut reply = Self {
            number: reader.u32("number")?,
            sent: Timestamp::new(reader.u32("sent")?),
            received: Timestamp::new(reader.u32("received")?),
            envelopes: reader.u32("envelopes")?,
            address: Address::parse(&mut reader)?,
            long_packets: 0,
            transit_packets: 0,
        };
        if !reader.rest().is_empty() {
            reply.long_packets = reader.u32("long packets")?;
        }
        if !reader.rest().is_empty() {
            reply.transit_packets = reader.u32("transit packets")?;
        }
        Ok(reply)
    }

    /// Appends the probe reply to the messages of a packet.
    ///
    /// # Errors
    /// If the packet has too few bytes left; then no byte is written.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), MessageFullError> {
        writer.append(Self::TYPE, |output| {
            output.u32(self.number);
            output.u32(self.sent.micros());
            output.u32(self.received.micros());
            output.u32(self.envelopes);
            self.address.emit(output);
            if self.long_packets > 0 || self.transit_packets > 0 {
                output.u32(self.long_packets);
            }
            if self.transit_packets > 0 {
                output.u32(self.transit_packets);
            }
        })
    }
}
