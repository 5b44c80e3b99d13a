//! In-stream repair packets at the receiver.

use alloc::collections::VecDeque;

use arrayvec::ArrayVec;
use byway_code::{REPAIR_PACKETS_MAX, Repair, SOURCE_PACKETS_MAX, decode};
use byway_units::{BatchId, Time};
use byway_wire::messages::Mask;
use byway_wire::{LengthSymbol, SequenceNumber};

use crate::limits::{BLOCK_REPAIRS_MAX, RECEIVER_BLOCKS_MAX};
use crate::parts::packet_log::{Handle, PacketLog};
use crate::parts::sequence_ring::SequenceRing;

/// A repair packet of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockRepair {
    pub(super) index: u8,
    pub(super) length_symbol: LengthSymbol,
    pub(super) payload: Handle,
}

/// A block of which something is missing.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) first: SequenceNumber,
    pub(super) mask: Mask,
    repairs: ArrayVec<BlockRepair, BLOCK_REPAIRS_MAX>,
}

/// Restored packets and their coded bytes.
pub(super) type Restored = ArrayVec<(SequenceNumber, Handle), REPAIR_PACKETS_MAX>;

/// The blocks that wait for more.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    blocks: VecDeque<Block>,
}

impl Blocks {
    /// Adds a repair packet to its block.
    pub(super) fn add(&mut self, first: SequenceNumber, mask: Mask, repair: BlockRepair) {
        let known = self.blocks.iter().position(|block| block.first == first && block.mask == mask);
        let place = known.unwrap_or_else(|| {
            if self.blocks.len() == RECEIVER_BLOCKS_MAX {
                self.blocks.pop_front();
            }
            self.blocks.push_back(Block { first, mask, repairs: ArrayVec::new() });
            self.blocks.len() - 1
        });
        let repairs = &mut self.blocks[place].repairs;
        if repairs.iter().all(|held| held.index != repair.index) && !repairs.is_full() {
            repairs.push(repair);
        }
    }

    /// Takes a block out that can be decoded now, or needs no decoding any more.
    pub(super) fn take_ready(
        &mut self,
        kept: &SequenceRing<Handle>,
        log: &PacketLog,
        now: Time,
    ) -> Option<Block> {
        let place = self.blocks.iter().position(|block| block.lost(kept, log, now) <= block.repairs.len())?;
        self.blocks.remove(place)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }
}

impl Block {
    fn numbers(&self) -> impl Iterator<Item = SequenceNumber> + use<> {
        let first = self.first;
        self.mask.offsets().map(move |offset| first.plus(u64::from(offset)))
    }

    /// How many of the covered packets are not here.
    fn lost(&self, kept: &SequenceRing<Handle>, log: &PacketLog, now: Time) -> usize {
        let is_here = |sequence: SequenceNumber| {
            kept.get(sequence.number()).is_some_and(|handle| log.get(handle, now).is_some())
        };
        self.numbers().filter(|sequence| !is_here(*sequence)).count()
    }

    /// Restores what is missing; nothing if it does not decode.
    pub(super) fn restore(
        &self,
        engine: byway_code::Engine,
        kept: &SequenceRing<Handle>,
        log: &mut PacketLog,
        buffers: &mut [byway_code::AlignedBuffer],
        now: Time,
    ) -> Restored {
        let numbers: ArrayVec<SequenceNumber, SOURCE_PACKETS_MAX> = self.numbers().collect();
        let recovered = {
            let sources: ArrayVec<Option<&[u8]>, SOURCE_PACKETS_MAX> = numbers
                .iter()
                .map(|sequence| kept.get(sequence.number()).and_then(|handle| log.get(handle, now)))
                .collect();
            let repairs: ArrayVec<Repair<'_>, BLOCK_REPAIRS_MAX> = self
                .repairs
                .iter()
                .filter_map(|repair| {
                    Some(Repair {
                        batch: BatchId::new(self.first.low()),
                        index: usize::from(repair.index),
                        source_packets: numbers.len(),
                        length_symbol: repair.length_symbol,
                        payload: log.get(repair.payload, now)?,
                    })
                })
                .collect();
            decode(engine, &sources, &repairs, buffers)
        };
        let Ok(recovered) = recovered else {
            return Restored::new();
        };
        let packets = recovered.packets(buffers);
        packets.filter_map(|(place, packet)| Some((numbers[place], log.push(packet, now)?))).collect()
    }
}
