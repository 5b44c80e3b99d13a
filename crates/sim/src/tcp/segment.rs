//! TCP segments as values: ports, sequence numbers, flags and options.

use core::ops::BitOr;

use byway_units::Bytes;
use byway_wire::Ecn;

use super::limits::{HEADER_BYTES, SACK_BLOCKS_MAX};
use super::sequence::SequenceNumber;

/// The two ports of a segment, by which an endpoint distinguishes its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ports {
    /// Port of the endpoint that sends the segment.
    pub source: u16,
    /// Port of the endpoint that receives the segment.
    pub destination: u16,
}

impl Ports {
    /// Returns both ports in one number, which serves as a flow label.
    pub(crate) const fn label(self) -> u32 {
        (self.source as u32) << 16 | self.destination as u32
    }

    /// Returns the ports of an answer.
    #[must_use]
    pub const fn reversed(self) -> Self {
        Self { source: self.destination, destination: self.source }
    }
}

/// A set of control bits (RFC 9293, 3.1; RFC 3168, 6.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// Empty set of control bits.
    pub const NONE: Self = Self(0);
    /// End of the sender's stream.
    pub const FIN: Self = Self(0x01);
    /// Start of the sender's stream, with its first sequence number.
    pub const SYN: Self = Self(0x02);
    /// The acknowledgment number is valid.
    pub const ACK: Self = Self(0x10);
    /// A segment arrived with a congestion mark; on a SYN, the sender supports ECN.
    pub const ECE: Self = Self(0x40);
    /// The sender has reduced its window; on a SYN, it supports ECN.
    pub const CWR: Self = Self(0x80);

    const KNOWN: Self = Self(0x01 | 0x02 | 0x10 | 0x40 | 0x80);

    /// Decodes the thirteenth byte of a header; `None` if it has an unsupported bit (RST, PSH,
    /// URG).
    #[must_use]
    pub const fn from_bits(bits: u8) -> Option<Self> {
        if bits & !Self::KNOWN.0 == 0 { Some(Self(bits)) } else { None }
    }

    /// Returns the thirteenth byte of a header.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// True if all of `others` are among these.
    #[must_use]
    pub const fn contain(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// Returns these flags, together with `others` if `condition` is true.
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
    /// Sender's clock when it sent the segment.
    pub value: u32,
    /// Latest timestamp value that the sender received from its peer.
    pub echo: u32,
}

/// A run of bytes that arrived behind a gap: its first sequence number, and the one after its last
/// (RFC 2018, 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SackBlock {
    /// First sequence number of the run.
    pub start: SequenceNumber,
    /// Sequence number after the run's last.
    pub end: SequenceNumber,
}

/// Up to [`SACK_BLOCKS_MAX`] blocks, the most recently received first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks([Option<SackBlock>; SACK_BLOCKS_MAX]);

impl SackBlocks {
    /// Appends a block, unless all slots are occupied.
    pub fn push(&mut self, block: SackBlock) {
        if let Some(slot) = self.0.iter_mut().find(|slot| slot.is_none()) {
            *slot = Some(block);
        }
    }

    /// Returns the blocks, in order.
    pub fn iter(&self) -> impl Iterator<Item = SackBlock> {
        self.0.iter().flatten().copied()
    }

    /// Returns the number of blocks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// True if there are no blocks.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0[0].is_none()
    }
}

impl FromIterator<SackBlock> for SackBlocks {
    /// Collects the first [`SACK_BLOCKS_MAX`] blocks and ignores the rest.
    fn from_iter<I: IntoIterator<Item = SackBlock>>(blocks: I) -> Self {
        let mut found = Self::default();
        blocks.into_iter().take(SACK_BLOCKS_MAX).for_each(|block| found.push(block));
        found
    }
}

/// Options of a TCP segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Largest segment that the sender accepts, with payload and options, in bytes; only on a SYN
    /// (RFC 9293, 3.7.1).
    pub segment_bytes: Option<u16>,
    /// Shift of the windows of the sender's later segments, in bits; only on a SYN (RFC 7323, 2).
    pub window_scale: Option<u8>,
    /// True if the sender supports SACK blocks; only on a SYN (RFC 2018, 2).
    pub sack_permitted: bool,
    /// Timestamps of the segment and of the peer (RFC 7323, 3); `None` without the option.
    pub timestamps: Option<Timestamps>,
    /// Runs received behind gaps (RFC 2018, 3).
    pub sack_blocks: SackBlocks,
}

impl Options {
    /// Returns the length of the options on the wire, in bytes, with the padding that Linux uses.
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

/// A TCP segment, with its payload by length alone: the bytes follow from ports and sequence
/// number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Source and destination port.
    pub ports: Ports,
    /// Sequence number of the SYN, of the first byte of the payload, or, without either, of the
    /// next byte to send.
    pub sequence: SequenceNumber,
    /// Next expected sequence number; valid only with [`Flags::ACK`].
    pub acknowledgment: SequenceNumber,
    /// Control bits of the header.
    pub flags: Flags,
    /// Receive window from the acknowledgment on, before scaling.
    pub window: u16,
    /// Options of the header.
    pub options: Options,
    /// Length of the payload, in bytes.
    pub payload_bytes: u16,
    /// ECN field of the IP header around it; not part of the segment's own bytes.
    pub ecn: Ecn,
}

impl Segment {
    /// Returns the length of the segment's header, options and payload together, in bytes; the IP
    /// packet is at least 20 bytes longer.
    #[must_use]
    pub fn bytes(&self) -> usize {
        HEADER_BYTES + self.options.bytes() + usize::from(self.payload_bytes)
    }

    /// Returns the number of sequence numbers that the segment uses: those of its payload, and one
    /// each for SYN and FIN.
    #[must_use]
    pub fn sequence_bytes(&self) -> Bytes {
        let control = u64::from(self.flags.contain(Flags::SYN)) + u64::from(self.flags.contain(Flags::FIN));
        Bytes::new(u64::from(self.payload_bytes) + control)
    }

    /// True if the segment uses no sequence number: it is only an acknowledgment.
    #[must_use]
    pub fn is_pure_acknowledgment(&self) -> bool {
        self.sequence_bytes().is_zero()
    }
}
