//! Wire form of requests, outlines and answers.
//!
//! A message is its length in four bytes, the version, its kind and its content. The length counts
//! from the version on. Numbers are big-endian.
//!
//! | kind | from | content |
//! |---|---|---|
//! | 1, request | client | number, x, y, width, height (4 bytes each), resolution, flags (bit 0: fresh), bytes (4) |
//! | 2, answer | server | number (4 bytes), remainder (0 nothing, 1 pending, 2 refused), packets |
//! | 3, outline | server | length of headers (4 bytes), headers, packets of each tile-part (4 each) |
//!
//! A server sends an outline first, then an answer to each request, in their order.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::error::Error;
use core::fmt;

use crate::layout::PacketNumber;
use crate::limits::{ANSWER_BYTES_MAX, OUTLINE_BYTES_MAX, PACKET_BYTES_MAX, TILE_PARTS_MAX};
use crate::outline::{FileChanged, Outline, OutlineError};
use crate::packet_code::{read_packet, write_packet};
use crate::reader::Reader;
use crate::selection::{ANSWER_OVERHEAD, Remainder, Request, Selection};
use crate::window::Window;

/// Version of the messages. A message of another version is refused.
pub const MESSAGE_VERSION: u8 = 1;

const REQUEST: u8 = 1;
const ANSWER: u8 = 2;
const OUTLINE: u8 = 3;

/// Bytes of an encoded request.
pub const REQUEST_BYTES: usize = 32;

/// Bytes of the length of a message, which it does not count.
const LENGTH_BYTES: usize = 4;

/// Bit of a request's flags.
const FRESH: u8 = 1;

/// Message of a server.
#[derive(Clone, Debug)]
pub enum ServerMessage<'a> {
    /// Headers of the image.
    Outline(Box<Outline>),
    /// Packets of a window.
    Answer(Answer<'a>),
}

/// Answer to a request, with packets in the bytes of the message.
#[derive(Clone, Debug)]
pub struct Answer<'a> {
    /// Number of the request.
    pub number: u32,
    /// Packets of the window that the answer does not have.
    pub remainder: Remainder,
    /// Packets, in the order in which they were selected.
    pub packets: AnswerPackets<'a>,
}

/// Iterator over the packets of an answer. It needs no memory.
#[derive(Clone, Debug)]
pub struct AnswerPackets<'a> {
    content: Reader<'a>,
    before: Option<PacketNumber>,
}

impl<'a> AnswerPackets<'a> {
    fn read(&mut self) -> Option<(PacketNumber, &'a [u8])> {
        let (packet, bytes) = read_packet(self.before, &mut self.content)?;
        self.before = Some(packet);
        Some((packet, bytes))
    }

    /// Returns true if the bytes are packets up to the end.
    fn ends_with_a_packet(mut self) -> bool {
        while !self.content.is_empty() {
            if self.read().is_none() {
                return false;
            }
        }
        true
    }
}

impl<'a> Iterator for AnswerPackets<'a> {
    type Item = (PacketNumber, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        self.read()
    }
}

impl Request {
    /// Encodes the request.
    #[must_use]
    pub fn encode(&self) -> [u8; REQUEST_BYTES] {
        let Window { x, y, width, height } = self.window;
        let flags = if self.is_fresh { FRESH } else { 0 };
        let mut message = Vec::with_capacity(REQUEST_BYTES);
        begin(REQUEST, &mut message);
        for number in [self.number, x, y, width, height] {
            message.extend_from_slice(&number.to_be_bytes());
        }
        message.extend_from_slice(&[self.resolution, flags]);
        message.extend_from_slice(&self.bytes_max.to_be_bytes());
        finish(&mut message);
        let mut encoded = [0; REQUEST_BYTES];
        encoded.copy_from_slice(&message);
        encoded
    }

