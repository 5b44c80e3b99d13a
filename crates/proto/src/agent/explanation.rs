//! Explanations of a sent flow's service: the facts, the prediction for each service, and what
//! would change the choice.

use alloc::vec::Vec;

use byway_plan::{
    Choice, Criteria, FlowTerms, MessageOverhead, Prediction, PredictionTerms, PriceBasis, Prices,
    SegmentPrices, UsageTerms, WhatIf, choose, repairs_within, what_if,
};
use byway_units::{Bytes, Duration, Probability, Rate, Time};
use byway_wire::{Service, Services};

use super::Agent;
use super::detection::{Pace, dispersion};
use super::selection::{FlowDelays, criteria, delays};
use super::send_flow::{SendFlow, SendFlowId};
use super::sent_usage::SentUsage;
use super::service_selection::selectable_services;
use crate::limits::DELAY_ASK_INTERVAL;

/// Shortest time over which the rate of a flow is a mean: one packet alone has no rate.
const RATE_TIME_MIN: Duration = Duration::from_secs(1);

/// Explanation of a sent flow's service.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Explanation {
    /// Service of the flow now.
    pub service: Service,
    /// True if this agent chooses the service.
    pub is_automatic: bool,
    /// Measured delays; `None` without a direct path or a relay path that is measured.
    pub known: Option<FlowDelays>,
    /// Flow as it was measured: mean rate and packet length since its first packet, and the loss of
    /// its direct path.
    pub flow: FlowTerms,
    /// Criteria of the choice. If the settings name the service, all are allowed that both ends
    /// support.
    pub criteria: Criteria,
    /// Prices by which services are compared.
    pub basis: PriceBasis,
    /// True if the costs are by the prices of both relays; otherwise, they are nominal.
    pub are_costs_listed: bool,
    /// Comparison of all services, and its result; `None` before delays are known.
    pub choice: Option<Choice>,
    /// Prediction of each service, in the order of [`Service::ALL`]; empty before delays are known.
    pub predictions: Vec<Prediction>,
    /// Circumstances that would change the choice.
    pub would_change: Vec<WhatIf>,
}

/// Explains the service of a sent flow; `None` if the flow was closed.
#[must_use]
pub fn explain(agent: &Agent, flow: SendFlowId, now: Time) -> Option<Explanation> {
    let latency_budget = agent.senders.get(flow.0)?.settings.latency_budget;
    let known = agent.flow_delays(flow);
    let relays = known.map(|known| (known.ingress.0, known.egress.0));
    let (compared, basis) = relays.map_or_else(
        || (Prices::nominal(), PriceBasis::Nominal),
        |(ingress, egress)| agent.relay_prices().compared(ingress, egress),
    );
    let listed = relays.and_then(|(ingress, egress)| agent.relay_prices().segments(ingress, egress));
    let is_automatic = agent.selector(flow).is_some();
    let allowed = explained_services(agent, flow, is_automatic, now);
    let criteria = Criteria { allowed, ..criteria(latency_budget) };
    let terms = measured_terms(agent, flow, now);
    let mut explanation = Explanation {
        service: agent.senders.get(flow.0)?.service(),
        is_automatic,
        known,
        flow: terms,
        criteria,
        basis,
        are_costs_listed: listed.is_some(),
        choice: None,
        predictions: Vec::new(),
        would_change: Vec::new(),
    };
    if let Some(known) = known {
        let sent = agent.senders.get(flow.0)?;
        let pace = Pace::of(&sent.usage, sent.newest_report(), known.detection, now);
        let at = |share| pace.detect(delays(known), share, latency_budget);
        let delays = at(0.95);
        let choice = choose(&terms, &compared, Some(&delays), &criteria);
        let terms_of_prediction = PredictionTerms {
            flow: terms,
            median: at(0.5),
            delays,
            delays_of_all: at(repairs_within(0.95, terms.loss)),
            usage: UsageTerms {
                is_one_relay: known.ingress.0 == known.egress.0,
                has_hints: pace.has_hints(),
                silent_share: pace.noticed(&delays),
                burst: pace.burst(),
                flows: flows_on_path_of(agent, flow),
                delay_requests_per_hour: if is_automatic { requests_in_an_hour() } else { 0 },
            },
            prices: listed.unwrap_or_else(SegmentPrices::nominal),
        };
        let predict = |candidate| Prediction::new(candidate, &terms_of_prediction);
        explanation.predictions = choice.candidates.iter().map(predict).collect();
        explanation.would_change = what_if(&terms, &compared, &delays, &criteria, &choice);
        explanation.choice = Some(choice);
    }
    Some(explanation)
}

