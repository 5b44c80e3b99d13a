//! A rate, and a queue before it that loses what does not fit (tail drop).

use alloc::collections::VecDeque;

use byway_units::{Bytes, Rate, Time};
use thiserror::Error;

/// The slowest place of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bottleneck {
    rate: Rate,
    queue_bytes_max: Bytes,
}

/// Why a bottleneck cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BottleneckError {
    /// A rate of zero.
    #[error("a bottleneck of 0 bit/s never sends what it holds: give a rate, or an outage")]
    NoRate,
}

impl Bottleneck {
    /// A bottleneck of `rate` that holds up to `queue_bytes_max` of IP packets, the one being sent among them:
    /// a packet is lost if it would make them more.
    ///
    /// # Errors
    /// If the rate is zero.
    pub const fn new(rate: Rate, queue_bytes_max: Bytes) -> Result<Self, BottleneckError> {
        if rate.is_zero() {
            return Err(BottleneckError::NoRate);
        }
        Ok(Self { rate, queue_bytes_max })
    }
}

/// What a bottleneck holds.
#[derive(Debug, Default)]
pub(crate) struct Transmitter {
    /// When each packet has left, and its size; first in, first out.
    departures: VecDeque<(Time, Bytes)>,
    backlog: Bytes,
    busy_until: Time,
}

impl Transmitter {
    /// When the packet has left the bottleneck, or `None` if it finds no room: it leaves one transmission time
    /// after all before it. The time of a packet is rounded up to a nanosecond, so the rate is never exceeded.
    pub(crate) fn enqueue(
        &mut self,
        bottleneck: Option<Bottleneck>,
        now: Time,
        bytes: Bytes,
    ) -> Option<Time> {
        let Some(Bottleneck { rate, queue_bytes_max }) = bottleneck else {
            return Some(now);
        };
        self.forget_until(now);
        let backlog = self.backlog + bytes;
        if backlog > queue_bytes_max {
            return None;
        }
        self.backlog = backlog;
        self.busy_until = self.busy_until.max(now) + bytes / rate;
        self.departures.push_back((self.busy_until, bytes));
        Some(self.busy_until)
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
        let mut transmitter = Transmitter::default();
        let enqueue = |&(nanos, bytes): &(u64, u64)| {
            let left = transmitter.enqueue(Some(bottleneck), Time::from_nanos(nanos), Bytes::new(bytes));
            left.map(Time::as_nanos)
        };
        offers.iter().map(enqueue).collect()
    }

    #[test]
    fn departures_are_exact_to_the_nanosecond() {
        // At 3 Mbit/s, 1,000 bytes take 2,666,666.67 ns and 100 bytes 266,666.67 ns, both rounded up.
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
    fn without_a_bottleneck_packets_leave_at_once() {
        let now = Time::from_nanos(5);
        assert_eq!(Transmitter::default().enqueue(None, now, Bytes::MAX), Some(now));
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
            let mut transmitter = Transmitter::default();
            let (mut now, mut left) = (Time::START, Vec::new());
            for (gap, bytes) in offers {
                now += Duration::from_nanos(gap);
                let bytes = Bytes::new(bytes);
                left.extend(transmitter.enqueue(Some(bottleneck), now, bytes).map(|departure| (departure, bytes)));
            }
            for (start, &(first, _)) in left.iter().enumerate() {
                let mut carried = Bytes::ZERO;
                for &(departure, bytes) in &left[start + 1..] {
                    carried += bytes;
                    prop_assert!(rate * (departure - first) >= carried);
                }
            }
        }
    }
}
