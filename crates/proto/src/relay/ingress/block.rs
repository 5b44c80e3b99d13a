//! The in-stream block of a flow: repair packets over its own last packets.

use byway_code::{AlignedBuffer, Encoder, Engine, REPAIR_PACKETS_MAX, Repair};
use byway_units::{BatchId, Time};
use byway_wire::messages::Mask;
use byway_wire::{BlockShape, SequenceNumber};

use crate::limits::{BLOCK_WAIT, CODED_BYTES_MAX};

/// The packets of a block and the repair packets over them, as far as they arrived.
#[derive(Debug)]
pub(crate) struct Block {
    encoder: Encoder<AlignedBuffer>,
    size: u8,
    /// How many packets are left out before the first block.
    left_out: u32,
    /// The first packet's number, and which from there on are covered; `None` before the first.
    covered: Option<(SequenceNumber, Mask)>,
    /// When the block is closed, full or not.
    pub(crate) due: Option<Time>,
}

impl Block {
    /// An empty block of this shape.
    ///
    /// `slot` sets flows apart that are coded together, so that their blocks and the batches across them can be solved
    /// together: each uses another row of coefficients, and begins its blocks at other times, so that a burst of losses
    /// that several flows share touches as many blocks as can be.
    pub(crate) fn new(engine: Engine, shape: BlockShape, slot: u32) -> Self {
        let payloads = (0..shape.repair_packets()).map(|_| AlignedBuffer::new(CODED_BYTES_MAX));
        let rows = REPAIR_PACKETS_MAX - usize::from(shape.repair_packets());
        let first_row = slot as usize % (rows + 1);
        let encoder =
            Encoder::from_row(engine, first_row, payloads).expect("the rows of a block are within 8");
        let left_out = slot % u32::from(shape.source_packets());
        Self { encoder, size: shape.source_packets(), left_out, covered: None, due: None }
    }

    /// Whether this packet can still be covered: it follows what is covered, not too far behind.
    pub(crate) fn follows(&self, sequence: SequenceNumber) -> bool {
        match self.covered {
            None => true,
            Some((first, mask)) => sequence.since(first).is_some_and(|offset| offset >= mask.span()),
        }
    }

    /// Whether this packet lies too far ahead to be covered together with the first.
    pub(crate) fn is_beyond(&self, sequence: SequenceNumber) -> bool {
        self.covered
            .is_some_and(|(first, _)| sequence.since(first).is_some_and(|offset| offset >= Mask::SPAN_MAX))
    }

    /// Whether this packet comes before the first block.
    pub(crate) fn leaves_out(&mut self) -> bool {
        let leaves_out = self.left_out > 0;
        self.left_out -= u32::from(leaves_out);
        leaves_out
    }

    /// Adds a packet that [follows](Block::follows) and is not [beyond](Block::is_beyond); whether that fills the
    /// block.
    pub(crate) fn add(&mut self, sequence: SequenceNumber, coded: &[u8], now: Time) -> bool {
        self.encoder.add(coded).expect("the length of copies is checked, and a full block is closed");
        let (first, mask) = self.covered.unwrap_or((sequence, Mask::FIRST));
        let mask = sequence.since(first).and_then(|offset| mask.with(offset));
        self.covered = Some((first, mask.expect("the packet follows the first and is not beyond")));
        self.due.get_or_insert(now + BLOCK_WAIT);
        self.encoder.encoded().source_packets() >= usize::from(self.size)
    }

    /// What is covered, with the repair packets; nothing if nothing is.
    pub(crate) fn repairs(&self) -> Option<(SequenceNumber, Mask, impl Iterator<Item = Repair<'_>>)> {
        let (first, mask) = self.covered?;
        Some((first, mask, self.encoder.repairs(BatchId::new(first.low()))))
    }

    /// How many repair packets it makes.
    pub(crate) fn made(&self) -> usize {
        self.encoder.encoded().length_symbols().len()
    }

    /// One more than the highest index of its repair packets.
    pub(crate) fn rows(&self) -> usize {
        self.encoder.repairs(BatchId::new(0)).last().map_or(0, |repair| repair.index + 1)
    }

    /// Begins the next block.
    pub(crate) fn restart(&mut self) {
        self.encoder.restart();
        self.covered = None;
        self.due = None;
    }
}
