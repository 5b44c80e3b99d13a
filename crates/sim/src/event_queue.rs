//! Queue of future events, in the order of time.

use alloc::collections::{BinaryHeap, VecDeque};
use core::cmp::Ordering;

use byway_units::Time;

use crate::limits::{NEAR_EVENTS, NEAR_EVENTS_MAX};
use crate::network::LinkIndex;
use crate::node::NodeId;
use crate::pool::PacketIndex;
use crate::slab::SlabIndex;

/// Event of the world, due at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A packet reaches the end of its link.
    Arrival(PacketIndex),
    /// A packet may leave the queue of this link.
    Departure(LinkIndex),
    /// A deadline of this node's host may be due.
    Wake(NodeId),
    /// A host is new or restarted: the world drains it, because it may have something to send.
    Drain(NodeId),
    /// An event that the scenario scheduled.
    Scheduled(SlabIndex),
}

/// Event with its time and its rank among the events of that time.
#[derive(Clone, Copy, Debug)]
struct Entry {
    time: Time,
    /// Number of events queued before this one, which orders events of one instant.
    number: u64,
    event: Event,
}

impl Entry {
    /// Returns the sort key: time and number as one integer, which takes one comparison.
    const fn order(&self) -> u128 {
        (self.time.as_nanos() as u128) << 64 | self.number as u128
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Reversed order, because the heap returns the greatest entry first.
impl Ord for Entry {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        other.order().cmp(&self.order())
    }
}

/// Future events of the world, in the order of time. Events of one instant stay in the order in
/// which they were queued.
#[derive(Debug, Default)]
pub(crate) struct EventQueue {
    /// The next events, sorted: no event in `heap` is before any of them.
    near: VecDeque<Entry>,
    heap: BinaryHeap<Entry>,
    queued: u64,
}

impl EventQueue {
    pub(crate) fn push(&mut self, time: Time, event: Event) {
        let entry = Entry { time, number: self.queued, event };
        self.queued += 1;
        if self.near.back().is_none_or(|last| time >= last.time) {
            return self.heap.push(entry);
        }
        let index = self.near.partition_point(|other| other.time <= time);
        self.near.insert(index, entry);
        if self.near.len() > NEAR_EVENTS_MAX {
            self.heap.extend(self.near.pop_back());
        }
    }

    pub(crate) fn next_time(&self) -> Option<Time> {
        match self.near.front() {
            Some(entry) => Some(entry.time),
            None => self.heap.peek().map(|entry| entry.time),
        }
    }

    pub(crate) fn pop(&mut self) -> Option<(Time, Event)> {
        let next = self.near.pop_front().or_else(|| self.heap.pop());
        next.map(|entry| (entry.time, entry.event))
    }

    /// Moves one more event from the heap to the sorted queue, unless that has [`NEAR_EVENTS`].
    /// Returns the event, for a prefetch of its data.
    pub(crate) fn promote_next(&mut self) -> Option<Event> {
        if self.near.len() >= NEAR_EVENTS {
            return None;
        }
        let entry = self.heap.pop()?;
        self.near.push_back(entry);
        Some(entry.event)
    }

    /// Returns an upcoming event without removing it: index 0 is the next one. `None` beyond the
    /// sorted queue.
    pub(crate) fn ahead(&self, index: usize) -> Option<Event> {
        self.near.get(index).map(|entry| entry.event)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use byway_units::Duration;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn events_come_by_time_and_then_as_they_were_queued(
            steps in prop::collection::vec((0_u64..40, 0_usize..4, 0_usize..3), 0..300),
        ) {
            let mut queue = EventQueue::default();
            // A sorted list is the oracle.
            let mut expected: Vec<(Time, usize)> = Vec::new();
            let mut now = Time::START;
            for (index, (ahead, pops, looks)) in steps.into_iter().enumerate() {
                let time = now + Duration::from_nanos(ahead);
                queue.push(time, Event::Drain(NodeId::from_index(index)));
                expected.insert(expected.partition_point(|(other, _)| *other <= time), (time, index));
                for _ in 0..looks {
                    queue.promote_next();
                }
                let popped = if pops == 3 { 2 } else { pops / 2 };
                for (time, index) in expected.drain(..popped.min(expected.len())) {
                    prop_assert_eq!(queue.next_time(), Some(time));
                    prop_assert_eq!(queue.pop(), Some((time, Event::Drain(NodeId::from_index(index)))));
                    now = time;
                }
            }
            for (time, index) in expected {
                prop_assert_eq!(queue.next_time(), Some(time));
                prop_assert_eq!(queue.pop(), Some((time, Event::Drain(NodeId::from_index(index)))));
            }
            prop_assert_eq!(queue.pop(), None);
        }
    }

    #[test]
    fn each_event_comes_near_once() {
        let mut queue = EventQueue::default();
        let event = |index| Event::Drain(NodeId::from_index(index));
        for (index, nanos) in (0..20).zip(0..) {
            queue.push(Time::from_nanos(nanos), event(index));
        }
        let near: Vec<_> = core::iter::from_fn(|| queue.promote_next()).collect();
        assert_eq!(near, (0..NEAR_EVENTS).map(event).collect::<Vec<_>>());
        assert_eq!(queue.ahead(2), Some(event(2)));
        queue.pop();
        assert_eq!((queue.promote_next(), queue.promote_next()), (Some(event(NEAR_EVENTS)), None));
        assert_eq!(queue.ahead(2), Some(event(3)));
    }
}
