//! Close: a session ends.

use crate::codes::{Code, codes};
use crate::error::{Full, ParseError};
use crate::reader::Reader;
use crate::writer::Writer;

codes! {
    /// Why a session ends.
    pub enum CloseReason {
        /// The node leaves the network.
        Leaving = 0,
        /// The node restarts.
        Restarting = 1,
        /// What was granted no longer is.
        NoLongerGranted = 2,
    }
}

/// The session ends, and the receiver forgets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Close {
    /// Why.
    pub reason: CloseReason,
}

impl Close {
    /// The message's type.
    pub const TYPE: u8 = 38;

    /// Reads the body.
    ///
    /// # Errors
    /// If the reason is missing or unknown.
    pub fn parse(body: &[u8]) -> Result<Self, ParseError> {
        Ok(Self { reason: Reader::new("close", body).code("reason")? })
    }

    /// Appends the message.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), Full> {
        writer.append(Self::TYPE, |output| output.u8(self.reason.code()))
    }
}
