//! What became of packets by peer, since the agent began: sums that never fall, whichever flows are closed.

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

/// What receivers reported of the packets that were sent to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reported {
    /// Packets first delivered by the direct path.
    pub direct: u64,
    /// Packets lost on the direct path.
    pub lost: u64,
    /// Of these, restored in time from the flow's own repair packets.
    pub in_stream: u64,
    /// Of these, restored in time with others' help.
    pub cooperative: u64,
    /// Of these, come in time from a cache.
    pub cached: u64,
    /// Packets first delivered by the overlay unasked.
    pub forwarded: u64,
    /// Packets that came too late.
    pub late: u64,
}

impl Reported {
    const fn all_mut(&mut self) -> [&mut u64; 7] {
        let Self { direct, lost, in_stream, cooperative, cached, forwarded, late } = self;
        [direct, lost, in_stream, cooperative, cached, forwarded, late]
    }

    fn add_all(&mut self, mut other: Self) {
        for (sum, count) in self.all_mut().into_iter().zip(other.all_mut()) {
            *sum += *count;
        }
    }

    /// What was added to what was reported before.
    fn since(mut self, mut before: Self) -> Self {
        for (count, before) in self.all_mut().into_iter().zip(before.all_mut()) {
            *count -= *before;
        }
        self
    }

    /// Whether packets come, and nearly all that are lost are restored from repair packets.
    pub(super) const fn is_bridged(self) -> bool {
        let restored = self.in_stream + self.cooperative;
        let unrestored = self.lost.saturating_sub(restored);
        self.direct + restored > 0 && (unrestored <= 1 || unrestored <= self.lost / BRIDGED_INVERSE)
    }
}

/// The reports of one flow: their counters are modulo 2³², and begin at 0 again when the receiver restarts.
#[derive(Clone, Debug, Default)]
pub(super) struct Reports {
    newest: Option<Report>,
    /// What is to be added to the newest; few receivers restart or count so far.
    before: Option<Box<Reported>>,
    /// What was reported by the last look.
    looked_at: Reported,
}

impl Reports {
    /// Takes one in; whether there are new bursts of losses. One that was overtaken changes nothing.
    pub(super) fn take(&mut self, report: &Report) -> bool {
        if self.newest.as_ref().is_some_and(|newest| goes_back(newest, report)) {
            let newest = self.newest.as_ref().map_or(0, |newest| newest.highest_low);
            if report.highest_low.wrapping_sub(newest).cast_signed() <= 0 {
                return false;
            }
            // The flow went on, and its receiver counts anew: it closed the flow and accepted it again.
            self.restart();
        }
        let last = self.newest.as_ref().map_or([0; 7], counters);
        let steps = counters(report).into_iter().zip(last);
        for (place, (now, last)) in steps.enumerate() {
            if now < last {
                *self.before.get_or_insert_default().all_mut()[place] += 1 << 32;
            }
        }
        let bursts = self.newest.as_ref().map_or(0, |newest| newest.bursts);
        self.newest = Some(*report);
        report.bursts.wrapping_sub(bursts).cast_signed() > 0
    }

    /// The receiver began anew: what it counts begins at 0.
    pub(super) fn restart(&mut self) {
        self.before = Some(Box::new(self.so_far()));
        self.newest = None;
    }

    /// What was reported since the last look.
    pub(super) fn look(&mut self) -> Reported {
        let so_far = self.so_far();
        so_far.since(core::mem::replace(&mut self.looked_at, so_far))
    }

    pub(super) const fn newest(&self) -> Option<&Report> {
        self.newest.as_ref()
    }

    /// All that was reported.
    pub(super) fn so_far(&self) -> Reported {
        let mut sum = self.before.as_deref().copied().unwrap_or_default();
        let newest = self.newest.as_ref().map_or([0; 7], counters);
        for (sum, count) in sum.all_mut().into_iter().zip(newest) {
            *sum += u64::from(count);
        }
        sum
    }
}

/// Whether a report counts less than one that came before it.
fn goes_back(before: &Report, report: &Report) -> bool {
    counters(report)
        .into_iter()
        .zip(counters(before))
        .any(|(now, last)| now.wrapping_sub(last).cast_signed() < 0)
}

/// In the order of [`Reported::all_mut`].
const fn counters(report: &Report) -> [u32; 7] {
    let repaired = report.repaired;
    [
        report.direct,
        report.lost,
        repaired.in_stream,
        repaired.cooperative,
        repaired.cached,
        repaired.forwarded,
        report.late,
    ]
}

/// What became of the packets that were exchanged with one peer, over all flows that there have been.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerTotals {
    /// What came from it.
    pub received: ReceiveStatistics,
    /// What was sent to it, as it reported; `None` before its first report.
    pub reported: Option<Reported>,
}

/// Stands for all peers that are known no more: no agent has this number.
pub const FORMER_PEERS: AgentId = AgentId::new(u32::MAX);

