//! Delivery by relays of a flow that has no packets on the direct path.
//!
//! A relay that answers probes may lose or falsify what it passes on. The receiver's reports, its notices of silence,
//! or the lack of any report show it. The flow then takes the direct path beside the relays, and tries these alone
//! again after a while.

use byway_units::{Duration, RelayId, Time};
use byway_wire::messages::{RepairCounters, Report};
use byway_wire::{SequenceNumber, Shard};

use super::send_flow::{SendFlow, SendFlowId};
use super::settings::RelayPath;
use super::{Agent, Flow};
use crate::limits::{
    BOTH_WAYS_FOR, BOTH_WAYS_MAX, DARK_AFTER, DELIVERY_LOST_PART, DELIVERY_PACKETS, FAILURE_SETTLES_IN,
    FIRST_REPORT_MARGIN, SILENT_PACKETS_MIN,
};

/// Evidence that relays deliver a flow, and the time until which they are not relied on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RelayDelivery {
    /// Highest number and packets lost for good, by the report with which the present count began.
    counted_from: Option<[u32; 2]>,
    fails_until: Option<Time>,
    /// Relays of the path that failed, near the sender and near the receiver.
    failed: Option<[(RelayId, Shard); 2]>,
    /// True if that time had not come when the flow last chose its path.
    is_failing: bool,
    /// Time at which a path was left: evidence of soon after may be about that one.
    left_at: Option<Time>,
    /// Time before which a silence may come of the change from the direct path to relays, on which packets take longer.
    changes_until: Option<Time>,
    /// Duration of the last failure.
    lasted: Duration,
}

impl RelayDelivery {
    /// Returns the time until which relays are not relied on, if that is later than now.
    fn fails_until(&self, now: Time) -> Option<Time> {
        self.fails_until.filter(|until| *until > now)
    }

    /// Returns whether what is known now may be about a path that was left, if the path in use shows within such a time.
    fn is_settling(&self, within: Duration, now: Time) -> bool {
        self.left_at.is_some_and(|at| at + within > now)
    }

    /// Takes a report; true if relays deliver too little.
    fn take_report(&mut self, report: &Report, now: Time) -> bool {
        if self.is_settling(FAILURE_SETTLES_IN, now) {
            self.counted_from = None;
            return false;
        }
        let RepairCounters { in_stream, cooperative, cached, .. } = report.repaired;
        let repaired = in_stream.wrapping_add(cooperative).wrapping_add(cached);
        let counted = [report.highest_low, report.lost.wrapping_sub(repaired)];
        let Some(before) = self.counted_from else {
            self.counted_from = Some(counted);
            return false;
        };
        let [sent, lost] = [0, 1].map(|of: usize| u32::wrapping_sub(counted[of], before[of]));
        // A report that was overtaken counts backwards.
        if sent.cast_signed() < 0 || sent < DELIVERY_PACKETS {
            return false;
        }
        self.counted_from = Some(counted);
        lost.cast_signed() > 0 && lost > sent / DELIVERY_LOST_PART
    }

    /// Notes that a path is left, unless one was just before: a flow that keeps changing between bad paths is judged
    /// all the same.
    fn leave_path(&mut self, now: Time) {
        if !self.is_settling(FAILURE_SETTLES_IN * 2, now) {
            self.left_at = Some(now);
        }
    }

    /// Ends a failure early. The end is remembered: the next failure lasts longer, and no death explains it.
    fn end_failure(&mut self, now: Time) {
        self.fails_until = self.fails_until.map(|until| until.min(now));
        self.failed = None;
    }

    /// Notes a failure: longer than the last one, if that ended lately.
    fn fail(&mut self, path: Option<&RelayPath>, now: Time) {
        let lately = self.fails_until.is_some_and(|until| now.saturating_since(until) <= self.lasted);
        self.lasted = if lately { (self.lasted * 2).min(BOTH_WAYS_MAX) } else { BOTH_WAYS_FOR };
        self.fails_until = Some(now + self.lasted);
        self.failed = path.map(|path| [path.ingress, path.egress]);
        self.left_at = Some(now);
        self.counted_from = None;
    }
}

impl Agent {
    /// Looks at what relays delivered of a flow by a report.
    pub(super) fn judge_relays(&mut self, id: SendFlowId, report: &Report, now: Time) {
        let flow = &mut self.senders[id.0 as usize];
        if !flow.needs_relay() {
            return;
        }
        let delivery = flow.relay_delivery.get_or_insert_default();
        let is_settling = delivery.is_settling(FAILURE_SETTLES_IN, now);
        let is_lost = delivery.take_report(report, now);
        if is_lost || !is_settling && self.is_overdue(id, report.highest_low, now) {
            self.take_both_ways(id, now);
        }
    }

