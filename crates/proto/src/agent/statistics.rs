//! What became of the packets of a flow, as its receiver saw it.

use alloc::boxed::Box;
use core::ops::{Deref, DerefMut};

use byway_units::Duration;

use super::events::Delivery;

/// Upper ends of the buckets of [`RepairTimes`] in milliseconds, inclusive: fine where a packet of a call is still of use
/// to its jitter buffer, coarse up to the latency budgets of interactive flows.
pub const REPAIR_TIME_BOUNDS_MS: [u64; 14] = [5, 10, 15, 20, 25, 30, 40, 50, 75, 100, 150, 200, 300, 500];

/// How long repairs took that came in time: from when the packet was due on the direct path to when it was here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepairTimes {
    counts: [u64; REPAIR_TIME_BOUNDS_MS.len() + 1],
    sum: Duration,
}

impl RepairTimes {
    const NONE: Self = Self { counts: [0; REPAIR_TIME_BOUNDS_MS.len() + 1], sum: Duration::ZERO };

    /// How many took so long, by bucket: those up to the first bound, those above it up to the second, and so on; the last
    /// ones are above all bounds.
    #[must_use]
    pub const fn counts(&self) -> &[u64; REPAIR_TIME_BOUNDS_MS.len() + 1] {
        &self.counts
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// How long they took together.
    #[must_use]
    pub const fn sum(&self) -> Duration {
        self.sum
    }

    fn add_all(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(sum, count)| *sum += count);
        self.sum += other.sum;
    }

    fn add(&mut self, time: Duration) {
        let bucket = REPAIR_TIME_BOUNDS_MS.iter().position(|bound| time <= Duration::from_millis(*bound));
        self.counts[bucket.unwrap_or(REPAIR_TIME_BOUNDS_MS.len())] += 1;
        self.sum += time;
    }
}

/// Counters of one receiving flow, since it was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReceiveStatistics {
    /// Packets first delivered by the direct path.
    pub direct: u64,
    /// Packets noticed to be lost on the direct path.
    pub lost: u64,
    /// Lost packets restored from the flow's own repair packets, in time.
    pub in_stream: u64,
    /// Lost packets restored with others' help, in time.
    pub cooperative: u64,
    /// Lost packets that came from a cache, in time.
    pub cached: u64,
    /// Packets first delivered by the overlay unasked.
    pub forwarded: u64,
    /// Packets that came after their deadline, or after those that follow them had gone before, and were not
    /// delivered.
    pub late: u64,
    /// Packets of a congestion-controlled flow that waited for those before them.
    pub held: u64,
    /// Times that one went before others that were missing, as no repair came in time.
    pub gaps_passed: u64,
    /// Packets not delivered, as they were marked on the way and their transport does not understand marks.
    pub marked_dropped: u64,
    /// Packets that came again.
    pub duplicates: u64,
    /// Packets whose tag was wrong, after the direct path.
    pub forged: u64,
    /// Repairs whose packet was not what the sender sealed: somebody answered falsely.
    pub false_repairs: u64,
    /// NACKs sent with ranges.
    pub nacks: u64,
    /// Open-ended NACKs sent.
    pub open_nacks: u64,
    /// Packets that were asked for, and then came by the direct path all the same.
    pub nacks_in_vain: u64,
    /// ACKs sent.
    pub acks: u64,
    /// Packets given for others.
    pub given: u64,
    /// Bytes given for others.
    pub given_bytes: u64,
    /// Requests of others beyond what is consented to.
    pub beyond_consent: u64,
    /// Packets of a mixture that were lost while packets queued on the path, and were not asked for.
    pub congestion_losses: u64,
    /// Bursts of losses, and the longest in packets.
    pub bursts: u64,
    /// See [`ReceiveStatistics::bursts`].
    pub longest_burst: u64,
    /// The greatest lateness of a packet that was delivered.
    pub lateness_max: Duration,
    /// How long repairs took from the flow's own repair packets.
    pub in_stream_times: RepairTimes,
    /// How long repairs took with others' help.
    pub cooperative_times: RepairTimes,
    /// How long repairs took from a cache.
    pub cached_times: RepairTimes,
}

impl ReceiveStatistics {
    /// Nothing was counted.
    const NONE: Self = Self {
        direct: 0,
        lost: 0,
        in_stream: 0,
        cooperative: 0,
        cached: 0,
        forwarded: 0,
        late: 0,
        held: 0,
        gaps_passed: 0,
        marked_dropped: 0,
        duplicates: 0,
        forged: 0,
        false_repairs: 0,
        nacks: 0,
        open_nacks: 0,
        nacks_in_vain: 0,
        acks: 0,
        given: 0,
        given_bytes: 0,
        beyond_consent: 0,
        congestion_losses: 0,
        bursts: 0,
        longest_burst: 0,
        lateness_max: Duration::ZERO,
        in_stream_times: RepairTimes::NONE,
        cooperative_times: RepairTimes::NONE,
        cached_times: RepairTimes::NONE,
    };

