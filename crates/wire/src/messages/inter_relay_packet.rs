//! Inter-relay packet: a packet between two agents, sent from the relay of one to the relay of the
//! other.

use byway_units::AgentId;

use super::relayed_packet::is_relayable;
use crate::error::{MessageFullError, ParseError};
use crate::ids::agent_number;
use crate::reader::Reader;
use crate::writer::Writer;

/// A handshake or message packet of an agent, for an agent at another relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterRelayPacket<'a> {
    from: AgentId,
    to: AgentId,
    packet: &'a [u8],
}

impl<'a> InterRelayPacket<'a> {
    /// Type number of an inter-relay packet on the wire.
    pub const TYPE: u8 = 39;

    /// Wraps a packet from one agent to another. `None` if relays do not forward packets of this
    /// kind.
    ///
    /// # Panics
    /// If a number is above [`AGENT_NUMBER_MAX`](crate::limits::AGENT_NUMBER_MAX).
    #[must_use]
    pub fn new(from: AgentId, to: AgentId, packet: &'a [u8]) -> Option<Self> {
        let _ = (agent_number(from), agent_number(to));
        is_relayable(*packet.first()?).then_some(Self { from, to, packet })
    }

    /// Returns the agent that sent the packet.
    #[must_use]
    pub const fn from(&self) -> AgentId {
        self.from
    }

    /// Returns the agent for which the packet is.
    #[must_use]
    pub const fn to(&self) -> AgentId {
        self.to
    }

    /// Returns the packet: an initiation, response, cookie or message packet. Only its first byte
    /// is checked.
    #[must_use]
    pub const fn packet(&self) -> &'a [u8] {
        self.packet
    }

    /// Reads an inter-relay packet from the body of a message.
    ///
    /// # Errors
    /// If a field is cut off or illegal, or if relays do not forward packets of this kind.
    pub fn parse(body: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("inter-relay packet", body);
        let from = reader.agent("from")?;
        let to = reader.agent("to")?;
        let packet = reader.rest();
        let kind = reader.u8("packet")?;
        if !is_relayable(kind) {
            return Err(reader.illegal("kind of packet", kind, "4, 5, 6, 8"));
        }
        Ok(Self { from, to, packet })
    }

    /// Appends the inter-relay packet to the messages of a packet.
    ///
    /// # Errors
    /// If the packet has too few bytes left; then no byte is written.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), MessageFullError> {
        writer.append(Self::TYPE, |output| {
            output.u32(agent_number(self.from));
            output.u32(agent_number(self.to));
            output.bytes(self.packet);
        })
    }
}
