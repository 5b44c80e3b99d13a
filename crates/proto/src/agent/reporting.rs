//! What the receiver tells the sender: the true loss, which repairs hide.

use byway_units::{Duration, Time};
use byway_wire::messages::{DelayPercentiles, RepairCounters, Report};
use byway_wire::{Message, Microseconds};

use super::Agent;
use super::flows::{Timer, timer_key};
use super::receive_flow::{ReceiveFlow, ReceiveFlowId};
use super::send_flow::SendFlow;
use crate::limits::{DIRECT_AT_FIRST, REPORT_AFTER_LOSS, REPORT_INTERVAL, STANDBY_FOR};
use crate::parts::delay_histogram::DelayHistogram;
use crate::policy::repairs;

/// How late packets came that came in time.
#[derive(Debug)]
pub(super) struct Delays {
    counted: DelayHistogram,
    since: Time,
    /// Whether they were reported, and the next packet begins a new count.
    are_reported: bool,
}

impl Delays {
    pub(super) fn new(now: Time) -> Self {
        Self { counted: DelayHistogram::default(), since: now, are_reported: false }
    }

    /// Counts a packet.
    pub(super) fn add(&mut self, lateness: Duration, now: Time) {
        if self.are_reported {
            *self = Self::new(now);
        }
        self.counted.add(lateness);
    }

    /// Notes that they are reported. Between reports that losses bring forward are too few packets to begin anew.
    fn reported(&mut self, now: Time) {
        self.are_reported = now.saturating_since(self.since) >= REPORT_INTERVAL;
    }
}

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
        if let Some(active) = self.receivers[id.0 as usize].active_mut() {
            active.delays.reported(now);
        }
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
        let delay = |percent| {
            let delays = self.active().map(|active| &active.delays.counted);
            delays.map_or(Microseconds::new(0), |delays| {
                Microseconds::from_duration(delays.percentile(percent))
            })
        };
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
            delay: DelayPercentiles { p50: delay(50), p95: delay(95), p99: delay(99) },
        }
    }
}

impl SendFlow {
    /// Takes in what the receiver says; new losses wake a flow that waits for them. Whether there are any.
    pub(super) fn take_report(&mut self, report: &Report, now: Time) -> bool {
        let has_lost = self.reports_mut().take(report);
        self.dark_since =
            self.dark_since.filter(|before| report.direct.wrapping_sub(*before).cast_signed() <= 0);
        if has_lost {
            (self.is_unproven, self.copies_until) = (false, now + STANDBY_FOR);
        } else if self.is_unproven && is_delivering(report) {
            (self.is_unproven, self.copies_until) = (false, Time::START);
        }
        has_lost
    }
}

/// Returns whether the direct path delivers most packets of a flow, and more than one or two, which
/// say little of a path.
///
/// Packets that relays delivered first count as repaired, whether the direct path lost them or not.
const fn is_delivering(report: &Report) -> bool {
    let RepairCounters { in_stream, cooperative, cached, forwarded } = report.repaired;
    let repaired = in_stream.saturating_add(cooperative).saturating_add(cached).saturating_add(forwarded);
    report.direct >= DIRECT_AT_FIRST && report.direct > repaired
}
