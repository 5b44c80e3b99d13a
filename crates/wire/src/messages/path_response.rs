//! Path response: the answer to a path challenge.

use crate::error::{Full, ParseError};
use crate::reader::Reader;
use crate::writer::Writer;

/// The answer to a path challenge, sent to the address it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathResponse {
    /// That of the challenge.
    pub token: [u8; 8],
}

impl PathResponse {
    /// The message's type.
    pub const TYPE: u8 = 35;

    /// Reads the body.
    ///
    /// # Errors
    /// If the token is cut off.
    pub fn parse(body: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("path response", body);
        Ok(Self { token: *reader.array("token")? })
    }

    /// Appends the message.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), Full> {
        writer.append(Self::TYPE, |output| output.bytes(&self.token))
    }
}
