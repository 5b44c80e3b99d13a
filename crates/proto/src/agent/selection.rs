//! Selection of the services of flows whose settings leave it to their sender.
//!
//! The sender knows some delays of a flow's paths itself: to the receiver, and to its ingress
//! relay. The receiver reports those to the egress relays, and the time in which it detects
//! losses. The ingress relay reports its delay to the egress relay.

use alloc::collections::BTreeMap;

use byway_plan::{
    Criteria, Delays, FlowTerms, MessageOverhead, Observation, Prices, RelayPriceTable, Selection, Selector,
};
use byway_units::{Bytes, Duration, Probability, Time};
use byway_wire::messages::{RELAYS_REPORTED_MAX, RelayRoundTrip, Report};
use byway_wire::{GrantedRelay, Microseconds, Service, Services};

use super::receive_flow::ReceiveFlow;
use super::send_flow::SendFlowId;
use super::settings::{Duplication, FlowSettings, Traffic};
use super::status::FlowDelays;
use super::{Agent, Flow};
use crate::limits::{DELAY_ASK_INTERVAL, DELAY_ASK_RETRY, DELAY_ASK_TRIES, SELECTION_INTERVAL};

/// Services among which an agent selects. All of them use the direct path, so a change of service
/// interrupts none. Coding is not among them, because its costs depend on other flows.
const CANDIDATES: Services = Services::NONE
    .with(Service::Retransmission)
    .with(Service::Pull)
    .with(Service::Caching)
    .with(Service::Both);

/// Share of packets that may be lost or late: 0.1 %.
const MISSED_MAX: (u64, u64) = (1, 1_000);

/// Length of packets that is assumed for the comparison of costs, in bytes: NACKs and headers weigh
/// little.
const PACKET_BYTES: u64 = 1_000;

/// Time until a receiver detects a loss, if it does not report it: the first timeout of a flow with
/// small gaps.
const DETECTION: Duration = Duration::from_millis(25);

/// Selector of one flow's service, and its schedule.
#[derive(Debug)]
struct FlowSelector {
    selector: Selector,
    /// Time of the latest selection.
    selected_at: Option<Time>,
    /// Time of the latest request for the delay between the relays.
    asked_at: Option<Time>,
    /// Number of requests while that delay was unknown.
    tries: u8,
}

impl FlowSelector {
    /// Returns true if the ingress relay is to be asked for its delay to the egress relay now.
    /// Relays of earlier versions never answer with one.
    fn asks_for_delay(&mut self, is_known: bool, now: Time) -> bool {
        self.tries = if is_known { 0 } else { self.tries };
        let is_often = !is_known && self.tries < DELAY_ASK_TRIES;
        let interval = if is_often { DELAY_ASK_RETRY } else { DELAY_ASK_INTERVAL };
        let is_due = self.asked_at.is_none_or(|at| now.saturating_since(at) >= interval);
        if is_due {
            (self.asked_at, self.tries) = (Some(now), self.tries.saturating_add(1));
        }
        is_due
    }
}

/// Selectors of sent flows, which are numbered as in their table, and the prices for all of them.
#[derive(Debug, Default)]
pub(super) struct FlowSelectors {
    flows: BTreeMap<u32, FlowSelector>,
    pub(super) prices: RelayPriceTable,
}

impl FlowSelectors {
    /// Adds the selector of a flow, if its settings leave the service to the agent.
    pub(super) fn add(&mut self, flow: u32, settings: &FlowSettings) {
        if let Some(selector) = selector(settings) {
            let selector = FlowSelector { selector, selected_at: None, asked_at: None, tries: 0 };
            self.flows.insert(flow, selector);
        }
    }

    pub(super) fn remove(&mut self, flow: u32) {
        self.flows.remove(&flow);
    }
}

/// Returns the selector of a flow's service; `None` if the settings name the service. Traffic that
/// responds to losses as congestion has the service of its settings, because repairs on request
/// would hide congestion.
fn selector(settings: &FlowSettings) -> Option<Selector> {
    let is_free = matches!(settings.duplication, Duplication::Usual | Duplication::All);
    let is_free = is_free && !settings.standby;
    if !settings.automatic_service || settings.traffic != Traffic::Datagrams || !is_free {
        return None;
    }
    let criteria = criteria(settings.latency_budget);
    let flow = FlowTerms {
        rate: settings.rate,
        packet: Bytes::new(PACKET_BYTES),
        loss: Probability::ZERO,
        cross_stream: None,
        in_stream: None,
        messages: MessageOverhead::Counted,
    };
    Some(Selector::new(flow, Prices::nominal(), criteria))
}

/// Returns the criteria by which the service of a flow with this latency budget is selected.
pub(super) fn criteria(latency_budget: Duration) -> Criteria {
    let (part, whole) = MISSED_MAX;
    Criteria {
        allowed: CANDIDATES,
        budget: Some(latency_budget),
        repaired_min: Probability::ONE,
        residual_max: Probability::from_ratio(part, whole).unwrap_or(Probability::ZERO),
        indifference: Probability::ZERO,
    }
}

