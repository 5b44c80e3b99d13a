//! Small numbers by key: a hash table for keys that nobody else chooses.

use alloc::vec;
use alloc::vec::Vec;

use byway_code::prefetch_value;
use byway_units::FlowId;
use byway_wire::SessionIndex;

use crate::session::SessionId;

/// A key of an [`IndexTable`].
pub(crate) trait IndexKey: Copy + Eq {
    /// Where to begin to look: keys that occur together should differ in the low bits.
    fn home(self) -> u32;
}

/// Session indices are drawn at random by this node itself, so they are their own hash: no peer can make them collide.
impl IndexKey for SessionIndex {
    fn home(self) -> u32 {
        self.number()
    }
}

/// Flows are accepted by this node's own application; peers number theirs from some number on.
impl IndexKey for (SessionId, FlowId) {
    fn home(self) -> u32 {
        // Knuth's multiplier sets the flows of one session apart from those of the next.
        self.0.0.wrapping_mul(0x9E37_79B1).wrapping_add(u32::from(self.1.number()))
    }
}

/// A table from keys to small numbers, in open addressing with linear probing.
///
/// A look-up costs one cache line as a rule.
#[derive(Debug)]
pub(crate) struct IndexTable<K> {
    /// A power of two of places, at most half of them taken; empty at first.
    places: Vec<Option<(K, u32)>>,
    taken: usize,
}

impl<K> Default for IndexTable<K> {
    fn default() -> Self {
        Self { places: Vec::new(), taken: 0 }
    }
}

/// Places of the first allocation.
const PLACES_MIN: usize = 16;

impl<K: IndexKey> IndexTable<K> {
    pub(crate) fn get(&self, index: K) -> Option<u32> {
        if self.places.is_empty() {
            return None;
        }
        let mut place = self.home(index);
        loop {
            match self.places[place] {
                Some((key, value)) if key == index => return Some(value),
                Some(_) => place = self.after(place),
                None => return None,
            }
        }
    }

    /// Brings the place of a key into the cache.
    pub(crate) fn prefetch(&self, index: K) {
        if !self.places.is_empty() {
            prefetch_value(&self.places[self.home(index)]);
        }
    }

    /// Brings a small table into the cache, and the beginning of a large one.
    pub(crate) fn prefetch_all(&self) {
        self.places.chunks(4).take(4).for_each(|places| prefetch_value(&places[0]));
    }

    /// Adds an index that is not in the table; `false` if it is.
    pub(crate) fn insert(&mut self, index: K, value: u32) -> bool {
        if self.get(index).is_some() {
            return false;
        }
        if (self.taken + 1) * 2 > self.places.len() {
            self.grow();
        }
        self.put(index, value);
        self.taken += 1;
        true
    }

    /// Removes an index, and moves up those that had to give way to it.
    pub(crate) fn remove(&mut self, index: K) {
        if self.places.is_empty() {
            return;
        }
        let mut place = self.home(index);
        loop {
            match self.places[place] {
                Some((key, _)) if key == index => break,
                Some(_) => place = self.after(place),
                None => return,
            }
        }
        self.places[place] = None;
        self.taken -= 1;
        let mut next = self.after(place);
        while let Some((key, value)) = self.places[next].take() {
            self.put(key, value);
            next = self.after(next);
        }
    }

    fn put(&mut self, index: K, value: u32) {
        let mut place = self.home(index);
        while self.places[place].is_some() {
            place = self.after(place);
        }
        self.places[place] = Some((index, value));
    }

    fn grow(&mut self) {
        let places = (self.places.len() * 2).max(PLACES_MIN);
        let old = core::mem::replace(&mut self.places, vec![None; places]);
        for (index, value) in old.into_iter().flatten() {
            self.put(index, value);
        }
    }

    fn home(&self, index: K) -> usize {
        index.home() as usize & (self.places.len() - 1)
    }

    fn after(&self, place: usize) -> usize {
        (place + 1) & (self.places.len() - 1)
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
                // Keys that share their low bits have to give way to one another.
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
