//! Receiver reports: they show the sender the true loss of the direct path, which repairs hide. By
//! them, it selects the flow's service.

use byway_plan::Observation;
use byway_units::{Duration, Time};
use byway_wire::messages::{
    DelayPercentiles, RELAYS_REPORTED_MAX, RelayRoundTrip, RepairCounters, Report, ReportedDelays,
};
use byway_wire::{Capabilities, GrantedRelay, Message, Microseconds, Service, Services};

use super::detection::Pace;
use super::flows::{Timer, timer_key};
use super::receive_flow::{ReceiveFlow, ReceiveFlowId};
use super::selection::{FlowDelays, delays as predicted};
use super::send_flow::{SendFlow, SendFlowId};
use super::{Agent, Flow};
use crate::limits::{
    COPIES_AFTER_LOSS, DIRECT_AT_FIRST, DIRECT_SAMPLE_INTERVAL, REPORT_AFTER_LOSS, REPORT_AT_FIRST,
    REPORT_INTERVAL, REPORTS_SOON_FOR,
};
use crate::parts::delay_histogram::DelayHistogram;
use crate::policy::{is_direct, is_repaired_from_afar, repairs};

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

/// Selects a flow's service after a report of its receiver, if its settings leave it to the agent.
pub(super) fn select_service(agent: &mut Agent, flow: SendFlowId, now: Time) {
    if agent.is_changing_service(flow) || !agent.service_changes.selectors.is_due(flow.0, now) {
        return;
    }
    ask_for_delay(agent, flow, now);
    let Some((observation, in_force)) = observe(agent, flow, now) else {
        return;
    };
    let (known, supported) = (agent.flow_delays(flow), selectable_services(agent, flow, now));
    let selectors = &mut agent.service_changes.selectors;
    let selected = selectors.select(flow.0, &observation, known, (in_force, supported), now);
    if let Some(selection) = selected
        && agent.begin_service_change(flow, selection.service, now)
    {
        agent.service_changes.selectors.on_changed(flow.0, selection, now);
    }
}

/// Returns the services that may be selected for a flow. Forwarding is none of them in these cases:
/// - The receiver does not await samples of the direct path.
/// - Relays fail to deliver the flow.
/// - The uplink to the relays is metered.
pub(super) fn selectable_services(agent: &Agent, flow: SendFlowId, now: Time) -> Services {
    let supported = agent.services_for(flow, now);
    let Some(known) = agent.senders.get(flow.0) else {
        return supported;
    };
    let path = known.settings.paths.get(known.registrations.in_use());
    let ingress = path.and_then(|path| agent.relay_session(path.ingress));
    let is_metered = ingress.is_some_and(|ingress| agent.sessions.is_metered(ingress));
    let has_samples = agent.sessions.has_capabilities(known.peer, Capabilities::DIRECT_SAMPLES);
    let may_forward = has_samples && !is_metered && !known.falls_back();
    if may_forward { supported } else { supported.without(Service::Forwarding) }
}

/// Returns the state of a flow and its paths, and its service; `None` before the first report.
/// While a flow falls back from relays, its service is still the one of its settings. So another
/// one is selected, and the flow really changes to it.
pub(super) fn observe(agent: &Agent, flow: SendFlowId, now: Time) -> Option<(Observation, Service)> {
    let known = agent.senders.get(flow.0)?;
    let budget = known.settings.latency_budget;
    let service = if known.falls_back() { known.settings.service } else { known.service() };
    let reported = agent.reported_totals(flow)?;
    let measured = agent.flow_delays(flow);
    let number =
        |known: FlowDelays| u64::from(known.ingress.0.number()) << 32 | u64::from(known.egress.0.number());
    let registrations = agent.registrations_of(Flow::Sent(flow));
    let observation = Observation {
        direct: reported.direct,
        lost: reported.lost,
        repaired: reported.repaired(),
        forwarded: reported.forwarded,
        covered: reported.covered,
        direct_sample_interval: if is_direct(known.settings.service) { 1 } else { DIRECT_SAMPLE_INTERVAL },
        path: measured.map(number),
        delays: measured.map(|measured| {
            let pace = Pace::of(&known.usage, known.newest_report(), measured.detection, now);
            let delays = pace.detect(predicted(measured), 0.95, budget);
            let paths = known.newest_report().map(|report| report.paths);
            with_reported_delay(delays, paths.filter(|_| !is_direct(known.settings.service)))
        }),
        are_delays_measured: measured.is_some_and(FlowDelays::are_complete),
        group_activity: registrations.group_activity(),
    };
    Some((observation, service))
}

