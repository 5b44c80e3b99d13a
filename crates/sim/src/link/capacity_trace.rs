//! Recorded capacity of a link: a trace of transmission opportunities, as recorded for Mahimahi.

use alloc::sync::Arc;
use alloc::vec::Vec;

use byway_units::{Bytes, Duration, Rate, Time};
use thiserror::Error;

use crate::limits::RECORDED_OPPORTUNITIES_MAX;

/// Bytes that one transmission opportunity of a recorded capacity allows: an Ethernet packet (the
/// traces of Mahimahi, Netravali et al., ATC 2015).
const OPPORTUNITY: Bytes = Bytes::new(1_500);

/// Instants at each of which up to 1,500 bytes may leave a link. After the last one, the trace
/// repeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapacityTrace {
    /// Milliseconds from the beginning, in order; links may share a trace.
    instants: Arc<Vec<u32>>,
    /// Offset in the trace at which the world begins.
    begin: Duration,
}

/// Error of a text that is not a recorded capacity.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CapacityTraceError {
    /// The text has no instants.
    #[error("it has no lines: give a whole number of milliseconds in each, at which 1,500 bytes may pass")]
    Empty,
    /// A text line that is not a time.
    #[error("line {line} is no time: write a whole number of milliseconds, as in 42")]
    NoTime {
        /// Number of the text line, from 1.
        line: usize,
    },
    /// A text line with a smaller number than the line before it.
    #[error("line {line} has a time before that of the line before it: write them in order")]
    OutOfOrder {
        /// Number of the text line, from 1.
        line: usize,
    },
    /// All instants are at time 0.
    #[error(
        "line {line} is the last, and says 0: it begins again at its last number, so let that be more than 0"
    )]
    NoLength {
        /// Number of the text line, from 1.
        line: usize,
    },
    /// The text has more instants than [`RECORDED_OPPORTUNITIES_MAX`].
    #[error("it has more than {RECORDED_OPPORTUNITIES_MAX} lines: use a part of it")]
    TooLong,
}

/// Returns the bytes that may leave a link at this many transmission opportunities.
const fn opportunities(count: u64) -> Bytes {
    Bytes::new(OPPORTUNITY.count() * count)
}

impl CapacityTrace {
    /// Parses a trace of Mahimahi. Each text line has a whole number of milliseconds, in order, at
    /// which 1,500 bytes may pass. The last number is also the period of repetition. Empty text
    /// lines and those that begin with `#` are ignored.
    ///
    /// # Errors
    /// If the text has no instants, too many or other content; the error has the number of the text
    /// line.
    pub fn parse(text: &str) -> Result<Self, CapacityTraceError> {
        let (mut instants, mut last) = (Vec::new(), 1);
        for (line, content) in (1..).zip(text.lines().map(str::trim)) {
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            let instant: u32 = content.parse().map_err(|_| CapacityTraceError::NoTime { line })?;
            if instants.last().is_some_and(|last| instant < *last) {
                return Err(CapacityTraceError::OutOfOrder { line });
            }
            if instants.len() == RECORDED_OPPORTUNITIES_MAX {
                return Err(CapacityTraceError::TooLong);
            }
            instants.push(instant);
            last = line;
        }
        match instants.last() {
            None => Err(CapacityTraceError::Empty),
            Some(0) => Err(CapacityTraceError::NoLength { line: last }),
            Some(_) => Ok(Self { instants: Arc::new(instants), begin: Duration::ZERO }),
        }
    }

    /// Returns the same trace with its beginning at this opportunity, modulo their number.
    #[must_use]
    pub fn begun_at(&self, opportunity: u64) -> Self {
        let first = usize::try_from(opportunity % self.instants.len() as u64).unwrap_or_default();
        Self { begin: Duration::from_millis(self.instants[first].into()), ..self.clone() }
    }

    /// Returns the mean rate of the recorded capacity, in bytes of IP packets.
    #[must_use]
    pub fn mean_rate(&self) -> Rate {
        Rate::over(opportunities(self.instants.len() as u64), self.period()).unwrap_or(Rate::ZERO)
    }

    /// Returns the time after which the trace repeats, which is more than zero, as `parse` checks.
    fn period(&self) -> Duration {
        Duration::from_millis(self.instants.last().copied().unwrap_or(1).into())
    }

    /// Returns the first transmission opportunity at this time or later, counted from the beginning
    /// of the trace across its repetitions.
    fn first_from(&self, time: Time) -> u64 {
        let since = (time + self.begin).saturating_since(Time::START).as_nanos();
        let period = self.period().as_nanos();
        // Opportunities at the end of a cycle count before those at the beginning of the next.
        let cycle = since.saturating_sub(1) / period;
        let within = since - cycle * period;
        let index = self.instants.partition_point(|instant| u64::from(*instant) * 1_000_000 < within);
        cycle * self.instants.len() as u64 + index as u64
    }

    /// Returns the time of a transmission opportunity, counted as in [`Self::first_from`].
    fn time_of(&self, opportunity: u64) -> Time {
        let count = self.instants.len() as u64;
        let index = usize::try_from(opportunity % count).unwrap_or_default();
        let since =
            self.period() * (opportunity / count) + Duration::from_millis(self.instants[index].into());
        Time::START + since.saturating_sub(self.begin)
    }

    /// Returns the bytes that may leave a link until an instant, inclusive.
    pub(super) fn bytes_until(&self, time: Time) -> Bytes {
        opportunities(self.first_from(time + Duration::from_nanos(1)) - self.first_from(Time::START))
    }
}

