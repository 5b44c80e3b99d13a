//! Transit request: a relay asks another one to pass on its packets to a third relay.

use crate::error::{MessageFullError, ParseError};
use crate::grant::GrantedRelay;
use crate::ids::SessionIndex;
use crate::reader::Reader;
use crate::writer::{Output, Writer};

/// Relay for which transit packets are, and the session there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransitTarget {
    /// Relay shard that receives the packets.
    pub relay: GrantedRelay,
    /// Index that this relay expects in the packets of the requesting one.
    pub index: SessionIndex,
}

impl TransitTarget {
    /// Reads a target, or `None` if no relay is named. Labels of other relays are no indices, so
    /// packets pass one relay at most.
    pub(super) fn parse_optional(reader: &mut Reader<'_>) -> Result<Option<Self>, ParseError> {
        let relay = GrantedRelay::parse_optional(reader)?;
        let number = reader.u32("index")?;
        let index = SessionIndex::new(number);
        if index.is_transit() {
            return Err(reader.illegal("index", number, "an index with bit 23 clear"));
        }
        Ok(relay.map(|relay| Self { relay, index }))
    }

    pub(super) fn emit_optional(target: Option<Self>, output: &mut Output<'_>) {
        GrantedRelay::emit_optional(target.map(|target| target.relay), output);
        output.u32(target.map_or(0, |target| target.index.number()));
    }
}

/// A relay asks another one to pass on its packets to a third relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransitRequest {
    /// Receiver of the packets. `None`: the request is for the delays to other relays.
    pub target: Option<TransitTarget>,
}

impl TransitRequest {
    /// Type number of a transit request on the wire.
    pub const TYPE: u8 = 40;

    /// Reads a transit request from the body of a message.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("transit request", body);
        Ok(Self { target: TransitTarget::parse_optional(&mut reader)? })
    }

    /// Appends the transit request to the messages of a packet.
    ///
    /// # Errors
    /// If the packet has too few bytes left; then no byte is written.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), MessageFullError> {
        writer.append(Self::TYPE, |output| TransitTarget::emit_optional(self.target, output))
    }
}
