//! Relayed packet: a packet that a relay forwards between agents.

use byway_units::AgentId;

use crate::error::{MessageFullError, ParseError};
use crate::ids::agent_number;
use crate::packets::Kind;
use crate::reader::Reader;
use crate::writer::Writer;

/// A handshake or message packet to or from another agent, through a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelayedPacket<'a> {
    agent: AgentId,
    packet: &'a [u8],
}

impl<'a> RelayedPacket<'a> {
    /// Type number of a relayed packet on the wire.
    pub const TYPE: u8 = 36;

    /// Wraps a packet. Toward the relay, `agent` is its destination; from the relay, `agent` is its
    /// source. `None` if relays do not forward packets of this kind.
    ///
    /// # Panics
    /// If the agent's number is above [`AGENT_NUMBER_MAX`](crate::limits::AGENT_NUMBER_MAX).
    #[must_use]
    pub fn new(agent: AgentId, packet: &'a [u8]) -> Option<Self> {
        let _ = agent_number(agent);
        is_relayable(*packet.first()?).then_some(Self { agent, packet })
    }

    /// Returns the other agent: the packet's destination towards the relay, its source from the
    /// relay.
    #[must_use]
    pub const fn agent(&self) -> AgentId {
        self.agent
    }

    /// Returns the packet: an initiation, response, cookie or message packet. Only its first byte
    /// is checked.
    #[must_use]
    pub const fn packet(&self) -> &'a [u8] {
        self.packet
    }

    /// Reads a relayed packet from the body of a message.
    ///
    /// # Errors
    /// If a field is cut off or illegal, or if relays do not forward packets of this kind.
    pub fn parse(body: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("relayed packet", body);
        let agent = reader.agent("agent")?;
        let packet = reader.rest();
        let kind = reader.u8("packet")?;
        if !is_relayable(kind) {
            return Err(reader.illegal("kind of packet", kind, "4, 5, 6, 8"));
        }
        Ok(Self { agent, packet })
    }

    /// Appends the relayed packet to the messages of a packet.
    ///
    /// # Errors
    /// If the packet has too few bytes left; then no byte is written.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), MessageFullError> {
        writer.append(Self::TYPE, |output| {
            output.u32(agent_number(self.agent));
            output.bytes(self.packet);
        })
    }
}

/// Returns true for the kinds that relays forward in messages. Source packets travel in envelopes
/// instead.
pub(super) fn is_relayable(first_byte: u8) -> bool {
    use Kind::{Cookie, Initiation, Message, Response};
    matches!(Kind::from_first_byte(first_byte), Some(Initiation | Response | Cookie | Message))
}
