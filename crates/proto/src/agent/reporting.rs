//! Receiver reports: they show the sender the true loss of the direct path, which repairs hide. By
//! them, it [selects](super::service_selection) the flow's service.

use byway_units::{Duration, Time};
use byway_wire::messages::{
    DelayPercentiles, RELAYS_REPORTED_MAX, RelayRoundTrip, RepairCounters, Report, ReportedDelays,
};
use byway_wire::{GrantedRelay, Message, Microseconds};

use super::flows::{Timer, timer_key};
use super::receive_flow::{ReceiveFlow, ReceiveFlowId};
use super::send_flow::SendFlow;
use super::{Agent, Flow};
use crate::limits::{
    COPIES_AFTER_LOSS, DIRECT_AT_FIRST, REPORT_AFTER_LOSS, REPORT_AT_FIRST, REPORT_INTERVAL, REPORTS_SOON_FOR,
};
use crate::parts::delay_histogram::DelayHistogram;
use crate::policy::{is_repaired_from_afar, repairs};

/// Lateness of a flow's packets that arrived in time, for the receiver's next report.
#[derive(Debug)]
pub(super) struct Delays {
    counted: DelayHistogram,
    since: Time,
    /// True if a report has covered them; the next packet then starts a new histogram.
    are_reported: bool,
    /// Time until which reports follow each other soon.
    soon_until: Time,
}

impl Delays {
    pub(super) fn new(now: Time) -> Self {
        Self {
            counted: DelayHistogram::default(),
            since: now,
            are_reported: false,
            soon_until: now + REPORTS_SOON_FOR,
        }
    }

    /// Counts the lateness of a packet that arrived in time.
    pub(super) fn add(&mut self, lateness: Duration, now: Time) {
        if self.are_reported {
            *self = Self { soon_until: self.soon_until, ..Self::new(now) };
        }
        self.counted.add(lateness);
    }

    /// Records that a report contains the percentiles. A new histogram starts only after a full
    /// report interval, because reports that follow losses soon cover too few packets. Returns the
    /// interval to the next report.
    fn on_reported(&mut self, now: Time) -> Duration {
        self.are_reported = now.saturating_since(self.since) >= REPORT_INTERVAL;
        if now < self.soon_until { REPORT_AT_FIRST } else { REPORT_INTERVAL }
    }
}

impl Agent {
    /// Sends the sender a report about a received flow, and schedules the next one; stops reports
    /// of an idle flow.
    pub(super) fn send_report(&mut self, id: ReceiveFlowId, now: Time) {
        let flow = &self.receivers[id.0 as usize];
        let key = timer_key(Timer::Report, id.0);
        if flow.active().is_none() {
            self.timers.disarm(key);
            return;
        }
        let (peer, service) = (flow.peer, flow.settings.service);
        let report = Report { relays: egress_round_trips(self, flow), ..flow.report() };
        let mut interval = REPORT_INTERVAL;
        if let Some(active) = self.receivers[id.0 as usize].active_mut() {
            interval = active.delays.on_reported(now);
            if let Some(delays) = &mut active.two_paths.delays {
                delays.on_reported(now);
            }
        }
        // A relay in use answers probes: if it fails, this agent detects it before it needs the
        // relay.
        if is_repaired_from_afar(service) {
            self.watch_relays(Flow::Received(id), now);
        } else if repairs(service) {
            self.use_relays(Flow::Received(id), now);
        }
        self.sessions.queue_message(peer, &Message::Report(report), now);
        self.probe_direct_path(peer, now);
        self.timers.arm(key, now + interval);
    }

    /// Schedules the next report about a received flow: soon if packets were lost.
    pub(super) fn plan_report(&mut self, id: ReceiveFlowId, has_lost: bool, now: Time) {
        let key = timer_key(Timer::Report, id.0);
        let at = now + if has_lost { REPORT_AFTER_LOSS } else { REPORT_INTERVAL };
        if self.timers.armed(key).is_none_or(|armed| at < armed) {
            self.timers.arm(key, at);
        }
    }
}

/// Returns the measured round-trip times between an agent and the egress relays of a flow that it
/// receives, for a report.
pub(super) fn egress_round_trips(
    agent: &Agent,
    flow: &ReceiveFlow,
) -> [Option<RelayRoundTrip>; RELAYS_REPORTED_MAX] {
    let mut relays = [None; RELAYS_REPORTED_MAX];
    let mut count = 0;
    for path in &flow.settings.paths {
        let relay = GrantedRelay { relay: path.egress.0, shard: path.egress.1 };
        let is_known = relays.iter().flatten().any(|known: &RelayRoundTrip| known.relay == relay);
        let session = agent.relay_session(path.egress).filter(|_| !is_known && count < relays.len());
        if let Some(round_trip) = session.and_then(|session| agent.sessions.measured_round_trip(session)) {
            let round_trip = Microseconds::from_duration(round_trip);
            relays[count] = Some(RelayRoundTrip { relay, round_trip });
            count += 1;
        }
    }
    relays
}

impl ReceiveFlow {
    /// Returns the report of the flow's counters and delays so far, without those of relays.
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
        let detection = self.active().map_or(Duration::ZERO, |active| active.loss_timer.detection());
        let paths = self.active().and_then(|active| active.two_paths.delays.as_ref());
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
                resent: statistics.resent as u32,
            },
            late: statistics.late as u32,
            bursts: statistics.bursts as u32,
            longest_burst: statistics.longest_burst as u32,
            delay: DelayPercentiles { p50: delay(50), p95: delay(95), p99: delay(99) },
            detection: Microseconds::from_duration(detection),
            relays: [None; RELAYS_REPORTED_MAX],
            covered: statistics.covered as u32,
            paths: paths.map_or_else(ReportedDelays::default, |delays| delays.delays()),
        }
    }
}

impl SendFlow {
    /// Handles a receiver's report; returns true if it shows new losses. New losses make a flow
    /// behind a narrow uplink send copies for [`COPIES_AFTER_LOSS`]. The first report without
    /// losses that shows that the direct path delivers ends the first copies of a flow with
    /// retransmission.
    pub(super) fn on_report(&mut self, report: &Report, now: Time) -> bool {
        let has_lost = self.reports_mut().on_report(report);
        self.outage_since =
            self.outage_since.filter(|before| report.direct.wrapping_sub(*before).cast_signed() <= 0);
        if has_lost {
            (self.is_unproven, self.copies_until) = (false, now + COPIES_AFTER_LOSS);
        } else if self.is_unproven && is_delivering(report) {
            (self.is_unproven, self.copies_until) = (false, Time::START);
        }
        has_lost
    }
}

/// Returns true if the direct path delivers most packets of a flow, by a report, and at least
/// [`DIRECT_AT_FIRST`], because one or two prove little.
///
/// Packets that relays delivered first count as repaired, even if the direct path did not lose
/// them.
fn is_delivering(report: &Report) -> bool {
    let RepairCounters { in_stream, cooperative, cached, forwarded, resent } = report.repaired;
    let repaired = [cooperative, cached, forwarded, resent].into_iter().fold(in_stream, u32::saturating_add);
    report.direct >= DIRECT_AT_FIRST && report.direct > repaired
}
