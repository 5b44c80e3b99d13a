//! Cross-stream repair: a repair packet for packets of several flows.

use byway_units::BatchId;

use crate::error::{MessageFullError, ParseError};
use crate::ids::Alias;
use crate::limits::SOURCE_PACKETS_MAX;
use crate::list::{List, Record};
use crate::reader::Reader;
use crate::repair::{LengthSymbol, RepairIndex};
use crate::writer::{MESSAGE_HEADER_BYTES, Output, Writer, emit_in_front};

const ENTRY_BYTES: usize = 6;
const DIGEST_BYTES: usize = 4;

/// Bits of the byte `cover`: the number of packets, and the flag for digests.
const COUNT_MASK: u8 = 0b0011_1111;
const DIGESTS_BIT: u8 = 0b1000_0000;

/// One packet that a repair packet covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Alias of the packet's flow.
    pub alias: Alias,
    /// The low 32 bits of its sequence number.
    pub sequence_low: u32,
}

impl Entry {
    /// Length in a message, in bytes.
    pub const BYTES: usize = ENTRY_BYTES;
}

impl Record<ENTRY_BYTES> for Entry {
    #[inline]
    fn parse(bytes: &[u8; ENTRY_BYTES]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(CrossStreamRepair::NAME, bytes);
        Ok(Self { alias: reader.alias()?, sequence_low: reader.u32("sequence number")? })
    }

    #[inline]
    fn to_bytes(self) -> [u8; ENTRY_BYTES] {
        let ([a0, a1], [s0, s1, s2, s3]) =
            (self.alias.number().to_be_bytes(), self.sequence_low.to_be_bytes());
        [a0, a1, s0, s1, s2, s3]
    }
}

/// The packets that a repair packet covers, in the order of the code's source packets.
pub type Entries<'a> = List<'a, Entry, ENTRY_BYTES>;

/// The first bytes of a keyed hash of one covered packet; see
/// [`DigestKey`](crate::seal::DigestKey).
///
/// A damaged packet passes once in 2^32; the end-to-end tag still catches it.
pub type Digest = [u8; DIGEST_BYTES];

/// Source packets that a repair packet covers: 1 to [`SOURCE_PACKETS_MAX`], with digests of all or
/// of none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cover<'a> {
    entries: Entries<'a>,
    digests: Option<&'a [Digest]>,
}

impl<'a> Cover<'a> {
    /// Returns a cover of these packets. `None` if there are none or more than
    /// [`SOURCE_PACKETS_MAX`], or if the number of digests differs.
    #[must_use]
    pub fn new(entries: Entries<'a>, digests: Option<&'a [Digest]>) -> Option<Self> {
        let is_legal = (1..=usize::from(SOURCE_PACKETS_MAX)).contains(&entries.len())
            && digests.is_none_or(|digests| digests.len() == entries.len());
        is_legal.then_some(Self { entries, digests })
    }

    /// Returns the covered packets, in the order of the code's source packets.
    #[must_use]
    pub const fn entries(&self) -> Entries<'a> {
        self.entries
    }

    /// Returns a digest of each covered packet, in the same order; `None` without digests.
    #[must_use]
    pub const fn digests(&self) -> Option<&'a [Digest]> {
        self.digests
    }

    fn parse(cover: u8, reader: &mut Reader<'a>) -> Result<Self, ParseError> {
        let count = cover & COUNT_MASK;
        if !(1..=SOURCE_PACKETS_MAX).contains(&count) {
            return Err(reader.illegal("number of covered packets", count, "1 to 32"));
        }
        let entries = List::parse(reader, "entries", count.into())?;
        let has_digests = cover & DIGESTS_BIT != 0;
        let digests = has_digests.then(|| reader.arrays("digests", count.into())).transpose()?;
        Ok(Self { entries, digests })
    }

    fn to_byte(self) -> u8 {
        let count = u8::try_from(self.entries.len()).expect("a cover has at most 32 packets");
        if self.digests.is_some() { count | DIGESTS_BIT } else { count }
    }
}

/// A cross-stream repair without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrossStreamHead<'a> {
    /// Number that the ingress relay has assigned to the batch.
    pub batch: BatchId,
    /// Index of the repair packet in its batch.
    pub repair_index: RepairIndex,
    /// Combination of the covered packets' lengths.
    pub length_symbol: LengthSymbol,
    /// The covered packets.
    pub cover: Cover<'a>,
}

impl<'a> CrossStreamHead<'a> {
    /// Returns the length in bytes of the message before its payload, for `source_packets` covered
    /// packets.
    #[must_use]
    pub const fn bytes(source_packets: usize, with_digests: bool) -> usize {
        let each = if with_digests { ENTRY_BYTES + DIGEST_BYTES } else { ENTRY_BYTES };
        MESSAGE_HEADER_BYTES + 8 + each * source_packets
    }

    /// Writes type, length and head at the end of `front`, directly before the payload. Returns the
    /// message's offset in `front`.
    ///
    /// # Errors
    /// If `front` is too short for the head, or the payload is too long for any packet. No bytes
    /// are written then.
    pub fn emit_in_front(&self, front: &mut [u8], payload_bytes: usize) -> Result<usize, MessageFullError> {
        let head_bytes = Self::bytes(self.cover.entries.len(), self.cover.digests.is_some());
        let message_type = CrossStreamRepair::TYPE;
        emit_in_front(front, message_type, head_bytes, payload_bytes, |output| self.emit(output))
    }

    fn parse(reader: &mut Reader<'a>) -> Result<Self, ParseError> {
        let batch = BatchId::new(reader.u32("batch")?);
        let repair_index = RepairIndex::parse(reader)?;
        let cover = reader.u8("cover")?;
        let length_symbol = *reader.array("length symbol")?;
        Ok(Self { batch, repair_index, length_symbol, cover: Cover::parse(cover, reader)? })
    }

    fn emit(&self, output: &mut Output<'_>) {
        output.u32(self.batch.number());
        output.u8(self.repair_index.to_byte());
        output.u8(self.cover.to_byte());
        output.bytes(&self.length_symbol);
        output.bytes(self.cover.entries.as_bytes());
        output.bytes(self.cover.digests.unwrap_or_default().as_flattened());
    }
}

/// A repair packet for packets of several flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrossStreamRepair<'a> {
    /// Covered source packets, and index of the repair packet in the batch.
    pub head: CrossStreamHead<'a>,
    /// Combination of the covered packets' coded bytes.
    pub payload: &'a [u8],
}

impl<'a> CrossStreamRepair<'a> {
    /// Type number of a cross-stream repair on the wire.
    pub const TYPE: u8 = 17;

    const NAME: &'static str = "cross-stream repair";

    /// Reads a cross-stream repair from the body of a message.
    ///
    /// # Errors
    /// If a field is cut off or illegal.
    pub fn parse(body: &'a [u8]) -> Result<Self, ParseError> {
        let mut reader = Reader::new(Self::NAME, body);
        let head = CrossStreamHead::parse(&mut reader)?;
        Ok(Self { head, payload: reader.rest() })
    }

    /// Appends the message, and copies its payload. [`CrossStreamHead::emit_in_front`] avoids the
    /// copy.
    ///
    /// # Errors
    /// If the packet has too few bytes left; then no byte is written.
    pub fn emit(&self, writer: &mut Writer<'_>) -> Result<(), MessageFullError> {
        writer.append(Self::TYPE, |output| {
            self.head.emit(output);
            output.bytes(self.payload);
        })
    }
}
