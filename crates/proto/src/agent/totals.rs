//! Packet totals by peer since the agent's start: sums over open and closed flows, which never
//! decrease.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use byway_units::AgentId;
use byway_wire::messages::Report;
use byway_wire::{FlowKey, Receiver};

use super::Agent;
use super::receive_flow::ReceiveFlow;
use super::send_flow::SendFlow;
use super::statistics::ReceiveStatistics;
use crate::limits::BRIDGED_INVERSE;

/// Totals of receivers' reports about the packets that this agent sent to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReportedTotals {
    /// Packets first delivered by the direct path.
    pub direct: u64,
    /// Packets lost on the direct path, repaired ones included.
    pub lost: u64,
    /// Packets of `lost` that were restored in time from the flow's own repair packets.
    pub in_stream: u64,
    /// Packets of `lost` that were restored in time with other receivers' help.
    pub cooperative: u64,
    /// Packets of `lost` that were restored in time from a relay's cache.
    pub cached: u64,
    /// Packets of `lost` that were sent again through relays, in time.
    pub resent: u64,
    /// Packets first delivered by the overlay without a request.
    pub forwarded: u64,
    /// Packets of `forwarded` that the direct path lost. While relays alone forward a flow, only
    /// samples of the direct path count.
    pub covered: u64,
    /// Packets that arrived after their deadline, and were not delivered.
    pub late: u64,
}

impl ReportedTotals {
    /// Returns the number of lost packets that were restored in time, by any means.
    #[must_use]
    pub const fn repaired(&self) -> u64 {
        self.in_stream + self.cooperative + self.cached + self.resent
    }

    const fn all_mut(&mut self) -> [&mut u64; 9] {
        let Self { direct, lost, in_stream, cooperative, cached, resent, forwarded, covered, late } = self;
        [direct, lost, in_stream, cooperative, cached, resent, forwarded, covered, late]
    }

    fn add_all(&mut self, mut other: Self) {
        for (sum, count) in self.all_mut().into_iter().zip(other.all_mut()) {
            *sum += *count;
        }
    }

    /// Returns the counts added since earlier totals.
    fn since(mut self, mut before: Self) -> Self {
        for (count, before) in self.all_mut().into_iter().zip(before.all_mut()) {
            *count -= *before;
        }
        self
    }

    /// Returns true if packets arrive, and repair packets restore nearly all that are lost: all but
    /// one, or all but a share of [`BRIDGED_INVERSE`].
    pub(super) const fn is_bridged(self) -> bool {
        let restored = self.in_stream + self.cooperative;
        let unrestored = self.lost.saturating_sub(restored);
        self.direct + restored > 0 && (unrestored <= 1 || unrestored <= self.lost / BRIDGED_INVERSE)
    }
}

/// Reports about one flow: their counters are modulo 2³², and begin at 0 again when the receiver
/// restarts.
#[derive(Clone, Debug, Default)]
pub(super) struct Reports {
    newest: Option<Report>,
    /// Counts to add to the newest report; allocated when a receiver restarts or a counter wraps.
    before: Option<Box<ReportedTotals>>,
    /// Totals at the last [`Reports::poll`].
    last_polled: ReportedTotals,
}

impl Reports {
    /// Handles a receiver's report; returns true if there are new bursts of losses. A report that a
    /// later one overtook changes nothing.
    pub(super) fn on_report(&mut self, report: &Report) -> bool {
        if self.newest.as_ref().is_some_and(|newest| has_decreased(newest, report)) {
            let newest = self.newest.as_ref().map_or(0, |newest| newest.highest_low);
            if report.highest_low.wrapping_sub(newest).cast_signed() <= 0 {
                return false;
            }
            // The flow went on, and its receiver counts from 0: it closed the flow and accepted it
            // again.
            self.restart();
        }
        let last = self.newest.as_ref().map_or([0; 9], counters);
        let steps = counters(report).into_iter().zip(last);
        for (index, (now, last)) in steps.enumerate() {
            if now < last {
                *self.before.get_or_insert_default().all_mut()[index] += 1 << 32;
            }
        }
        let bursts = self.newest.as_ref().map_or(0, |newest| newest.bursts);
        self.newest = Some(*report);
        report.bursts.wrapping_sub(bursts).cast_signed() > 0
    }

    /// Handles a restart of the receiver, which counts from 0 again: keeps the totals so far.
    pub(super) fn restart(&mut self) {
        self.before = Some(Box::new(self.total()));
        self.newest = None;
    }

