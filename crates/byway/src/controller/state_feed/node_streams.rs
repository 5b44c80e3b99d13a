//! Streams of nodes, of which each node has one: a newer one replaces the one before.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Latest stream of each node, for one kind of streams.
#[derive(Debug, Default)]
pub(super) struct NodeStreams(Mutex<StreamNumbers>);

/// Numbers of streams, each of which has one of its own.
#[derive(Debug, Default)]
struct StreamNumbers {
    next: u64,
    /// Latest stream of each node that has one, by the node's number.
    latest: BTreeMap<u32, u64>,
}

impl NodeStreams {
    /// Begins a stream of a node. It replaces the node's stream before, which may belong to a
    /// connection that has failed.
    pub(super) fn begin(&self, node: u32) -> u64 {
        let mut streams = self.numbers();
        let stream = streams.next;
        streams.next += 1;
        streams.latest.insert(node, stream);
        stream
    }

    /// Ends a stream of a node.
    pub(super) fn end(&self, node: u32, stream: u64) {
        let mut streams = self.numbers();
        if streams.latest.get(&node) == Some(&stream) {
            streams.latest.remove(&node);
        }
    }

    /// True if no later stream of the node replaces this one.
    pub(super) fn is_latest(&self, node: u32, stream: u64) -> bool {
        self.numbers().latest.get(&node) == Some(&stream)
    }

    /// Returns the number of nodes with a stream.
    pub(super) fn count(&self) -> usize {
        self.numbers().latest.len()
    }

    fn numbers(&self) -> MutexGuard<'_, StreamNumbers> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_stream_of_a_node_replaces_the_one_before() {
        let streams = NodeStreams::default();
        let (first, other) = (streams.begin(1), streams.begin(2));
        assert!(streams.is_latest(1, first) && streams.is_latest(2, other));
        let second = streams.begin(1);
        assert!(!streams.is_latest(1, first) && streams.is_latest(1, second) && streams.is_latest(2, other));
        assert!(!streams.is_latest(3, 0));
        streams.end(1, first);
        assert!(streams.is_latest(1, second), "the one before ends without an effect");
        assert_eq!(streams.count(), 2);
        streams.end(1, second);
        let third = streams.begin(1);
        assert!(!streams.is_latest(1, first) && !streams.is_latest(1, second) && streams.is_latest(1, third));
    }
}
