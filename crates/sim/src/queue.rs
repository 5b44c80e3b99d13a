//! What is going to happen, in order.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

use byway_units::Time;

use crate::node::NodeId;
use crate::pool::PacketIndex;
use crate::slab::SlabIndex;

/// Something that happens at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// A packet reaches the end of its link.
    Arrival(PacketIndex),
    /// A deadline of a host may have come.
    Wake(NodeId),
    /// A host is new or works again: it may have something to send.
    Drain(NodeId),
    /// The scenario asked for it.
    Scheduled(SlabIndex),
}

/// Events by time; those of one instant in the order in which they were queued.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    heap: BinaryHeap<Reverse<(Time, u64, Event)>>,
    queued: u64,
}

impl EventQueue {
    pub(crate) fn push(&mut self, time: Time, event: Event) {
        self.heap.push(Reverse((time, self.queued, event)));
        self.queued += 1;
    }

    pub(crate) fn next_time(&self) -> Option<Time> {
        self.heap.peek().map(|Reverse((time, ..))| *time)
    }

    pub(crate) fn pop(&mut self) -> Option<(Time, Event)> {
        self.heap.pop().map(|Reverse((time, _, event))| (time, event))
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn events_come_by_time_and_then_as_they_were_queued(times in prop::collection::vec(0_u64..20, 0..100)) {
            let mut queue = EventQueue::default();
            for (index, &time) in times.iter().enumerate() {
                queue.push(Time::from_nanos(time), Event::Drain(NodeId::from_index(index)));
            }
            // A stable sort is the oracle.
            let mut expected: Vec<_> = times.iter().copied().enumerate().collect();
            expected.sort_by_key(|&(_, time)| time);
            for (index, time) in expected {
                prop_assert_eq!(queue.next_time(), Some(Time::from_nanos(time)));
                prop_assert_eq!(queue.pop(), Some((Time::from_nanos(time), Event::Drain(NodeId::from_index(index)))));
            }
            prop_assert_eq!(queue.pop(), None);
        }
    }
}