/// Returns the services that an explanation compares. Nobody asked for the direct path alone,
/// and a service of the settings limits no explanation. If the agent selects the service, its
/// candidates are compared.
fn explained_services(agent: &Agent, flow: SendFlowId, is_automatic: bool, now: Time) -> Services {
    let supported =
        if is_automatic { selectable_services(agent, flow, now) } else { agent.services_for(flow, now) };
    let considered = if is_automatic { criteria(Duration::ZERO).allowed } else { Services::ALL };
    let considered = considered.without(Service::Internet);
    let both =
        Service::ALL.iter().filter(|service| considered.allow(**service) && supported.allow(**service));
    both.fold(Services::NONE, |all, service| all.with(*service))
}

/// Returns the number of requests in an hour for the delay between the relays of a flow whose
/// service the agent selects.
fn requests_in_an_hour() -> u32 {
    let count = Duration::from_secs(3_600).as_nanos() / DELAY_ASK_INTERVAL.as_nanos();
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Returns the number of flows with packets that share the sessions of a flow's relay path.
fn flows_on_path_of(agent: &Agent, flow: SendFlowId) -> u32 {
    let path = |flow: &SendFlow| {
        let path = flow.settings.paths.get(flow.registrations.in_use())?;
        Some((path.ingress, path.egress, flow.peer))
    };
    let Some(own) = agent.senders.get(flow.0).and_then(path) else {
        return 1;
    };
    let sharing =
        agent.senders.iter().filter(|(_, other)| other.usage.began.is_some() && path(other) == Some(own));
    u32::try_from(sharing.count()).unwrap_or(u32::MAX)
}

/// Returns a flow as it was measured.
fn measured_terms(agent: &Agent, flow: SendFlowId, now: Time) -> FlowTerms {
    let SentUsage { began, source, .. } = agent.sent_usage(flow).unwrap_or_default();
    let bytes = agent.sent_ip_bytes(flow, source);
    let packet = bytes.checked_div(source.packets).unwrap_or_default();
    let lasting = began.map_or(Duration::ZERO, |began| now.saturating_since(began)).max(RATE_TIME_MIN);
    let rate = u128::from(bytes) * 8 * 1_000_000_000 / u128::from(lasting.as_nanos());
    let selected = agent.selector(flow).and_then(|selector| selector.log().latest());
    FlowTerms {
        rate: Rate::from_bits_per_second(u64::try_from(rate).unwrap_or(u64::MAX)),
        packet: Bytes::new(packet),
        loss: measured_loss(agent, flow, rate / 8 / u128::from(packet.max(1))),
        loss_of_others: selected.and_then(|latest| latest.flow.loss_of_others),
        relay_loss: selected.map_or_else(|| relay_loss(agent, flow), |latest| latest.flow.relay_loss),
        cross_stream: selected.and_then(|latest| latest.flow.cross_stream),
        in_stream: None,
        messages: MessageOverhead::Counted,
    }
}

/// Returns the mean loss of the relay path of a flow whose settings name forwarding; `None` with
/// another service, and before the first packet.
fn relay_loss(agent: &Agent, flow: SendFlowId) -> Option<Probability> {
    let is_named = agent.selector(flow).is_none();
    let service = agent.senders.get(flow.0).map(|sent| sent.settings.service);
    let totals = agent.reported_totals(flow)?;
    let missed = totals.lost.saturating_sub(totals.repaired());
    let mean = Probability::from_ratio(missed, totals.lost + totals.direct + totals.forwarded);
    mean.filter(|_| is_named && service == Some(Service::Forwarding))
}

/// Returns the loss of a flow's direct path: the mean since the flow's first packet, unless the
/// latest minute differs by more than chance. Losses are rare, so the longer time is the better
/// sample. `packets` is the number of packets in a second.
fn measured_loss(agent: &Agent, flow: SendFlowId, packets: u128) -> Probability {
    let totals = agent.reported_totals(flow).unwrap_or_default();
    let lost = totals.lost + totals.covered;
    // While relays alone forward the flow, few packets show a loss of the direct path.
    let is_sampled = agent.senders.get(flow.0).is_some_and(|sent| sent.settings.has_direct_samples());
    let mean = Probability::from_ratio(lost, totals.lost + totals.direct + totals.forwarded);
    let mean = mean.filter(|_| !is_sampled);
    let selected = agent.selector(flow).and_then(|selector| selector.log().latest());
    let recent = selected.map(|latest| latest.flow.loss);
    let (Some(mean), Some(recent)) = (mean, recent) else {
        return recent.or(mean).unwrap_or(Probability::ZERO);
    };
    let count = f64::from(u32::try_from(packets * 60).unwrap_or(u32::MAX)).max(1.0);
    let difference = mean.value() - recent.value();
    let report = agent.senders.get(flow.0).and_then(SendFlow::newest_report);
    // Three standard deviations.
    let is_chance = difference * difference <= 9.0 * dispersion(report) * mean.value() / count;
    if is_chance { mean } else { recent }
}
