//! Slab: a table that reuses its slots.

use alloc::vec::Vec;

/// Index of a slot in a [`Slab`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SlabIndex(u32);

/// Values with indexes that are stable until their removal. The slab allocates only if it has more
/// values than ever before.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Option<T>>,
    free: Vec<SlabIndex>,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    /// Inserts a value and returns its index.
    ///
    /// # Panics
    /// If the slab has 2^32 values.
    pub(crate) fn insert(&mut self, value: T) -> SlabIndex {
        if let Some(index) = self.free.pop() {
            self.slots[index.0 as usize] = Some(value);
            return index;
        }
        let index = SlabIndex(u32::try_from(self.slots.len()).expect("fewer values than fit in memory"));
        self.slots.push(Some(value));
        index
    }

    pub(crate) fn get(&self, index: SlabIndex) -> Option<&T> {
        self.slots[index.0 as usize].as_ref()
    }

    /// Removes and returns a value.
    ///
    /// # Panics
    /// If the slot is empty.
    pub(crate) fn remove(&mut self, index: SlabIndex) -> T {
        let value = self.slots[index.0 as usize].take();
        self.free.push(index);
        value.expect("a value is removed once")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again() {
        let mut slab = Slab::new();
        let (a, b) = (slab.insert('a'), slab.insert('b'));
        assert_ne!(a, b);
        assert_eq!(slab.remove(a), 'a');
        let c = slab.insert('c');
        assert_eq!(c, a);
        assert_eq!((slab.remove(b), slab.remove(c)), ('b', 'c'));
        assert_eq!(slab.slots.len(), 2);
    }

    #[test]
    #[should_panic(expected = "removed once")]
    fn a_value_cannot_be_taken_twice() {
        let mut slab = Slab::new();
        let index = slab.insert(1);
        slab.remove(index);
        slab.remove(index);
    }
}
