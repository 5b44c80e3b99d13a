//! Segments: what two endpoints say to each other.

use core::ops::BitOr;

use byway_units::Bytes;
use byway_wire::Ecn;

use super::limits::{HEADER_BYTES, SACK_BLOCKS_MAX};
use super::sequence::SequenceNumber;

/// The two ports of a segment, by which an endpoint tells its connections apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ports {
    /// The port of the endpoint that sends it.
    pub source: u16,
    /// The port of the endpoint that it is for.
    pub destination: u16,
}

impl Ports {
    /// Both in one number.
    pub(crate) const fn label(self) -> u32 {
        (self.source as u32) << 16 | self.destination as u32
    }

    /// The ports of an answer.
    #[must_use]
    pub const fn reversed(self) -> Self {
        Self { source: self.destination, destination: self.source }
    }
}

/// A set of control bits (RFC 9293, 3.1; RFC 3168, 6.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// No bit.
    pub const NONE: Self = Self(0);
    /// The sender has no more to send.
    pub const FIN: Self = Self(0x01);
    /// The sender's first sequence number.
    pub const SYN: Self = Self(0x02);
    /// The acknowledgment number counts.
    pub const ACK: Self = Self(0x10);
    /// A segment arrived that had met congestion; on a SYN, the sender can do ECN.
    pub const ECE: Self = Self(0x40);
    /// The sender has reduced its window; on a SYN, it can do ECN.
    pub const CWR: Self = Self(0x80);

    const KNOWN: Self = Self(0x01 | 0x02 | 0x10 | 0x40 | 0x80);

    /// The bits of the thirteenth byte of a header; `None` if they hold one that is not used here (RST, PSH, URG).
    #[must_use]
    pub const fn from_bits(bits: u8) -> Option<Self> {
        if bits & !Self::KNOWN.0 == 0 { Some(Self(bits)) } else { None }
    }

    /// The thirteenth byte of a header.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether all of `others` are among these.
    #[must_use]
    pub const fn contain(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// These, and `others` if `condition` holds.
    #[must_use]
    pub const fn and_if(self, condition: bool, others: Self) -> Self {
        if condition { Self(self.0 | others.0) } else { self }
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }
}

/// The timestamps option, in milliseconds of the sender's clock (RFC 7323, 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamps {
    /// When the segment was sent.
    pub value: u32,
    /// What the other side had last said of its own clock.
    pub echo: u32,
}

/// A run of bytes that arrived behind a gap: its first sequence number, and the one after its last (RFC 2018, 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SackBlock {
    /// The first sequence number.
    pub start: SequenceNumber,
    /// The sequence number after the last.
    pub end: SequenceNumber,
}

/// Up to [`SACK_BLOCKS_MAX`] blocks, the one that arrived last first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks([Option<SackBlock>; SACK_BLOCKS_MAX]);

impl SackBlocks {
    /// Adds a block, unless there is no room for it.
    pub fn push(&mut self, block: SackBlock) {
        if let Some(place) = self.0.iter_mut().find(|place| place.is_none()) {
            *place = Some(block);
        }
    }

    /// The blocks, in order.
    pub fn iter(&self) -> impl Iterator<Item = SackBlock> {
        self.0.iter().flatten().copied()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0[0].is_none()
    }
}

impl FromIterator<SackBlock> for SackBlocks {
    /// The first [`SACK_BLOCKS_MAX`] of them.
    fn from_iter<I: IntoIterator<Item = SackBlock>>(blocks: I) -> Self {
        let mut found = Self::default();
        blocks.into_iter().take(SACK_BLOCKS_MAX).for_each(|block| found.push(block));
        found
    }
}

/// The options of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The most payload and options that the sender can receive in a segment, in bytes; only on a SYN (RFC 9293, 3.7.1).
    pub segment_bytes: Option<u16>,
    /// By how many bits the windows of the sender's later segments are shifted; only on a SYN (RFC 7323, 2).
    pub window_scale: Option<u8>,
    /// Whether the sender understands SACK blocks; only on a SYN (RFC 2018, 2).
    pub sack_permitted: bool,
    /// The timestamps (RFC 7323, 3).
    pub timestamps: Option<Timestamps>,
    /// What arrived behind gaps (RFC 2018, 3).
    pub sack_blocks: SackBlocks,
}

impl Options {
    /// How long they are on the wire, in bytes, with the padding that Linux uses.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let sack = self.sack_blocks.len();
        let permitted_alone = self.sack_permitted && self.timestamps.is_none();
        4 * usize::from(self.segment_bytes.is_some())
            + 4 * usize::from(self.window_scale.is_some())
            + 4 * usize::from(permitted_alone)
            + 12 * usize::from(self.timestamps.is_some())
            + if sack > 0 { 4 + 8 * sack } else { 0 }
    }
}

/// A segment, with its payload by length alone: what the bytes are follows from ports and sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Between which ports.
    pub ports: Ports,
    /// The sequence number of the SYN, or of the first byte of the payload, or of what would be sent next.
    pub sequence: SequenceNumber,
    /// The sequence number that is expected next; without meaning unless [`Flags::ACK`] is set.
    pub acknowledgment: SequenceNumber,
    /// The control bits.
    pub flags: Flags,
    /// How far behind the acknowledgment the other side may send, before it is scaled.
    pub window: u16,
    /// The options.
    pub options: Options,
    /// How long the payload is, in bytes.
    pub payload_bytes: u16,
    /// The ECN field of the IP header around it; no part of the segment's own bytes.
    pub ecn: Ecn,
}

impl Segment {
    /// How long its TCP header, options and payload are together, in bytes; in its IP packet, at least 20 come on top.
    #[must_use]
    pub fn bytes(&self) -> usize {
        HEADER_BYTES + self.options.bytes() + usize::from(self.payload_bytes)
    }

    /// How many sequence numbers it takes: those of its payload, and one each for SYN and FIN.
    #[must_use]
    pub fn sequence_bytes(&self) -> Bytes {
        let control = u64::from(self.flags.contain(Flags::SYN)) + u64::from(self.flags.contain(Flags::FIN));
        Bytes::new(u64::from(self.payload_bytes) + control)
    }

    /// Whether it takes no sequence number: it is an acknowledgment and nothing else.
    #[must_use]
    pub fn is_pure_acknowledgment(&self) -> bool {
        self.sequence_bytes().is_zero()
    }
}
