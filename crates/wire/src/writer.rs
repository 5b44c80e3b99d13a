//! Writer of messages into packets, one after the other.

use crate::error::MessageFullError;
use crate::limits::MESSAGES_BYTES_MAX;

/// Length in bytes of the fields before every message's body: type and length.
pub(crate) const MESSAGE_HEADER_BYTES: usize = 3;

/// Writes messages into the plaintext of a packet.
///
/// A message that does not fit is refused whole: [`Writer::as_bytes`] returns complete messages
/// only. The bytes after them are scratch.
#[derive(Debug)]
pub struct Writer<'a> {
    buffer: &'a mut [u8],
    length: usize,
}

impl<'a> Writer<'a> {
    /// Begins an empty sequence of messages. Its length is limited by `buffer` and by
    /// [`MESSAGES_BYTES_MAX`].
    #[must_use]
    pub fn new(buffer: &'a mut [u8]) -> Self {
        let limit = buffer.len().min(MESSAGES_BYTES_MAX);
        Self { buffer: &mut buffer[..limit], length: 0 }
    }

    /// Returns the number of bytes of the messages written so far.
    #[must_use]
    pub const fn length(&self) -> usize {
        self.length
    }

    /// Returns the number of bytes left for further messages.
    #[must_use]
    pub const fn remaining(&self) -> usize {
        self.buffer.len() - self.length
    }

    /// Returns the encoded messages written so far.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.buffer[..self.length]
    }

    /// Returns the encoded messages written so far, for sealing in place.
    #[must_use]
    pub fn into_bytes(self) -> &'a mut [u8] {
        &mut self.buffer[..self.length]
    }

    /// Appends a message of this type if it fits; `emit` writes the body.
    pub(crate) fn append(
        &mut self,
        message_type: u8,
        emit: impl FnOnce(&mut Output<'_>),
    ) -> Result<(), MessageFullError> {
        let needed = emit_message(&mut self.buffer[self.length..], message_type, emit);
        if needed > self.remaining() {
            return Err(MessageFullError { message_type, needed, remaining: self.remaining() });
        }
        self.length += needed;
        Ok(())
    }
}

/// Writes a message into `target`. Returns its length, which may exceed that of `target`.
fn emit_message(target: &mut [u8], message_type: u8, emit: impl FnOnce(&mut Output<'_>)) -> usize {
    let mut output = Output::new(target);
    output.u8(message_type);
    output.u16(0);
    emit(&mut output);
    let Output { buffer: target, length: needed } = output;
    if needed <= target.len() {
        let body_bytes = u16::try_from(needed - MESSAGE_HEADER_BYTES);
        let body_bytes = body_bytes.expect("packets are shorter than the longest message");
        target[1..MESSAGE_HEADER_BYTES].copy_from_slice(&body_bytes.to_be_bytes());
    }
    needed
}

/// Writes the head of a message at the end of `front`, directly before its payload. Returns the
/// message's offset in `front`.
pub(crate) fn emit_in_front(
    front: &mut [u8],
    message_type: u8,
    head_bytes: usize,
    payload_bytes: usize,
    emit: impl FnOnce(&mut Output<'_>),
) -> Result<usize, MessageFullError> {
    let needed = head_bytes + payload_bytes;
    let start = front.len().checked_sub(head_bytes).filter(|_| needed <= MESSAGES_BYTES_MAX);
    let remaining = front.len().min(MESSAGES_BYTES_MAX.saturating_sub(payload_bytes));
    let start = start.ok_or(MessageFullError { message_type, needed: head_bytes, remaining })?;
    let mut output = Output::new(&mut front[start..]);
    output.u8(message_type);
    let body_bytes = u16::try_from(needed - MESSAGE_HEADER_BYTES);
    output.u16(body_bytes.expect("packets are shorter than the longest message"));
    emit(&mut output);
    assert_eq!(output.length, head_bytes, "a head is as long as it says");
    Ok(start)
}

/// Writes the fields of one message. After the buffer's end, it only counts.
#[derive(Debug)]
pub(crate) struct Output<'a> {
    buffer: &'a mut [u8],
    length: usize,
}

impl<'a> Output<'a> {
    pub(crate) const fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, length: 0 }
    }

    /// Returns the number of bytes of the fields so far, those beyond the buffer included.
    pub(crate) const fn length(&self) -> usize {
        self.length
    }

    #[inline]
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        let end = self.length + bytes.len();
        if let Some(target) = self.buffer.get_mut(self.length..end) {
            target.copy_from_slice(bytes);
        }
        self.length = end;
    }

    #[inline]
    pub(crate) fn u8(&mut self, value: u8) {
        self.bytes(&[value]);
    }

    #[inline]
    pub(crate) fn u16(&mut self, value: u16) {
        self.bytes(&value.to_be_bytes());
    }

    #[inline]
    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes(&value.to_be_bytes());
    }

    #[inline]
    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes(&value.to_be_bytes());
    }

    /// Writes the length of a list as one byte. The list's type limits it to 255.
    #[inline]
    pub(crate) fn count(&mut self, count: usize) {
        self.u8(u8::try_from(count).expect("lists have at most 255 entries"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_does_not_fit_leaves_what_is_written() {
        let mut buffer = [0xAA; 10];
        let mut writer = Writer::new(&mut buffer);
        assert_eq!(writer.append(7, |output| output.u16(0x0102)), Ok(()));
        let refused = writer.append(8, |output| output.bytes(&[1, 2, 3]));
        assert_eq!(refused, Err(MessageFullError { message_type: 8, needed: 6, remaining: 5 }));
        assert_eq!((writer.as_bytes(), writer.remaining()), ([7, 0, 2, 1, 2].as_slice(), 5));
        assert_eq!(writer.append(9, |output| output.u16(0x0304)), Ok(()));
        assert_eq!(writer.into_bytes(), [7, 0, 2, 1, 2, 9, 0, 2, 3, 4]);
    }

    #[test]
    fn a_head_ends_where_the_payload_begins() {
        let mut front = [0xAA; 6];
        assert_eq!(emit_in_front(&mut front, 16, 4, 300, |output| output.u8(5)), Ok(2));
        assert_eq!(front, [0xAA, 0xAA, 16, 1, 45, 5]);
    }

    #[test]
    fn a_head_without_room_is_refused() {
        let refused = emit_in_front(&mut [0; 3], 16, 4, 0, |output| output.u8(5));
        assert_eq!(refused, Err(MessageFullError { message_type: 16, needed: 4, remaining: 3 }));
        let refused = emit_in_front(&mut [0; 9], 16, 4, MESSAGES_BYTES_MAX - 3, |output| output.u8(5));
        assert_eq!(refused, Err(MessageFullError { message_type: 16, needed: 4, remaining: 3 }));
        let fits = emit_in_front(&mut [0; 9], 16, 4, MESSAGES_BYTES_MAX - 4, |output| output.u8(5));
        assert_eq!(fits, Ok(5));
    }

    #[test]
    #[should_panic(expected = "as long as it says")]
    fn a_head_of_another_length_is_a_broken_invariant() {
        let _ = emit_in_front(&mut [0; 9], 16, 5, 0, |output| output.u8(5));
    }
}
