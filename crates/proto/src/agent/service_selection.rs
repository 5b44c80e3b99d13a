//! Selection of a sent flow's service after each report of its receiver: from the agent's
//! measurements to the change. [`selection`](super::selection) has the selectors.

use byway_plan::{Delays, Observation};
use byway_units::{Duration, Time};
use byway_wire::messages::ReportedDelays;
use byway_wire::{Capabilities, Service, Services};

use super::detection::Pace;
use super::selection::{FlowDelays, delays as predicted};
use super::send_flow::SendFlowId;
use super::{Agent, Flow};
use crate::limits::DIRECT_SAMPLE_INTERVAL;
use crate::policy::is_direct;

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
fn with_reported_delay(delays: Delays, reported: Option<ReportedDelays>) -> Delays {
    let Some((direct, relayed)) = reported.and_then(|paths| paths.direct.zip(paths.relayed)) else {
        return delays;
    };
    let behind = relayed.p95.wrapping_sub(direct.least).cast_signed().max(0).unsigned_abs();
    let measured = delays.direct.saturating_add(Duration::from_micros(behind.into()));
    let excess = measured.saturating_sub(delays.relayed());
    let ingress_to_egress = delays.ingress_to_egress.saturating_add(excess);
    Delays { ingress_to_egress, ..delays }
}

/// Asks for the delay between the relays of a flow from time to time.
fn ask_for_delay(agent: &mut Agent, flow: SendFlowId, now: Time) {
    let is_known = agent.flow_delays(flow).is_some_and(|known| known.between.is_some());
    if agent.service_changes.selectors.asks_for_delay(flow.0, is_known, now) {
        agent.repeat_registration(flow, now);
    }
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
        let delays = Delays::from_measured(ms(50), ms(10), false);
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
