//! What a link could carry, as it was once recorded.

use alloc::sync::Arc;
use alloc::vec::Vec;

use byway_units::{Bytes, Duration, Rate, Time};
use thiserror::Error;

use crate::limits::RECORDED_OPPORTUNITIES_MAX;

/// What may leave at one opportunity: a packet of Ethernet (the traces of Mahimahi, Netravali et al., ATC 2015).
const OPPORTUNITY: Bytes = Bytes::new(1_500);

/// Instants at each of which up to 1,500 bytes may leave a link; after the last one they begin again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedCapacity {
    /// In milliseconds from the beginning, in order; many links may have the same.
    instants: Arc<Vec<u32>>,
    /// How far in it the world begins.
    begin: Duration,
}

/// Why a text is no recorded capacity.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RecordedCapacityError {
    /// There is nothing in it.
    #[error("it has no lines: give a whole number of milliseconds in each, at which 1,500 bytes may pass")]
    Empty,
    /// A line that is none.
    #[error("line {line} is no time: write a whole number of milliseconds, as in 42")]
    NoTime {
        /// Which, from 1.
        line: usize,
    },
    /// A line out of order.
    #[error("line {line} has a time before that of the line before it: write them in order")]
    OutOfOrder {
        /// Which, from 1.
        line: usize,
    },
    /// All at time 0.
    #[error(
        "line {line} is the last, and says 0: it begins again at its last number, so let that be more than 0"
    )]
    NoLength {
        /// Which, from 1.
        line: usize,
    },
    /// Too many lines.
    #[error("it has more than {RECORDED_OPPORTUNITIES_MAX} lines: use a part of it")]
    TooLong,
}

/// What may leave at so many of them.
const fn opportunities(count: u64) -> Bytes {
    Bytes::new(OPPORTUNITY.count() * count)
}

impl RecordedCapacity {
    /// Reads a trace of Mahimahi: a whole number of milliseconds in each line, at which 1,500 bytes may pass, in order. The last
    /// one is when it begins again. Empty lines and those that begin with `#` are passed over.
    ///
    /// # Errors
    /// If the text has none, too many or something else; the error names the line.
    pub fn parse(text: &str) -> Result<Self, RecordedCapacityError> {
        let (mut instants, mut last) = (Vec::new(), 1);
        for (line, content) in (1..).zip(text.lines().map(str::trim)) {
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            let instant: u32 = content.parse().map_err(|_| RecordedCapacityError::NoTime { line })?;
            if instants.last().is_some_and(|last| instant < *last) {
                return Err(RecordedCapacityError::OutOfOrder { line });
            }
            if instants.len() == RECORDED_OPPORTUNITIES_MAX {
                return Err(RecordedCapacityError::TooLong);
            }
            instants.push(instant);
            last = line;
        }
        match instants.last() {
            None => Err(RecordedCapacityError::Empty),
            Some(0) => Err(RecordedCapacityError::NoLength { line: last }),
            Some(_) => Ok(Self { instants: Arc::new(instants), begin: Duration::ZERO }),
        }
    }

    /// The same, begun at this opportunity, modulo their number.
    #[must_use]
    pub fn begun_at(&self, opportunity: u64) -> Self {
        let place = usize::try_from(opportunity % self.instants.len() as u64).unwrap_or_default();
        Self { begin: Duration::from_millis(self.instants[place].into()), ..self.clone() }
    }

    /// The mean rate, as IP packets count it.
    #[must_use]
    pub fn mean_rate(&self) -> Rate {
        Rate::over(opportunities(self.instants.len() as u64), self.period()).unwrap_or(Rate::ZERO)
    }

    /// From its beginning until it begins again; more than nothing, as was checked.
    fn period(&self) -> Duration {
        Duration::from_millis(self.instants.last().copied().unwrap_or(1).into())
    }

    /// The first opportunity at this time or later, counted from the beginning of the trace.
    fn first_from(&self, time: Time) -> u64 {
        let since = (time + self.begin).saturating_since(Time::START).as_nanos();
        let period = self.period().as_nanos();
        // The opportunities at the end of a round come before those at the beginning of the next.
        let round = since.saturating_sub(1) / period;
        let within = since - round * period;
        let place = self.instants.partition_point(|instant| u64::from(*instant) * 1_000_000 < within);
        round * self.instants.len() as u64 + place as u64
    }

