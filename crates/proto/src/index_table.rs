//! Hash table from session indices and flows to small numbers, for keys that no attacker chooses.

use alloc::vec;
use alloc::vec::Vec;

use byway_code::prefetch_value;
use byway_units::FlowId;
use byway_wire::SessionIndex;

use crate::session::SessionId;

/// Key of an [`IndexTable`].
pub(crate) trait IndexKey: Copy + Eq {
    /// Returns the hash of the key. It gives the first slot to examine, so keys that occur together
    /// should differ in the low bits.
    fn home(self) -> u32;
}

/// Session indices are random numbers of this node itself, so they are their own hash: no peer can
/// make them collide.
impl IndexKey for SessionIndex {
    fn home(self) -> u32 {
        self.number()
    }
}

/// Only flows that this node's application accepted are keys. Peers number their flows in sequence.
impl IndexKey for (SessionId, FlowId) {
    fn home(self) -> u32 {
        // Knuth's multiplier separates the flows of one session from those of the next.
        self.0.0.wrapping_mul(0x9E37_79B1).wrapping_add(u32::from(self.1.number()))
    }
}

/// Hash table from keys to small numbers, with open addressing and linear probing.
///
/// A look-up usually costs one cache line.
#[derive(Debug)]
pub(crate) struct IndexTable<K> {
    /// Slots, a power of two, at most half of them occupied; none before the first insertion.
    slots: Vec<Option<(K, u32)>>,
    len: usize,
}

impl<K> Default for IndexTable<K> {
    fn default() -> Self {
        Self { slots: Vec::new(), len: 0 }
    }
}

/// Number of slots of the first allocation.
const SLOTS_MIN: usize = 16;

impl<K: IndexKey> IndexTable<K> {
    pub(crate) fn get(&self, index: K) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        let mut slot = self.home(index);
        loop {
            match self.slots[slot] {
                Some((key, value)) if key == index => return Some(value),
                Some(_) => slot = self.after(slot),
                None => return None,
            }
        }
    }

    /// Prefetches the first slot of a key into the processor's cache.
    pub(crate) fn prefetch(&self, index: K) {
        if !self.slots.is_empty() {
            prefetch_value(&self.slots[self.home(index)]);
        }
    }

    /// Prefetches a small table into the processor's cache, or the beginning of a large one.
    pub(crate) fn prefetch_all(&self) {
        self.slots.chunks(4).take(4).for_each(|slots| prefetch_value(&slots[0]));
    }

    /// Adds a key with its value; returns `false` and changes nothing if the table has the key.
    pub(crate) fn insert(&mut self, index: K, value: u32) -> bool {
        if self.get(index).is_some() {
            return false;
        }
        if (self.len + 1) * 2 > self.slots.len() {
            self.grow();
        }
        self.put(index, value);
        self.len += 1;
        true
    }

    /// Removes a key, and moves later keys of its probe sequence into the free slots.
    pub(crate) fn remove(&mut self, index: K) {
        if self.slots.is_empty() {
            return;
        }
        let mut slot = self.home(index);
        loop {
            match self.slots[slot] {
                Some((key, _)) if key == index => break,
                Some(_) => slot = self.after(slot),
                None => return,
            }
        }
        self.slots[slot] = None;
        self.len -= 1;
        let mut next = self.after(slot);
        while let Some((key, value)) = self.slots[next].take() {
            self.put(key, value);
            next = self.after(next);
        }
    }

    fn put(&mut self, index: K, value: u32) {
        let mut slot = self.home(index);
        while self.slots[slot].is_some() {
            slot = self.after(slot);
        }
        self.slots[slot] = Some((index, value));
    }

    fn grow(&mut self) {
        let slots = (self.slots.len() * 2).max(SLOTS_MIN);
        let old = core::mem::replace(&mut self.slots, vec![None; slots]);
        for (index, value) in old.into_iter().flatten() {
            self.put(index, value);
        }
    }

    fn home(&self, index: K) -> usize {
        index.home() as usize & (self.slots.len() - 1)
    }

    fn after(&self, slot: usize) -> usize {
        (slot + 1) & (self.slots.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_agrees_with_an_ordered_map(steps in prop::collection::vec((any::<bool>(), 0_u32..64), 0..400)) {
            let mut table = IndexTable::default();
            let mut map = BTreeMap::new();
            for (position, (insert, key)) in (0_u32..).zip(steps) {
                // Keys with equal low bits collide.
                let index = SessionIndex::new((key % 4) | (key << 16));
                if insert {
                    let added = table.insert(index, position);
                    prop_assert_eq!(added, !map.contains_key(&index));
                    map.entry(index).or_insert(position);
                } else {
                    table.remove(index);
                    map.remove(&index);
                }
                for key in 0..64 {
                    let index = SessionIndex::new((key % 4) | (key << 16));
                    prop_assert_eq!(table.get(index), map.get(&index).copied());
                }
            }
        }
    }
}