    /// Returns the counts added since the last poll.
    pub(super) fn poll(&mut self) -> ReportedTotals {
        let so_far = self.total();
        so_far.since(core::mem::replace(&mut self.last_polled, so_far))
    }

    pub(super) const fn newest(&self) -> Option<&Report> {
        self.newest.as_ref()
    }

    /// Returns the totals of all reports so far, restarts of the receiver included.
    pub(super) fn total(&self) -> ReportedTotals {
        let mut sum = self.before.as_deref().copied().unwrap_or_default();
        let newest = self.newest.as_ref().map_or([0; 9], counters);
        for (sum, count) in sum.all_mut().into_iter().zip(newest) {
            *sum += u64::from(count);
        }
        sum
    }
}

/// Returns true if any counter of a report is lower than in an earlier one.
fn has_decreased(before: &Report, report: &Report) -> bool {
    counters(report)
        .into_iter()
        .zip(counters(before))
        .any(|(now, last)| now.wrapping_sub(last).cast_signed() < 0)
}

/// Returns a report's counters in the order of [`ReportedTotals::all_mut`].
const fn counters(report: &Report) -> [u32; 9] {
    let repaired = report.repaired;
    [
        report.direct,
        report.lost,
        repaired.in_stream,
        repaired.cooperative,
        repaired.cached,
        repaired.resent,
        repaired.forwarded,
        report.covered,
        report.late,
    ]
}

/// Totals of the packets exchanged with one peer, over all flows so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerTotals {
    /// Statistics of the packets received from the peer.
    pub received: ReceiveStatistics,
    /// Totals of the packets sent to the peer, by its reports; `None` before the first one.
    pub reported: Option<ReportedTotals>,
}

/// Agent number under which [`Agent::totals`] lists the sums of all removed peers: no agent has it.
pub const FORMER_PEERS: AgentId = AgentId::new(u32::MAX);

/// Totals by peer: one entry for each peer that sent packets or reports, and one for all removed
/// peers.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals(BTreeMap<AgentId, PeerTotals>);

impl Totals {
    /// Adds the totals of a removed peer, whose flows have all ended, to those of former peers.
    pub(super) fn forget(&mut self, peer: AgentId) {
        let Some(removed) = self.0.remove(&peer) else {
            return;
        };
        let former = self.0.entry(FORMER_PEERS).or_default();
        former.received.add_all(&removed.received);
        if let Some(reported) = removed.reported {
            former.reported.get_or_insert_default().add_all(reported);
        }
    }

    /// Adds the statistics of a received flow to its sender's totals.
    pub(super) fn add_received(&mut self, flow: &ReceiveFlow) {
        if let Some(statistics) = flow.statistics.get() {
            self.0.entry(flow.key.sender()).or_default().received.add_all(statistics);
        }
    }

    /// Adds the reports about a sent flow to its receiver's totals.
    pub(super) fn add_sent(&mut self, flow: &SendFlow) {
        self.add_reports(flow.key, flow.reports.as_deref());
    }

    fn add_reports(&mut self, key: FlowKey, reports: Option<&Reports>) {
        if let (Receiver::Agent(peer), Some(reports)) = (key.receiver(), reports) {
            let totals = self.0.entry(peer).or_default();
            totals.reported.get_or_insert_default().add_all(reports.total());
        }
    }
}

impl Agent {
    /// Returns the totals of the packets exchanged with each peer, since this agent's start. No
    /// counter ever decreases, because closed flows stay in the sums. Those of removed peers are
    /// added to [`FORMER_PEERS`].
    #[must_use]
    pub fn totals(&self) -> BTreeMap<AgentId, PeerTotals> {
        let mut totals = self.closed.clone();
        self.receivers.iter().for_each(|(_, flow)| totals.add_received(flow));
        self.senders.iter().for_each(|(_, flow)| totals.add_sent(flow));
        totals.0
    }
}

impl SendFlow {
    /// Returns the latest report of the flow's receiver; `None` before the first one.
    pub(super) fn newest_report(&self) -> Option<&Report> {
        self.reports.as_ref().and_then(|reports| reports.newest())
    }

    /// Returns the receiver's reports about the flow; allocates them at the first one.
    pub(super) fn reports_mut(&mut self) -> &mut Reports {
        self.reports.get_or_insert_with(|| Box::new(Reports::default()))
    }
}

