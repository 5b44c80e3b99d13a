//! What queues promise, whatever arrives.

extern crate std;

mod constant;
mod others;
mod pressed;
mod rate_delay;
mod yielding;

use alloc::vec::Vec;

use byway_units::{Bytes, Duration, Rate, Time};
use proptest::prelude::*;

use crate::{Arrival, Class, Discipline, Dropped, FlowHash};

const MTU: u32 = 1_500;

/// A flow that shares no slot with others of so few.
fn flow(number: u64) -> FlowHash {
    FlowHash::new(number << 54 | number << 22)
}

/// What comes: after how many microseconds, of which class and flow, and how long.
fn arrivals() -> impl Strategy<Value = Vec<(u64, Class, u64, u32)>> {
    let class =
        prop_oneof![2 => Just(Class::HighRate), 2 => Just(Class::LowDelay), 1 => Just(Class::LowAverage)];
    let gap = prop_oneof![4 => Just(0_u64), 4 => 0_u64..400, 1 => 0_u64..50_000];
    let bytes = prop_oneof![3 => Just(MTU), 1 => Just(40_u32), 1 => 40_u32..=MTU];
    prop::collection::vec((gap, class, 0_u64..40, bytes), 1..600)
}

/// A packet that left.
#[derive(Clone, Copy, Debug)]
struct Left {
    packet: u32,
    class: Class,
    flow: FlowHash,
    bytes: u32,
    waited: Duration,
    at: Time,
}

/// A link that sends one packet after the other.
struct Wire<Q> {
    queue: Q,
    rate: Rate,
    free_at: Time,
    came: Vec<(FlowHash, u32)>,
    left: Vec<Left>,
    dropped: Vec<(u32, Dropped)>,
}

impl<Q: Discipline<u32>> Wire<Q> {
    fn new(queue: Q, rate: Rate) -> Self {
        Self { queue, rate, free_at: Time::START, came: Vec::new(), left: Vec::new(), dropped: Vec::new() }
    }

    /// Sends what can be sent before a time.
    fn send_until(&mut self, until: Time) {
        while !self.queue.backlog().is_zero() && self.free_at <= until {
            let dropped = &mut self.dropped;
            let left = self.queue.dequeue(self.free_at, &mut |packet, why| dropped.push((packet, why)));
            let Some(departure) = left else {
                assert!(self.queue.backlog().is_zero(), "something waits while the link is free");
                return;
            };
            let ((flow, bytes), at) = (self.came[departure.packet as usize], self.free_at);
            self.free_at += Bytes::new(u64::from(bytes)) / self.rate;
            let (packet, class, waited) = (departure.packet, departure.class, departure.waited);
            self.left.push(Left { packet, class, flow, bytes, waited, at });
        }
    }

    fn arrive(&mut self, class: Class, flow: FlowHash, bytes: u32, now: Time) {
        self.arrive_from(flow, class, flow, bytes, now);
    }

    fn arrive_from(&mut self, source: FlowHash, class: Class, flow: FlowHash, bytes: u32, now: Time) {
        self.send_until(now);
        if self.queue.backlog().is_zero() {
            self.free_at = self.free_at.max(now);
        }
        let packet = u32::try_from(self.came.len()).expect("few packets");
        self.came.push((flow, bytes));
        let dropped = &mut self.dropped;
        let arrival = Arrival { packet, bytes, class, flow, source, is_ecn_capable: false };
        self.queue.enqueue(arrival, now, &mut |packet, why| dropped.push((packet, why)));
    }

    /// What is the same of each queue: each packet leaves or is dropped, once, and those of a flow and class leave in the order in which they
    /// came.
    fn check(&self) {
        let mut seen: Vec<u32> = self.left.iter().map(|left| left.packet).collect();
        seen.extend(self.dropped.iter().map(|(packet, _)| *packet));
        seen.sort_unstable();
        let all: Vec<u32> = (0..).take(self.came.len()).collect();
        assert_eq!(seen, all);
        for (place, left) in self.left.iter().enumerate() {
            let of_flow = |other: &&Left| (other.flow, other.class) == (left.flow, left.class);
            let next = self.left[place + 1..].iter().find(of_flow);
            assert!(next.is_none_or(|next| next.packet > left.packet), "{left:?} {next:?}");
        }
    }
}