    /// Decodes the first message of `bytes` as a request, and returns its length, too. `None` means
    /// that bytes are missing: a server needs to buffer [`REQUEST_BYTES`] at most.
    ///
    /// # Errors
    /// If the message is no valid request of this version.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, MessageError> {
        let Some((kind, mut content, length)) = open(bytes, REQUEST_BYTES)? else { return Ok(None) };
        if kind != REQUEST {
            return Err(MessageError::Kind(kind));
        }
        let invalid = MessageError::Content(kind);
        let mut numbers = [0; 5];
        for number in &mut numbers {
            *number = content.u32().ok_or(invalid)?;
        }
        let [resolution, flags] = content.array::<2>().ok_or(invalid)?;
        let bytes_max = content.u32().ok_or(invalid)?;
        if !content.is_empty() || flags & !FRESH != 0 {
            return Err(invalid);
        }
        let [number, x, y, width, height] = numbers;
        let window = Window { x, y, width, height };
        Ok(Some((Self { number, window, resolution, bytes_max, is_fresh: flags == FRESH }, length)))
    }
}

impl Selection {
    /// Encodes the answer with packets from `packet`. It has [`Selection::bytes`].
    ///
    /// # Errors
    /// If `packet` has not all packets, or not those of the index.
    pub fn encode<'a>(
        &self,
        packet: impl Fn(PacketNumber) -> Option<&'a [u8]>,
    ) -> Result<Vec<u8>, FileChanged> {
        let mut message = Vec::with_capacity(self.bytes() as usize);
        begin(ANSWER, &mut message);
        message.extend_from_slice(&self.number().to_be_bytes());
        message.push(match self.remainder() {
            Remainder::Nothing => 0,
            Remainder::Pending => 1,
            Remainder::Refused => 2,
        });
        let mut before = None;
        for number in self.packets().iter().copied() {
            let bytes = packet(number).filter(|bytes| bytes.len() <= PACKET_BYTES_MAX as usize);
            write_packet(before, number, bytes.ok_or(FileChanged)?, &mut message);
            before = Some(number);
        }
        if message.len() != self.bytes() as usize {
            return Err(FileChanged);
        }
        finish(&mut message);
        Ok(message)
    }
}

impl Outline {
    /// Encodes the outline, without lengths of packets.
    ///
    /// # Errors
    /// If the headers have more than [`OUTLINE_BYTES_MAX`].
    pub fn encode(&self) -> Result<Vec<u8>, OutlineTooLong> {
        let outline = self.without_lengths();
        let headers = outline.headers();
        let length = u32::try_from(headers.len()).map_err(|_| OutlineTooLong)?;
        if headers.len() > OUTLINE_BYTES_MAX {
            return Err(OutlineTooLong);
        }
        let mut message = Vec::with_capacity(headers.len() + 16);
        begin(OUTLINE, &mut message);
        message.extend_from_slice(&length.to_be_bytes());
        message.extend_from_slice(headers);
        for packets in outline.packets_of_parts() {
            message.extend_from_slice(&packets.to_be_bytes());
        }
        finish(&mut message);
        Ok(message)
    }
}

impl<'a> ServerMessage<'a> {
    /// Decodes the first message of `bytes`, and returns its length, too. `None` means that bytes
    /// are missing: a client needs to buffer [`ANSWER_BYTES_MAX`] at most.
    ///
    /// # Errors
    /// If the message is no valid outline or answer of this version.
    pub fn decode(bytes: &'a [u8]) -> Result<Option<(Self, usize)>, MessageError> {
        let Some((kind, content, length)) = open(bytes, ANSWER_BYTES_MAX as usize)? else { return Ok(None) };
        let message = match kind {
            ANSWER => Self::Answer(decode_answer(content).ok_or(MessageError::Content(kind))?),
            OUTLINE => {
                let (headers, packets) = decode_outline(content).ok_or(MessageError::Content(kind))?;
                let outline = Outline::read(headers, &packets).map_err(MessageError::Outline)?;
                Self::Outline(Box::new(outline))
            }
            _ => return Err(MessageError::Kind(kind)),
        };
        Ok(Some((message, length)))
    }
}

