//! Putting messages into packets, one behind the other.

use crate::error::Full;
use crate::limits::MESSAGES_BYTES_MAX;

/// Type and length, in front of every message's body.
pub(crate) const MESSAGE_HEADER_BYTES: usize = 3;

/// Fills the plaintext of a packet with messages.
///
/// A message that does not fit is refused whole: what [`Writer::written`] shows holds whole messages only. The
/// bytes behind it are scratch.
#[derive(Debug)]
pub struct Writer<'a> {
    buffer: &'a mut [u8],
    length: usize,
}

impl<'a> Writer<'a> {
    /// An empty row of messages, which may grow to the length of `buffer` and to [`MESSAGES_BYTES_MAX`].
    #[must_use]
    pub fn new(buffer: &'a mut [u8]) -> Self {
        let limit = buffer.len().min(MESSAGES_BYTES_MAX);
        Self { buffer: &mut buffer[..limit], length: 0 }
    }

    /// How many bytes are written.
    #[must_use]
    pub const fn length(&self) -> usize {
        self.length
    }

    /// How many bytes are left.
    #[must_use]
    pub const fn room(&self) -> usize {
        self.buffer.len() - self.length
    }

    /// The messages written so far.
    #[must_use]
    pub fn written(&self) -> &[u8] {
        &self.buffer[..self.length]
    }

    /// The messages written so far, for sealing in place.
    #[must_use]
    pub fn into_written(self) -> &'a mut [u8] {
        &mut self.buffer[..self.length]
    }

    /// Appends the message of this type whose body `emit` writes, if it fits.
    pub(crate) fn append(
        &mut self,
        message_type: u8,
        emit: impl FnOnce(&mut Output<'_>),
    ) -> Result<(), Full> {
        let needed = emit_message(&mut self.buffer[self.length..], message_type, emit);
        if needed > self.room() {
            return Err(Full { message_type, needed, room: self.room() });
        }
        self.length += needed;
        Ok(())
    }
}

/// Writes a message into `place`, and returns the bytes that it takes, which may be more than there are.
fn emit_message(place: &mut [u8], message_type: u8, emit: impl FnOnce(&mut Output<'_>)) -> usize {
    let mut output = Output::new(place);
    output.u8(message_type);
    output.u16(0);
    emit(&mut output);
    let Output { place, length: needed } = output;
    if needed <= place.len() {
        let body_bytes = u16::try_from(needed - MESSAGE_HEADER_BYTES);
        let body_bytes = body_bytes.expect("packets are shorter than the longest message");
        place[1..MESSAGE_HEADER_BYTES].copy_from_slice(&body_bytes.to_be_bytes());
    }
    needed
}

/// Writes the head of a message at the end of `front`, where its payload follows; returns where the message begins.
pub(crate) fn emit_in_front(
    front: &mut [u8],
    message_type: u8,
    head_bytes: usize,
    payload_bytes: usize,
    emit: impl FnOnce(&mut Output<'_>),
) -> Result<usize, Full> {
    let needed = head_bytes + payload_bytes;
    let start = front.len().checked_sub(head_bytes).filter(|_| needed <= MESSAGES_BYTES_MAX);
    let room = front.len().min(MESSAGES_BYTES_MAX.saturating_sub(payload_bytes));
    let start = start.ok_or(Full { message_type, needed: head_bytes, room })?;
    let mut output = Output::new(&mut front[start..]);
    output.u8(message_type);
    let body_bytes = u16::try_from(needed - MESSAGE_HEADER_BYTES);
    output.u16(body_bytes.expect("packets are shorter than the longest message"));
    emit(&mut output);
    assert_eq!(output.length, head_bytes, "a head is as long as it says");
    Ok(start)
}

/// Takes the fields of one message, and counts on when there is no place left.
#[derive(Debug)]
pub(crate) struct Output<'a> {
    place: &'a mut [u8],
    length: usize,
}

impl<'a> Output<'a> {
    pub(crate) const fn new(place: &'a mut [u8]) -> Self {
        Self { place, length: 0 }
    }

    /// How many bytes the fields take so far.
    pub(crate) const fn length(&self) -> usize {
        self.length
    }

    #[inline]
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        let end = self.length + bytes.len();
        if let Some(place) = self.place.get_mut(self.length..end) {
            place.copy_from_slice(bytes);
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

    /// As one byte, the length of a list that is bounded by its type.
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
        assert_eq!(refused, Err(Full { message_type: 8, needed: 6, room: 5 }));
        assert_eq!((writer.written(), writer.room()), ([7, 0, 2, 1, 2].as_slice(), 5));
        assert_eq!(writer.append(9, |output| output.u16(0x0304)), Ok(()));
        assert_eq!(writer.into_written(), [7, 0, 2, 1, 2, 9, 0, 2, 3, 4]);
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
        assert_eq!(refused, Err(Full { message_type: 16, needed: 4, room: 3 }));
        let refused = emit_in_front(&mut [0; 9], 16, 4, MESSAGES_BYTES_MAX - 3, |output| output.u8(5));
        assert_eq!(refused, Err(Full { message_type: 16, needed: 4, room: 3 }));
        let fits = emit_in_front(&mut [0; 9], 16, 4, MESSAGES_BYTES_MAX - 4, |output| output.u8(5));
        assert_eq!(fits, Ok(5));
    }

    #[test]
    #[should_panic(expected = "as long as it says")]
    fn a_head_of_another_length_is_a_broken_invariant() {
        let _ = emit_in_front(&mut [0; 9], 16, 5, 0, |output| output.u8(5));
    }
}
