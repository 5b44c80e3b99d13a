//! Table of an agent's flows by number; the numbers of closed flows are reused.

use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

use byway_code::prefetch_value;

/// Flows of an agent in one direction, by number.
#[derive(Debug)]
pub(super) struct FlowTable<T> {
    flows: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> FlowTable<T> {
    pub(super) const fn new() -> Self {
        Self { flows: Vec::new(), free: Vec::new() }
    }

    /// Adds a flow; returns its number, or `None` if there are 2^32 flows.
    pub(super) fn add(&mut self, flow: T) -> Option<u32> {
        if let Some(number) = self.free.pop() {
            self.flows[number as usize] = Some(flow);
            return Some(number);
        }
        let number = u32::try_from(self.flows.len()).ok()?;
        self.flows.push(Some(flow));
        Some(number)
    }

    /// Removes and returns a flow, whose number may be reused; `None` if it is closed already.
    pub(super) fn remove(&mut self, number: u32) -> Option<T> {
        let flow = self.flows.get_mut(number as usize)?.take()?;
        self.free.push(number);
        Some(flow)
    }

    pub(super) fn get(&self, number: u32) -> Option<&T> {
        self.flows.get(number as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        self.flows.get_mut(number as usize)?.as_mut()
    }

    /// Returns the number of slots of open and closed flows, which is the cost of a scan over all
    /// flows.
    pub(super) const fn slots(&self) -> usize {
        self.flows.len()
    }

    /// Prefetches the first two flows into the processor's cache.
    pub(super) fn prefetch(&self) {
        self.flows.iter().take(2).for_each(prefetch_value);
    }

    /// Returns the open flows, with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(&self.flows).filter_map(|(number, flow)| Some((number, flow.as_ref()?)))
    }

    /// Returns the open flows for changes, with their numbers.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        (0..).zip(&mut self.flows).filter_map(|(number, flow)| Some((number, flow.as_mut()?)))
    }
}

impl<T> Index<usize> for FlowTable<T> {
    type Output = T;

    fn index(&self, number: usize) -> &T {
        self.flows[number].as_ref().expect("the flow was not closed")
    }
}

impl<T> IndexMut<usize> for FlowTable<T> {
    fn index_mut(&mut self, number: usize) -> &mut T {
        self.flows[number].as_mut().expect("the flow was not closed")
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    #[test]
    fn numbers_are_used_again() {
        let mut table = FlowTable::new();
        assert_eq!(['a', 'b', 'c'].map(|flow| table.add(flow)), [Some(0), Some(1), Some(2)]);
        assert_eq!((table.remove(1), table.remove(1), table.remove(9)), (Some('b'), None, None));
        assert_eq!((table.get(1), table[2]), (None, 'c'));
        assert_eq!((table.add('d'), table.add('e')), (Some(1), Some(3)));
        let all: Vec<_> = table.iter().collect();
        assert_eq!(all, [(0, &'a'), (1, &'d'), (2, &'c'), (3, &'e')]);
    }

    #[test]
    #[should_panic(expected = "was not closed")]
    fn a_closed_flow_is_not_there() {
        let mut table = FlowTable::new();
        table.add('a');
        table.remove(0);
        let _ = table[0];
    }
}
