//! Delivery statistics of a pair of flows.

use byway_plan::Selection;
use byway_proto::agent::{FlowStatus, ReceiveStatistics, ReportedTotals};
use byway_units::Duration;
use byway_wire::messages::DelayPercentiles;

/// Delivery statistics of a pair of flows, as measured by the receiver of each direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowReport {
    /// The peer's reports about the sent flow; `None` before its first report.
    pub sent: Option<SentReport>,
    /// Statistics of the received flow.
    pub received: ReceiveStatistics,
    /// State of the sent flow: its current service, and its relay paths.
    pub status: FlowStatus,
    /// Latest selection of the sent flow's service, with its reason. `None` if the application or
    /// the peer named the service, or before the first selection.
    pub selection: Option<Selection>,
}

/// Report of a peer about the flow that this end sends. It counts packets: a datagram of more than
/// 1,354 bytes takes two packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentReport {
    /// Totals since the flow began. They include the true loss of the direct path, which the
    /// application does not notice because of repairs.
    pub counted: ReportedTotals,
    /// Number of bursts of lost packets since the peer began.
    pub bursts: u32,
    /// Number of packets in the longest burst of losses.
    pub longest_burst: u32,
    /// Delays above that of the fastest packets, in the last reported interval: median, 95th and
    /// 99th percentile.
    pub delay: DelayPercentiles,
}

impl SentReport {
    /// Returns the number of packets that the direct path lost and that were repaired in time.
    #[must_use]
    pub const fn repaired(&self) -> u64 {
        self.counted.repaired()
    }

    /// Returns the loss rate of the direct path before any repair, in packets per million. A
    /// sender's rate control should use this rate.
    #[must_use]
    pub fn lost_per_million(&self) -> u64 {
        let ReportedTotals { direct, lost, .. } = self.counted;
        let all = (direct + lost).max(1);
        // If the product would overflow, dividing first is accurate enough.
        lost.checked_mul(1_000_000).map_or_else(|| lost / (all / 1_000_000), |millions| millions / all)
    }
}

/// Returns the mean time of repairs that were in time, from the moment at which a packet was due on
/// the direct path; `None` without repairs.
#[must_use]
pub fn mean_repair_time(received: &ReceiveStatistics) -> Option<Duration> {
    let times = received.repair_times.all();
    let count: u64 = times.iter().map(|times| times.count()).sum();
    let sum = times.iter().fold(Duration::ZERO, |sum, times| sum.saturating_add(times.sum()));
    (count > 0).then(|| sum / count)
}
