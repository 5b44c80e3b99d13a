//! Path challenge: is the peer at this address?

use crate::error::{Full, ParseError};
use crate::reader::Reader;
use crate::writer::Writer;

/// Asks, at an address from which an authenticated packet came, whether the peer is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathChallenge {
    /// Random.
    pub token: [u8; 8],
}

impl PathChallenge {
    /// The message's type.
    pub const TYPE: u8 = 34;

    /// Reads the body.
    ///
    /// # Errors
    /// If the token is cut off.
    pub fn parse(body: &[u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new("path challenge", body);
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