fn decode_answer(mut content: Reader<'_>) -> Option<Answer<'_>> {
    let number = content.u32()?;
    let remainder = match content.u8()? {
        0 => Remainder::Nothing,
        1 => Remainder::Pending,
        2 => Remainder::Refused,
        _ => return None,
    };
    let packets = AnswerPackets { content, before: None };
    packets.clone().ends_with_a_packet().then_some(Answer { number, remainder, packets })
}

/// Returns the headers of an outline, and the packets of its tile-parts.
fn decode_outline(mut content: Reader<'_>) -> Option<(&[u8], Vec<u32>)> {
    let length = usize::try_from(content.u32()?).ok().filter(|length| *length <= OUTLINE_BYTES_MAX)?;
    let headers = content.read(length)?;
    let mut packets = Vec::new();
    while !content.is_empty() {
        if packets.len() >= TILE_PARTS_MAX {
            return None;
        }
        packets.push(content.u32()?);
    }
    Some((headers, packets))
}

/// Begins a message whose length is not known yet.
fn begin(kind: u8, message: &mut Vec<u8>) {
    message.extend_from_slice(&[0, 0, 0, 0, MESSAGE_VERSION, kind]);
}

/// Writes the length of a message.
fn finish(message: &mut [u8]) {
    // Messages are below ANSWER_BYTES_MAX.
    let length = u32::try_from(message.len().saturating_sub(LENGTH_BYTES)).unwrap_or(u32::MAX);
    message[..LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
}

/// Kind, content and length of a message.
type Opened<'a> = (u8, Reader<'a>, usize);

/// Reads the beginning of a message; `None` if bytes are missing.
fn open(bytes: &[u8], bytes_max: usize) -> Result<Option<Opened<'_>>, MessageError> {
    let mut reader = Reader::new(bytes);
    let Some(length) = reader.u32() else { return Ok(None) };
    let mut message = reader;
    if let Some(version) = message.u8().filter(|version| *version != MESSAGE_VERSION) {
        return Err(MessageError::Version(version));
    }
    let end = usize::try_from(length).ok().and_then(|length| length.checked_add(LENGTH_BYTES));
    let end = end.filter(|end| length >= 2 && *end <= bytes_max).ok_or(MessageError::Length(length))?;
    let Some(mut message) = message.until(end) else { return Ok(None) };
    // The length is at least that of version and kind.
    Ok(message.u8().map(|kind| (kind, message, end)))
}

/// Error of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageError {
    /// The message has another version than [`MESSAGE_VERSION`].
    Version(u8),
    /// The message is longer than messages may be, or has no kind.
    Length(u32),
    /// The message is of no kind that is expected.
    Kind(u8),
    /// The content does not fit the kind.
    Content(u8),
    /// The outline is faulty.
    Outline(OutlineError),
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot read the message: ")?;
        match self {
            Self::Version(version) => write!(f, "version {version} unknown; this is {MESSAGE_VERSION}"),
            Self::Length(length) => write!(f, "length {length} invalid"),
            Self::Kind(kind) => write!(f, "kind {kind} not expected"),
            Self::Content(kind) => write!(f, "content of kind {kind} invalid"),
            Self::Outline(error) => write!(f, "{error}"),
        }
    }
}

impl Error for MessageError {}

/// Error of an outline that is too long for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutlineTooLong;

impl fmt::Display for OutlineTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot send the image: headers over {OUTLINE_BYTES_MAX} bytes; remove comments")
    }
}

impl Error for OutlineTooLong {}

const _: () = assert!(
    OUTLINE_BYTES_MAX + 4 * TILE_PARTS_MAX + 16 <= ANSWER_BYTES_MAX as usize,
    "every outline fits in a message"
);
const _: () = assert!(ANSWER_OVERHEAD == 4 + 2 + 4 + 1, "length, version, kind, number, remainder");

#[cfg(test)]
mod tests;
