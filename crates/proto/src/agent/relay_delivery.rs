//! Relay delivery: monitoring of flows that send no packets on the direct path.
//!
//! A relay that answers probes may still lose or falsify packets that it forwards. The sender
//! detects this by the receiver's reports, by its notices of silence, or by the lack of any report.
//! The flow then uses the direct path in addition to the relays, and tries the relays alone again
//! after a while.

use byway_units::{Duration, RelayId, Time};
use byway_wire::messages::{RepairCounters, Report};
use byway_wire::{SequenceNumber, Shard};

use super::send_flow::{SendFlow, SendFlowId};
use super::settings::RelayPath;
use super::{Agent, Flow};
use crate::limits::{
    BOTH_PATHS_FOR, BOTH_PATHS_MAX, COPIES_ONLY_AFTER, DELIVERY_LOST_PART, DELIVERY_PACKETS,
    FAILURE_SETTLES_IN, FIRST_REPORT_MARGIN, SILENT_PACKETS_MIN,
};

/// Reports of a flow's receiver about relays' delivery, and the time until which the flow does not
/// rely on relays.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RelayDelivery {
    /// Highest sequence number, and packets lost for good, in the report with which the current
    /// count began.
    counted_from: Option<[u32; 2]>,
    /// Time until which the flow does not rely on relays.
    fails_until: Option<Time>,
    /// Ingress and egress relay of the path that failed.
    failed: Option<[(RelayId, Shard); 2]>,
    /// True from a failure on, until the flow has the path that it keeps, and the failure is over.
    is_failing: bool,
    /// Time at which the flow left a relay path: reports and silences soon after may be about that
    /// path.
    left_at: Option<Time>,
    /// Time before which the change from the direct path to relays may cause a silence.
    changes_until: Time,
    /// Duration of the last failure, for which the flow did not rely on relays.
    last_duration: Duration,
}

impl RelayDelivery {
    /// Returns the time until which the flow does not rely on relays; `None` if it is past.
    fn fails_until(&self, now: Time) -> Option<Time> {
        self.fails_until.filter(|until| *until > now)
    }

    /// Returns true if reports and silences that arrive now may be about a former relay path. Those
    /// about the path in use take `within` to arrive.
    fn is_settling(&self, within: Duration, now: Time) -> bool {
        self.left_at.is_some_and(|at| at + within > now)
    }

    /// Counts the losses that a report adds; returns true if relays lose too many packets for good.
    fn on_report(&mut self, report: &Report, now: Time) -> bool {
        if self.is_settling(FAILURE_SETTLES_IN, now) {
            self.counted_from = None;
            return false;
        }
        let RepairCounters { in_stream, cooperative, cached, resent, .. } = report.repaired;
        let repaired = in_stream.wrapping_add(cooperative).wrapping_add(cached).wrapping_add(resent);
        let counted = [report.highest_low, report.lost.wrapping_sub(repaired)];
        let Some(before) = self.counted_from else {
            self.counted_from = Some(counted);
            return false;
        };
        let [sent, lost] = [0, 1].map(|of: usize| u32::wrapping_sub(counted[of], before[of]));
        // The counts of an overtaken report are lower than before.
        if sent.cast_signed() < 0 || sent < DELIVERY_PACKETS {
            return false;
        }
        self.counted_from = Some(counted);
        lost.cast_signed() > 0 && lost > sent / DELIVERY_LOST_PART
    }

    /// Records that the flow leaves a relay path, unless it left one just before. So reports still
    /// count for a flow that keeps changing between bad paths.
    fn leave_path(&mut self, now: Time) {
        if !self.is_settling(FAILURE_SETTLES_IN * 2, now) {
            self.left_at = Some(now);
        }
    }

    /// Ends a failure early. Its end is remembered: the next failure lasts longer, and a dead relay
    /// does not explain it.
    fn end_failure(&mut self, now: Time) {
        self.fails_until = self.fails_until.map(|until| until.min(now));
        (self.failed, self.is_failing) = (None, false);
    }

    /// Records that relays fail to deliver the flow. The flow avoids this path for longer than
    /// after the previous failure, if that ended recently.
    fn on_failure(&mut self, path: Option<&RelayPath>, now: Time) {
        let is_recent =
            self.fails_until.is_some_and(|until| now.saturating_since(until) <= self.last_duration);
        self.last_duration =
            if is_recent { (self.last_duration * 2).min(BOTH_PATHS_MAX) } else { BOTH_PATHS_FOR };
        self.fails_until = Some(now + self.last_duration);
        self.failed = path.map(|path| [path.ingress, path.egress]);
        self.left_at = Some(now);
        self.counted_from = None;
    }
}

