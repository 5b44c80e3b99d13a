//! Receive statistics of a flow, by path and kind of repair.

use alloc::boxed::Box;
use core::ops::{Deref, DerefMut};

use byway_units::Duration;

use super::events::Delivery;

/// Inclusive upper bounds of the buckets of [`RepairTimes`] in milliseconds. They are fine where a
/// packet of a call is still useful to its jitter buffer, and coarse up to the latency budgets of
/// interactive flows.
pub const REPAIR_TIME_BOUNDS_MS: [u64; 14] = [5, 10, 15, 20, 25, 30, 40, 50, 75, 100, 150, 200, 300, 500];

/// Histogram of the times of repairs that were in time: from the packet's expected arrival on the
/// direct path to its repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepairTimes {
    counts: [u32; REPAIR_TIME_BOUNDS_MS.len() + 1],
    sum: Duration,
}

impl RepairTimes {
    const NONE: Self = Self { counts: [0; REPAIR_TIME_BOUNDS_MS.len() + 1], sum: Duration::ZERO };

    /// Returns the number of repairs by bucket: up to the first bound, above it up to the second,
    /// and so on; the last bucket is above all bounds.
    #[must_use]
    pub const fn counts(&self) -> &[u32; REPAIR_TIME_BOUNDS_MS.len() + 1] {
        &self.counts
    }

    /// Returns the number of repairs in all buckets.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().copied().map(u64::from).sum()
    }

    /// Returns the sum of all repair times, for their mean.
    #[must_use]
    pub const fn sum(&self) -> Duration {
        self.sum
    }

    fn add_all(&mut self, other: &Self) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(sum, count)| *sum = sum.saturating_add(*count));
        self.sum += other.sum;
    }

    fn add(&mut self, time: Duration) {
        let bucket = REPAIR_TIME_BOUNDS_MS.iter().position(|bound| time <= Duration::from_millis(*bound));
        let count = &mut self.counts[bucket.unwrap_or(REPAIR_TIME_BOUNDS_MS.len())];
        *count = count.saturating_add(1);
        self.sum += time;
    }
}

/// Times of a flow's repairs, by kind, and the greatest lateness of its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepairTimesByKind {
    /// Times of repairs from the flow's own repair packets.
    pub in_stream: RepairTimes,
    /// Times of repairs with other receivers' help.
    pub cooperative: RepairTimes,
    /// Times of repairs from a relay's cache.
    pub cached: RepairTimes,
    /// Times of repairs by the sender, through relays.
    pub resent: RepairTimes,
    /// Greatest lateness of a delivered packet, relative to the base delay.
    pub lateness_max: Duration,
}

impl RepairTimesByKind {
    const NONE: Self = Self {
        in_stream: RepairTimes::NONE,
        cooperative: RepairTimes::NONE,
        cached: RepairTimes::NONE,
        resent: RepairTimes::NONE,
        lateness_max: Duration::ZERO,
    };

    /// Returns the times of all kinds.
    #[must_use]
    pub const fn all(&self) -> [&RepairTimes; 4] {
        [&self.in_stream, &self.cooperative, &self.cached, &self.resent]
    }

    fn add_all(&mut self, other: &Self) {
        self.lateness_max = self.lateness_max.max(other.lateness_max);
        let Self { in_stream, cooperative, cached, resent, .. } = self;
        for (sum, times) in [in_stream, cooperative, cached, resent].into_iter().zip(other.all()) {
            sum.add_all(times);
        }
    }

    /// Adds the lateness of a delivered packet: of a repair, to the histogram of its kind.
    pub(super) fn add(&mut self, delivery: Delivery, time: Duration) {
        self.lateness_max = self.lateness_max.max(time);
        let times = match delivery {
            Delivery::InStream => &mut self.in_stream,
            Delivery::Cooperative => &mut self.cooperative,
            Delivery::Cached => &mut self.cached,
            Delivery::Resent => &mut self.resent,
            Delivery::Direct | Delivery::Forwarded => return,
        };
        times.add(time);
    }
}

/// Counters of one received flow, since it was accepted or its sender restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReceiveStatistics {
    /// Packets first delivered by the direct path.
    pub direct: u64,
    /// Packets detected as lost on the direct path.
    pub lost: u64,
    /// Lost packets restored from the flow's own repair packets, in time.
    pub in_stream: u64,
    /// Lost packets restored with other receivers' help, in time.
    pub cooperative: u64,
    /// Lost packets restored from a relay's cache, in time.
    pub cached: u64,
    /// Lost packets that their sender sent again through relays, in time. In an outage, those that
    /// it sends through relays at once.
    pub resent: u64,
    /// Packets first delivered by the overlay without a request.
    pub forwarded: u64,
    /// Packets of `forwarded` that the direct path lost: of all packets if the flow uses both
    /// paths, and of samples of the direct path while relays alone forward it.
    pub covered: u64,
    /// Packets that arrived after their deadline, or after later packets were delivered, and were
    /// not delivered.
    pub late: u64,
    /// Packets of a congestion-controlled flow that waited for earlier ones.
    pub reordering_buffered: u64,
    /// Packets of a congestion-controlled flow delivered past a gap, because no repair arrived in
    /// time.
    pub gaps_passed: u64,
    /// Packets not delivered, because the path marked them and their transport does not understand
    /// marks.
    pub marked_dropped: u64,
    /// Packets that had arrived before, by any path.
    pub duplicates: u64,
    /// Packets of the direct path with an invalid tag.
    pub forged: u64,
    /// Repairs that do not match the packet that the sender sealed: a receiver or relay sent false
    /// data.
    pub false_repairs: u64,
    /// NACKs sent that have ranges of sequence numbers.
    pub nacks: u64,
    /// Open-ended NACKs sent, repetitions included.
    pub open_ended_nacks: u64,
    /// Packets that a NACK requested, and that the direct path delivered after all.
    pub spurious_nacks: u64,
    /// ACKs sent to end open-ended NACKs.
    pub acks: u64,
    /// Packets sent to relays for repairs of other flows.
    pub lent: u64,
    /// Coded bytes sent to relays for repairs of other flows.
    pub lent_bytes: u64,
    /// Packets requested for repairs of other flows and refused, because they exceeded the consent.
    pub beyond_consent: u64,
    /// Losses of mixed traffic that were not requested, because packets queued on the path, or no
    /// repair could arrive within a quarter of the round trip.
    pub congestion_losses: u64,
    /// Bursts of losses on the direct path.
    pub bursts: u64,
    /// Longest burst of losses on the direct path, in packets.
    pub longest_burst: u64,
    /// Times of repairs, by kind.
    pub repair_times: RepairTimesByKind,
}

