//! Selection of the services of flows whose settings leave it to their sender.
//!
//! The sender measures its delays to the receiver and to the ingress relay. The receiver reports
//! its delays to the egress relays, and the time in which it detects losses. The ingress relay
//! reports its delay to the egress relay.

use alloc::collections::BTreeMap;

use byway_plan::{
    Criteria, Delays, FlowTerms, MessageOverhead, Observation, Prices, RelayPriceTable, Selection, Selector,
};
use byway_units::{Bytes, Duration, Probability, RelayId, Time};
use byway_wire::messages::Report;
use byway_wire::{GrantedRelay, Service, Services, Shard};

use super::settings::FlowSettings;
use crate::limits::{
    DELAY_ASK_AFTER_CHANGE, DELAY_ASK_INTERVAL, DELAY_ASK_RETRY, DELAY_ASK_TRIES, SELECTION_INTERVAL,
};

/// Measured one-way delays of a sent flow: halves of round trips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FlowDelays {
    /// Delay of the direct path.
    pub direct: Duration,
    /// Delay to the ingress relay of the path in use.
    pub to_ingress: Duration,
    /// Ingress relay of the path in use, and its shard.
    pub ingress: (RelayId, Shard),
    /// Egress relay of the path in use, and its shard.
    pub egress: (RelayId, Shard),
    /// Delay between these relays, by the ingress relay: zero for one relay. `None` before its
    /// first answer.
    pub between: Option<Duration>,
    /// Delay between the receiver and the egress relay, by the receiver's latest report. `None`
    /// before it.
    pub to_receiver: Option<Duration>,
    /// Time in which the receiver detects a loss, by its latest report. `None` before it.
    pub detection: Option<Duration>,
}

impl FlowDelays {
    /// Returns true if all delays are measured.
    pub(super) const fn are_complete(self) -> bool {
        self.between.is_some() && self.to_receiver.is_some() && self.detection.is_some()
    }
}

/// Services among which an agent selects. All but forwarding use the direct path, so a change
/// interrupts none of them. A flow has both paths before and after forwarding.
const CANDIDATES: Services = Services::NONE
    .with(Service::Retransmission)
    .with(Service::Pull)
    .with(Service::Coding)
    .with(Service::Caching)
    .with(Service::Forwarding)
    .with(Service::Both);

/// Share of packets that may be lost or late: 0.1 %.
const MISSED_MAX: (u64, u64) = (1, 1_000);

/// Share by which the costs of services may differ that count as equally cheap: 10 %.
const SAME_COST: (u64, u64) = (1, 10);

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
    delay_requests: DelayRequests,
}

/// Schedule of a flow's requests for the delays between relays.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DelayRequests {
    /// Time of the latest request.
    asked_at: Option<Time>,
    /// Number of requests while a delay was unknown.
    tries: u8,
    /// Time of an additional request after a change of the service: the group's flows may have
    /// changed as well.
    ask_after_change_at: Option<Time>,
}

impl DelayRequests {
    /// Returns true if ingress relays are to be asked for their delays to egress relays now. Relays
    /// of earlier versions never answer with one.
    pub(super) fn is_due(&mut self, is_known: bool, now: Time) -> bool {
        self.tries = if is_known { 0 } else { self.tries };
        let is_often = !is_known && self.tries < DELAY_ASK_TRIES;
        let interval = if is_often { DELAY_ASK_RETRY } else { DELAY_ASK_INTERVAL };
        let is_due = self.asked_at.is_none_or(|at| now.saturating_since(at) >= interval)
            || self.ask_after_change_at.is_some_and(|at| now >= at);
        if is_due {
            (self.asked_at, self.tries) = (Some(now), self.tries.saturating_add(1));
            self.ask_after_change_at = None;
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
            let selector =
                FlowSelector { selector, selected_at: None, delay_requests: DelayRequests::default() };
            self.flows.insert(flow, selector);
        }
    }

    /// Returns true if a selection of a flow's service is due, and schedules the next one. False if
    /// the flow's settings name the service.
    pub(super) fn is_due(&mut self, flow: u32, now: Time) -> bool {
        let Some(known) = self.flows.get_mut(&flow) else {
            return false;
        };
        let is_due = known.selected_at.is_none_or(|at| now.saturating_since(at) >= SELECTION_INTERVAL);
        known.selected_at = if is_due { Some(now) } else { known.selected_at };
        is_due
    }

    /// Returns true if a flow's ingress relay is to be asked for its delay to the egress relay now.
    pub(super) fn asks_for_delay(&mut self, flow: u32, is_known: bool, now: Time) -> bool {
        self.flows.get_mut(&flow).is_some_and(|known| known.delay_requests.is_due(is_known, now))
    }

    /// Selects the service of a flow, which has the service `in_force` and could have those in
    /// `supported`; `known` are its delays. Returns the service to change to; `None` to keep the
    /// one in force.
    pub(super) fn select(
        &mut self,
        flow: u32,
        observation: &Observation,
        known: Option<FlowDelays>,
        (in_force, supported): (Service, Services),
        now: Time,
    ) -> Option<Selection> {
        let selector = &mut self.flows.get_mut(&flow)?.selector;
        if let Some(known) = known {
            let (prices, basis) = self.prices.compared(known.ingress.0, known.egress.0);
            selector.set_prices(prices, basis);
        }
        let is_allowed = |service: &&Service| CANDIDATES.allow(**service) && supported.allow(**service);
        let allowed = Service::ALL.iter().filter(is_allowed);
        let allowed = allowed.fold(Services::NONE, |all, service| all.with(*service));
        selector.select(observation, (in_force, allowed), now)
    }

