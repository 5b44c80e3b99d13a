//! In-stream encoder: computes repair packets over consecutive blocks of one flow's packets.

use byway_code::{AlignedBuffer, Encoder, Engine, REPAIR_PACKETS_MAX, Repair};
use byway_units::{BatchId, Duration, Time};
use byway_wire::messages::{InStreamHead, InStreamRepair, Mask};
use byway_wire::{Alias, BlockShape, RepairIndex, SequenceNumber};

use crate::limits::CODED_BYTES_MAX;

/// Encoder of one flow's current block: adds source packets to its repair packets as they arrive.
#[derive(Debug)]
pub struct BlockEncoder {
    encoder: Encoder<AlignedBuffer>,
    size: u8,
    /// Number of packets to skip before the first block, so that flows begin their blocks at
    /// different times.
    skip_remaining: u32,
    /// Sequence number of the block's first packet, and the packets of the block as offsets from
    /// it; `None` while the block is empty.
    covered: Option<(SequenceNumber, Mask)>,
    due: Option<Time>,
}

impl BlockEncoder {
    /// Creates the encoder of a flow, with an empty block of this shape.
    ///
    /// `slot` is a number that differs between flows that are coded together. Each flow uses
    /// another row of coefficients, so their blocks can be solved together with batches across
    /// flows. Their blocks also begin at different times, so a burst of losses that several flows
    /// share is spread over many blocks.
    ///
    /// # Panics
    /// If [`byway_code`] does not support the shape, which [`BlockShape`] rules out.
    #[must_use]
    pub fn new(engine: Engine, shape: BlockShape, slot: u32) -> Self {
        let payloads = (0..shape.repair_packets()).map(|_| AlignedBuffer::new(CODED_BYTES_MAX));
        let rows = REPAIR_PACKETS_MAX - usize::from(shape.repair_packets());
        let first_row = slot as usize % (rows + 1);
        let encoder =
            Encoder::from_row(engine, first_row, payloads).expect("the rows of a block are within 8");
        let skip_remaining = slot % u32::from(shape.source_packets());
        Self { encoder, size: shape.source_packets(), skip_remaining, covered: None, due: None }
    }

    /// True if the block is empty, or this sequence number is higher than all in the block. Gaps
    /// are allowed. A packet that arrives after a later one cannot be added.
    #[must_use]
    pub fn follows(&self, sequence: SequenceNumber) -> bool {
        match self.covered {
            None => true,
            Some((first, mask)) => sequence.since(first).is_some_and(|offset| offset >= mask.span()),
        }
    }

    /// True if this sequence number is [`Mask::SPAN_MAX`] or more above the block's first one: the
    /// mask of a repair packet cannot express it, and the block has to close first.
    #[must_use]
    pub fn is_beyond(&self, sequence: SequenceNumber) -> bool {
        self.covered
            .is_some_and(|(first, _)| sequence.since(first).is_some_and(|offset| offset >= Mask::SPAN_MAX))
    }

    /// True if this packet is one of those that the flow skips before its first block. Each call
    /// counts one packet.
    pub fn skip_packet(&mut self) -> bool {
        let is_skipped = self.skip_remaining > 0;
        self.skip_remaining -= u32::from(is_skipped);
        is_skipped
    }

    /// Adds a packet to the repair packets of the block. The packet has to [follow](Self::follows)
    /// the block, and not be [beyond](Self::is_beyond) it. The block of a first packet closes
    /// within `wait`. Returns true if the block is full: it has to [restart](Self::restart) before
    /// the next packet.
    ///
    /// # Panics
    /// If the packet may not be added, or is longer than [`CODED_BYTES_MAX`].
    pub fn add(&mut self, sequence: SequenceNumber, coded: &[u8], wait: Duration, now: Time) -> bool {
        self.encoder.add(coded).expect("the length of copies is checked, and a full block is closed");
        let (first, mask) = self.covered.unwrap_or((sequence, Mask::FIRST));
        let mask = sequence.since(first).and_then(|offset| mask.with(offset));
        self.covered = Some((first, mask.expect("the packet follows the first and is not beyond")));
        self.due.get_or_insert(now.saturating_add(wait));
        self.encoder.encoded().source_packets() >= usize::from(self.size)
    }

    /// Returns the repair packets of the block, as messages with the flow's alias at their
    /// destination. An empty block has none.
    pub fn repairs(&self, alias: Alias) -> impl Iterator<Item = InStreamRepair<'_>> {
        let rows = self.encoder.repairs(BatchId::new(0)).last().map_or(0, |repair| repair.index + 1);
        self.covered.into_iter().flat_map(move |(first, mask)| {
            let first_low = first.low();
            self.encoder.repairs(BatchId::new(first_low)).map(move |repair| {
                let (index, length_symbol) = (repair_index(&repair, rows), repair.length_symbol);
                let head = InStreamHead { alias, first_low, mask, repair_index: index, length_symbol };
                InStreamRepair { head, payload: repair.payload }
            })
        })
    }

    /// Returns the memory of the repair packets' buffers, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (self.repair_count() * (CODED_BYTES_MAX + size_of::<AlignedBuffer>())) as u64
    }

    /// Returns the number of repair packets of a block.
    #[must_use]
    pub fn repair_count(&self) -> usize {
        self.encoder.encoded().length_symbols().len()
    }

    /// Returns the number of repair packets for the packets that the block has now: in proportion
    /// to those of a full block, but at least one. A block that closes early does not cost more
    /// than a repetition of its packets.
    #[must_use]
    pub fn scaled_repair_count(&self) -> usize {
        let packets = self.encoder.encoded().source_packets();
        (self.repair_count() * packets).div_ceil(usize::from(self.size)).max(1)
    }

    /// Returns the time at which the block closes even if it is not full; `None` while it is empty.
    #[must_use]
    pub const fn due(&self) -> Option<Time> {
        self.due
    }

    /// Empties the block, for the flow's next packets.
    pub fn restart(&mut self) {
        self.encoder.restart();
        self.covered = None;
        self.due = None;
    }
}

/// Returns the wire index of a repair packet among the `count` of its block.
fn repair_index(repair: &Repair<'_>, count: usize) -> RepairIndex {
    let number = |number: usize| u8::try_from(number).expect("there are at most 8 repair packets");
    RepairIndex::new(number(repair.index), number(count))
        .expect("the index is below the number of repair packets")
}