impl ReceiveStatistics {
    /// Statistics without any count.
    const NONE: Self = Self {
        direct: 0,
        lost: 0,
        in_stream: 0,
        cooperative: 0,
        cached: 0,
        resent: 0,
        forwarded: 0,
        covered: 0,
        late: 0,
        reordering_buffered: 0,
        gaps_passed: 0,
        marked_dropped: 0,
        duplicates: 0,
        forged: 0,
        false_repairs: 0,
        nacks: 0,
        open_ended_nacks: 0,
        spurious_nacks: 0,
        acks: 0,
        lent: 0,
        lent_bytes: 0,
        beyond_consent: 0,
        congestion_losses: 0,
        bursts: 0,
        longest_burst: 0,
        repair_times: RepairTimesByKind::NONE,
    };

    /// Returns the number of lost packets that were restored in time, by any means.
    #[must_use]
    pub const fn repaired(&self) -> u64 {
        self.in_stream + self.cooperative + self.cached + self.resent
    }

    /// Adds the statistics of another flow to these sums.
    pub(super) fn add_all(&mut self, other: &Self) {
        let mut others = *other;
        for (sum, count) in self.sums_mut().zip(others.sums_mut()) {
            *sum += *count;
        }
        self.longest_burst = self.longest_burst.max(other.longest_burst);
        self.repair_times.add_all(&other.repair_times);
    }
}

impl Default for ReceiveStatistics {
    fn default() -> Self {
        Self::NONE
    }
}

/// Defines the counters of [`ReceiveStatistics`] that are summed over several flows, and their
/// names.
macro_rules! summable {
    ($($counter:ident),+; besides $($other:ident),+) => {
        impl ReceiveStatistics {
            fn sums_mut(&mut self) -> impl Iterator<Item = &mut u64> {
                let Self { $($counter,)+ $($other: _),+ } = self;
                [$($counter),+].into_iter()
            }

            /// Returns all counters of packets, bytes or messages, with their names.
            pub fn by_name(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($counter), self.$counter)),+].into_iter()
            }
        }
    };
}

summable!(
    direct, lost, in_stream, cooperative, cached, resent, forwarded, covered, late, reordering_buffered, gaps_passed, marked_dropped, duplicates,
    forged, false_repairs, nacks, open_ended_nacks, spurious_nacks, acks, lent, lent_bytes, beyond_consent, congestion_losses,
    bursts;
    besides longest_burst, repair_times
);

/// Unfinished work of an agent for its received flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AgentBacklog {
    /// Flows with packet state, because packets arrived recently.
    pub flows: usize,
    /// Packets that are missing, and for which a repair may still be in time.
    pub missing: usize,
    /// Pending cooperative requests for packets that are missing here.
    pub requests: usize,
}

/// Statistics of a received flow that are allocated at the first count, because many flows never
/// receive a packet.
#[derive(Debug, Default)]
pub(super) struct LazyStatistics(Option<Box<ReceiveStatistics>>);

impl LazyStatistics {
    /// Returns the statistics if anything was counted.
    pub(super) fn get(&self) -> Option<&ReceiveStatistics> {
        self.0.as_deref()
    }
}

impl Deref for LazyStatistics {
    type Target = ReceiveStatistics;

    fn deref(&self) -> &ReceiveStatistics {
        self.0.as_deref().unwrap_or(&ReceiveStatistics::NONE)
    }
}

impl DerefMut for LazyStatistics {
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
        one.repair_times.add(Delivery::Cached, Duration::from_millis(8));
        let mut other = ReceiveStatistics { longest_burst: 9, ..one };
        other.repair_times.lateness_max = Duration::from_millis(9);
        one.add_all(&other);
        assert!(one.sums_mut().map(|sum| *sum).eq((1..=24).map(|number| 2 * number)));
        assert_eq!((one.longest_burst, one.repair_times.lateness_max), (9, Duration::from_millis(9)));
        assert_eq!(
            (one.repair_times.cached.count(), one.repair_times.cached.sum()),
            (2, Duration::from_millis(16))
        );
        assert_eq!((one.repair_times.in_stream.count(), one.repair_times.cooperative.count()), (0, 0));
    }
}
