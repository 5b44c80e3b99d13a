//! Unregister reply: the answer to unregister.

use super::FlowRole;
use crate::codes::Code;
use crate::error::{MessageFullError, ParseError};
use crate::grant::GrantedRelay;
use crate::ids::FlowKey;
use crate::reader::Reader;
use crate::writer::Writer;

/// The relay, or the other agent, has removed an agent's registration of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnregisterReply {
    /// Key of the flow.
    pub flow_key: FlowKey,
    /// Role of the requesting agent in the flow.
    pub role: FlowRole,
    /// Relay shard at the other end of the sender's path that ended; `None` if all paths of the
    /// flow have ended.
    pub far_relay: Option<GrantedRelay>,
}

impl UnregisterReply {
    /// Type number of an unregister reply on the wire.
    pub const TYPE: u8 = 6;

    /// Reads an unregister reply from the body of a message.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("unregister reply", body);
        Ok(Self {
            flow_key: reader.flow_key()?,
            role: reader.code("role")?,
            far_relay: GrantedRelay::parse_optional(&mut reader)?,
        })
    }

    /// Appends the unregister reply to the messages of a packet.
    ///
    /// # Errors
    /// If the packet has too few bytes left; then no byte is written.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), MessageFullError> {
        writer.append(Self::TYPE, |output| {
            output.bytes(&self.flow_key.to_bytes());
            output.u8(self.role.code());
            GrantedRelay::emit_optional(self.far_relay, output);
        })
    }
}
