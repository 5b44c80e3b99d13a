//! In-stream blocks: runs of one flow's packets and the repair packets that cover them.

use alloc::collections::VecDeque;

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
}

/// A run of packets of one flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pub(crate) first: SequenceNumber,
    /// Which packets it covers.
    pub(crate) mask: Mask,
    /// What its repair packets call it: blocks are numbered in the order in which they began.
    number: u8,
    /// How many of them the receiver was sent, from the first on.
    sent: u8,
}

impl Block {
    /// The highest number it covers.
    pub(crate) fn last(&self) -> SequenceNumber {
        self.first.plus(self.mask.span() - 1)
    }

    /// Whether a block with this number began shortly before this one, or is this one.
    fn is_near(&self, number: u8) -> bool {
        usize::from(self.number.wrapping_sub(number)) < BLOCKS_MAX
    }

    /// How many repair packets the receiver was sent.
    pub(crate) fn sent(&self) -> usize {
        usize::from(self.sent)
    }

    pub(crate) fn covers(&self, sequence: SequenceNumber) -> bool {
        sequence.since(self.first).is_some_and(|offset| self.mask.contains(offset))
    }
}

/// A repair packet, and the number of its block.
#[derive(Clone, Copy, Debug)]
struct Held {
    block: u8,
    repair: BlockRepair,
}

const _: () =
    assert!(BLOCKS_MAX <= 64, "blocks are told apart by a byte, and some while after they gave way");

/// The newest blocks of one flow. Their repair packets lie together, as most blocks have fewer than they may.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    blocks: VecDeque<Block>,
    repairs: VecDeque<Held>,
}

/// Blocks and repair packets that are kept whatever memory others take.
const BLOCKS_ALWAYS: usize = 4;
const REPAIRS_ALWAYS: usize = 4;

impl Blocks {
    /// Memory of those that are kept whatever memory others take.
    pub(crate) const BYTES_ALWAYS: usize =
        BLOCKS_ALWAYS * size_of::<Block>() + REPAIRS_ALWAYS * size_of::<Held>();

    /// Returns the memory that they take, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        (self.blocks.capacity() * size_of::<Block>() + self.repairs.capacity() * size_of::<Held>()) as u64
    }

    /// Adds a repair packet to its block, which begins with it if need be. A duplicate is left out.
    /// Where there is no room for more, older ones give way.
    pub(crate) fn add(&mut self, first: SequenceNumber, mask: Mask, repair: BlockRepair, has_room: bool) {
        let known = self.blocks.iter().find(|block| block.first == first && block.mask == mask).copied();
        let is_known = |held: &BlockRepair| held.place.index() == repair.place.index();
        if let Some(block) = known
            && (self.repairs(&block).any(is_known) || self.repairs(&block).count() == BLOCK_REPAIRS_MAX)
        {
            return;
        }
        if !has_room && self.repairs.len() >= self.repairs.capacity().max(REPAIRS_ALWAYS) {
            self.repairs.pop_front();
        }
        if !has_room && known.is_none() && self.blocks.len() >= self.blocks.capacity().max(BLOCKS_ALWAYS) {
            self.blocks.pop_front();
        }
        let block = known.unwrap_or_else(|| self.begin(first, mask)).number;
        self.repairs.push_back(Held { block, repair });
    }

    /// Begins a block, for which the oldest gives way.
    fn begin(&mut self, first: SequenceNumber, mask: Mask) -> Block {
        let number = self.blocks.back().map_or(0, |newest| newest.number.wrapping_add(1));
        if self.blocks.len() == BLOCKS_MAX {
            self.blocks.pop_front();
        }
        let block = Block { first, mask, number, sent: 0 };
        self.blocks.push_back(block);
        // What comes after that of a younger block goes when that does, long before its block's number comes again.
        while self.repairs.front().is_some_and(|held| !block.is_near(held.block)) {
            self.repairs.pop_front();
        }
        block
    }

    /// The repair packets of a block, in the order in which they came.
    pub(crate) fn repairs(&self, block: &Block) -> impl Iterator<Item = &BlockRepair> + use<'_> {
        let number = block.number;
        self.repairs.iter().filter(move |held| held.block == number).map(|held| &held.repair)
    }

    /// The repair packets of a block that the receiver was not sent yet.
    pub(crate) fn unsent(&self, block: &Block) -> impl Iterator<Item = &BlockRepair> + use<'_> {
        self.repairs(block).skip(block.sent())
    }

    /// The first packet of the newest block that covers this one.
    pub(crate) fn first_covering(&self, sequence: SequenceNumber) -> Option<SequenceNumber> {
        self.covering(sequence).map(|block| block.first)
    }

    /// The first packet and the length of the block that will cover this one, if blocks go on as they did.
    pub(crate) fn expected(&self, sequence: SequenceNumber) -> Option<(SequenceNumber, u64)> {
        let newest = self.blocks.iter().max_by_key(|block| block.first)?;
        let span = newest.mask.span();
        let blocks_ahead = sequence.since(newest.first)? / span;
        (blocks_ahead > 0).then(|| (newest.first.plus(blocks_ahead * span), span))
    }

    /// The block that begins with this packet.
    fn beginning(&self, first: SequenceNumber) -> Option<&Block> {
        self.blocks.iter().find(|block| block.first == first)
    }

    /// What the block that begins with this packet covers.
    pub(crate) fn mask_of(&self, first: SequenceNumber) -> Option<Mask> {
        self.beginning(first).map(|block| block.mask)
    }

    /// The repair packets of the block that begins with this packet.
    pub(crate) fn repairs_of(&self, first: SequenceNumber) -> impl Iterator<Item = &BlockRepair> {
        self.beginning(first).into_iter().flat_map(|block| self.repairs(block))
    }

    /// The newest block that covers this packet.
    pub(crate) fn covering(&self, sequence: SequenceNumber) -> Option<&Block> {
        self.blocks.iter().rev().find(|block| block.covers(sequence))
    }

    /// Notes that so many more repair packets of the newest block that covers this packet are sent; the block, as
    /// it was before.
    pub(crate) fn send(&mut self, sequence: SequenceNumber, count: usize) -> Option<Block> {
        let before = *self.covering(sequence)?;
        let sent = before.sent() + self.unsent(&before).take(count).count();
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
    use crate::parts::packet_log::PacketLog;

    proptest! {
        #[test]
        fn they_agree_with_a_list_of_lists(
            steps in prop::collection::vec((any::<bool>(), 0_u64..20, 0_u8..6), 0..600),
        ) {
            let mut log = PacketLog::new(Bytes::new(0), Duration::MAX);
            let payload = log.push(b"repair", Time::START).expect("it is short");
            let (mut blocks, mut naive) = (Blocks::default(), VecDeque::<(u64, Vec<u8>)>::new());
            let mut newest = 0;
            for (begins, back, index) in steps {
                newest += u64::from(begins);
                let first = newest.saturating_sub(back);
                let place = Place::new(index, 6).expect("the index is below 6");
                let repair = BlockRepair { place, length_symbol: [0; 2], payload };
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
                    let held = blocks.repairs_of(SequenceNumber::new(*first));
                    prop_assert_eq!(&held.map(|repair| repair.place.index()).collect::<Vec<_>>(), indices);
                }
                prop_assert!(blocks.repairs.len() <= 2 * BLOCKS_MAX * BLOCK_REPAIRS_MAX);
            }
        }
    }
}
