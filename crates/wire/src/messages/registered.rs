//! Registered: a relay answers to register.

use super::FlowRole;
use crate::codes::{Code, codes};
use crate::error::{Full, ParseError};
use crate::grant::GrantedRelay;
use crate::ids::{Alias, FlowKey};
use crate::reader::Reader;
use crate::writer::Writer;

codes! {
    /// Why a relay does not take part in a flow.
    pub enum Refusal {
        /// There was no grant, and the configuration implies none.
        NoGrant = 1,
        /// The grant has expired.
        GrantExpired = 2,
        /// The grant cannot be read, or its signature is wrong.
        GrantInvalid = 3,
        /// The grant is for another relay or shard.
        OtherRelay = 4,
        /// The grant does not allow the service.
        ServiceNotGranted = 5,
        /// The relay has no room for another flow.
        NoRoom = 6,
        /// Registered, but packets get no further: the egress relay does not answer, or has no receiver of the flow
        /// any more.
        Unreachable = 7,
        /// The flow's tenant has as many sessions or flows at the relay as it may have.
        QuotaReached = 8,
    }
}

const ACCEPTED: u8 = 0;

/// A relay says whether it takes part in a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registered {
    /// The flow.
    pub flow_key: FlowKey,
    /// What the agent is to it.
    pub role: FlowRole,
    /// The relay shard at the path's other end, as in `register`.
    pub far_relay: GrantedRelay,
    /// What stands for the flow between the two from now on, or why nothing does.
    pub outcome: Result<Alias, Refusal>,
    /// The revision of the `register` that is in force, or that is refused. An agent ignores what is said of another one than
    /// its latest. `None` in a message that does not have it: that is taken to be about the latest.
    pub revision: Option<u8>,
}

impl Registered {
    /// The message's type.
    pub const TYPE: u8 = 2;

    /// Reads the body.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("registered", body);
        let flow_key = reader.flow_key()?;
        let role = reader.code("role")?;
        let far_relay = GrantedRelay::parse(&mut reader)?;
        let status = reader.u8("status")?;
        let outcome =
            if status == ACCEPTED { Ok(reader.alias()?) } else { Err(parse_refusal(status, &mut reader)?) };
        let revision = reader.u8("revision").ok();
        Ok(Self { flow_key, role, far_relay, outcome, revision })
    }

    /// Appends the message.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), Full> {
        writer.append(Self::TYPE, |output| {
            output.bytes(&self.flow_key.to_bytes());
            output.u8(self.role.code());
            self.far_relay.emit(output);
            output.u8(self.outcome.map_or_else(Code::code, |_| ACCEPTED));
            output.u16(self.outcome.map_or(0, Alias::number));
            output.bytes(self.revision.as_slice());
        })
    }
}

fn parse_refusal(status: u8, reader: &mut Reader<'_>) -> Result<Refusal, ParseError> {
    let refusal = Refusal::from_code(status).ok_or_else(|| reader.illegal("status", status, "0 to 7"))?;
    let alias = reader.u16("alias")?;
    if alias == 0 { Ok(refusal) } else { Err(reader.illegal("alias", alias, "0 unless the status is 0")) }
}
