//! Close: a session ends.

use crate::codes::{Code, codes};
use crate::error::{MessageFullError, ParseError};
use crate::reader::Reader;
use crate::writer::Writer;

codes! {
    /// Reason for which a session ends.
    pub enum CloseReason {
        /// The node leaves the network.
        Leaving = 0,
        /// The node restarts.
        Restarting = 1,
        /// The grant was withdrawn.
        NoLongerGranted = 2,
    }
}

/// A node ends a session, and its peer removes the session's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close {
    /// Reason for which the session ends.
    pub reason: CloseReason,
}

impl Close {
    /// Type number of a close message on the wire.
    pub const TYPE: u8 = 38;

    /// Reads a close message from the body of a message.
    ///
    /// # Errors
    /// If the reason is missing or unknown.
    pub fn parse(body: &[u8]) -> Result<Self, ParseError> {
        Ok(Self { reason: Reader::new("close", body).code("reason")? })
    }

    /// Appends the close message to the messages of a packet.
    ///
    /// # Errors
    /// If the packet has too few bytes left; then no byte is written.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), MessageFullError> {
        writer.append(Self::TYPE, |output| output.u8(self.reason.code()))
    }
}