    /// Returns whether packets behind the highest one of a report left so long ago that they should have come.
    fn is_overdue(&self, id: SendFlowId, highest_low: u32, now: Time) -> bool {
        let flow = &self.senders[id.0 as usize];
        let next = SequenceNumber::nearest(highest_low, flow.next).next();
        let last = flow.sent_since(next).nth(SILENT_PACKETS_MIN - 1);
        let left = last.and_then(|(_, sent)| self.sent.came(sent.packet));
        let is_open = self.sessions.get(flow.peer).is_some_and(|peer| !peer.dead);
        // What waits for the uplink has not left.
        is_open && self.has_room() && left.is_some_and(|left| left + self.report_time(id) <= now)
    }

    /// Returns the longest time from a packet to the first report of it.
    fn report_time(&self, id: SendFlowId) -> Duration {
        self.sessions.round_trip(self.senders[id.0 as usize].peer) * 2 + FIRST_REPORT_MARGIN
    }

    /// Has a flow leave relays that it alone relies on, if its first report is overdue.
    pub(super) fn take_both_ways_if_unreported(&mut self, id: SendFlowId, now: Time) {
        let (flow, overdue) = (&self.senders[id.0 as usize], self.report_time(id));
        let is_overdue = flow.began.is_some_and(|began| began + overdue <= now);
        // One lost packet, or one lost report, is no failure.
        let is_enough = flow.next.number() >= SILENT_PACKETS_MIN as u64;
        if flow.needs_relay() && is_overdue && is_enough && !flow.is_settling(overdue, now) {
            self.take_both_ways(id, now);
        }
    }

    /// Has a flow take another path through relays for a while, if it has one, and the direct path beside.
    pub(super) fn take_both_ways(&mut self, id: SendFlowId, now: Time) {
        let flow = &mut self.senders[id.0 as usize];
        let is_known = flow.undelivered_until(now).is_some();
        let has_another = self.sessions.is_direct(flow.peer) || flow.registrations.count() > 1;
        if !is_known && has_another {
            let path = flow.settings.paths.get(flow.registrations.in_use());
            flow.relay_delivery.get_or_insert_default().fail(path, now);
            self.choose_path(Flow::Sent(id), now);
        }
    }
}

impl Agent {
    /// Returns the time until which a path is of no use to a flow that needs a relay, because it did not deliver, or too much is lost on
    /// the way to it. Copies are held back then, rather than sent elsewhere: they might take their share of the same congestion.
    pub(super) fn path_shut_until(&self, flow: Flow, path: usize, now: Time) -> Option<Time> {
        let Flow::Sent(id) = flow else {
            return None;
        };
        let flow = self.senders.get(id.0).filter(|flow| flow.needs_relay() || flow.is_undelivered())?;
        let path = flow.settings.paths.get(path)?;
        let shut_until = self.relay_places.get(&path.ingress).and_then(|at| self.relays[*at].shut_until(now));
        shut_until.max(flow.failed_until(path, now))
    }
}

impl SendFlow {
    /// Returns the time until which relays are not relied on, if that is later than now, and notes whether there is one.
    pub(super) fn undelivered_until(&mut self, now: Time) -> Option<Time> {
        let delivery = self.relay_delivery.as_mut()?;
        let until = delivery.fails_until(now);
        delivery.is_failing = until.is_some();
        until
    }

    /// Returns the time until which a path through relays is not chosen, because it did not deliver.
    pub(super) fn failed_until(&self, path: &RelayPath, now: Time) -> Option<Time> {
        let delivery = self.relay_delivery.as_ref()?;
        let has_failed = delivery.failed == Some([path.ingress, path.egress]);
        delivery.fails_until(now).filter(|_| has_failed)
    }

    /// Notes that packets go through relays alone again, and until when the change may show as a silence.
    pub(super) fn rely_on_relays(&mut self, changes_until: Time) {
        let delivery = self.relay_delivery.get_or_insert_default();
        (delivery.changes_until, delivery.counted_from) = (Some(changes_until), None);
    }

    /// Notes that the flow takes another path: what comes next may still be about the one before.
    pub(super) fn settle_delivery(&mut self, now: Time) {
        if self.needs_relay() || self.relay_delivery.is_some() {
            self.relay_delivery.get_or_insert_default().leave_path(now);
        }
    }