    /// Records that a flow changes to the selected service.
    pub(super) fn on_changed(&mut self, flow: u32, selection: Selection, now: Time) {
        if let Some(known) = self.flows.get_mut(&flow) {
            known.selector.on_changed(selection, now);
            known.delay_requests.ask_after_change_at = Some(now + DELAY_ASK_AFTER_CHANGE);
        }
    }

    pub(super) fn remove(&mut self, flow: u32) {
        self.flows.remove(&flow);
    }
}

/// Returns the selector of a flow's service; `None` if the settings name the service, or leave no
/// choice.
fn selector(settings: &FlowSettings) -> Option<Selector> {
    if !settings.selects_service() {
        return None;
    }
    let criteria = criteria(settings.latency_budget);
    let flow = FlowTerms {
        rate: settings.rate,
        packet: Bytes::new(PACKET_BYTES),
        loss: Probability::ZERO,
        loss_of_others: None,
        relay_loss: None,
        cross_stream: settings.rates.batch,
        in_stream: None,
        messages: MessageOverhead::Counted,
    };
    Some(Selector::new(flow, Prices::nominal(), criteria))
}

/// Returns the criteria by which the service of a flow with this latency budget is selected.
pub(super) fn criteria(latency_budget: Duration) -> Criteria {
    let ((part, whole), (same, whole_cost)) = (MISSED_MAX, SAME_COST);
    Criteria {
        allowed: CANDIDATES,
        budget: Some(latency_budget),
        repaired_min: Probability::ONE,
        residual_max: Probability::from_ratio(part, whole).unwrap_or(Probability::ZERO),
        indifference: Probability::from_ratio(same, whole_cost).unwrap_or(Probability::ZERO),
    }
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

/// Returns the receiver's delay to an egress relay, and the time in which it detects losses, by its
/// report; `None` for what it does not contain.
pub(super) fn reported_delays(report: &Report, egress: GrantedRelay) -> (Option<Duration>, Option<Duration>) {
    let known = report.relays.iter().flatten().find(|known| known.relay == egress);
    let detection = report.detection.duration();
    (known.map(|known| known.round_trip.duration() / 2), (!detection.is_zero()).then_some(detection))
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::limits::DIRECT_SAMPLE_INTERVAL;
    use crate::policy::is_direct;

    /// Number of the flow in its table.
    const FLOW: u32 = 7;

    /// Packets of the flow in a second, and those of them that a bad direct path loses.
    const PACKETS: u64 = 480;
    const BAD: u64 = 160;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Returns delays of 50 ms on the direct path, and of 70 ms through relays. Repairs from a
    /// cache need 95 ms.
    fn known() -> FlowDelays {
        let relay = |number| (RelayId::new(number), Shard::new(0));
        FlowDelays {
            direct: ms(50),
            to_ingress: ms(10),
            ingress: relay(1),
            egress: relay(2),
            between: Some(ms(50)),
            to_receiver: Some(ms(10)),
            detection: Some(ms(25)),
        }
    }

    /// Adds a second in which the direct path loses `lost` packets, and relays none.
    fn add_second(observation: &mut Observation, service: Service, lost: u64) {
        observation.direct_sample_interval = if is_direct(service) { 1 } else { DIRECT_SAMPLE_INTERVAL };
        let (direct, covered) = match service {
            Service::Forwarding => (0, lost / DIRECT_SAMPLE_INTERVAL),
            _ => (PACKETS - lost, lost),
        };
        observation.direct += direct;
        observation.forwarded += PACKETS - direct;
        observation.covered += covered;
    }

    /// Returns the changes of a flow whose ends support these services, each with its second. Its
    /// direct path is bad for a minute, and clean from then on.
    fn changes(supported: Services) -> Vec<(u64, Service)> {
        let settings = FlowSettings {
            service: Service::Both,
            automatic_service: true,
            latency_budget: ms(80),
            ..FlowSettings::default()
        };
        let mut selectors = FlowSelectors::default();
        selectors.add(FLOW, &settings);
        let mut observation =
            Observation { path: Some(1), delays: Some(delays(known())), ..Observation::default() };
        let (mut service, mut services) = (settings.service, Vec::new());
        for second in 1..=200 {
            let now = Time::START + Duration::from_secs(second);
            add_second(&mut observation, service, if second <= 60 { BAD } else { 0 });
            let choice = (service, supported);
            if let Some(selection) = selectors.select(FLOW, &observation, Some(known()), choice, now) {
                selectors.on_changed(FLOW, selection, now);
                service = selection.service;
                services.push((second, service));
            }
        }
        services
    }

    #[test]
    fn relays_alone_forward_a_flow_only_after_and_before_both_paths() {
        let services = changes(Services::ALL);
        let sequence: Vec<Service> = services.iter().map(|(_, service)| *service).collect();
        assert_eq!(sequence, [Service::Forwarding, Service::Both, Service::Retransmission], "{services:?}");
        // The loss of relays is measured after eight seconds, that of the direct path in a minute.
        assert!((38..=45).contains(&services[0].0) && services[1].0 >= 120 + 30, "{services:?}");
    }

    #[test]
    fn relays_alone_never_forward_a_flow_whose_ends_do_not_support_that() {
        let services = changes(Services::ALL.without(Service::Forwarding));
        let sequence: Vec<Service> = services.iter().map(|(_, service)| *service).collect();
        assert_eq!(sequence, [Service::Retransmission], "{services:?}");
    }
}
