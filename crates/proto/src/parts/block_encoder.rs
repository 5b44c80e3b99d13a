//! The in-stream block of a flow: repair packets over its own last packets.

use byway_code::{AlignedBuffer, Encoder, Engine, REPAIR_PACKETS_MAX, Repair};
use byway_units::{BatchId, Time};
use byway_wire::messages::{InStreamHead, InStreamRepair, Mask};
use byway_wire::{Alias, BlockShape, Place, SequenceNumber};

use crate::limits::{BLOCK_WAIT, CODED_BYTES_MAX};

/// The packets of a block and the repair packets over them, as far as they arrived.
#[derive(Debug)]
pub struct BlockEncoder {
    encoder: Encoder<AlignedBuffer>,
    size: u8,
    /// How many packets are left out before the first block.
    left_out: u32,
    /// The first packet's number, and which from there on are covered; `None` before the first.
    covered: Option<(SequenceNumber, Mask)>,
    due: Option<Time>,
}

impl BlockEncoder {
    /// An empty block of this shape.
    ///
    /// `slot` sets flows apart that are coded together, so that their blocks and the batches across them can be solved
    /// together: each uses another row of coefficients, and begins its blocks at other times, so that a burst of losses
    /// that several flows share touches as many blocks as can be.
    ///
    /// # Panics
    /// If the shape is none that [`byway_code`] makes, which [`BlockShape`] rules out.
    #[must_use]
    pub fn new(engine: Engine, shape: BlockShape, slot: u32) -> Self {
        let payloads = (0..shape.repair_packets()).map(|_| AlignedBuffer::new(CODED_BYTES_MAX));
        let rows = REPAIR_PACKETS_MAX - usize::from(shape.repair_packets());
        let first_row = slot as usize % (rows + 1);
        let encoder =
            Encoder::from_row(engine, first_row, payloads).expect("the rows of a block are within 8");
        let left_out = slot % u32::from(shape.source_packets());
        Self { encoder, size: shape.source_packets(), left_out, covered: None, due: None }
    }

    /// Whether this packet can still be covered: it follows what is covered, not too far behind.
    #[must_use]
    pub fn follows(&self, sequence: SequenceNumber) -> bool {
        match self.covered {
            None => true,
            Some((first, mask)) => sequence.since(first).is_some_and(|offset| offset >= mask.span()),
        }
    }

    /// Whether this packet lies too far ahead to be covered together with the first.
    #[must_use]
    pub fn is_beyond(&self, sequence: SequenceNumber) -> bool {
        self.covered
            .is_some_and(|(first, _)| sequence.since(first).is_some_and(|offset| offset >= Mask::SPAN_MAX))
    }

    /// Whether this packet comes before the first block.
    pub fn leaves_out(&mut self) -> bool {
        let leaves_out = self.left_out > 0;
        self.left_out -= u32::from(leaves_out);
        leaves_out
    }

    /// Adds a packet that [follows](BlockEncoder::follows) and is not [beyond](BlockEncoder::is_beyond); whether that fills the
    /// block. A full block takes no more until it is [begun anew](BlockEncoder::restart).
    ///
    /// # Panics
    /// If the packet may not be added, or is longer than [`CODED_BYTES_MAX`].
    pub fn add(&mut self, sequence: SequenceNumber, coded: &[u8], now: Time) -> bool {
        self.encoder.add(coded).expect("the length of copies is checked, and a full block is closed");
        let (first, mask) = self.covered.unwrap_or((sequence, Mask::FIRST));
        let mask = sequence.since(first).and_then(|offset| mask.with(offset));
        self.covered = Some((first, mask.expect("the packet follows the first and is not beyond")));
        self.due.get_or_insert(now + BLOCK_WAIT);
        self.encoder.encoded().source_packets() >= usize::from(self.size)
    }

    /// The repair packets, under the name that the flow has where they go; none before the first packet.
    pub fn repairs(&self, alias: Alias) -> impl Iterator<Item = InStreamRepair<'_>> {
        let rows = self.encoder.repairs(BatchId::new(0)).last().map_or(0, |repair| repair.index + 1);
        self.covered.into_iter().flat_map(move |(first, mask)| {
            let first_low = first.low();
            self.encoder.repairs(BatchId::new(first_low)).map(move |repair| {
                let (place, length_symbol) = (place_of(&repair, rows), repair.length_symbol);
                let head = InStreamHead { alias, first_low, mask, place, length_symbol };
                InStreamRepair { head, payload: repair.payload }
            })
        })
    }

    /// Returns the memory of its buffers, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        (self.made() * (CODED_BYTES_MAX + size_of::<AlignedBuffer>())) as u64
    }

    /// How many repair packets it makes.
    #[must_use]
    pub fn made(&self) -> usize {
        self.encoder.encoded().length_symbols().len()
    }

    /// When the block is to be closed, full or not; `None` before the first packet.
    #[must_use]
    pub const fn due(&self) -> Option<Time> {
        self.due
    }

    /// Begins the next block.
    pub fn restart(&mut self) {
        self.encoder.restart();
        self.covered = None;
        self.due = None;
    }
}

/// Which of `count` repair packets this one is.
fn place_of(repair: &Repair<'_>, count: usize) -> Place {
    let number = |number: usize| u8::try_from(number).expect("there are at most 8 repair packets");
    Place::new(number(repair.index), number(count)).expect("a repair packet is one of those made")
}