/// Returns the delays of a flow's paths, with the one of relays at least as long as packets show.
/// The receiver reports that while relays alone forward the flow. Both reported delays contain the
/// same offset of the clocks.
fn with_reported_delay(delays: byway_plan::Delays, reported: Option<ReportedDelays>) -> byway_plan::Delays {
    let Some((direct, relayed)) = reported.and_then(|paths| paths.direct.zip(paths.relayed)) else {
        return delays;
    };
    let behind = relayed.p95.wrapping_sub(direct.least).cast_signed().max(0).unsigned_abs();
    let measured = delays.direct.saturating_add(Duration::from_micros(behind.into()));
    let excess = measured.saturating_sub(delays.relayed());
    let ingress_to_egress = delays.ingress_to_egress.saturating_add(excess);
    byway_plan::Delays { ingress_to_egress, ..delays }
}

/// Asks for the delay between the relays of a flow from time to time.
fn ask_for_delay(agent: &mut Agent, flow: SendFlowId, now: Time) {
    let is_known = agent.flow_delays(flow).is_some_and(|known| known.between.is_some());
    if agent.service_changes.selectors.asks_for_delay(flow.0, is_known, now) {
        repeat_registration(agent, flow, now);
    }
}

/// Repeats the registration of a flow's path in use: the relay's answer contains its delay to the
/// egress relay.
fn repeat_registration(agent: &mut Agent, flow: SendFlowId, now: Time) {
    let registrations = agent.registrations_of_mut(Flow::Sent(flow));
    let path = registrations.in_use();
    if registrations.is_accepted(path) {
        registrations.request_again(path, now);
        agent.register(Flow::Sent(flow), now);
    }
}

impl Agent {
    /// Asks the ingress relay of a sent flow for its delay to the egress relay, if that is not
    /// known. Flows whose service the settings name do not need it, but an
    /// [explanation](super::explain) does. Returns true if it asks.
    pub fn ask_for_unknown_delay(&mut self, flow: SendFlowId, now: Time) -> bool {
        let asks = self.flow_delays(flow).is_some_and(|known| known.between.is_none());
        if asks {
            repeat_registration(self, flow, now);
            self.finish(now);
        }
        asks
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

#[cfg(test)]
mod tests {
    use byway_wire::messages::RelativeDelay;

    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn relays_whose_packets_are_late_are_as_slow_as_these_and_both_paths_as_fast_as_before() {
        // By round trips, the direct path takes 50 ms, and relays 70 ms.
        let delays = byway_plan::Delays::from_measured(ms(50), ms(10), false);
        // The clocks differ by nearly 2^32 microseconds.
        let direct = RelativeDelay { least: u32::MAX - 9_999, p95: 0 };
        let relayed = |after_direct: u64| {
            let p95 = direct.least.wrapping_add(u32::try_from(after_direct * 1_000).expect("it is short"));
            let relayed = Some(RelativeDelay { least: direct.least, p95 });
            with_reported_delay(delays, Some(ReportedDelays { direct: Some(direct), relayed }))
        };
        for (after_direct, expected) in [(0, 70), (20, 70), (21, 71), (200, 250)] {
            let delivery = |service| relayed(after_direct).delivery(service);
            assert_eq!(delivery(Service::Forwarding), Some(ms(expected)), "{after_direct}");
            assert_eq!(delivery(Service::Both), Some(ms(50)), "{after_direct}");
        }
        let unknown = ReportedDelays { direct: Some(direct), relayed: None };
        assert_eq!(with_reported_delay(delays, Some(unknown)), delays);
        assert_eq!(with_reported_delay(delays, None), delays);
    }
}
