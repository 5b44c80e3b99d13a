//! In-stream blocks: sequences of one flow's packets, and the repair packets that cover them.

use alloc::collections::VecDeque;

use byway_wire::messages::Mask;
use byway_wire::{RepairIndex, SequenceNumber};

use crate::limits::{BLOCK_REPAIRS_MAX, BLOCKS_MAX};
use crate::parts::packet_buffer::Handle;

/// A stored repair packet of an in-stream block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockRepair {
    pub(crate) repair_index: RepairIndex,
    pub(crate) length_symbol: [u8; 2],
    pub(crate) payload: Handle,
}

/// An in-stream block: consecutive packets of one flow that share repair packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InStreamBlock {
    pub(crate) first: SequenceNumber,
    /// Packets that the block covers.
    pub(crate) mask: Mask,
    /// Number by which stored repair packets refer to the block. Blocks of a flow are numbered in
    /// the order of their arrival, modulo 256.
    number: u8,
    /// Number of its repair packets that the relay sent to the receiver, from the first on.
    sent: u8,
}

impl InStreamBlock {
    /// Returns the last sequence number of the block's span.
    pub(crate) fn last(&self) -> SequenceNumber {
        self.first.plus(self.mask.span() - 1)
    }

    /// True if the number belongs to this block, or to one of the [`BLOCKS_MAX`] blocks before it.
    fn is_near(&self, number: u8) -> bool {
        usize::from(self.number.wrapping_sub(number)) < BLOCKS_MAX
    }

    /// Returns the number of the block's repair packets that the relay sent to the receiver.
    pub(crate) fn sent_count(&self) -> usize {
        usize::from(self.sent)
    }

    pub(crate) fn covers(&self, sequence: SequenceNumber) -> bool {
        sequence.since(self.first).is_some_and(|offset| self.mask.contains(offset))
    }
}

/// A stored repair packet, and the number of its block.
#[derive(Clone, Copy, Debug)]
struct StoredRepair {
    block: u8,
    repair: BlockRepair,
}

const _: () =
    assert!(BLOCKS_MAX <= 64, "a byte distinguishes the blocks, and for some time the replaced ones");

/// Newest blocks of one flow. Their repair packets share a list, because most blocks have fewer
/// than the maximum.
#[derive(Debug, Default)]
pub(crate) struct InStreamBlocks {
    blocks: VecDeque<InStreamBlock>,
    repairs: VecDeque<StoredRepair>,
}

/// Blocks and repair packets of a flow that always fit, whatever memory other flows use.
const BLOCKS_RESERVED: usize = 4;
const REPAIRS_RESERVED: usize = 4;

impl InStreamBlocks {
    /// Memory of the blocks and repair packets that always fit.
    pub(crate) const RESERVED_BYTES: usize =
        BLOCKS_RESERVED * size_of::<InStreamBlock>() + REPAIRS_RESERVED * size_of::<StoredRepair>();

