//! The bytes of packets that wait, in pieces of memory that are used again and again.
//!
//! Packets of one class leave in the order in which they came, so each class writes into pieces in a row, and gives back what lies before the
//! packet that leaves.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use byway_sched::Class;
use byway_units::Bytes;

use crate::limits::{DATAGRAM_ROOM, UPLINK_BLOCK_BYTES};

const _: () = assert!(UPLINK_BLOCK_BYTES >= 2 * DATAGRAM_ROOM);

/// Where a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// How many pieces the class began before.
    block: u64,
    start: u32,
    bytes: u32,
}

impl Place {
    /// How long the packet is.
    pub(super) const fn bytes(self) -> usize {
        self.bytes as usize
    }

    const fn end(self) -> usize {
        (self.start + self.bytes) as usize
    }
}

/// The pieces of one class, the oldest first; packets go into the last.
#[derive(Debug, Default)]
struct Row {
    blocks: VecDeque<Vec<u8>>,
    /// How many there were before the first.
    before: u64,
}

/// The bytes of all packets.
#[derive(Debug, Default)]
pub(super) struct Store {
    rows: [Row; Class::COUNT],
    free: Vec<Vec<u8>>,
    /// How many pieces there are.
    blocks: usize,
}

impl Store {
    fn row(&mut self, class: Class) -> &mut Row {
        &mut self.rows[class as usize]
    }

    /// Keeps the bytes of a packet.
    pub(super) fn push(&mut self, class: Class, packet: &[u8]) -> Place {
        let has_room = |block: &Vec<u8>| block.capacity() - block.len() >= packet.len();
        if !self.row(class).blocks.back().is_some_and(has_room) {
            let block = self.free.pop().unwrap_or_else(|| {
                self.blocks += 1;
                Vec::with_capacity(UPLINK_BLOCK_BYTES.max(packet.len()))
            });
            self.row(class).blocks.push_back(block);
        }
        let row = self.row(class);
        let block = row.blocks.back_mut().expect("one with room was added");
        let start = u32::try_from(block.len()).expect("a piece is small");
        block.extend_from_slice(packet);
        let bytes = u32::try_from(packet.len()).expect("a packet is short");
        Place { block: row.before + row.blocks.len() as u64 - 1, start, bytes }
    }

    /// The bytes of a packet that leaves; those that came before it have left, or never will.
    pub(super) fn take(&mut self, class: Class, place: Place) -> &[u8] {
        let Self { rows, free, .. } = self;
        let row = &mut rows[class as usize];
        while row.before < place.block {
            row.before += 1;
            let mut block = row.blocks.pop_front().expect("the packet's piece is there");
            block.clear();
            free.push(block);
        }
        &row.blocks[0][place.start as usize..place.end()]
    }

    /// A packet will not leave. If it is the one that came last, its room is free again.
    pub(super) fn forget(&mut self, class: Class, place: Place) {
        let Self { rows, free, .. } = self;
        let row = &mut rows[class as usize];
        let is_last = place.block + 1 == row.before + row.blocks.len() as u64;
        if let Some(block) = row.blocks.back_mut().filter(|block| is_last && block.len() == place.end()) {
            block.truncate(place.start as usize);
            if block.is_empty() && row.blocks.len() > 1 {
                free.extend(row.blocks.pop_back());
            }
        }
    }

    /// Nothing waits: all is free again.
    pub(super) fn clear(&mut self) {
        for row in &mut self.rows {
            while row.blocks.len() > 1 {
                row.before += 1;
                let mut block = row.blocks.pop_front().expect("there are several");
                block.clear();
                self.free.push(block);
            }
            row.blocks.iter_mut().for_each(Vec::clear);
        }
    }

    /// The memory of all pieces.
    pub(super) fn held(&self) -> Bytes {
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
        let mut waiting = VecDeque::new();
        for number in 0..1_000 {
            let class = Class::ALL[number % 2];
            waiting.push_back((number, class, store.push(class, &packet(number))));
            if number >= 100 {
                let (number, class, place) = waiting.pop_front().expect("a hundred wait");
                assert_eq!(store.take(class, place), packet(number), "{number}");
            }
        }
        // A hundred packets are 140 kB: three or four pieces for each class.
        assert!(store.held() <= Bytes::from(8 * UPLINK_BLOCK_BYTES), "{}", store.held());
    }

    #[test]
    fn what_came_last_and_is_dropped_takes_no_room() {
        let mut store = Store::default();
        let first = store.push(Class::HighRate, &[1; 1_000]);
        for _ in 0..1_000 {
            let place = store.push(Class::HighRate, &[2; 1_000]);
            store.forget(Class::HighRate, place);
        }
        let dropped: Vec<Place> = (0..200).map(|_| store.push(Class::HighRate, &[3; 1_000])).collect();
        dropped.into_iter().rev().for_each(|place| store.forget(Class::HighRate, place));
        let last = store.push(Class::HighRate, &[4; 1_000]);
        assert_eq!((first.block, last.block), (0, 0));
        assert_eq!(store.take(Class::HighRate, first), [1; 1_000]);
        assert_eq!(store.take(Class::HighRate, last), [4; 1_000]);
        store.clear();
        assert_eq!(store.push(Class::HighRate, &[5]).start, 0);
        assert_eq!(store.held(), Bytes::from(7 * UPLINK_BLOCK_BYTES));
    }
}