/// Sums by peer: one entry for each peer that packets came from or reports were heard of, and one for all that are known no
/// more.
#[derive(Clone, Debug, Default)]
pub(super) struct Totals(BTreeMap<AgentId, PeerTotals>);

impl Totals {
    /// A peer is known no more, and all flows with it have ended: its sums are added to those of all such peers.
    pub(super) fn forget(&mut self, peer: AgentId) {
        let Some(gone) = self.0.remove(&peer) else {
            return;
        };
        let former = self.0.entry(FORMER_PEERS).or_default();
        former.received.add_all(&gone.received);
        if let Some(reported) = gone.reported {
            former.reported.get_or_insert_default().add_all(reported);
        }
    }

    /// Adds what a flow received.
    pub(super) fn add_received(&mut self, flow: &ReceiveFlow) {
        if let Some(statistics) = flow.statistics.get() {
            self.0.entry(flow.key.sender()).or_default().received.add_all(statistics);
        }
    }

    /// Adds what was reported of a flow.
    pub(super) fn add_sent(&mut self, flow: &SendFlow) {
        self.add_reports(flow.key, flow.reports.as_deref());
    }

    fn add_reports(&mut self, key: FlowKey, reports: Option<&Reports>) {
        if let (Receiver::Agent(peer), Some(reports)) = (key.receiver(), reports) {
            let totals = self.0.entry(peer).or_default();
            totals.reported.get_or_insert_default().add_all(reports.so_far());
        }
    }
}

impl Agent {
    /// What became of the packets that were exchanged with each peer, since this agent began. No counter ever falls: flows
    /// that were closed count on. Those of a peer that is known no more are added to [`FORMER_PEERS`].
    #[must_use]
    pub fn totals(&self) -> BTreeMap<AgentId, PeerTotals> {
        let mut totals = self.closed.clone();
        self.receivers.iter().for_each(|(_, flow)| totals.add_received(flow));
        self.senders.iter().for_each(|(_, flow)| totals.add_sent(flow));
        totals.0
    }
}

impl SendFlow {
    /// What its receiver reported, from the first report on.
    pub(super) fn reports_mut(&mut self) -> &mut Reports {
        self.reports.get_or_insert_with(|| Box::new(Reports::default()))
    }
}

#[cfg(test)]
mod tests {
    use byway_units::FlowId;
    use byway_wire::Microseconds;
    use byway_wire::messages::{DelayPercentiles, RepairCounters};

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
            repaired: RepairCounters { in_stream: 0, cooperative: 0, cached: lost, forwarded: 0 },
            late: 0,
            bursts,
            longest_burst: 1,
            delay: DelayPercentiles { p50: none, p95: none, p99: none },
        }
    }

    const fn reported(direct: u64, lost: u64) -> Reported {
        Reported { direct, lost, in_stream: 0, cooperative: 0, cached: lost, forwarded: 0, late: 0 }
    }

    #[test]
    fn a_receiver_that_accepted_the_flow_anew_counts_on() {
        let mut reports = Reports::default();
        reports.take(&report(100, 0, 0));
        assert!(reports.take(&Report { highest_low: 110, ..report(5, 1, 1) }));
        assert_eq!(reports.so_far(), reported(105, 1));
    }

    #[test]
    fn reports_add_up_over_the_end_of_their_counters() {
        let mut reports = Reports::default();
        assert!(!reports.take(&report(u32::MAX - 19, 0, 0)));
        assert!(!reports.take(&report(u32::MAX - 9, 0, 0)));
        assert!(reports.take(&report(10, 3, 1)), "a burst was lost");
        assert_eq!(reports.so_far(), reported(u64::from(u32::MAX) + 11, 3));
    }

    #[test]
    fn a_report_that_was_overtaken_changes_nothing() {
        let mut reports = Reports::default();
        reports.take(&report(20, 2, 1));
        assert!(!reports.take(&report(10, 1, 1)));
        assert_eq!(
            (reports.so_far(), reports.newest().map(|report| report.direct)),
            (reported(20, 2), Some(20))
        );
    }

    #[test]
    fn a_receiver_that_begins_anew_counts_on() {
        let mut reports = Reports::default();
        reports.take(&report(20, 2, 1));
        reports.restart();
        assert_eq!(reports.newest(), None);
        assert!(reports.take(&report(5, 1, 1)), "its bursts begin anew too");
        assert_eq!(reports.so_far(), reported(25, 3));
        reports.restart();
        reports.take(&report(u32::MAX, 0, 0));
        assert_eq!(reports.so_far().direct, 25 + u64::from(u32::MAX), "no first report is overtaken");
    }

    #[test]
    fn flows_of_one_peer_are_one_sum() {
        let mut totals = Totals::default();
        let mut reports = Reports::default();
        reports.take(&report(20, 2, 1));
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
        reports.take(&report(20, 2, 1));
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
