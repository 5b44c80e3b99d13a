//! Bottleneck: a rate or a recorded capacity, behind a tail-drop queue.

use alloc::collections::VecDeque;

use byway_units::{Bytes, Rate, Time};
use thiserror::Error;

use super::capacity_trace::{CapacityTrace, TracePosition};

/// Capacity of a link's bottleneck, and the size of its tail-drop queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bottleneck {
    capacity: Capacity,
    queue_bytes_max: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Capacity {
    Rate(Rate),
    Recorded(CapacityTrace),
}

/// Error of a bottleneck's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BottleneckError {
    /// The rate is zero.
    #[error("a bottleneck of 0 bit/s never sends what it holds: give a rate, or an outage")]
    NoRate,
}

impl Bottleneck {
    /// Creates a bottleneck of `rate` with a queue of up to `queue_bytes_max` bytes of IP packets,
    /// including the packet in transmission. Packets that would exceed it are lost.
    ///
    /// # Errors
    /// If the rate is zero.
    pub const fn new(rate: Rate, queue_bytes_max: Bytes) -> Result<Self, BottleneckError> {
        if rate.is_zero() {
            return Err(BottleneckError::NoRate);
        }
        Ok(Self { capacity: Capacity::Rate(rate), queue_bytes_max })
    }

    /// Creates a bottleneck with a recorded capacity and a queue like that of [`Self::new`].
    #[must_use]
    pub const fn recorded(capacity: CapacityTrace, queue_bytes_max: Bytes) -> Self {
        Self { capacity: Capacity::Recorded(capacity), queue_bytes_max }
    }

    /// Returns the bytes that the bottleneck could transmit between two instants, saturating.
    fn capacity_between(&self, from: Time, until: Time) -> Bytes {
        match &self.capacity {
            Capacity::Rate(rate) => rate.bytes_in(until.saturating_since(from)).unwrap_or(Bytes::MAX),
            Capacity::Recorded(capacity) => {
                capacity.bytes_until(until).saturating_sub(capacity.bytes_until(from))
            }
        }
    }
}

/// Usage of a link's bottleneck since the start. Bytes are those of IP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BottleneckUsage {
    /// Largest backlog of the queue, including the packet in transmission.
    pub backlog_max: Bytes,
    /// Bytes that passed the bottleneck.
    pub passed: Bytes,
    /// Bytes that could have passed the bottleneck.
    pub capacity: Bytes,
}

/// State of a bottleneck: its queue, and the counts for [`BottleneckUsage`].
#[derive(Debug)]
pub(crate) struct Transmitter {
    bottleneck: Bottleneck,
    /// Position in a recorded capacity; `None` before the first packet, and for a constant rate.
    position: Option<TracePosition>,
    /// Departure time and size of each queued packet; first in, first out.
    departures: VecDeque<(Time, Bytes)>,
    backlog: Bytes,
    busy_until: Time,
    /// Bytes accepted into the queue.
    accepted: Bytes,
    backlog_max: Bytes,
    /// Time of the last change of the bottleneck's settings.
    since: Time,
    /// Bytes that could have passed until `since`.
    capacity_before: Bytes,
}

impl Transmitter {
    pub(crate) const fn new(bottleneck: Bottleneck, now: Time) -> Self {
        Self {
            bottleneck,
            position: None,
            departures: VecDeque::new(),
            backlog: Bytes::ZERO,
            busy_until: Time::START,
            accepted: Bytes::ZERO,
            backlog_max: Bytes::ZERO,
            since: now,
            capacity_before: Bytes::ZERO,
        }
    }

    /// Replaces the bottleneck's settings; packets in its queue leave as before.
    pub(crate) fn reconfigure(&mut self, bottleneck: Bottleneck, now: Time) {
        if self.bottleneck != bottleneck {
            self.capacity_before = self.capacity_until(now);
            (self.bottleneck, self.position, self.since) = (bottleneck, None, now);
        }
    }

    /// Queues a packet and returns its departure time, or `None` if the queue drops it. It leaves
    /// one transmission time after all packets before it. The transmission time is rounded up to a
    /// nanosecond, because the rate must not be exceeded.
    pub(crate) fn enqueue(&mut self, now: Time, bytes: Bytes) -> Option<Time> {
        self.forget_until(now);
        let backlog = self.backlog + bytes;
        if backlog > self.bottleneck.queue_bytes_max {
            return None;
        }
        (self.backlog, self.accepted) = (backlog, self.accepted + bytes);
        self.backlog_max = self.backlog_max.max(backlog);
        let free = self.busy_until.max(now);
        self.busy_until = match &self.bottleneck.capacity {
            Capacity::Rate(rate) => free + bytes / *rate,
            Capacity::Recorded(capacity) => {
                let position = self.position.get_or_insert_with(|| TracePosition::from(capacity, free));
                position.transmit(capacity, now, bytes)
            }
        };
        self.departures.push_back((self.busy_until, bytes));
        Some(self.busy_until)
    }

    /// Returns the usage of the bottleneck until now.
    pub(crate) fn usage(&self, now: Time) -> BottleneckUsage {
        let queued = self.departures.iter().filter(|(departure, _)| *departure > now);
        let queued: u64 = queued.map(|(_, bytes)| bytes.count()).sum();
        BottleneckUsage {
            backlog_max: self.backlog_max,
            passed: self.accepted.saturating_sub(Bytes::new(queued)),
            capacity: self.capacity_until(now),
        }
    }

    fn capacity_until(&self, now: Time) -> Bytes {
        self.capacity_before.saturating_add(self.bottleneck.capacity_between(self.since, now))
    }