/// Next unused transmission opportunity of a link in a recorded capacity.
#[derive(Clone, Copy, Debug)]
pub(super) struct TracePosition {
    opportunity: u64,
    /// Unused bytes of the current opportunity.
    left: Bytes,
}

impl TracePosition {
    /// Returns the position at the first transmission opportunity at this time or later.
    pub(super) fn from(capacity: &CapacityTrace, time: Time) -> Self {
        Self::fresh(capacity.first_from(time))
    }

    const fn fresh(opportunity: u64) -> Self {
        Self { opportunity, left: OPPORTUNITY }
    }

    /// Uses up the opportunities of a packet that arrives at `now` behind all earlier ones, and
    /// returns its departure time. It leaves as soon as opportunities have transmitted all its
    /// bytes. Later bytes of its last opportunity serve only packets that wait already.
    pub(super) fn transmit(&mut self, capacity: &CapacityTrace, now: Time, bytes: Bytes) -> Time {
        let first = capacity.first_from(now);
        if first > self.opportunity {
            *self = Self::fresh(first);
        }
        let mut missing = bytes;
        while missing > self.left {
            missing -= self.left;
            *self = Self::fresh(self.opportunity + 1);
        }
        self.left -= missing;
        capacity.time_of(self.opportunity)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn capacity(text: &str) -> CapacityTrace {
        CapacityTrace::parse(text).expect("a trace")
    }

    fn millis(millis: u64) -> Time {
        Time::START + Duration::from_millis(millis)
    }

    /// Returns the departure times of packets with these arrivals, in milliseconds, and these
    /// bytes.
    fn left(capacity: &CapacityTrace, packets: &[(u64, u64)]) -> Vec<u64> {
        let mut position = TracePosition::from(capacity, Time::START);
        let leave = |&(at, bytes): &(u64, u64)| position.transmit(capacity, millis(at), Bytes::new(bytes));
        packets.iter().map(leave).map(|departure| departure.as_nanos() / 1_000_000).collect()
    }

    #[test]
    fn packets_leave_at_opportunities_and_share_them_if_they_wait() {
        let trace = capacity("# of our own\n10\n10\n\n30\n100\n");
        // 1,500 at once; 1,000 and half of another at the second; the other half, and the packet
        // that waits behind it, at 30.
        assert_eq!(left(&trace, &[(0, 1_500), (0, 1_000), (0, 1_000), (1, 1_000)]), [10, 10, 30, 30]);
        // A packet that arrives later cannot use the rest of an opportunity; a packet may use
        // several opportunities.
        assert_eq!(left(&trace, &[(0, 100), (11, 1_400), (31, 3_001)]), [10, 30, 110]);
        // A packet that arrives at the instant of an opportunity uses it; after the last
        // opportunity, the trace repeats.
        assert_eq!(left(&trace, &[(100, 1_500), (100, 1_500), (215, 10)]), [100, 110, 230]);
    }

    #[test]
    fn a_trace_may_begin_elsewhere() {
        let trace = capacity("10\n30\n100\n").begun_at(4);
        // It begins at 30, which is already past.
        assert_eq!(left(&trace, &[(0, 1_500), (1, 1_500), (1, 1_500)]), [0, 70, 80]);
        assert_eq!(
            (trace.bytes_until(millis(70)), trace.bytes_until(millis(79))),
            (Bytes::new(3_000), Bytes::new(3_000))
        );
    }

    #[test]
    fn the_mean_rate_counts_all_opportunities() {
        // Two in 100 ms: 3,000 bytes, or 240 kbit/s.
        assert_eq!(capacity("50\n100\n").mean_rate(), Rate::from_kilobits_per_second(240));
    }

    #[test]
    fn what_is_no_trace_is_named_with_its_line() {
        for (text, wanted) in [
            ("", "no lines"),
            ("# nothing\n", "no lines"),
            ("1\n2 ms\n", "line 2 is no time"),
            ("1\n-2\n", "line 2 is no time"),
            ("1.5\n", "line 1 is no time"),
            ("1\n\n3\n2\n", "line 4 has a time before"),
            ("0\n0\n", "line 2 is the last, and says 0"),
        ] {
            let message = CapacityTrace::parse(text).expect_err(text).to_string();
            assert!(message.contains(wanted), "{text:?}: {message}");
        }
    }

    proptest! {
        #[test]
        fn opportunities_are_found_as_by_looking_at_all(
            gaps in prop::collection::vec(0_u32..50, 1..20),
            begin in 0_u64..20,
            times in prop::collection::vec(0_u64..2_000_000, 1..20),
        ) {
            let mut sum = 1;
            let lines: Vec<u32> = gaps.iter().map(|gap| { sum += gap; sum }).collect();
            let text: Vec<std::string::String> = lines.iter().map(ToString::to_string).collect();
            let trace = capacity(&text.join("\n")).begun_at(begin);
            let skipped = u64::from(lines[usize::try_from(begin).unwrap_or(0) % lines.len()]);
            let period = u64::from(sum);
            let all = (0..2_100 / period + 2).flat_map(|cycle| lines.iter().map(move |at| cycle * period + u64::from(*at)));
            let all: Vec<u64> = all.collect();
            for micros in times {
                let first = trace.first_from(Time::from_nanos(micros * 1_000));
                let wanted = all.iter().position(|at| *at * 1_000 >= micros + skipped * 1_000);
                prop_assert_eq!(Some(first), wanted.map(|index| index as u64));
                let wanted = all[usize::try_from(first).unwrap_or(0)].saturating_sub(skipped);
                prop_assert_eq!(trace.time_of(first), millis(wanted));
            }
        }
    }
}
