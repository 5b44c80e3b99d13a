//! Transit reply: the answer to a transit request.

use super::transit_request::TransitTarget;
use crate::error::{MessageFullError, ParseError};
use crate::grant::GrantedRelay;
use crate::ids::TransitLabel;
use crate::list::{List, Record};
use crate::quantities::{KilobitsPerSecond, Microseconds};
use crate::reader::Reader;
use crate::writer::Writer;

const BYTES: usize = 9;

/// Round-trip time of a relay to another one, as it has measured it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelayDelay {
    /// The other relay.
    pub relay: GrantedRelay,
    /// Round-trip time between the two.
    pub round_trip: Microseconds,
}

impl RelayDelay {
    /// Length in a message, in bytes.
    pub const BYTES: usize = BYTES;
}

impl Record<BYTES> for RelayDelay {
    fn parse(bytes: &[u8; BYTES]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(TransitReply::NAME, bytes);
        let relay = GrantedRelay::parse(&mut reader)?;
        Ok(Self { relay, round_trip: Microseconds::new(reader.u32("round trip")?) })
    }

    fn to_bytes(self) -> [u8; BYTES] {
        let [n0, n1, n2, n3] = self.relay.relay.number().to_be_bytes();
        let [t0, t1, t2, t3] = self.round_trip.count().to_be_bytes();
        [n0, n1, n2, n3, self.relay.shard.number(), t0, t1, t2, t3]
    }
}

/// Round-trip times of a relay to several others.
pub type RelayDelayList<'a> = List<'a, RelayDelay, BYTES>;

/// The answer to a transit request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransitReply<'a> {
    /// Receiver of the packets, as in the request.
    pub target: Option<TransitTarget>,
    /// Label for packets to the target; `None` if the relay passes on none, or if the request named
    /// no target.
    pub label: Option<TransitLabel>,
    /// Rate up to which the relay passes on packets of the requesting one; 0 if it passes on none.
    pub rate: KilobitsPerSecond,
    /// Round-trip times to other relays, if the request named no target.
    pub delays: RelayDelayList<'a>,
}

impl<'a> TransitReply<'a> {
    /// Type number of a transit reply on the wire.
    pub const TYPE: u8 = 41;

    const NAME: &'static str = "transit reply";

    /// Reads a transit reply from the body of a message.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(Self::NAME, body);
        let target = TransitTarget::parse_optional(&mut reader)?;
        let label = match reader.u8("label")? {
            0 => None,
            number => {
                Some(TransitLabel::new(number).ok_or_else(|| reader.illegal("label", number, "0 to 127"))?)
            }
        };
        let rate = KilobitsPerSecond::new(reader.u32("rate")?);
        let count = reader.u8("count")?;
        Ok(Self { target, label, rate, delays: List::parse(&mut reader, "delays", count.into())? })
    }

    /// Appends the transit reply to the messages of a packet.
    ///
    /// # Errors
    /// If the packet has too few bytes left; then no byte is written.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), MessageFullError> {
        writer.append(Self::TYPE, |output| {
            TransitTarget::emit_optional(self.target, output);
            output.u8(self.label.map_or(0, TransitLabel::number));
            output.u32(self.rate.count());
            output.count(self.delays.len());
            output.bytes(self.delays.as_bytes());
        })
    }
}