    /// Returns the memory use of the blocks and repair packets, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        (self.blocks.capacity() * size_of::<InStreamBlock>()
            + self.repairs.capacity() * size_of::<StoredRepair>()) as u64
    }

    /// Adds a repair packet to its block, and begins the block if it is new. A duplicate, or one
    /// beyond [`BLOCK_REPAIRS_MAX`], is discarded.
    ///
    /// If `may_grow` is false, the new repair packet or block replaces the oldest one.
    pub(crate) fn add(&mut self, first: SequenceNumber, mask: Mask, repair: BlockRepair, may_grow: bool) {
        let known = self.blocks.iter().find(|block| block.first == first && block.mask == mask).copied();
        let is_known = |stored: &BlockRepair| stored.repair_index.index() == repair.repair_index.index();
        if let Some(block) = known
            && (self.repairs(&block).any(is_known) || self.repairs(&block).count() == BLOCK_REPAIRS_MAX)
        {
            return;
        }
        if !may_grow && self.repairs.len() >= self.repairs.capacity().max(REPAIRS_RESERVED) {
            self.repairs.pop_front();
        }
        if !may_grow && known.is_none() && self.blocks.len() >= self.blocks.capacity().max(BLOCKS_RESERVED) {
            self.blocks.pop_front();
        }
        let block = known.unwrap_or_else(|| self.begin(first, mask)).number;
        self.repairs.push_back(StoredRepair { block, repair });
    }

    /// Begins a block, which replaces the flow's oldest one if there are [`BLOCKS_MAX`].
    fn begin(&mut self, first: SequenceNumber, mask: Mask) -> InStreamBlock {
        let number = self.blocks.back().map_or(0, |newest| newest.number.wrapping_add(1));
        if self.blocks.len() == BLOCKS_MAX {
            self.blocks.pop_front();
        }
        let block = InStreamBlock { first, mask, number, sent: 0 };
        self.blocks.push_back(block);
        // Late repair packets of an old block may be behind those of a younger block in the list.
        // They are removed with those, long before the old block's number is used again.
        while self.repairs.front().is_some_and(|stored| !block.is_near(stored.block)) {
            self.repairs.pop_front();
        }
        block
    }

    /// Returns the repair packets of a block, in order of arrival.
    pub(crate) fn repairs(&self, block: &InStreamBlock) -> impl Iterator<Item = &BlockRepair> + use<'_> {
        let number = block.number;
        self.repairs.iter().filter(move |stored| stored.block == number).map(|stored| &stored.repair)
    }

    /// Returns the repair packets of a block that the relay has not sent to the receiver.
    pub(crate) fn unsent(&self, block: &InStreamBlock) -> impl Iterator<Item = &BlockRepair> + use<'_> {
        self.repairs(block).skip(block.sent_count())
    }

    /// Returns the first sequence number of the newest block that covers this packet.
    pub(crate) fn first_covering(&self, sequence: SequenceNumber) -> Option<SequenceNumber> {
        self.covering(sequence).map(|block| block.first)
    }

    /// Predicts the block that will cover this packet: returns its first packet and its length. It
    /// assumes that blocks continue without gaps.
    pub(crate) fn expected(&self, sequence: SequenceNumber) -> Option<(SequenceNumber, u64)> {
        let newest = self.blocks.iter().max_by_key(|block| block.first)?;
        let span = newest.mask.span();
        let blocks_ahead = sequence.since(newest.first)? / span;
        (blocks_ahead > 0).then(|| (newest.first.plus(blocks_ahead * span), span))
    }

    /// Returns the block that begins with this packet.
    fn starting_at(&self, first: SequenceNumber) -> Option<&InStreamBlock> {
        self.blocks.iter().find(|block| block.first == first)
    }

    /// Returns the mask of the block that begins with this packet.
    pub(crate) fn mask_of(&self, first: SequenceNumber) -> Option<Mask> {
        self.starting_at(first).map(|block| block.mask)
    }

    /// Returns the repair packets of the block that begins with this packet.
    pub(crate) fn repairs_of(&self, first: SequenceNumber) -> impl Iterator<Item = &BlockRepair> {
        self.starting_at(first).into_iter().flat_map(|block| self.repairs(block))
    }

    /// Returns the newest block that covers this packet.
    pub(crate) fn covering(&self, sequence: SequenceNumber) -> Option<&InStreamBlock> {
        self.blocks.iter().rev().find(|block| block.covers(sequence))
    }

    /// Marks `count` more repair packets as sent, of the newest block that covers this packet.
    /// Returns the block's previous state.
    pub(crate) fn mark_sent(&mut self, sequence: SequenceNumber, count: usize) -> Option<InStreamBlock> {
        let before = *self.covering(sequence)?;
        let sent = before.sent_count() + self.unsent(&before).take(count).count();
        let block = self.blocks.iter_mut().rev().find(|block| block.covers(sequence))?;
        block.sent = u8::try_from(sent).expect("a block has few repairs");
        Some(before)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use byway_units::{Bytes, Duration, Time};
    use proptest::prelude::*;

    use super::*;
    use crate::parts::packet_buffer::PacketBuffer;

    proptest! {
        #[test]
        fn they_agree_with_a_list_of_lists(
            steps in prop::collection::vec((any::<bool>(), 0_u64..20, 0_u8..6), 0..600),
        ) {
            let mut log = PacketBuffer::new(Bytes::new(0), Duration::MAX);
            let payload = log.push(b"repair", Time::START).expect("it is short");
            let (mut blocks, mut naive) = (InStreamBlocks::default(), VecDeque::<(u64, Vec<u8>)>::new());
            let mut newest = 0;
            for (begins, back, index) in steps {
                newest += u64::from(begins);
                let first = newest.saturating_sub(back);
                let repair_index = RepairIndex::new(index, 6).expect("the index is below 6");
                let repair = BlockRepair { repair_index, length_symbol: [0; 2], payload };
                blocks.add(SequenceNumber::new(first), Mask::FIRST, repair, true);
                if naive.iter().all(|(known, _)| *known != first) {
                    if naive.len() == BLOCKS_MAX {
                        naive.pop_front();
                    }
                    naive.push_back((first, Vec::new()));
                }
                let known = naive.iter_mut().find(|(known, _)| *known == first);
                let (_, indices) = known.expect("it was just added");
                if !indices.contains(&index) && indices.len() < BLOCK_REPAIRS_MAX {
                    indices.push(index);
                }
                for (first, indices) in &naive {
                    let stored = blocks.repairs_of(SequenceNumber::new(*first));
                    prop_assert_eq!(&stored.map(|repair| repair.repair_index.index()).collect::<Vec<_>>(), indices);
                }
                prop_assert!(blocks.repairs.len() <= 2 * BLOCKS_MAX * BLOCK_REPAIRS_MAX);
            }
        }
    }
}