    /// When an opportunity is.
    fn at(&self, opportunity: u64) -> Time {
        let count = self.instants.len() as u64;
        let place = usize::try_from(opportunity % count).unwrap_or_default();
        let since =
            self.period() * (opportunity / count) + Duration::from_millis(self.instants[place].into());
        Time::START + since.saturating_sub(self.begin)
    }

    /// What may leave until an instant, that included.
    pub(super) fn until(&self, time: Time) -> Bytes {
        opportunities(self.first_from(time + Duration::from_nanos(1)) - self.first_from(Time::START))
    }
}

/// Where in a recorded capacity a link is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    opportunity: u64,
    /// What may still leave at it.
    left: Bytes,
}

impl Place {
    /// The first opportunity at this time or later.
    pub(super) fn from(capacity: &RecordedCapacity, time: Time) -> Self {
        Self::fresh(capacity.first_from(time))
    }

    const fn fresh(opportunity: u64) -> Self {
        Self { opportunity, left: OPPORTUNITY }
    }

    /// When a packet has left that comes at `now`, behind all before it: as soon as opportunities have taken all its bytes. What
    /// it leaves of one is for those that wait already.
    pub(super) fn leave(&mut self, capacity: &RecordedCapacity, now: Time, bytes: Bytes) -> Time {
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
        capacity.at(self.opportunity)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn capacity(text: &str) -> RecordedCapacity {
        RecordedCapacity::parse(text).expect("a trace")
    }

    fn millis(millis: u64) -> Time {
        Time::START + Duration::from_millis(millis)
    }

    /// When packets have left that come at these milliseconds, with these bytes.
    fn left(capacity: &RecordedCapacity, packets: &[(u64, u64)]) -> Vec<u64> {
        let mut place = Place::from(capacity, Time::START);
        let leave = |&(at, bytes): &(u64, u64)| place.leave(capacity, millis(at), Bytes::new(bytes));
        packets.iter().map(leave).map(|left| left.as_nanos() / 1_000_000).collect()
    }

    #[test]
    fn packets_leave_at_opportunities_and_share_them_if_they_wait() {
        let trace = capacity("# of our own\n10\n10\n\n30\n100\n");
        // 1,500 at once; 1,000 and half of another at the second; its rest, and what is left for one that waits, at 30.
        assert_eq!(left(&trace, &[(0, 1_500), (0, 1_000), (0, 1_000), (1, 1_000)]), [10, 10, 30, 30]);
        // What is left is lost on one that comes later; a packet may take several.
        assert_eq!(left(&trace, &[(0, 100), (11, 1_400), (31, 3_001)]), [10, 30, 110]);
        // An opportunity is for who comes just then; after the last, they begin again.
        assert_eq!(left(&trace, &[(100, 1_500), (100, 1_500), (215, 10)]), [100, 110, 230]);
    }

    #[test]
    fn a_trace_may_begin_elsewhere() {
        let trace = capacity("10\n30\n100\n").begun_at(4);
        // It begins at 30, which is over by then.
        assert_eq!(left(&trace, &[(0, 1_500), (1, 1_500), (1, 1_500)]), [0, 70, 80]);
        assert_eq!(
            (trace.until(millis(70)), trace.until(millis(79))),
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
            let said = RecordedCapacity::parse(text).expect_err(text).to_string();
            assert!(said.contains(wanted), "{text:?}: {said}");
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
            let all = (0..2_100 / period + 2).flat_map(|round| lines.iter().map(move |at| round * period + u64::from(*at)));
            let all: Vec<u64> = all.collect();
            for micros in times {
                let first = trace.first_from(Time::from_nanos(micros * 1_000));
                let wanted = all.iter().position(|at| *at * 1_000 >= micros + skipped * 1_000);
                prop_assert_eq!(Some(first), wanted.map(|place| place as u64));
                let wanted = all[usize::try_from(first).unwrap_or(0)].saturating_sub(skipped);
                prop_assert_eq!(trace.at(first), millis(wanted));
            }
        }
    }
}
