//! A table whose places are used again.

use alloc::vec::Vec;

/// A place in a [`Slab`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SlabIndex(u32);

/// Values at places that stay theirs until they are taken. It allocates only when it is fuller than ever before.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Option<T>>,
    free: Vec<SlabIndex>,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }

    /// # Panics
    /// If it holds 2^32 values.
    pub(crate) fn insert(&mut self, value: T) -> SlabIndex {
        if let Some(index) = self.free.pop() {
            self.places[index.0 as usize] = Some(value);
            return index;
        }
        let index = SlabIndex(u32::try_from(self.places.len()).expect("fewer values than fit in memory"));
        self.places.push(Some(value));
        index
    }

    pub(crate) fn get(&self, index: SlabIndex) -> Option<&T> {
        self.places[index.0 as usize].as_ref()
    }

    /// # Panics
    /// If there is nothing at this place.
    pub(crate) fn take(&mut self, index: SlabIndex) -> T {
        let value = self.places[index.0 as usize].take();
        self.free.push(index);
        value.expect("a value is taken once")
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
        assert_eq!(slab.take(a), 'a');
        let c = slab.insert('c');
        assert_eq!(c, a);
        assert_eq!((slab.take(b), slab.take(c)), ('b', 'c'));
        assert_eq!(slab.places.len(), 2);
    }

    #[test]
    #[should_panic(expected = "taken once")]
    fn a_value_cannot_be_taken_twice() {
        let mut slab = Slab::new();
        let index = slab.insert(1);
        slab.take(index);
        slab.take(index);
    }
}
