//! In-stream blocks: runs of one flow's packets and the repair packets that cover them.

use alloc::collections::VecDeque;

use arrayvec::ArrayVec;
use byway_wire::messages::Mask;
use byway_wire::{Place, SequenceNumber};

use crate::limits::{BLOCK_REPAIRS_MAX, BLOCKS_MAX};
use crate::parts::packet_log::Handle;

/// One repair packet of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockRepair {
    pub(crate) place: Place,
    pub(crate) length_symbol: [u8; 2],
    pub(crate) payload: Handle,
    /// Whether the receiver was sent it.
    pub(crate) is_sent: bool,
}

/// A run of packets of one flow, and what repairs them.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// Which packets it covers.
    pub(crate) mask: Mask,
    pub(crate) first: SequenceNumber,
    /// From the first on, the receiver is sent them.
    pub(crate) repairs: ArrayVec<BlockRepair, BLOCK_REPAIRS_MAX>,
}

impl Block {
    /// The highest number it covers.
    pub(crate) fn last(&self) -> SequenceNumber {
        self.first.plus(self.mask.span() - 1)
    }

    /// The repair packets that the receiver was not sent yet.
    pub(crate) fn unsent(&self) -> &[BlockRepair] {
        &self.repairs[self.sent()..]
    }

    /// How many repair packets the receiver was sent.
    pub(crate) fn sent(&self) -> usize {
        self.repairs.iter().filter(|repair| repair.is_sent).count()
    }

    pub(crate) fn covers(&self, sequence: SequenceNumber) -> bool {
        sequence.since(self.first).is_some_and(|offset| self.mask.contains(offset))
    }
}

/// The newest blocks of one flow.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    blocks: VecDeque<Block>,
}

impl Blocks {
    /// Adds a repair packet to its block, which begins with it if need be. A duplicate is left out.
    pub(crate) fn add(&mut self, first: SequenceNumber, mask: Mask, repair: BlockRepair) {
        let known = self.blocks.iter().position(|block| block.first == first && block.mask == mask);
        let position = known.unwrap_or_else(|| {
            if self.blocks.len() == BLOCKS_MAX {
                self.blocks.pop_front();
            }
            self.blocks.push_back(Block { mask, first, repairs: ArrayVec::new() });
            self.blocks.len() - 1
        });
        let block = &mut self.blocks[position];
        if block.repairs.iter().all(|held| held.place.index() != repair.place.index())
            && !block.repairs.is_full()
        {
            block.repairs.push(repair);
        }
    }

    /// The first packet of the newest block that covers this one.
    pub(crate) fn first_covering(&self, sequence: SequenceNumber) -> Option<SequenceNumber> {
        self.blocks.iter().rev().find(|block| block.covers(sequence)).map(|block| block.first)
    }

    /// The first packet and the length of the block that will cover this one, if blocks go on as they did.
    pub(crate) fn expected(&self, sequence: SequenceNumber) -> Option<(SequenceNumber, u64)> {
        let newest = self.blocks.iter().max_by_key(|block| block.first)?;
        let span = newest.mask.span();
        let blocks_ahead = sequence.since(newest.first)? / span;
        (blocks_ahead > 0).then(|| (newest.first.plus(blocks_ahead * span), span))
    }

    /// What the block that begins with this packet covers.
    pub(crate) fn mask_of(&self, first: SequenceNumber) -> Option<Mask> {
        self.blocks.iter().find(|block| block.first == first).map(|block| block.mask)
    }

    /// The repair packets of the block that begins with this packet.
    pub(crate) fn repairs_of(&self, first: SequenceNumber) -> impl Iterator<Item = &BlockRepair> {
        self.blocks.iter().find(|block| block.first == first).into_iter().flat_map(|block| &block.repairs)
    }

    /// The newest block that covers this packet.
    pub(crate) fn covering(&self, sequence: SequenceNumber) -> Option<&Block> {
        self.blocks.iter().rev().find(|block| block.covers(sequence))
    }

    /// Notes that so many more repair packets of the newest block that covers this packet are sent; the block, as
    /// it was before.
    pub(crate) fn send(&mut self, sequence: SequenceNumber, count: usize) -> Option<Block> {
        let block = self.blocks.iter_mut().rev().find(|block| block.covers(sequence))?;
        let before = block.clone();
        block.repairs.iter_mut().skip(before.sent()).take(count).for_each(|repair| repair.is_sent = true);
        Some(before)
    }
}