    /// Returns whether evidence may be about a path that was left, if the path in use shows within such a time.
    pub(super) fn is_settling(&self, within: Duration, now: Time) -> bool {
        self.relay_delivery.as_ref().is_some_and(|delivery| delivery.is_settling(within, now))
    }

    /// Returns the shortest silence of the receiver that shows that relays do not deliver.
    pub(super) fn telling_silence(&self, now: Time) -> Duration {
        let changes_until = self.relay_delivery.as_ref().and_then(|delivery| delivery.changes_until);
        if changes_until.is_some_and(|until| until > now) { DARK_AFTER * 3 / 2 } else { DARK_AFTER }
    }

    /// Forgets a failure of a path that the flow has no more.
    pub(super) fn forget_failure_of_other_paths(&mut self, now: Time) {
        let is_known = |failed| self.settings.paths.iter().any(|path| [path.ingress, path.egress] == failed);
        if let Some(delivery) = &mut self.relay_delivery
            && delivery.failed.is_some_and(|failed| !is_known(failed))
        {
            delivery.end_failure(now);
        }
    }

    /// Forgets a failure that is explained, if it is the first one lately: a path with a dead relay is chosen as soon as
    /// that is back. Relays that lose half of all packets seem to die again and again.
    pub(super) fn explain_failure(&mut self, lives: &[bool], now: Time) {
        let paths = self.settings.paths.iter().zip(lives);
        let mut dead = paths.filter(|(_, lives)| !**lives).map(|(path, _)| Some([path.ingress, path.egress]));
        if let Some(delivery) = &mut self.relay_delivery
            && delivery.failed.is_some()
            && delivery.lasted == BOTH_WAYS_FOR
            && dead.any(|path| path == delivery.failed)
        {
            delivery.end_failure(now);
        }
    }

    /// Returns whether relays were not relied on when the flow last chose its path.
    pub(super) fn is_undelivered(&self) -> bool {
        self.relay_delivery.as_ref().is_some_and(|delivery| delivery.is_failing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use byway_units::{AgentId, FlowId};
    use byway_wire::Microseconds;
    use byway_wire::messages::DelayPercentiles;

    fn report_of(highest_low: u32, lost: u32, cached: u32) -> Report {
        let none = Microseconds::new(0);
        Report {
            flow_key: crate::agent::flow_between(AgentId::new(1), AgentId::new(2), FlowId::new(1)),
            highest_low,
            direct: 0,
            lost,
            repaired: RepairCounters { in_stream: 0, cooperative: 0, cached, forwarded: 0 },
            late: 0,
            bursts: 0,
            longest_burst: 0,
            delay: DelayPercentiles { p50: none, p95: none, p99: none },
        }
    }

    #[test]
    fn more_than_a_sixteenth_of_at_least_32_packets_lost_for_good_is_too_much() {
        for (highest, lost, repaired, fails) in
            [(31, 31, 0, false), (32, 2, 0, false), (32, 3, 0, true), (32, 9, 7, false), (320, 21, 0, true)]
        {
            let mut delivery = RelayDelivery::default();
            assert!(!delivery.take_report(&report_of(u32::MAX, 5, 5), Time::START));
            let report = report_of(u32::wrapping_sub(highest, 1), 5 + lost, 5 + repaired);
            assert_eq!(delivery.take_report(&report, Time::START), fails, "{lost} - {repaired} of {highest}");
        }
    }

    #[test]
    fn reports_are_ignored_for_a_second_after_a_change_of_path_and_at_most_every_other_second() {
        let at = |millis| Time::START + Duration::from_millis(millis);
        let mut delivery = RelayDelivery::default();
        let mut numbers = 0;
        // Each report counts 32 packets more, all of them lost.
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
            assert_eq!(delivery.take_report(&report_of(numbers, numbers, 0), at(millis)), fails, "{millis}");
        }
    }

    #[test]
    fn a_failure_soon_after_another_lasts_twice_as_long_up_to_80_seconds() {
        let mut delivery = RelayDelivery::default();
        let mut now = Time::START;
        for seconds in [10, 20, 40, 80, 80] {
            delivery.fail(None, now);
            let until = now + Duration::from_secs(seconds);
            assert_eq!(delivery.fails_until(now), Some(until));
            assert_eq!(delivery.fails_until(until), None);
            now = until + Duration::from_millis(500);
        }
        now += Duration::from_secs(81);
        delivery.fail(None, now);
        assert_eq!(delivery.fails_until(now), Some(now + BOTH_WAYS_FOR), "relays delivered for a while");
    }
}
