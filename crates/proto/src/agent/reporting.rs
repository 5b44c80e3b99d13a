//! What the receiver tells the sender: the true loss, which repairs hide.

use alloc::boxed::Box;

use byway_units::Time;
use byway_wire::Message;
use byway_wire::messages::{DelayPercentiles, RepairCounters, Report};

use super::Agent;
use super::flows::{Timer, timer_key};
use super::receive_flow::{ReceiveFlow, ReceiveFlowId};
use super::send_flow::SendFlow;
use crate::limits::{REPORT_AFTER_LOSS, REPORT_INTERVAL, STANDBY_FOR};
use crate::policy::repairs;

impl Agent {
    /// Reports a flow that is in use, and plans the next time.
    pub(super) fn give_report(&mut self, id: ReceiveFlowId, now: Time) {
        let flow = &self.receivers[id.0 as usize];
        let key = timer_key(Timer::Report, id.0);
        if flow.active().is_none() {
            self.timers.disarm(key);
            return;
        }
        let (peer, report, is_repaired) = (flow.peer, flow.report(), repairs(flow.settings.service));
        if is_repaired {
            for (relay, _) in self.egresses_of(id) {
                // So that a relay that dies is missed before it is needed.
                self.sessions.use_session(relay, now);
            }
        }
        self.sessions.say(peer, &Message::Report(report), now);
        self.look_for_direct_path(peer, now);
        self.timers.arm(key, now + REPORT_INTERVAL);
    }

    /// Makes sure that a flow in use is reported: soon, where packets were lost.
    pub(super) fn plan_report(&mut self, id: ReceiveFlowId, has_lost: bool, now: Time) {
        let key = timer_key(Timer::Report, id.0);
        let at = now + if has_lost { REPORT_AFTER_LOSS } else { REPORT_INTERVAL };
        if self.timers.armed(key).is_none_or(|armed| at < armed) {
            self.timers.arm(key, at);
        }
    }
}

impl ReceiveFlow {
    #[allow(clippy::cast_possible_truncation, reason = "the wire's counters wrap")]
    fn report(&self) -> Report {
        let statistics = &self.statistics;
        let highest = self.active().and_then(|active| active.tracker.highest()).unwrap_or(0);
        Report {
            flow_key: self.key,
            highest_low: highest as u32,
            direct: statistics.direct as u32,
            lost: statistics.lost as u32,
            repaired: RepairCounters {
                in_stream: statistics.in_stream as u32,
                cooperative: statistics.cooperative as u32,
                cached: statistics.cached as u32,
                forwarded: statistics.forwarded as u32,
            },
            late: statistics.late as u32,
            bursts: statistics.bursts as u32,
            longest_burst: statistics.longest_burst as u32,
            delay: DelayPercentiles::default(),
        }
    }
}

impl SendFlow {
    /// Takes in what the receiver says; new losses wake a flow that waits for them.
    pub(super) fn take_report(&mut self, report: &Report, now: Time) {
        let before = self.report.as_ref().map_or(0, |report| report.bursts);
        if report.bursts.wrapping_sub(before).cast_signed() > 0 {
            self.copies_until = now + STANDBY_FOR;
        }
        match &mut self.report {
            Some(known) => **known = *report,
            None => self.report = Some(Box::new(*report)),
        }
    }
}
