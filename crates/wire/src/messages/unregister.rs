//! Unregister: an agent's part in a flow has ended.

use super::FlowRole;
use crate::codes::Code;
use crate::error::{Full, ParseError};
use crate::grant::GrantedRelay;
use crate::ids::FlowKey;
use crate::reader::Reader;
use crate::writer::Writer;

/// An agent's part in a flow has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unregister {
    /// The flow.
    pub flow_key: FlowKey,
    /// What the agent was to it.
    pub role: FlowRole,
    /// The relay shard at the other end of the sender's path that ended; `None` if all paths of the flow have.
    pub far_relay: Option<GrantedRelay>,
}

impl Unregister {
    /// The message's type.
    pub const TYPE: u8 = 5;

    /// Reads the body.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("unregister", body);
        Ok(Self {
            flow_key: reader.flow_key()?,
            role: reader.code("role")?,
            far_relay: GrantedRelay::parse_optional(&mut reader)?,
        })
    }

    /// Appends the message.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), Full> {
        writer.append(Self::TYPE, |output| {
            output.bytes(&self.flow_key.to_bytes());
            output.u8(self.role.code());
            GrantedRelay::emit_optional(self.far_relay, output);
        })
    }
}
