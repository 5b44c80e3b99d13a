//! Messages of later versions, and grease.

use super::Message;
use crate::error::Full;
use crate::writer::Writer;

/// A message of a type that this version does not know: skipped and counted, or sent as grease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unknown<'a> {
    message_type: u8,
    body: &'a [u8],
}

impl<'a> Unknown<'a> {
    /// The lowest of the types, up to 255, that never mean anything.
    pub const GREASE_MIN: u8 = 240;

    /// A message of this type; `None` if the type is known.
    #[must_use]
    pub const fn new(message_type: u8, body: &'a [u8]) -> Option<Self> {
        if Message::is_known(message_type) { None } else { Some(Self { message_type, body }) }
    }

    /// A message whose type has been looked for in vain.
    pub(super) const fn of_foreign_type(message_type: u8, body: &'a [u8]) -> Self {
        Self { message_type, body }
    }

    /// The type.
    #[must_use]
    pub const fn message_type(&self) -> u8 {
        self.message_type
    }

    /// The body, whatever it means.
    #[must_use]
    pub const fn body(&self) -> &'a [u8] {
        self.body
    }

    /// Appends the message.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), Full> {
        writer.append(self.message_type, |output| output.bytes(self.body))
    }
}