/// Returns true until the fate of a flow's first packets is known, which wait for its setup. Losses
/// of them are not the relays'. `highest_low` is the highest number of a report, and `began` the
/// time of the first packet, or `None` before it.
fn is_setup(highest_low: u32, began: Option<Time>, latency_budget: Duration, now: Time) -> bool {
    let Some(lasting) = began.map(|at| now.saturating_since(at)) else {
        return true;
    };
    let has_few = highest_low < DELIVERY_PACKETS && lasting < latency_budget + FAILURE_SETTLES_IN;
    has_few || lasting < latency_budget * 5 / 4
}

impl Agent {
    /// Checks by a receiver's report whether relays deliver a flow that needs them, and otherwise
    /// makes it use both paths.
    pub(super) fn check_relay_delivery(&mut self, id: SendFlowId, report: &Report, now: Time) {
        let flow = &mut self.senders[id.0 as usize];
        if !flow.needs_relay() {
            return;
        }
        let is_setup = is_setup(report.highest_low, flow.began(), flow.settings.latency_budget, now);
        let delivery = flow.relay_delivery.get_or_insert_default();
        let is_settling = delivery.is_settling(FAILURE_SETTLES_IN, now);
        let is_lost = !is_setup && delivery.on_report(report, now);
        if is_lost || !is_settling && self.is_overdue(id, report.highest_low, now) {
            self.use_both_paths(id, now);
        }
    }

    /// Returns true if several packets above the highest one of a report should have arrived before
    /// it.
    fn is_overdue(&self, id: SendFlowId, highest_low: u32, now: Time) -> bool {
        let flow = &self.senders[id.0 as usize];
        let next = SequenceNumber::nearest(highest_low, flow.next).next();
        let last = flow.sent_since(next).nth(SILENT_PACKETS_MIN - 1);
        let sent_at = last.and_then(|(_, sent)| self.retransmit_buffer.stored_at(sent.packet));
        let is_open = self.sessions.get(flow.peer).is_some_and(|peer| !peer.is_dead);
        // Packets that wait for the uplink have not left yet.
        is_open && self.fits_uplink() && sent_at.is_some_and(|sent_at| sent_at + self.report_time(id) <= now)
    }

    /// Returns the longest time from a packet's sending to the arrival of the first report about
    /// it.
    fn report_time(&self, id: SendFlowId) -> Duration {
        self.sessions.round_trip(self.senders[id.0 as usize].peer) * 2 + FIRST_REPORT_MARGIN
    }

    /// Makes a flow that relies on relays alone use both paths, if the receiver's first report is
    /// overdue.
    pub(super) fn use_both_paths_if_unreported(&mut self, id: SendFlowId, now: Time) {
        let (flow, overdue) = (&self.senders[id.0 as usize], self.report_time(id));
        let is_overdue = flow.began().is_some_and(|began| began + overdue <= now);
        // One lost packet, or one lost report, is no failure.
        let is_enough = flow.next.number() >= SILENT_PACKETS_MIN as u64;
        if flow.needs_relay() && is_overdue && is_enough && !flow.is_settling(overdue, now) {
            self.use_both_paths(id, now);
        }
    }

    /// Records that a flow relies on relays alone from now on. At first, a silence only shows that
    /// relays are slower than the direct path.
    pub(super) fn rely_on_relays(&mut self, id: SendFlowId, now: Time) {
        let changes_until = now + self.report_time(id);
        let delivery = self.senders[id.0 as usize].relay_delivery.get_or_insert_default();
        (delivery.changes_until, delivery.counted_from) = (changes_until, None);
    }

    /// Makes a flow use another relay path for a while, if it has one, and the direct path in
    /// addition. Does nothing if it has neither.
    pub(super) fn use_both_paths(&mut self, id: SendFlowId, now: Time) {
        let flow = &mut self.senders[id.0 as usize];
        let is_known = flow.undelivered_until(now).is_some();
        let has_another = self.sessions.is_direct(flow.peer) || flow.registrations.count() > 1;
        if !is_known && has_another {
            let path = flow.settings.paths.get(flow.registrations.in_use());
            flow.relay_delivery.get_or_insert_default().on_failure(path, now);
            self.choose_path(Flow::Sent(id), now);
        }
    }
}

