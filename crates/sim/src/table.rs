//! A table whose look-ups cost a cache line as a rule.

use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use crate::hash;
use crate::node::NodeId;
use crate::random::mix;

/// What a [`Table`] finds things by.
pub(crate) trait Key: Copy + Eq {
    /// A number of which all bits depend on the key.
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

/// Small values by key, in open addressing with linear probing. It has no order to be read in.
#[derive(Debug)]
pub(crate) struct Table<K, V> {
    /// A power of two of places, at most half of them taken; empty at first.
    places: Vec<Option<(K, V)>>,
    taken: usize,
}

/// Places of the first allocation.
const PLACES_MIN: usize = 16;

impl<K: Key, V: Copy> Table<K, V> {
    pub(crate) const fn new() -> Self {
        Self { places: Vec::new(), taken: 0 }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.taken == 0
    }

    pub(crate) fn get(&self, key: K) -> Option<V> {
        let place = self.find(key)?;
        self.places[place].map(|(_, value)| value)
    }

    /// Has `value` for the key, instead of what it had.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        if let Some(place) = self.find(key).filter(|place| self.places[*place].is_some()) {
            self.places[place] = Some((key, value));
            return;
        }
        if (self.taken + 1) * 2 > self.places.len() {
            let places = (self.places.len() * 2).max(PLACES_MIN);
            let old = core::mem::replace(&mut self.places, vec![None; places]);
            old.into_iter().flatten().for_each(|(key, value)| self.put(key, value));
        }
        self.put(key, value);
        self.taken += 1;
    }

    /// Has nothing for the key; what it had. Those that had to give way to it move up.
    pub(crate) fn remove(&mut self, key: K) -> Option<V> {
        let place = self.find(key)?;
        let (_, removed) = self.places[place].take()?;
        self.taken -= 1;
        let mut next = self.after(place);
        while let Some((key, value)) = self.places[next].take() {
            self.put(key, value);
            next = self.after(next);
        }
        Some(removed)
    }

    /// The place of a key, or the free one where it would be; `None` if there are no places.
    fn find(&self, key: K) -> Option<usize> {
        if self.places.is_empty() {
            return None;
        }
        let mut place = self.home(key);
        while self.places[place].is_some_and(|(other, _)| other != key) {
            place = self.after(place);
        }
        Some(place)
    }

    fn put(&mut self, key: K, value: V) {
        if let Some(place) = self.find(key) {
            self.places[place] = Some((key, value));
        }
    }

    #[allow(clippy::cast_possible_truncation, reason = "only the low bits count")]
    fn home(&self, key: K) -> usize {
        key.hash() as usize & (self.places.len() - 1)
    }

    const fn after(&self, place: usize) -> usize {
        (place + 1) & (self.places.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Few hashes, so that keys have to give way to one another.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Crowded(u64);

    impl Key for Crowded {
        fn hash(self) -> u64 {
            self.0 % 4
        }
    }

    proptest! {
        #[test]
        fn it_agrees_with_an_ordered_map(steps in prop::collection::vec((0..3, 0_u64..64), 0..400)) {
            let (mut table, mut map) = (Table::new(), BTreeMap::new());
            for (position, (kind, key)) in (0_u32..).zip(steps) {
                let key = Crowded(key);
                if kind < 2 {
                    table.insert(key, position);
                    map.insert(key, position);
                } else {
                    prop_assert_eq!(table.remove(key), map.remove(&key));
                }
                prop_assert_eq!(table.is_empty(), map.is_empty());
                for key in (0..64).map(Crowded) {
                    prop_assert_eq!(table.get(key), map.get(&key).copied());
                }
            }
        }
    }
}
