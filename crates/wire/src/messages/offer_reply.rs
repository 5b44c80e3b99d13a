//! Offer reply: the answer to an offer.

use byway_units::FlowId;

use crate::codes::{Code, codes};
use crate::error::{MessageFullError, ParseError};
use crate::reader::Reader;
use crate::writer::Writer;

codes! {
    /// Reason for which an agent refuses an offered flow.
    pub enum OfferRefusal {
        /// The agent does not know the subject.
        UnknownSubject = 1,
        /// The subject is not open to this agent.
        NotAllowed = 2,
        /// The agent's number of flows has reached its limit.
        Full = 3,
        /// The agent cannot decide yet: the offer is repeated.
        NotYet = 4,
        /// The flow number is not in the offering agent's range, or belongs to another flow.
        NumberInUse = 5,
        /// The address in the subject does not belong to a machine of this agent.
        NotHere = 6,
    }
}

const ACCEPTED: u8 = 0;

/// An agent accepts or refuses an offered flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfferReply {
    /// Number of the offered flow.
    pub flow: FlowId,
    /// Acceptance, or the reason for a refusal.
    pub outcome: Result<(), OfferRefusal>,
}

impl OfferReply {
    /// Type number of an offer reply on the wire.
    pub const TYPE: u8 = 8;

    /// Reads an offer reply from the body of a message.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("offer reply", body);
        let flow = FlowId::new(reader.u16("flow")?);
        let outcome = match reader.u8("status")? {
            ACCEPTED => Ok(()),
            status => Err(parse_refusal(status, &reader)?),
        };
        Ok(Self { flow, outcome })
    }

    /// Appends the offer reply to the messages of a packet.
    ///
    /// # Errors
    /// If the packet has too few bytes left; then no byte is written.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), MessageFullError> {
        writer.append(Self::TYPE, |output| {
            output.u16(self.flow.number());
            output.u8(self.outcome.map_or_else(Code::code, |()| ACCEPTED));
        })
    }
}

fn parse_refusal(status: u8, reader: &Reader<'_>) -> Result<OfferRefusal, ParseError> {
    OfferRefusal::from_code(status).ok_or_else(|| reader.illegal("status", status, "0 to 6"))
}