impl Agent {
    /// Returns the time until which a flow that needs a relay avoids a path that did not deliver,
    /// or whose relay loses too many envelopes. Copies are then suppressed rather than sent by
    /// another path, because they might add to the same congestion.
    pub(super) fn path_shut_until(&self, flow: Flow, path: usize, now: Time) -> Option<Time> {
        let Flow::Sent(id) = flow else {
            return None;
        };
        let flow = self.senders.get(id.0).filter(|flow| flow.needs_relay() || flow.is_undelivered())?;
        let path = flow.settings.paths.get(path)?;
        let shut_until =
            self.relay_indices.get(&path.ingress).and_then(|at| self.relays[*at].shut_until(now));
        shut_until.max(flow.failed_until(path, now))
    }
}

impl SendFlow {
    /// Returns the time until which the flow does not rely on relays, if it lies ahead.
    pub(super) fn undelivered_until(&self, now: Time) -> Option<Time> {
        self.relay_delivery.as_ref()?.fails_until(now)
    }

    /// Updates [`SendFlow::is_undelivered`]. A failure lasts until the flow has the path that it
    /// keeps: `is_final` is true if no change to a better one is due. Until that path is steady,
    /// the flow then uses the direct path alone.
    pub(super) fn update_failing(&mut self, is_final: bool, now: Time) {
        if let Some(delivery) = &mut self.relay_delivery {
            let fails = delivery.fails_until(now).is_some();
            delivery.is_failing = fails || delivery.is_failing && !is_final;
        }
    }

    /// Returns the time until which the flow does not choose a relay path, because that path did
    /// not deliver.
    pub(super) fn failed_until(&self, path: &RelayPath, now: Time) -> Option<Time> {
        let delivery = self.relay_delivery.as_ref()?;
        let has_failed = delivery.failed == Some([path.ingress, path.egress]);
        delivery.fails_until(now).filter(|_| has_failed)
    }

    /// Records a change of the flow's relay path: the next reports may still be about the former
    /// one.
    pub(super) fn settle_delivery(&mut self, now: Time) {
        if self.needs_relay() || self.relay_delivery.is_some() {
            self.relay_delivery.get_or_insert_default().leave_path(now);
        }
    }

    /// Returns true if reports and silences that arrive now may be about a former relay path. Those
    /// about the path in use take `within` to arrive.
    pub(super) fn is_settling(&self, within: Duration, now: Time) -> bool {
        self.relay_delivery.as_ref().is_some_and(|delivery| delivery.is_settling(within, now))
    }

    /// Returns the shortest silence at the receiver that shows that relays do not deliver.
    pub(super) fn silence_threshold(&self, now: Time) -> Duration {
        let changes = self.relay_delivery.as_ref().is_some_and(|delivery| delivery.changes_until > now);
        if changes { COPIES_ONLY_AFTER * 3 / 2 } else { COPIES_ONLY_AFTER }
    }

    /// Ends the recorded failure if the flow does not have the failed path any more.
    pub(super) fn forget_failure_of_other_paths(&mut self, now: Time) {
        let is_known = |failed| self.settings.paths.iter().any(|path| [path.ingress, path.egress] == failed);
        if let Some(delivery) = &mut self.relay_delivery
            && delivery.failed.is_some_and(|failed| !is_known(failed))
        {
            delivery.end_failure(now);
        }
    }

    /// Ends the recorded failure, because the flow has a direct path again. Relays may bridge its
    /// outages, whatever they lost of the packets that had no other path.
    pub(super) fn forget_failure(&mut self, now: Time) {
        if let Some(delivery) = &mut self.relay_delivery {
            delivery.end_failure(now);
        }
    }

    /// Ends a failure that a dead relay explains, if it is the first one recently. The path is then
    /// chosen as soon as the relay is back. Relays that lose half of all packets seem to fail again
    /// and again. `lives` is true for each path whose relay answers.
    pub(super) fn clear_explained_failure(&mut self, lives: &[bool], now: Time) {
        let paths = self.settings.paths.iter().zip(lives);
        let mut dead = paths.filter(|(_, lives)| !**lives).map(|(path, _)| Some([path.ingress, path.egress]));
        if let Some(delivery) = &mut self.relay_delivery
            && delivery.failed.is_some()
            && delivery.last_duration == BOTH_PATHS_FOR
            && dead.any(|path| path == delivery.failed)
        {
            delivery.end_failure(now);
        }
    }