    /// Adds what another flow counted.
    pub(super) fn add_all(&mut self, other: &Self) {
        let mut others = *other;
        for (sum, count) in self.sums_mut().zip(others.sums_mut()) {
            *sum += *count;
        }
        self.longest_burst = self.longest_burst.max(other.longest_burst);
        self.lateness_max = self.lateness_max.max(other.lateness_max);
        self.in_stream_times.add_all(&other.in_stream_times);
        self.cooperative_times.add_all(&other.cooperative_times);
        self.cached_times.add_all(&other.cached_times);
    }

    /// Notes how long a repair took.
    pub(super) fn add_repair(&mut self, delivery: Delivery, time: Duration) {
        let times = match delivery {
            Delivery::InStream => &mut self.in_stream_times,
            Delivery::Cooperative => &mut self.cooperative_times,
            Delivery::Cached => &mut self.cached_times,
            Delivery::Direct | Delivery::Forwarded => return,
        };
        times.add(time);
    }
}

impl Default for ReceiveStatistics {
    fn default() -> Self {
        Self::NONE
    }
}

/// Lists the counters of which those of several flows are added up.
macro_rules! summable {
    ($($counter:ident),+; besides $($other:ident),+) => {
        impl ReceiveStatistics {
            fn sums_mut(&mut self) -> impl Iterator<Item = &mut u64> {
                let Self { $($counter,)+ $($other: _),+ } = self;
                [$($counter),+].into_iter()
            }

            /// All that count packets, bytes or messages, with their names.
            pub fn by_name(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($counter), self.$counter)),+].into_iter()
            }
        }
    };
}

summable!(
    direct, lost, in_stream, cooperative, cached, forwarded, late, held, gaps_passed, marked_dropped, duplicates,
    forged, false_repairs, nacks, open_nacks, nacks_in_vain, acks, given, given_bytes, beyond_consent, congestion_losses,
    bursts;
    besides longest_burst, lateness_max, in_stream_times, cooperative_times, cached_times
);

/// What an agent has not finished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentBacklog {
    /// Flows of whose packets something is kept.
    pub flows: usize,
    /// Packets that are not here yet, and not given up.
    pub missing: usize,
    /// Packets that others asked for and that are not here yet.
    pub requests: usize,
}

/// Statistics that take no memory before something is counted: of many flows, nothing ever comes.
#[derive(Debug, Default)]
pub(super) struct Counted(Option<Box<ReceiveStatistics>>);

impl Counted {
    /// The statistics, once something was counted.
    pub(super) fn get(&self) -> Option<&ReceiveStatistics> {
        self.0.as_deref()
    }
}

impl Deref for Counted {
    type Target = ReceiveStatistics;

    fn deref(&self) -> &ReceiveStatistics {
        self.0.as_deref().unwrap_or(&ReceiveStatistics::NONE)
    }
}

impl DerefMut for Counted {
    fn deref_mut(&mut self) -> &mut ReceiveStatistics {
        self.0.get_or_insert_with(|| Box::new(ReceiveStatistics::NONE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_up_to_each_bound_and_above_the_last() {
        let mut times = RepairTimes::NONE;
        let micros = [0, 5_000, 5_001, 10_000, 500_000, 500_001, 3_000_000];
        for count in micros {
            times.add(Duration::from_micros(count));
        }
        let mut counts = [0; 15];
        (counts[0], counts[1], counts[13], counts[14]) = (2, 2, 1, 2);
        assert_eq!((times.counts(), times.count()), (&counts, 7));
        assert_eq!(times.sum(), Duration::from_micros(micros.iter().sum()));
        assert!(REPAIR_TIME_BOUNDS_MS.is_sorted());
    }

    #[test]
    fn counters_are_added_up_and_of_extremes_the_greater_one_counts() {
        let mut one = ReceiveStatistics { longest_burst: 7, ..ReceiveStatistics::NONE };
        for (number, counter) in (1..).zip(one.sums_mut()) {
            *counter = number;
        }
        one.add_repair(Delivery::Cached, Duration::from_millis(8));
        let mut other = ReceiveStatistics { longest_burst: 9, ..one };
        other.lateness_max = Duration::from_millis(3);
        one.add_all(&other);
        assert!(one.sums_mut().map(|sum| *sum).eq((1..=22).map(|number| 2 * number)));
        assert_eq!((one.longest_burst, one.lateness_max), (9, Duration::from_millis(3)));
        assert_eq!((one.cached_times.count(), one.cached_times.sum()), (2, Duration::from_millis(16)));
        assert_eq!((one.in_stream_times.count(), one.cooperative_times.count()), (0, 0));
    }
}
