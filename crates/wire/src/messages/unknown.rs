//! Unknown messages: those of later versions, and grease.

use super::Message;
use crate::error::MessageFullError;
use crate::writer::Writer;

/// A message of a type that this version does not define. It is skipped and counted, or sent as
/// grease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownMessage<'a> {
    message_type: u8,
    body: &'a [u8],
}

impl<'a> UnknownMessage<'a> {
    /// Lowest grease type. Types from here to 255 never have a meaning.
    pub const GREASE_MIN: u8 = 240;

    /// Wraps a message of this type; `None` if this version defines the type.
    #[must_use]
    pub const fn new(message_type: u8, body: &'a [u8]) -> Option<Self> {
        if Message::is_known(message_type) { None } else { Some(Self { message_type, body }) }
    }

    /// Wraps a message of a type that this version does not define.
    pub(super) const fn of_foreign_type(message_type: u8, body: &'a [u8]) -> Self {
        Self { message_type, body }
    }

    /// Returns the type number of the message.
    #[must_use]
    pub const fn message_type(&self) -> u8 {
        self.message_type
    }

    /// Returns the body, which this version cannot interpret.
    #[must_use]
    pub const fn body(&self) -> &'a [u8] {
        self.body
    }

    /// Appends the message to the messages of a packet.
    ///
    /// # Errors
    /// If the packet has too few bytes left; then no byte is written.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), MessageFullError> {
        writer.append(self.message_type, |output| output.bytes(self.body))
    }
}
