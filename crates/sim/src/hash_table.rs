//! Hash table whose look-ups usually cost one cache line.

use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use crate::hash;
use crate::node::NodeId;
use crate::random::mix;

/// Key of a [`Table`].
pub(crate) trait Key: Copy + Eq {
    /// Returns a number whose bits all depend on the key.
    fn hash(self) -> u64;
}

impl Key for SocketAddr {
    fn hash(self) -> u64 {
        let port = u64::from(self.port());
        match self.ip() {
            IpAddr::V4(ip) => mix(u64::from(ip.to_bits()) << 16 | port),
            IpAddr::V6(ip) => hash::digest(port, &ip.octets()),
        }
    }
}

impl Key for (NodeId, NodeId) {
    fn hash(self) -> u64 {
        mix(u64::from(self.0.number()) << 32 | u64::from(self.1.number()))
    }
}

/// Small values by key, in open addressing with linear probing. Its entries have no order.
#[derive(Debug)]
pub(crate) struct Table<K, V> {
    /// Slots, a power of two, at most half of them occupied; empty at first.
    slots: Vec<Option<(K, V)>>,
    occupied: usize,
}

/// Number of slots of the first allocation.
const SLOTS_MIN: usize = 16;

impl<K: Key, V: Copy> Table<K, V> {
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new(), occupied: 0 }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.occupied == 0
    }

    pub(crate) fn get(&self, key: K) -> Option<V> {
        let slot = self.find(key)?;
        self.slots[slot].map(|(_, value)| value)
    }

    /// Sets the value of a key.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        if let Some(slot) = self.find(key).filter(|slot| self.slots[*slot].is_some()) {
            self.slots[slot] = Some((key, value));
            return;
        }
        if (self.occupied + 1) * 2 > self.slots.len() {
            let slots = (self.slots.len() * 2).max(SLOTS_MIN);
            let old = core::mem::replace(&mut self.slots, vec![None; slots]);
            old.into_iter().flatten().for_each(|(key, value)| self.put(key, value));
        }
        self.put(key, value);
        self.occupied += 1;
    }

    /// Removes a key and returns its value. Entries that its collisions displaced move up.
    pub(crate) fn remove(&mut self, key: K) -> Option<V> {
        let slot = self.find(key)?;
        let (_, removed) = self.slots[slot].take()?;
        self.occupied -= 1;
        let mut next = self.next_slot(slot);
        while let Some((key, value)) = self.slots[next].take() {
            self.put(key, value);
            next = self.next_slot(next);
        }
        Some(removed)
    }

    /// Returns the slot of a key, or the free slot where it would be; `None` if the table has no
    /// slots.
    fn find(&self, key: K) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let mut slot = self.home_slot(key);
        while self.slots[slot].is_some_and(|(other, _)| other != key) {
            slot = self.next_slot(slot);
        }
        Some(slot)
    }

    fn put(&mut self, key: K, value: V) {
        if let Some(slot) = self.find(key) {
            self.slots[slot] = Some((key, value));
        }
    }

    #[allow(clippy::cast_possible_truncation, reason = "only the low bits count")]
    fn home_slot(&self, key: K) -> usize {
        key.hash() as usize & (self.slots.len() - 1)
    }

    const fn next_slot(&self, slot: usize) -> usize {
        (slot + 1) & (self.slots.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Key whose hashes often collide, because the test needs collisions.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct CollidingKey(u64);

    impl Key for CollidingKey {
        fn hash(self) -> u64 {
            self.0 % 4
        }
    }

    proptest! {
        #[test]
        fn it_agrees_with_an_ordered_map(steps in prop::collection::vec((0..3, 0_u64..64), 0..400)) {
            let (mut table, mut map) = (Table::new(), BTreeMap::new());
            for (position, (kind, key)) in (0_u32..).zip(steps) {
                let key = CollidingKey(key);
                if kind < 2 {
                    table.insert(key, position);
                    map.insert(key, position);
                } else {
                    prop_assert_eq!(table.remove(key), map.remove(&key));
                }
                prop_assert_eq!(table.is_empty(), map.is_empty());
                for key in (0..64).map(CollidingKey) {
                    prop_assert_eq!(table.get(key), map.get(&key).copied());
                }
            }
        }
    }
}
