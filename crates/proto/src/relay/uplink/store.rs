//! Store of the bytes of packets queued for the uplink, in reusable memory blocks.
//!
//! Packets of one class leave in the order of their arrival. Therefore each class writes into
//! consecutive blocks, and releases the blocks before the packet that leaves.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use byway_sched::Class;
use byway_units::Bytes;

use crate::limits::{DATAGRAM_CAPACITY, UPLINK_BLOCK_BYTES};

const _: () = assert!(UPLINK_BLOCK_BYTES >= 2 * DATAGRAM_CAPACITY);

/// Location of a packet's bytes in the blocks of its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PacketLocation {
    /// Number of the block, counted from the first block of its class.
    block: u64,
    start: u32,
    bytes: u32,
}

impl PacketLocation {
    /// Returns the length of the packet.
    pub(super) const fn bytes(self) -> usize {
        self.bytes as usize
    }

    const fn end(self) -> usize {
        (self.start + self.bytes) as usize
    }
}

/// Blocks of one class, the oldest first. New packets go into the last one.
#[derive(Debug, Default)]
struct ClassBlocks {
    blocks: VecDeque<Vec<u8>>,
    /// Number of blocks that this class has released since the start.
    released_count: u64,
}

/// Bytes of all queued packets.
#[derive(Debug, Default)]
pub(super) struct Store {
    classes: [ClassBlocks; Class::COUNT],
    free: Vec<Vec<u8>>,
    /// Number of allocated blocks of all classes, in use or free.
    blocks: usize,
}

impl Store {
    fn class_blocks(&mut self, class: Class) -> &mut ClassBlocks {
        &mut self.classes[class as usize]
    }

    /// Appends a packet to the blocks of its class, and returns its location.
    pub(super) fn push(&mut self, class: Class, packet: &[u8]) -> PacketLocation {
        let fits = |block: &Vec<u8>| block.capacity() - block.len() >= packet.len();
        if !self.class_blocks(class).blocks.back().is_some_and(fits) {
            let block = self.free.pop().unwrap_or_else(|| {
                self.blocks += 1;
                Vec::with_capacity(UPLINK_BLOCK_BYTES.max(packet.len()))
            });
            self.class_blocks(class).blocks.push_back(block);
        }
        let class_blocks = self.class_blocks(class);
        let block = class_blocks.blocks.back_mut().expect("a block with capacity was added");
        let start = u32::try_from(block.len()).expect("a block is small");
        block.extend_from_slice(packet);
        let bytes = u32::try_from(packet.len()).expect("a packet is short");
        PacketLocation {
            block: class_blocks.released_count + class_blocks.blocks.len() as u64 - 1,
            start,
            bytes,
        }
    }

    /// Returns the bytes of a packet that leaves. Earlier packets of its class have left or were
    /// dropped.
    pub(super) fn read(&mut self, class: Class, location: PacketLocation) -> &[u8] {
        let Self { classes, free, .. } = self;
        let class_blocks = &mut classes[class as usize];
        while class_blocks.released_count < location.block {
            class_blocks.released_count += 1;
            let mut block = class_blocks.blocks.pop_front().expect("the packet's block is stored");
            block.clear();
            free.push(block);
        }
        &class_blocks.blocks[0][location.start as usize..location.end()]
    }

    /// Discards a dropped packet. If it is the latest one of its class, its space is reused.
    pub(super) fn discard(&mut self, class: Class, location: PacketLocation) {
        let Self { classes, free, .. } = self;
        let class_blocks = &mut classes[class as usize];
        let is_last = location.block + 1 == class_blocks.released_count + class_blocks.blocks.len() as u64;
        if let Some(block) =
            class_blocks.blocks.back_mut().filter(|block| is_last && block.len() == location.end())
        {
            block.truncate(location.start as usize);
            if block.is_empty() && class_blocks.blocks.len() > 1 {
                free.extend(class_blocks.blocks.pop_back());
            }
        }
    }

    /// Releases all packets, because none is queued. Each class retains one block.
    pub(super) fn clear(&mut self) {
        for class_blocks in &mut self.classes {
            while class_blocks.blocks.len() > 1 {
                class_blocks.released_count += 1;
                let mut block = class_blocks.blocks.pop_front().expect("there are several blocks");
                block.clear();
                self.free.push(block);
            }
            class_blocks.blocks.iter_mut().for_each(Vec::clear);
        }
    }

    /// Returns the memory of all allocated blocks.
    pub(super) fn allocated_bytes(&self) -> Bytes {
        Bytes::from(self.blocks * UPLINK_BLOCK_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn packets_come_out_as_they_came_and_pieces_are_used_again() {
        let mut store = Store::default();
        let packet = |number: usize| vec![u8::try_from(number % 251).expect("reduced"); 1_400];
        let mut queued = VecDeque::new();
        for number in 0..1_000 {
            let class = Class::ALL[number % 2];
            queued.push_back((number, class, store.push(class, &packet(number))));
            if number >= 100 {
                let (number, class, location) = queued.pop_front().expect("a hundred wait");
                assert_eq!(store.read(class, location), packet(number), "{number}");
            }
        }
        // A hundred packets are 140 kB: three or four blocks for each class.
        assert!(
            store.allocated_bytes() <= Bytes::from(8 * UPLINK_BLOCK_BYTES),
            "{}",
            store.allocated_bytes()
        );
    }

    #[test]
    fn what_came_last_and_is_dropped_takes_no_room() {
        let mut store = Store::default();
        let first = store.push(Class::HighRate, &[1; 1_000]);
        for _ in 0..1_000 {
            let location = store.push(Class::HighRate, &[2; 1_000]);
            store.discard(Class::HighRate, location);
        }
        let dropped: Vec<PacketLocation> =
            (0..200).map(|_| store.push(Class::HighRate, &[3; 1_000])).collect();
        dropped.into_iter().rev().for_each(|location| store.discard(Class::HighRate, location));
        let last = store.push(Class::HighRate, &[4; 1_000]);
        assert_eq!((first.block, last.block), (0, 0));
        assert_eq!(store.read(Class::HighRate, first), [1; 1_000]);
        assert_eq!(store.read(Class::HighRate, last), [4; 1_000]);
        store.clear();
        assert_eq!(store.push(Class::HighRate, &[5]).start, 0);
        assert_eq!(store.allocated_bytes(), Bytes::from(7 * UPLINK_BLOCK_BYTES));
    }
}
