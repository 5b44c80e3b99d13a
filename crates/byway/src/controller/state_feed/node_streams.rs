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
    /// Number of streams of each node that have not ended, whether replaced or not.
    live: BTreeMap<u32, usize>,
}

impl StreamNumbers {
    fn begin(&mut self, node: u32) -> u64 {
        let stream = self.next;
        self.next += 1;
        self.latest.insert(node, stream);
        *self.live.entry(node).or_default() += 1;
        stream
    }
}

impl NodeStreams {
    /// Begins a stream of a node. It replaces the node's stream before, which may belong to a
    /// connection that has failed.
    pub(super) fn begin(&self, node: u32) -> u64 {
        self.numbers().begin(node)
    }

    /// Begins a stream of a node, unless `max` of its streams have not ended. One that was replaced
    /// ends once its connection notices.
    pub(super) fn begin_below(&self, node: u32, max: usize) -> Option<u64> {
        let mut streams = self.numbers();
        let live = streams.live.get(&node).copied().unwrap_or_default();
        (live < max).then(|| streams.begin(node))
    }

    /// Ends a stream of a node.
    pub(super) fn end(&self, node: u32, stream: u64) {
        let mut streams = self.numbers();
        let live = streams.live.remove(&node).unwrap_or_default();
        if live > 1 {
            streams.live.insert(node, live - 1);
        }
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

    #[test]
    fn streams_that_have_not_ended_are_bounded() {
        let streams = NodeStreams::default();
        let [first, second] = [1, 1].map(|node| streams.begin_below(node, 2).expect("below the limit"));
        assert_eq!(streams.begin_below(1, 2), None);
        assert!(streams.is_latest(1, second), "a refused stream replaces none");
        let other = streams.begin_below(2, 2).expect("others are counted apart");
        streams.end(1, first);
        let third = streams.begin_below(1, 2).expect("the first one has ended");
        for (node, stream) in [(1, second), (1, third), (2, other)] {
            streams.end(node, stream);
        }
        assert!(streams.numbers().live.is_empty());
    }
}