/// Selects a flow's service after a report of its receiver, if its settings leave it to the agent.
pub(super) fn select_service(agent: &mut Agent, flow: SendFlowId, now: Time) {
    let is_changing = agent.is_changing_service(flow);
    let Some(known) = agent.service_changes.selectors.flows.get_mut(&flow.0) else {
        return;
    };
    if is_changing || known.selected_at.is_some_and(|at| now.saturating_since(at) < SELECTION_INTERVAL) {
        return;
    }
    known.selected_at = Some(now);
    ask_for_delay(agent, flow, now);
    let Some((observation, in_force)) = observe(agent, flow) else {
        return;
    };
    let supported = agent.services_for(flow, now);
    let is_allowed = |service: &&Service| CANDIDATES.allow(**service) && supported.allow(**service);
    let allowed = Service::ALL.iter().filter(is_allowed);
    let allowed = allowed.fold(Services::NONE, |all, service| all.with(*service));
    let relays = agent.flow_delays(flow).map(|known| (known.ingress.0, known.egress.0));
    let FlowSelectors { flows, prices } = &mut agent.service_changes.selectors;
    let mut selector = flows.get_mut(&flow.0).map(|known| &mut known.selector);
    if let (Some(selector), Some((ingress, egress))) = (&mut selector, relays) {
        let (prices, basis) = prices.compared(ingress, egress);
        selector.set_prices(prices, basis);
    }
    let selected = selector.and_then(|selector| selector.select(&observation, (in_force, allowed), now));
    if let Some(selection) = selected
        && agent.begin_service_change(flow, selection.service, now)
        && let Some(known) = agent.service_changes.selectors.flows.get_mut(&flow.0)
    {
        known.selector.on_changed(selection, now);
    }
}

/// Returns the state of a flow and its paths, and its service; `None` before the first report.
fn observe(agent: &Agent, flow: SendFlowId) -> Option<(Observation, Service)> {
    let service = agent.senders.get(flow.0)?.service();
    let reported = agent.reported_totals(flow)?;
    let measured = agent.flow_delays(flow);
    let number =
        |known: FlowDelays| u64::from(known.ingress.0.number()) << 32 | u64::from(known.egress.0.number());
    let observation = Observation {
        direct: reported.direct,
        lost: reported.lost,
        repaired: reported.repaired(),
        forwarded: reported.forwarded,
        path: measured.map(number),
        delays: measured.map(delays),
    };
    Some((observation, service))
}

/// Returns all delays of a flow's paths, with assumptions for those that nobody has measured yet.
pub(super) fn delays(known: FlowDelays) -> Delays {
    let assumed = Delays::from_measured(known.direct, known.to_ingress, known.ingress == known.egress);
    let to_receiver = known.to_receiver.unwrap_or(assumed.egress_to_receiver);
    Delays {
        ingress_to_egress: known.between.unwrap_or(assumed.ingress_to_egress),
        egress_to_receiver: to_receiver,
        cooperating: to_receiver,
        detection: known.detection.unwrap_or(DETECTION),
        ..assumed
    }
}

/// Repeats the registration of a flow's path in use from time to time: the relay's answer contains
/// its delay to the egress relay.
fn ask_for_delay(agent: &mut Agent, flow: SendFlowId, now: Time) {
    let is_known = agent.flow_delays(flow).is_some_and(|known| known.between.is_some());
    let Some(known) = agent.service_changes.selectors.flows.get_mut(&flow.0) else {
        return;
    };
    if known.asks_for_delay(is_known, now) {
        let registrations = agent.registrations_of_mut(Flow::Sent(flow));
        let path = registrations.in_use();
        if registrations.is_accepted(path) {
            registrations.request_again(path, now);
            agent.register(Flow::Sent(flow), now);
        }
    }
}

impl FlowSelectors {
    /// Returns the selection of a sent flow's service; `None` if the flow's settings name the
    /// service, or before the first selection.
    pub(super) fn selection(&self, flow: u32) -> Option<Selection> {
        self.selector(flow)?.selection()
    }

    /// Returns the selector of a sent flow's service; `None` if the flow's settings name the
    /// service.
    pub(super) fn selector(&self, flow: u32) -> Option<&Selector> {
        self.flows.get(&flow).map(|known| &known.selector)
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

/// Returns the receiver's delay to an egress relay, and the time in which it detects losses, by its
/// report; `None` for what it does not contain.
pub(super) fn reported_delays(report: &Report, egress: GrantedRelay) -> (Option<Duration>, Option<Duration>) {
    let known = report.relays.iter().flatten().find(|known| known.relay == egress);
    let detection = report.detection.duration();
    (known.map(|known| known.round_trip.duration() / 2), (!detection.is_zero()).then_some(detection))
}
