//! Path response: the answer to a path challenge.

use crate::error::{MessageFullError, ParseError};
use crate::reader::Reader;
use crate::writer::Writer;

/// Answer to a path challenge, sent to the challenge's source address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathResponse {
    /// Token of the challenge.
    pub token: [u8; 8],
}

impl PathResponse {
    /// Type number of a path response on the wire.
    pub const TYPE: u8 = 35;

    /// Reads a path response from the body of a message.
    ///
    /// # Errors
    /// If the token is cut off.
    pub fn parse(body: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("path response", body);
        Ok(Self { token: *reader.array("token")? })
    }

    /// Appends the path response to the messages of a packet.
    ///
    /// # Errors
    /// If the packet has too few bytes left; then no byte is written.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), MessageFullError> {
        writer.append(Self::TYPE, |output| output.bytes(&self.token))
    }
}
