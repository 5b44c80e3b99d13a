//! Offered: the answer to an offer.

use byway_units::FlowId;

use crate::codes::{Code, codes};
use crate::error::{Full, ParseError};
use crate::reader::Reader;
use crate::writer::Writer;

codes! {
    /// Why an agent does not take a flow that it was offered.
    pub enum OfferRefusal {
        /// It knows nothing of that subject.
        UnknownSubject = 1,
        /// The subject is not for this agent.
        NotAllowed = 2,
        /// It has no room for another flow.
        NoRoom = 3,
        /// Not yet: to be asked again.
        NotYet = 4,
        /// The number is not the offering agent's to give, or stands for another flow.
        NumberTaken = 5,
        /// The address that the subject names is on no machine of this agent.
        NotHere = 6,
    }
}

const ACCEPTED: u8 = 0;

/// An agent says whether it takes the flow it was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offered {
    /// The number of the flow.
    pub flow: FlowId,
    /// Whether it is taken.
    pub outcome: Result<(), OfferRefusal>,
}

impl Offered {
    /// The message's type.
    pub const TYPE: u8 = 8;

    /// Reads the body.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("offered", body);
        let flow = FlowId::new(reader.u16("flow")?);
        let outcome = match reader.u8("status")? {
            ACCEPTED => Ok(()),
            status => Err(parse_refusal(status, &reader)?),
        };
        Ok(Self { flow, outcome })
    }

    /// Appends the message.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), Full> {
        writer.append(Self::TYPE, |output| {
            output.u16(self.flow.number());
            output.u8(self.outcome.map_or_else(Code::code, |()| ACCEPTED));
        })
    }
}

fn parse_refusal(status: u8, reader: &Reader<'_>) -> Result<OfferRefusal, ParseError> {
    OfferRefusal::from_code(status).ok_or_else(|| reader.illegal("status", status, "0 to 5"))
}
