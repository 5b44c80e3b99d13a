//! Relayed on: a packet between agents, on its way from one's relay to the other's.

use byway_units::AgentId;

use super::relayed::is_passed_on;
use crate::error::{Full, ParseError};
use crate::ids::agent_number;
use crate::reader::Reader;
use crate::writer::Writer;

/// A packet of an agent for an agent at another relay: a packet of a handshake or of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelayedOn<'a> {
    from: AgentId,
    to: AgentId,
    packet: &'a [u8],
}

impl<'a> RelayedOn<'a> {
    /// The message's type.
    pub const TYPE: u8 = 39;

    /// A packet from one agent to another; `None` unless its kind is one that relays pass on.
    ///
    /// # Panics
    /// If a number is above [`AGENT_NUMBER_MAX`](crate::limits::AGENT_NUMBER_MAX).
    #[must_use]
    pub fn new(from: AgentId, to: AgentId, packet: &'a [u8]) -> Option<Self> {
        let _ = (agent_number(from), agent_number(to));
        is_passed_on(*packet.first()?).then_some(Self { from, to, packet })
    }

    /// Who sent it.
    #[must_use]
    pub const fn from(&self) -> AgentId {
        self.from
    }

    /// Whom it is for.
    #[must_use]
    pub const fn to(&self) -> AgentId {
        self.to
    }

    /// The packet: an initiation, response, cookie or message packet by its first byte; nothing else is checked.
    #[must_use]
    pub const fn packet(&self) -> &'a [u8] {
        self.packet
    }

    /// Reads the body.
    ///
    /// # Errors
    /// If a field is cut off or illegal, or the packet is of a kind that relays do not pass on.
    pub fn parse(body: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("relayed on", body);
        let from = reader.agent("from")?;
        let to = reader.agent("to")?;
        let packet = reader.rest();
        let kind = reader.u8("packet")?;
        if !is_passed_on(kind) {
            return Err(reader.illegal("kind of packet", kind, "4, 5, 6, 8"));
        }
        Ok(Self { from, to, packet })
    }

    /// Appends the message.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), Full> {
        writer.append(Self::TYPE, |output| {
            output.u32(agent_number(self.from));
            output.u32(agent_number(self.to));
            output.bytes(self.packet);
        })
    }
}
