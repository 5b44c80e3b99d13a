//! Relayed: a packet that a relay passes on between agents.

use byway_units::AgentId;

use crate::error::{Full, ParseError};
use crate::ids::agent_number;
use crate::packets::Kind;
use crate::reader::Reader;
use crate::writer::Writer;

/// A packet for another agent, or from one, through a relay: a packet of a handshake or of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relayed<'a> {
    agent: AgentId,
    packet: &'a [u8],
}

impl<'a> Relayed<'a> {
    /// The message's type.
    pub const TYPE: u8 = 36;

    /// A packet for `agent` on the way to the relay, from `agent` on the way from it; `None` unless its kind is one
    /// that relays pass on.
    ///
    /// # Panics
    /// If the agent's number is above [`AGENT_NUMBER_MAX`](crate::limits::AGENT_NUMBER_MAX).
    #[must_use]
    pub fn new(agent: AgentId, packet: &'a [u8]) -> Option<Self> {
        let _ = agent_number(agent);
        is_passed_on(*packet.first()?).then_some(Self { agent, packet })
    }

    /// Whom the packet is for, or who sent it.
    #[must_use]
    pub const fn agent(&self) -> AgentId {
        self.agent
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
        let mut reader = Reader::new("relayed", body);
        let agent = reader.agent("agent")?;
        let packet = reader.rest();
        let kind = reader.u8("packet")?;
        if !is_passed_on(kind) {
            return Err(reader.illegal("kind of packet", kind, "4, 5, 6, 8"));
        }
        Ok(Self { agent, packet })
    }

    /// Appends the message.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), Full> {
        writer.append(Self::TYPE, |output| {
            output.u32(agent_number(self.agent));
            output.bytes(self.packet);
        })
    }
}

/// Application data goes its own ways.
pub(super) fn is_passed_on(first_byte: u8) -> bool {
    use Kind::{Cookie, Initiation, Message, Response};
    matches!(Kind::from_first_byte(first_byte), Some(Initiation | Response | Cookie | Message))
}
