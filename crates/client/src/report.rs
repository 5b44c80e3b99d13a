//! What became of the packets of a pair of flows.

use byway_proto::agent::{FlowStatus, ReceiveStatistics, Reported};
use byway_units::Duration;
use byway_wire::messages::DelayPercentiles;

/// What became of the packets of a pair of flows: what its receiver saw, in each direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowReport {
    /// What the peer reports of what is sent to it; `None` before its first report.
    pub sent: Option<SentReport>,
    /// What came from the peer.
    pub received: ReceiveStatistics,
    /// How things stand with what is sent: its service now, and its paths through relays.
    pub status: FlowStatus,
}

/// What a peer reports. Its counters are of packets; a datagram of more than 1,354 bytes is two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentReport {
    /// Since the flow began: with the true loss of the direct path, which repairs hide.
    pub counted: Reported,
    /// Rows of lost packets, since the peer began.
    pub bursts: u32,
    /// Packets in the longest such row.
    pub longest_burst: u32,
    /// How much later than the fastest packets came, within the last interval that was reported: half of them, 95 % and 99 %
    /// at most.
    pub delay: DelayPercentiles,
}

impl SentReport {
    /// Packets that were lost on the direct path and repaired in time.
    #[must_use]
    pub const fn repaired(&self) -> u64 {
        let Reported { in_stream, cooperative, cached, .. } = self.counted;
        in_stream + cooperative + cached
    }

    /// The true loss of the direct path in packets of a million, before any repair: what a sender's rate should go by.
    #[must_use]
    pub fn lost_per_million(&self) -> u64 {
        let Reported { direct, lost, .. } = self.counted;
        let all = (direct + lost).max(1);
        // Where the product would not fit, millionths of the whole are exact enough.
        lost.checked_mul(1_000_000).map_or_else(|| lost / (all / 1_000_000), |millions| millions / all)
    }
}

/// The mean time that repairs in time took, from when a packet was due on the direct path; `None` if there were none.
#[must_use]
pub fn mean_repair_time(received: &ReceiveStatistics) -> Option<Duration> {
    let times = [received.in_stream_times, received.cooperative_times, received.cached_times];
    let count: u64 = times.iter().map(byway_proto::agent::RepairTimes::count).sum();
    let sum = times.iter().fold(Duration::ZERO, |sum, times| sum.saturating_add(times.sum()));
    (count > 0).then(|| sum / count)
}