    /// Returns true from a failure of relays on, until it is over, and the flow has the path that
    /// it keeps.
    pub(super) fn is_undelivered(&self) -> bool {
        self.relay_delivery.as_ref().is_some_and(|delivery| delivery.is_failing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byway_units::{AgentId, FlowId};
    use byway_wire::Microseconds;
    use byway_wire::messages::{DelayPercentiles, RELAYS_REPORTED_MAX, ReportedDelays};

    fn report_of(highest_low: u32, lost: u32, cached: u32) -> Report {
        let none = Microseconds::new(0);
        Report {
            flow_key: crate::agent::flow_between(AgentId::new(1), AgentId::new(2), FlowId::new(1)),
            highest_low,
            direct: 0,
            lost,
            repaired: RepairCounters { cached, ..RepairCounters::default() },
            late: 0,
            bursts: 0,
            longest_burst: 0,
            delay: DelayPercentiles { p50: none, p95: none, p99: none },
            detection: Microseconds::new(0),
            relays: [None; RELAYS_REPORTED_MAX],
            covered: 0,
            paths: ReportedDelays::default(),
        }
    }

    #[test]
    fn more_than_a_sixteenth_of_at_least_32_packets_lost_for_good_is_too_much() {
        for (highest, lost, repaired, fails) in
            [(31, 31, 0, false), (32, 2, 0, false), (32, 3, 0, true), (32, 9, 7, false), (320, 21, 0, true)]
        {
            let mut delivery = RelayDelivery::default();
            assert!(!delivery.on_report(&report_of(u32::MAX, 5, 5), Time::START));
            let report = report_of(u32::wrapping_sub(highest, 1), 5 + lost, 5 + repaired);
            assert_eq!(delivery.on_report(&report, Time::START), fails, "{lost} - {repaired} of {highest}");
        }
    }

    #[test]
    fn losses_at_the_setup_of_a_flow_are_not_those_of_its_relays() {
        let mut delivery = RelayDelivery::default();
        let (began, budget) = (Some(Time::START), Duration::from_millis(250));
        assert!(is_setup(99, None, budget, Time::START + Duration::from_secs(9)));
        // Three of four packets are late, and a pause of three seconds follows.
        for (millis, highest, lost, fails) in [
            (100, 3, 0, false),
            (300, 3, 3, false),
            (1_249, 3, 3, false),
            (3_700, 38, 3, false),
            (4_700, 70, 5, false),
            (5_700, 102, 8, true),
        ] {
            let now = Time::START + Duration::from_millis(millis);
            let report = report_of(highest, lost, 0);
            let is_lost = !is_setup(highest, began, budget, now) && delivery.on_report(&report, now);
            assert_eq!(is_lost, fails, "{highest}");
        }
        let after = |millis| is_setup(300, began, budget, Time::START + Duration::from_millis(millis));
        assert!(after(300) && !after(313), "a fast flow knows the fate of its first packets soon");
    }

    #[test]
    fn reports_are_ignored_for_a_second_after_a_change_of_path_and_at_most_every_other_second() {
        let at = |millis| Time::START + Duration::from_millis(millis);
        let mut delivery = RelayDelivery::default();
        let mut numbers = 0;
        // Each report counts 32 more packets, all of them lost.
        for (millis, changes, fails) in [
            (0, true, false),
            (999, true, false),
            (1_000, true, false),
            (1_500, true, true),
            (1_999, true, true),
            (2_000, true, false),
            (2_999, false, false),
            (3_000, false, false),
            (3_500, false, true),
        ] {
            if changes {
                delivery.leave_path(at(millis));
            }
            numbers += 32;
            assert_eq!(delivery.on_report(&report_of(numbers, numbers, 0), at(millis)), fails, "{millis}");
        }
    }

    #[test]
    fn a_failure_soon_after_another_lasts_twice_as_long_up_to_80_seconds() {
        let mut delivery = RelayDelivery::default();
        let mut now = Time::START;
        for seconds in [10, 20, 40, 80, 80] {
            delivery.on_failure(None, now);
            let until = now + Duration::from_secs(seconds);
            assert_eq!(delivery.fails_until(now), Some(until));
            assert_eq!(delivery.fails_until(until), None);
            now = until + Duration::from_millis(500);
        }
        now += Duration::from_secs(81);
        delivery.on_failure(None, now);
        assert_eq!(delivery.fails_until(now), Some(now + BOTH_PATHS_FOR), "relays delivered for a while");
    }
}
