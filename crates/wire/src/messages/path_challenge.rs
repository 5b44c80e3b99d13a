//! Path challenge: path validation of a peer's address.

use crate::error::{MessageFullError, ParseError};
use crate::reader::Reader;
use crate::writer::Writer;

/// Tests if the peer receives at an address from which an authenticated packet arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathChallenge {
    /// Random secret, which the response returns.
    pub token: [u8; 8],
}

impl PathChallenge {
    /// Type number of a path challenge on the wire.
    pub const TYPE: u8 = 34;

    /// Reads a path challenge from the body of a message.
    ///
    /// # Errors
    /// If the token is cut off.
    pub fn parse(body: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("path challenge", body);
        Ok(Self { token: *reader.array("token")? })
    }

    /// Appends the path challenge to the messages of a packet.
    ///
    /// # Errors
    /// If the packet has too few bytes left; then no byte is written.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), MessageFullError> {
        writer.append(Self::TYPE, |output| output.bytes(&self.token))
    }
}