    fn forget_until(&mut self, now: Time) {
        while let Some(&(departure, bytes)) = self.departures.front()
            && departure <= now
        {
            self.departures.pop_front();
            self.backlog -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use byway_units::Duration;
    use proptest::prelude::*;

    use super::*;

    fn departures(bottleneck: Bottleneck, offers: &[(u64, u64)]) -> Vec<Option<u64>> {
        let mut transmitter = Transmitter::new(bottleneck, Time::START);
        let enqueue = |&(nanos, bytes): &(u64, u64)| {
            let left = transmitter.enqueue(Time::from_nanos(nanos), Bytes::new(bytes));
            left.map(Time::as_nanos)
        };
        offers.iter().map(enqueue).collect()
    }

    #[test]
    fn departures_are_exact_to_the_nanosecond() {
        // At 3 Mbit/s, 1,000 bytes take 2,666,666.67 ns and 100 bytes 266,666.67 ns, both rounded
        // up.
        let link = Bottleneck::new(Rate::from_megabits_per_second(3), Bytes::new(2_500)).expect("a rate");
        let found = departures(
            link,
            &[
                (0, 1_000),         // leaves at once
                (0, 1_000),         // waits for the first
                (0, 1_000),         // 3,000 bytes would be too many
                (2_666_666, 1_000), // a nanosecond too early: the first is still there
                (2_666_667, 1_000), // the first has left
                (8_000_001, 100),   // all have left: the link has been idle
            ],
        );
        let expected = [Some(2_666_667), Some(5_333_334), None, None, Some(8_000_001), Some(8_266_668)];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_queue_holds_exactly_its_bytes() {
        let link = Bottleneck::new(Rate::from_megabits_per_second(1), Bytes::new(300)).expect("a rate");
        let found = departures(link, &[(0, 100), (0, 201), (0, 200), (0, 1)]);
        let is_carried: Vec<_> = found.iter().map(Option::is_some).collect();
        assert_eq!(is_carried, [true, false, true, false]);
    }

    #[test]
    fn its_use_is_what_passed_by_what_could_have() {
        let millis = |millis| Time::START + Duration::from_millis(millis);
        // 1 Mbit/s: 125 bytes in a millisecond.
        let slow = Bottleneck::new(Rate::from_megabits_per_second(1), Bytes::new(1_000)).expect("a rate");
        let mut transmitter = Transmitter::new(slow.clone(), Time::START);
        for bytes in [500, 500, 500] {
            transmitter.enqueue(millis(10), Bytes::new(bytes));
        }
        let used = |transmitter: &Transmitter, at| {
            let BottleneckUsage { backlog_max: backlog, passed, capacity } = transmitter.usage(millis(at));
            [backlog, passed, capacity].map(Bytes::count)
        };
        assert_eq!(used(&transmitter, 13), [1_000, 0, 1_625], "the queue is full for the third");
        assert_eq!(used(&transmitter, 16), [1_000, 500, 2_000]);
        transmitter.reconfigure(slow, millis(20));
        let trace = CapacityTrace::parse("5\n10\n").expect("a trace");
        transmitter.reconfigure(Bottleneck::recorded(trace, Bytes::new(5_000)), millis(20));
        assert_eq!(transmitter.enqueue(millis(22), Bytes::new(1_600)), Some(millis(30)));
        assert_eq!(used(&transmitter, 29), [1_600, 1_000, 2_500 + 1_500]);
        assert_eq!(used(&transmitter, 30), [1_600, 2_600, 2_500 + 3_000]);
    }

    #[test]
    fn a_recorded_capacity_that_comes_later_waits_for_what_is_being_sent() {
        let slow = Bottleneck::new(Rate::from_kilobits_per_second(80), Bytes::new(9_000)).expect("a rate");
        let mut transmitter = Transmitter::new(slow, Time::START);
        let millis = |millis| Time::START + Duration::from_millis(millis);
        // 10 bytes in a millisecond.
        assert_eq!(transmitter.enqueue(millis(0), Bytes::new(120)), Some(millis(12)));
        let trace = CapacityTrace::parse("5\n").expect("a trace");
        transmitter.reconfigure(Bottleneck::recorded(trace, Bytes::new(9_000)), millis(1));
        assert_eq!(transmitter.enqueue(millis(1), Bytes::new(120)), Some(millis(15)));
    }

    #[test]
    fn no_rate_is_an_error() {
        assert_eq!(Bottleneck::new(Rate::ZERO, Bytes::MAX), Err(BottleneckError::NoRate));
    }

    proptest! {
        #[test]
        fn no_span_carries_more_than_the_rate(
            kilobits in 1_u64..100_000,
            offers in prop::collection::vec((0_u64..1 << 24, 28_u64..1_500), 1..50),
        ) {
            let rate = Rate::from_kilobits_per_second(kilobits);
            let bottleneck = Bottleneck::new(rate, Bytes::new(10_000)).expect("a rate");
            let mut transmitter = Transmitter::new(bottleneck, Time::START);
            let (mut now, mut left) = (Time::START, Vec::new());
            for (gap, bytes) in offers {
                now += Duration::from_nanos(gap);
                let bytes = Bytes::new(bytes);
                left.extend(transmitter.enqueue(now, bytes).map(|departure| (departure, bytes)));
            }
            for (start, &(first, _)) in left.iter().enumerate() {
                let mut transmitted = Bytes::ZERO;
                for &(departure, bytes) in &left[start + 1..] {
                    transmitted += bytes;
                    prop_assert!(rate * (departure - first) >= transmitted);
                }
            }
        }
    }
}
