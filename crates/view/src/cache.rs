//! Packets that a client has.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::error::Error;
use core::fmt;

use crate::layout::{Layout, PacketNumber};
use crate::limits::STORED_OVERHEAD;

/// Packets that a client has, as its server knows it: one bit for each, at most 512 kB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    words: Vec<u64>,
    packets: u32,
}

impl Cache {
    /// Creates the cache of a client that has no packet of the image.
    #[must_use]
    pub fn new(layout: &Layout) -> Self {
        let packets = layout.packets();
        Self { words: vec![0; packets.div_ceil(u64::BITS) as usize], packets }
    }

    /// True if the client has the packet.
    #[must_use]
    pub fn contains(&self, packet: PacketNumber) -> bool {
        let word = self.words.get((packet.get() / u64::BITS) as usize);
        word.is_some_and(|word| (word >> (packet.get() % u64::BITS)) & 1 == 1)
    }

    /// Adds a packet. Returns `true` if the client did not have it, and `false` also for packets
    /// that the image has not.
    pub fn insert(&mut self, packet: PacketNumber) -> bool {
        let is_new = packet.get() < self.packets && !self.contains(packet);
        if let Some(word) = self.words.get_mut((packet.get() / u64::BITS) as usize).filter(|_| is_new) {
            *word |= 1 << (packet.get() % u64::BITS);
        }
        is_new
    }

    /// Removes all packets.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Returns the number of packets that the client has.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }
}

/// Packets that a client has, with their bytes, up to a limit.
///
/// A client whose store is full clears it, and sets [`Request::is_fresh`](crate::Request::is_fresh)
/// in its next request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketStore {
    packets: BTreeMap<PacketNumber, Box<[u8]>>,
    bytes: usize,
    bytes_max: usize,
}

impl PacketStore {
    /// Creates a store for this number of bytes. Each packet counts 64 bytes more than it has.
    #[must_use]
    pub const fn new(bytes_max: usize) -> Self {
        Self { packets: BTreeMap::new(), bytes: 0, bytes_max }
    }

    /// Stores a packet. A packet that is there already stays as it is.
    ///
    /// # Errors
    /// If the store is full; it does not change then.
    pub fn insert(&mut self, packet: PacketNumber, bytes: &[u8]) -> Result<(), StoreFull> {
        if self.packets.contains_key(&packet) {
            return Ok(());
        }
        let needed = self.bytes.saturating_add(bytes.len()).saturating_add(STORED_OVERHEAD);
        if needed > self.bytes_max {
            return Err(StoreFull);
        }
        self.bytes = needed;
        self.packets.insert(packet, bytes.into());
        Ok(())
    }

    /// Returns a packet.
    #[must_use]
    pub fn get(&self, packet: PacketNumber) -> Option<&[u8]> {
        self.packets.get(&packet).map(|bytes| &bytes[..])
    }

    /// Removes all packets.
    pub fn clear(&mut self) {
        self.packets.clear();
        self.bytes = 0;
    }

    /// Returns the bytes that the packets count.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Error of a store that has no capacity for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreFull;

impl fmt::Display for StoreFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot store the packet: the store is full; clear it, and request afresh")
    }
}

impl Error for StoreFull {}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cache of 70 packets, which end in its second word.
    fn cache() -> Cache {
        Cache { words: vec![0; 2], packets: 70 }
    }

    #[test]
    fn packets_are_new_once() {
        let mut cache = cache();
        for number in [0, 63, 64, 69] {
            assert!(!cache.contains(PacketNumber::new(number)));
            assert!(cache.insert(PacketNumber::new(number)));
            assert!(!cache.insert(PacketNumber::new(number)));
            assert!(cache.contains(PacketNumber::new(number)));
        }
        assert_eq!((cache.count(), cache.contains(PacketNumber::new(1))), (4, false));
        cache.clear();
        assert_eq!((cache.count(), cache.contains(PacketNumber::new(63))), (0, false));
    }

    #[test]
    fn packets_that_the_image_has_not_are_not_added() {
        let mut cache = cache();
        for number in [70, 127, 128, u32::MAX] {
            assert!(!cache.insert(PacketNumber::new(number)) && !cache.contains(PacketNumber::new(number)));
        }
        assert_eq!(cache.count(), 0);
    }

    #[test]
    fn a_full_store_refuses_packets_and_keeps_the_others() {
        // Two packets of 3 and 1 bytes count 64 more each.
        let mut store = PacketStore::new(132);
        store.insert(PacketNumber::new(5), b"abc").expect("the store is empty");
        store.insert(PacketNumber::new(5), b"other bytes").expect("the packet is there");
        store.insert(PacketNumber::new(6), b"d").expect("there is capacity");
        assert_eq!(store.insert(PacketNumber::new(7), b""), Err(StoreFull));
        assert_eq!((store.get(PacketNumber::new(5)), store.bytes()), (Some(&b"abc"[..]), 132));
        store.clear();
        assert_eq!((store.get(PacketNumber::new(5)), store.bytes()), (None, 0));
        store.insert(PacketNumber::new(7), b"").expect("the store is empty");
    }
}