#[cfg(test)]
mod tests {
    use byway_units::FlowId;
    use byway_wire::Microseconds;
    use byway_wire::messages::{DelayPercentiles, RELAYS_REPORTED_MAX, RepairCounters, ReportedDelays};

    use super::*;
    use crate::agent::flow_between;

    fn key(receiver: u32) -> FlowKey {
        flow_between(AgentId::new(1), AgentId::new(receiver), FlowId::new(2))
    }

    fn report(direct: u32, lost: u32, bursts: u32) -> Report {
        let none = Microseconds::new(0);
        Report {
            flow_key: key(2),
            highest_low: direct.wrapping_add(lost),
            direct,
            lost,
            repaired: RepairCounters { cached: lost, ..RepairCounters::default() },
            late: 0,
            bursts,
            longest_burst: 1,
            delay: DelayPercentiles { p50: none, p95: none, p99: none },
            detection: Microseconds::new(0),
            relays: [None; RELAYS_REPORTED_MAX],
            covered: 0,
            paths: ReportedDelays::default(),
        }
    }

    const fn reported(direct: u64, lost: u64) -> ReportedTotals {
        ReportedTotals {
            direct,
            lost,
            in_stream: 0,
            cooperative: 0,
            cached: lost,
            resent: 0,
            forwarded: 0,
            covered: 0,
            late: 0,
        }
    }

    #[test]
    fn a_receiver_that_accepted_the_flow_anew_counts_on() {
        let mut reports = Reports::default();
        reports.on_report(&report(100, 0, 0));
        assert!(reports.on_report(&Report { highest_low: 110, ..report(5, 1, 1) }));
        assert_eq!(reports.total(), reported(105, 1));
    }

    #[test]
    fn reports_add_up_over_the_end_of_their_counters() {
        let mut reports = Reports::default();
        assert!(!reports.on_report(&report(u32::MAX - 19, 0, 0)));
        assert!(!reports.on_report(&report(u32::MAX - 9, 0, 0)));
        assert!(reports.on_report(&report(10, 3, 1)), "a burst was lost");
        assert_eq!(reports.total(), reported(u64::from(u32::MAX) + 11, 3));
    }

    #[test]
    fn a_report_that_was_overtaken_changes_nothing() {
        let mut reports = Reports::default();
        reports.on_report(&report(20, 2, 1));
        assert!(!reports.on_report(&report(10, 1, 1)));
        assert_eq!(
            (reports.total(), reports.newest().map(|report| report.direct)),
            (reported(20, 2), Some(20))
        );
    }

    #[test]
    fn a_receiver_that_begins_anew_counts_on() {
        let mut reports = Reports::default();
        reports.on_report(&report(20, 2, 1));
        reports.restart();
        assert_eq!(reports.newest(), None);
        assert!(reports.on_report(&report(5, 1, 1)), "its count of bursts begins at 0 again");
        assert_eq!(reports.total(), reported(25, 3));
        reports.restart();
        reports.on_report(&report(u32::MAX, 0, 0));
        assert_eq!(reports.total().direct, 25 + u64::from(u32::MAX), "no first report is overtaken");
    }

    #[test]
    fn flows_of_one_peer_are_one_sum() {
        let mut totals = Totals::default();
        let mut reports = Reports::default();
        reports.on_report(&report(20, 2, 1));
        totals.add_reports(key(2), None);
        assert!(totals.0.is_empty(), "nothing was reported");
        for receiver in [2, 2, 3] {
            totals.add_reports(key(receiver), Some(&reports));
        }
        let sums = totals.0.values().map(|totals| totals.reported);
        assert!(sums.eq([Some(reported(40, 4)), Some(reported(20, 2))]));
    }

    #[test]
    fn peers_that_are_known_no_more_are_one_sum() {
        let mut totals = Totals::default();
        let mut reports = Reports::default();
        reports.on_report(&report(20, 2, 1));
        for receiver in [2, 3, 4] {
            totals.add_reports(key(receiver), Some(&reports));
        }
        for peer in [2, 3, 7] {
            totals.forget(AgentId::new(peer));
        }
        let sums = totals.0.iter().map(|(peer, totals)| (*peer, totals.reported));
        assert!(sums.eq([(AgentId::new(4), Some(reported(20, 2))), (FORMER_PEERS, Some(reported(40, 4)))]));
    }
}
