//! Register reply: a relay's answer to register.

use super::{FlowRole, Register};
use crate::codes::{Code, codes};
use crate::error::{MessageFullError, ParseError};
use crate::grant::GrantedRelay;
use crate::ids::{Alias, FlowKey};
use crate::quantities::Microseconds;
use crate::reader::Reader;
use crate::writer::Writer;

codes! {
    /// Reason for which a relay refuses a registration.
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
        /// The relay's number of flows has reached its limit.
        Full = 6,
        /// Registered, but packets do not reach the egress relay: it does not answer, or no longer
        /// has a receiver of the flow.
        Unreachable = 7,
        /// The flow's tenant has reached its quota of sessions or flows at the relay.
        QuotaReached = 8,
    }
}

const ACCEPTED: u8 = 0;

/// Flows that send now in the coding group of a registered one, without it, and that are of its
/// tenant: a relay counts 255 at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupActivity {
    /// Number of flows of service coding: their packets share batches with those of the flow.
    pub coded: u8,
    /// Number of flows of service caching: their packets could share batches.
    pub cached: u8,
}

/// A relay accepts or refuses a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterReply {
    /// Key of the flow.
    pub flow_key: FlowKey,
    /// Role of the agent in the flow.
    pub role: FlowRole,
    /// The relay shard at the path's other end, as in `register`.
    pub far_relay: GrantedRelay,
    /// Alias of the flow between agent and relay from now on, or the reason for a refusal.
    pub outcome: Result<Alias, Refusal>,
    /// Revision of the `register` in force, or of the refused one. An agent ignores an answer with
    /// another revision than its latest.
    ///
    /// `None` if the message has no revision. The answer then counts for the latest `register`.
    pub revision: Option<u8>,
    /// Round-trip time between the relay and the one at the path's other end, as the relay has
    /// measured it. `None` if it has not, or if the message has no revision.
    pub far_round_trip: Option<Microseconds>,
    /// Activity of the flow's coding group. `None` if the flow is in none, if the agent receives
    /// it, or if the message ends before.
    pub group_activity: Option<GroupActivity>,
}

impl RegisterReply {
    /// Type number of a register reply on the wire.
    pub const TYPE: u8 = 2;

    /// Returns the reply to a registration, without measurements.
    #[must_use]
    pub const fn to(register: &Register<'_>, outcome: Result<Alias, Refusal>) -> Self {
        let Register { flow_key, role, far_relay, revision, .. } = *register;
        Self { flow_key, role, far_relay, outcome, revision, far_round_trip: None, group_activity: None }
    }

    /// Reads a register reply from the body of a message.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("register reply", body);
        let flow_key = reader.flow_key()?;
        let role = reader.code("role")?;
        let far_relay = GrantedRelay::parse(&mut reader)?;
        let status = reader.u8("status")?;
        let outcome =
            if status == ACCEPTED { Ok(reader.alias()?) } else { Err(parse_refusal(status, &mut reader)?) };
        let revision = reader.u8("revision").ok();
        let far_round_trip = reader.u32("far round trip").ok().filter(|measured| *measured != 0);
        let far_round_trip = far_round_trip.map(Microseconds::new);
        let group_activity = parse_group_activity(&mut reader);
        Ok(Self { flow_key, role, far_relay, outcome, revision, far_round_trip, group_activity })
    }

    /// Appends the register reply to the messages of a packet.
    ///
    /// # Errors
    /// If the packet has too few bytes left; then no byte is written.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), MessageFullError> {
        writer.append(Self::TYPE, |output| {
            output.bytes(&self.flow_key.to_bytes());
            output.u8(self.role.code());
            self.far_relay.emit(output);
            output.u8(self.outcome.map_or_else(Code::code, |_| ACCEPTED));
            output.u16(self.outcome.map_or(0, Alias::number));
            output.bytes(self.revision.as_slice());
            if self.revision.is_some() {
                output.u32(self.far_round_trip.map_or(0, Microseconds::count));
                if let Some(GroupActivity { coded, cached }) = self.group_activity {
                    output.bytes(&[coded, cached]);
                }
            }
        })
    }
}

fn parse_refusal(status: u8, reader: &mut Reader<'_>) -> Result<Refusal, ParseError> {
    let refusal = Refusal::from_code(status).ok_or_else(|| reader.illegal("status", status, "0 to 8"))?;
    let alias = reader.u16("alias")?;
    if alias == 0 { Ok(refusal) } else { Err(reader.illegal("alias", alias, "0 unless the status is 0")) }
}

fn parse_group_activity(reader: &mut Reader<'_>) -> Option<GroupActivity> {
    let coded = reader.u8("coded flows").ok()?;
    let cached = reader.u8("cached flows").ok()?;
    Some(GroupActivity { coded, cached })
}
