//! Nodes: hosts with addresses, which may stop, hang and come back.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;

use byway_units::Time;

use crate::pool::PacketIndex;

/// A place in the world: it keeps its links and addresses while hosts come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

impl NodeId {
    /// # Panics
    /// If there are more than 2^32 nodes.
    pub(crate) fn from_index(index: usize) -> Self {
        Self(u32::try_from(index).expect("a world has fewer nodes than fit in memory"))
    }

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }

    /// The number of this node: nodes are numbered from 0 in the order in which they were added.
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

/// What happens to the packets that arrive while a host hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hang {
    /// They wait, up to [`HELD_PACKETS_MAX`](crate::limits::HELD_PACKETS_MAX) of them: a process that does not
    /// get to its socket.
    Keep,
    /// They are lost: a machine that is paused.
    Lose,
}

/// How a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It takes inputs.
    Running,
    /// It takes no input until it is resumed.
    Hung(Hang),
    /// It takes no input until it is restarted.
    Stopped,
}

/// A host and what the world knows about it.
#[derive(Debug)]
pub(crate) struct Node<H> {
    pub(crate) host: H,
    pub(crate) condition: Condition,
    /// The first is the one it sends from.
    pub(crate) addresses: Vec<SocketAddr>,
    /// What arrived while it hung.
    pub(crate) held: VecDeque<PacketIndex>,
    pub(crate) alarms: Alarms,
    pub(crate) wake_ups: u64,
    /// Whether the scenario is still to be told that it was drained.
    pub(crate) is_drained: bool,
}

impl<H> Node<H> {
    pub(crate) fn new(host: H) -> Self {
        Self {
            host,
            condition: Condition::Running,
            addresses: Vec::new(),
            held: VecDeque::new(),
            alarms: Alarms::default(),
            wake_ups: 0,
            is_drained: false,
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        self.condition == Condition::Running
    }
}

/// The wake-ups of a node that are in the event queue, each sooner than the one before.
///
/// They stay there when the deadline moves back, as it does with every packet, and are checked when they come
/// up: so a node has few of them, and none is queued twice.
#[derive(Debug, Default)]
pub(crate) struct Alarms(Vec<Time>);

impl Alarms {
    /// Whether a wake-up at `time` has to be queued, because none is queued by then; it then counts as queued.
    pub(crate) fn set(&mut self, time: Time) -> bool {
        let is_needed = self.0.last().is_none_or(|&first| time < first);
        if is_needed {
            self.0.push(time);
        }
        is_needed
    }

    /// The first of them came up.
    pub(crate) fn ring(&mut self) {
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
            alarms.ring();
            assert!(!alarms.set(at(3_600)), "the far one is still queued");
        }
        alarms.ring();
        assert!(alarms.set(at(3_600)));
    }

    #[test]
    #[should_panic(expected = "known to its node")]
    fn a_wake_up_out_of_nowhere_is_a_broken_invariant() {
        Alarms::default().ring();
    }
}
