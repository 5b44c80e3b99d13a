//! Properties that all queueing disciplines have, for random arrivals.

extern crate std;

mod backlogged;
mod by_flows;
mod constant_rate;
mod other_disciplines;
mod rate_delay;
mod responsive;

use alloc::vec::Vec;

use byway_units::{Bytes, Duration, Rate, Time};
use proptest::prelude::*;

use crate::{Arrival, Class, Discipline, DropReason, FlowHash};

const MTU: u32 = 1_500;

/// Returns a flow; few flows do not share slots.
fn flow(number: u64) -> FlowHash {
    FlowHash::new(number << 54 | number << 22)
}

/// Random arrivals: gap in microseconds, class, flow and length.
fn arrivals() -> impl Strategy<Value = Vec<(u64, Class, u64, u32)>> {
    let class =
        prop_oneof![2 => Just(Class::HighRate), 2 => Just(Class::LowDelay), 1 => Just(Class::LowAverage)];
    let gap = prop_oneof![4 => Just(0_u64), 4 => 0_u64..400, 1 => 0_u64..50_000];
    let bytes = prop_oneof![3 => Just(MTU), 1 => Just(40_u32), 1 => 40_u32..=MTU];
    prop::collection::vec((gap, class, 0_u64..40, bytes), 1..600)
}

/// A packet that the link sent.
#[derive(Clone, Copy, Debug)]
struct SentPacket {
    packet: u32,
    class: Class,
    flow: FlowHash,
    bytes: u32,
    sojourn: Duration,
    at: Time,
}

/// A link that sends one packet after the other.
struct TestLink<Q> {
    queue: Q,
    rate: Rate,
    free_at: Time,
    arrived: Vec<(FlowHash, u32)>,
    sent: Vec<SentPacket>,
    dropped: Vec<(u32, DropReason)>,
}

impl<Q: Discipline<u32>> TestLink<Q> {
    fn new(queue: Q, rate: Rate) -> Self {
        Self { queue, rate, free_at: Time::START, arrived: Vec::new(), sent: Vec::new(), dropped: Vec::new() }
    }

    /// Sends all packets that can leave before a time.
    fn send_until(&mut self, until: Time) {
        while !self.queue.backlog().is_zero() && self.free_at <= until {
            let dropped = &mut self.dropped;
            let left = self.queue.dequeue(self.free_at, &mut |packet, why| dropped.push((packet, why)));
            let Some(departure) = left else {
                assert!(self.queue.backlog().is_zero(), "something waits while the link is free");
                return;
            };
            let ((flow, bytes), at) = (self.arrived[departure.packet as usize], self.free_at);
            self.free_at += Bytes::new(u64::from(bytes)) / self.rate;
            let (packet, class, waited) = (departure.packet, departure.class, departure.sojourn);
            self.sent.push(SentPacket { packet, class, flow, bytes, sojourn: waited, at });
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
        let packet = u32::try_from(self.arrived.len()).expect("few packets");
        self.arrived.push((flow, bytes));
        let dropped = &mut self.dropped;
        let arrival = Arrival { packet, bytes, class, flow, source, is_ecn_capable: false };
        self.queue.enqueue(arrival, now, &mut |packet, why| dropped.push((packet, why)));
    }

    /// Checks properties of every discipline: each packet leaves once or is dropped once. Packets
    /// of a flow and class leave in order of arrival.
    fn check(&self) {
        let mut seen: Vec<u32> = self.sent.iter().map(|left| left.packet).collect();
        seen.extend(self.dropped.iter().map(|(packet, _)| *packet));
        seen.sort_unstable();
        let all: Vec<u32> = (0..).take(self.arrived.len()).collect();
        assert_eq!(seen, all);
        for (index, left) in self.sent.iter().enumerate() {
            let of_flow = |other: &&SentPacket| (other.flow, other.class) == (left.flow, left.class);
            let next = self.sent[index + 1..].iter().find(of_flow);
            assert!(next.is_none_or(|next| next.packet > left.packet), "{left:?} {next:?}");
        }
    }
}
