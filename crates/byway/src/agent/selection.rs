//! Selection of the services of flows whose settings leave it to the agent.

use byway_plan::{Criteria, Delays, FlowTerms, MessageOverhead, Observation, Prices, Selection, Selector};
use byway_proto::agent::{Agent, Duplication, SendFlowId, Terms, Traffic};
use byway_units::{Bytes, Duration, Probability, Time};
use byway_wire::{Service, Services};

/// Interval of selections. Receivers report about flows in use as often.
pub(super) const SELECTION_INTERVAL: Duration = Duration::from_secs(1);

/// Share of packets that may be lost or late: 0.1 %.
const MISSED_MAX: (u64, u64) = (1, 1_000);

/// Length of packets that is assumed for the comparison of costs, in bytes: NACKs and headers weigh
/// little.
const PACKET_BYTES: u64 = 1_000;

/// Assumed time until a receiver detects a loss: the first timeout of a flow with small gaps.
const DETECTION: Duration = Duration::from_millis(25);

/// Services among which the agent selects. All of them use the direct path, so a change of service
/// interrupts none. Coding is not among them, because its costs depend on other flows.
const CANDIDATES: Services = Services::NONE
    .with(Service::Retransmission)
    .with(Service::Pull)
    .with(Service::Caching)
    .with(Service::Both);

/// Returns the selector of a flow's service; `None` if the terms name the service. Traffic that
/// responds to losses as congestion has the service of its terms, because repairs on request would
/// hide congestion.
pub(super) fn selector(terms: &Terms) -> Option<Box<Selector>> {
    let is_free = matches!(terms.duplication, Duplication::Usual | Duplication::All);
    if !terms.automatic_service || terms.traffic != Traffic::Datagrams || !is_free {
        return None;
    }
    let (part, whole) = MISSED_MAX;
    let criteria = Criteria {
        allowed: CANDIDATES,
        budget: Some(terms.latency_budget),
        repaired_min: Probability::ONE,
        residual_max: Probability::from_ratio(part, whole)?,
        indifference: Probability::ZERO,
    };
    let flow = FlowTerms {
        rate: terms.rate,
        packet: Bytes::new(PACKET_BYTES),
        loss: Probability::ZERO,
        cross_stream: None,
        in_stream: None,
        messages: MessageOverhead::Counted,
    };
    Some(Box::new(Selector::new(flow, Prices::nominal(), criteria)))
}

/// Selects the services of all flows with a selector.
pub(super) fn select_services<'a>(
    flows: impl Iterator<Item = (SendFlowId, &'a mut Selector)>,
    agent: &mut Agent,
    now: Time,
) {
    for (flow, selector) in flows {
        if let Some(selection) = select(selector, flow, agent, now)
            && agent.set_service(flow, selection.service, now)
        {
            selector.on_changed(selection, now);
            let Selection { service, reason } = selection;
            tracing::debug!(?flow, service = service.name(), %reason, "service selected");
        }
    }
}

fn select(selector: &mut Selector, flow: SendFlowId, agent: &Agent, now: Time) -> Option<Selection> {
    if agent.is_changing_service(flow) {
        return None;
    }
    let service = agent.flow_status(flow)?.service;
    let reported = agent.reported_totals(flow)?;
    let measured = agent.flow_delays(flow);
    let delays = measured.map(|known| Delays {
        detection: DETECTION,
        ..Delays::from_measured(known.direct, known.to_ingress, known.ingress == known.egress)
    });
    let path =
        measured.map(|known| u64::from(known.ingress.0.number()) << 32 | u64::from(known.egress.0.number()));
    let observation = Observation {
        direct: reported.direct,
        lost: reported.lost,
        repaired: reported.repaired(),
        forwarded: reported.forwarded,
        path,
        delays,
    };
    let supported = agent.services_for(flow, now);
    let is_allowed = |service: &&Service| CANDIDATES.allow(**service) && supported.allow(**service);
    let allowed = Service::ALL.iter().filter(is_allowed);
    let allowed = allowed.fold(Services::NONE, |all, service| all.with(*service));
    selector.select(&observation, (service, allowed), now)
}
