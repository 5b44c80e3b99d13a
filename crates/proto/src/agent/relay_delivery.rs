//! Delivery by relays of a flow that has no packets on the direct path.
//!
//! A relay that answers probes may lose or falsify what it passes on. The receiver tells: by reports, by notices of silence, or by sending no report at all.
//! The flow then takes the direct path beside the relays, and tries these alone again after a while.

use byway_units::{Duration, Time};
use byway_wire::messages::{RepairCounters, Report};

use super::send_flow::SendFlowId;
use super::{Agent, Flow};
use crate::limits::{
    BOTH_WAYS_FOR, BOTH_WAYS_MAX, DELIVERY_LOST_PART, DELIVERY_PACKETS, FIRST_REPORT_MARGIN,
};

/// Evidence that relays deliver a flow, and the time until which they are not relied on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RelayDelivery {
    /// Highest number and packets lost for good, by the report with which the present count began.
    counted_from: Option<[u32; 2]>,
    fails_until: Option<Time>,
    /// Whether that time had not come when the flow last chose its path.
    pub(super) is_failing: bool,
    /// Duration of the last failure.
    lasted: Duration,
}

impl RelayDelivery {
    /// Returns the time until which relays are not relied on, if that is later than now.
    pub(super) fn fails_until(&self, now: Time) -> Option<Time> {
        self.fails_until.filter(|until| *until > now)
    }

    /// Takes a report; true if relays deliver too little.
    fn take_report(&mut self, report: &Report) -> bool {
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

    /// Notes a failure: longer than the last one, if that ended lately.
    fn fail(&mut self, now: Time) {
        let lately = self.fails_until.is_some_and(|until| now.saturating_since(until) <= self.lasted);
        self.lasted = if lately { (self.lasted * 2).min(BOTH_WAYS_MAX) } else { BOTH_WAYS_FOR };
        self.fails_until = Some(now + self.lasted);
        self.counted_from = None;
    }
}

impl Agent {
    /// Looks at what relays delivered of a flow by a report.
    pub(super) fn judge_relays(&mut self, id: SendFlowId, report: &Report, now: Time) {
        let flow = &mut self.senders[id.0 as usize];
        if flow.needs_relay() && flow.relay_delivery.take_report(report) {
            self.take_both_ways(id, now);
        }
    }

    /// Has a flow take the direct path that goes through relays alone, and of which no report has come for too long.
    pub(super) fn take_both_ways_if_unreported(&mut self, id: SendFlowId, now: Time) {
        let flow = &self.senders[id.0 as usize];
        let overdue = self.sessions.round_trip(flow.peer) * 2 + FIRST_REPORT_MARGIN;
        if flow.needs_relay() && flow.began.is_some_and(|began| began + overdue <= now) {
            self.take_both_ways(id, now);
        }
    }

    /// Has a flow take the direct path beside relays for a while, if it has a direct path.
    pub(super) fn take_both_ways(&mut self, id: SendFlowId, now: Time) {
        let flow = &mut self.senders[id.0 as usize];
        if flow.relay_delivery.fails_until(now).is_none() && self.sessions.is_direct(flow.peer) {
            flow.relay_delivery.fail(now);
            self.choose_path(Flow::Sent(id), now);
        }
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
            assert!(!delivery.take_report(&report_of(u32::MAX, 5, 5)));
            let report = report_of(u32::wrapping_sub(highest, 1), 5 + lost, 5 + repaired);
            assert_eq!(delivery.take_report(&report), fails, "{lost} - {repaired} of {highest}");
        }
    }

    #[test]
    fn a_failure_soon_after_another_lasts_twice_as_long_up_to_a_minute() {
        let mut delivery = RelayDelivery::default();
        let mut now = Time::START;
        for seconds in [2, 4, 8, 16, 32, 64, 64] {
            delivery.fail(now);
            let until = now + Duration::from_secs(seconds);
            assert_eq!(delivery.fails_until(now), Some(until));
            assert_eq!(delivery.fails_until(until), None);
            now = until + Duration::from_millis(500);
        }
        now += Duration::from_secs(65);
        delivery.fail(now);
        assert_eq!(delivery.fails_until(now), Some(now + BOTH_WAYS_FOR), "relays delivered for a while");
    }
}
