//! In-stream blocks at the receiver, which wait for source or repair packets before they can be
//! decoded.

use alloc::collections::VecDeque;

use arrayvec::ArrayVec;
use byway_code::{REPAIR_PACKETS_MAX, Repair, SOURCE_PACKETS_MAX, decode};
use byway_units::{BatchId, Time};
use byway_wire::messages::Mask;
use byway_wire::{LengthSymbol, SequenceNumber};

use crate::limits::{BLOCK_REPAIRS_MAX, RECEIVER_BLOCKS_MAX};
use crate::parts::packet_buffer::{Handle, PacketBuffer};
use crate::parts::sequence_ring::SequenceRing;

/// In-stream repair packet of a block: its index, length symbol and payload.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockRepair {
    pub(super) index: u8,
    pub(super) length_symbol: LengthSymbol,
    pub(super) payload: Handle,
}

/// In-stream block with its repair packets: first sequence number, and mask of its source packets.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) first: SequenceNumber,
    pub(super) mask: Mask,
    repairs: ArrayVec<BlockRepair, BLOCK_REPAIRS_MAX>,
}

/// Restored source packets of a block: sequence numbers, and coded bytes in the packet buffer.
pub(super) type RestoredPackets = ArrayVec<(SequenceNumber, Handle), REPAIR_PACKETS_MAX>;

/// Latest blocks of a received flow that cannot be decoded yet, at most [`RECEIVER_BLOCKS_MAX`].
#[derive(Debug, Default)]
pub(super) struct Blocks {
    blocks: VecDeque<Block>,
}

impl Blocks {
    /// Adds a repair packet to its block, and ignores a second one with the same index. If there
    /// are too many blocks, a new one replaces the oldest.
    pub(super) fn add(&mut self, first: SequenceNumber, mask: Mask, repair: BlockRepair) {
        let known = self.blocks.iter().position(|block| block.first == first && block.mask == mask);
        let index = known.unwrap_or_else(|| {
            if self.blocks.len() == RECEIVER_BLOCKS_MAX {
                self.blocks.pop_front();
            }
            self.blocks.push_back(Block { first, mask, repairs: ArrayVec::new() });
            self.blocks.len() - 1
        });
        let repairs = &mut self.blocks[index].repairs;
        if repairs.iter().all(|held| held.index != repair.index) && !repairs.is_full() {
            repairs.push(repair);
        }
    }

    /// Removes and returns a block with no more missing source packets than repair packets. None
    /// may be missing any more.
    pub(super) fn pop_decodable(
        &mut self,
        buffered: &SequenceRing<Handle>,
        packet_buffer: &PacketBuffer,
        now: Time,
    ) -> Option<Block> {
        let index = self
            .blocks
            .iter()
            .position(|block| block.lost_count(buffered, packet_buffer, now) <= block.repairs.len())?;
        self.blocks.remove(index)
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

    /// Returns the number of the block's source packets that the buffer does not contain.
    fn lost_count(&self, buffered: &SequenceRing<Handle>, packet_buffer: &PacketBuffer, now: Time) -> usize {
        let is_buffered = |sequence: SequenceNumber| {
            buffered.get(sequence.number()).is_some_and(|handle| packet_buffer.get(handle, now).is_some())
        };
        self.numbers().filter(|sequence| !is_buffered(*sequence)).count()
    }

    /// Decodes the block, and stores the restored source packets in the buffer; returns none of
    /// them if it does not decode.
    pub(super) fn restore(
        &self,
        engine: byway_code::Engine,
        buffered: &SequenceRing<Handle>,
        packet_buffer: &mut PacketBuffer,
        buffers: &mut [byway_code::AlignedBuffer],
        now: Time,
    ) -> RestoredPackets {
        let numbers: ArrayVec<SequenceNumber, SOURCE_PACKETS_MAX> = self.numbers().collect();
        let recovered = {
            let sources: ArrayVec<Option<&[u8]>, SOURCE_PACKETS_MAX> = numbers
                .iter()
                .map(|sequence| {
                    buffered.get(sequence.number()).and_then(|handle| packet_buffer.get(handle, now))
                })
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
                        payload: packet_buffer.get(repair.payload, now)?,
                    })
                })
                .collect();
            decode(engine, &sources, &repairs, buffers)
        };
        let Ok(recovered) = recovered else {
            return RestoredPackets::new();
        };
        let packets = recovered.packets(buffers);
        packets
            .filter_map(|(index, packet)| Some((numbers[index], packet_buffer.push(packet, now)?)))
            .collect()
    }
}
