//! Nodes: hosts with addresses, which may be stopped, frozen and restarted.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;

use byway_units::Time;

use crate::pool::PacketIndex;

/// Identifier of a node. The node's links and addresses stay when its host is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

impl NodeId {
    /// Creates the identifier of the node with this index.
    ///
    /// # Panics
    /// If there are more than 2^32 nodes.
    pub(crate) fn from_index(index: usize) -> Self {
        Self(u32::try_from(index).expect("a world has fewer nodes than fit in memory"))
    }

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the number of this node: nodes are numbered from 0 in the order in which they were
    /// added.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node {}", self.0)
    }
}

/// Handling of packets that arrive while a host is frozen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freeze {
    /// The world buffers the packets, up to
    /// [`FROZEN_BACKLOG_MAX`](crate::limits::FROZEN_BACKLOG_MAX): a process that does not read its
    /// socket.
    Buffer,
    /// The packets are lost: a paused machine.
    Drop,
}

/// Condition of a node, which decides whether its host takes inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The host takes inputs.
    Running,
    /// The host takes no input until the node is resumed.
    Frozen(Freeze),
    /// The host takes no input until the node is restarted.
    Stopped,
}

/// A host, with the world's record of its addresses, condition and alarms.
#[derive(Debug)]
pub(crate) struct Node<H> {
    pub(crate) host: H,
    pub(crate) condition: Condition,
    /// Addresses of the node; the host sends from the first.
    pub(crate) addresses: Vec<SocketAddr>,
    /// Packets that arrived while the host was frozen, in order.
    pub(crate) buffered: VecDeque<PacketIndex>,
    pub(crate) alarms: Alarms,
    pub(crate) wake_ups: u64,
    /// True if the scenario must still be notified that the node was drained.
    pub(crate) is_drained: bool,
}

impl<H> Node<H> {
    pub(crate) fn new(host: H) -> Self {
        Self {
            host,
            condition: Condition::Running,
            addresses: Vec::new(),
            buffered: VecDeque::new(),
            alarms: Alarms::default(),
            wake_ups: 0,
            is_drained: false,
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        self.condition == Condition::Running
    }
}

/// Wake-ups of a node in the event queue, each earlier than the one before.
///
/// A later deadline, which is normal after a packet, does not remove them: they are checked when
/// they are due. Therefore a node has few of them, and none is queued twice.
#[derive(Debug, Default)]
pub(crate) struct Alarms(Vec<Time>);

impl Alarms {
    /// Records a wake-up at `time`. Returns true if the caller must queue an event for it, because
    /// none is queued by then.
    pub(crate) fn set(&mut self, time: Time) -> bool {
        let is_needed = self.0.last().is_none_or(|&first| time < first);
        if is_needed {
            self.0.push(time);
        }
        is_needed
    }

    /// Removes the first alarm, because its event has just happened.
    pub(crate) fn pop_first(&mut self) {
        let rung = self.0.pop();
        assert!(rung.is_some(), "every wake-up in the event queue is known to its node");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_up_is_queued_only_if_none_comes_sooner() {
        let mut alarms = Alarms::default();
        let at = Time::from_nanos;
        assert!(alarms.set(at(3_600)));
        for near in [10, 20, 30] {
            assert!(alarms.set(at(near)));
            assert!(!alarms.set(at(near)) && !alarms.set(at(near + 1)));
            alarms.pop_first();
            assert!(!alarms.set(at(3_600)), "the far one is still queued");
        }
        alarms.pop_first();
        assert!(alarms.set(at(3_600)));
    }

    #[test]
    #[should_panic(expected = "known to its node")]
    fn a_wake_up_out_of_nowhere_is_a_broken_invariant() {
        Alarms::default().pop_first();
    }
}
