//! Explanations of a flow's service for people: all candidates, and what would change the choice.

use std::net::Ipv4Addr;

use byway_api::{
    FlowExplanation, FlowList, FlowMeasurements, FlowSummary, ServiceChangeEntry, ServicePrediction,
};
use byway_plan::{
    Candidate, Choice, Criteria, Delays, FlowTerms, MessageOverhead, PriceBasis, Prices, Rejection, Selector,
    ServiceChange, choose, cost, relay_bytes, what_if,
};
use byway_proto::agent::{Agent, FlowDelays, PacketCount, SentUsage};
use byway_proto::conventions::ip_bytes;
use byway_units::{Bytes, Duration, Probability, Rate, Time};
use byway_wire::{Service, Services};

use super::explain_request::ExplainRequest;
use super::mappings::Mapping;
use super::status::FlowView;

/// Facts about a flow on which its candidates rest.
struct FlowFacts {
    service: Service,
    /// True if the agent chooses the service.
    is_automatic: bool,
    known: Option<FlowDelays>,
    /// Flow with its measured rate, packet length and loss.
    flow: FlowTerms,
    criteria: Criteria,
    /// Prices of the comparison, and what they are.
    compared: (Prices, PriceBasis),
    /// Prices of the costs, and their currency if they are of lists.
    costs: (Prices, Option<String>),
}

impl FlowView<'_> {
    pub(super) fn explain(&self, request: ExplainRequest, now: Time) {
        // The receiver may have been dropped.
        match request {
            ExplainRequest::List(answer) => drop(answer.send(self.flow_list())),
            ExplainRequest::Cost(answer) => drop(answer.send(self.costs())),
            ExplainRequest::Flow(id, answer) => {
                let mapping = self.mappings.iter().find(|(_, mapping)| self.flow_id(mapping) == id);
                drop(answer.send(mapping.map(|(_, mapping)| self.explanation(mapping, now))));
            }
        }
    }

    fn flow_list(&self) -> FlowList {
        let mut flows: Vec<FlowSummary> =
            self.mappings.iter().map(|(_, mapping)| self.flow_summary(mapping)).collect();
        flows.sort_by(|one, other| one.id.cmp(&other.id));
        FlowList { flows }
    }

    pub(super) fn flow_id(&self, mapping: &Mapping) -> String {
        format!("{}:{}", self.network_view.name_of(mapping.peer), mapping.flow.number())
    }

    fn flow_summary(&self, mapping: &Mapping) -> FlowSummary {
        FlowSummary {
            id: self.flow_id(mapping),
            to: (self.subject_of)(mapping),
            service: self.service_of(mapping).name().to_owned(),
            is_automatic: self.agent.selector(mapping.sent).is_some(),
        }
    }

    pub(super) fn service_of(&self, mapping: &Mapping) -> Service {
        self.agent.flow_status(mapping.sent).map_or(Service::Internet, |flow| flow.service)
    }

    fn explanation(&self, mapping: &Mapping, now: Time) -> FlowExplanation {
        let facts = self.facts(mapping, now);
        let delays = self.agent.predicted_delays(mapping.sent);
        let FlowFacts { flow, criteria, .. } = &facts;
        let prices = &facts.compared.0;
        let choice = delays.map(|delays| choose(flow, prices, Some(&delays), criteria));
        let would_change = delays.zip(choice.as_ref());
        let would_change =
            would_change.map(|(delays, choice)| what_if(flow, prices, &delays, criteria, choice));
        let selector = self.agent.selector(mapping.sent);
        let log = selector.map(Selector::log);
        let changes = log.into_iter().flat_map(|log| log.changes().rev());
        FlowExplanation {
            flow: self.flow_summary(mapping),
            reason: reason(selector, &facts, choice.as_ref()),
            latency_budget_ms: millis(mapping.budget),
            residual_loss_max: criteria.residual_max.value(),
            measured: self.measurements(&facts),
            candidates: delays.zip(choice.as_ref()).map_or_else(Vec::new, |(delays, choice)| {
                choice.candidates.iter().map(|known| facts.prediction(known, &delays, choice)).collect()
            }),
            would_change: would_change.iter().flatten().map(ToString::to_string).collect(),
            changes: changes.map(|change| change_entry(change, now)).collect(),
        }
    }

    fn facts(&self, mapping: &Mapping, now: Time) -> FlowFacts {
        let known = self.agent.flow_delays(mapping.sent);
        let nominal = || (Prices::nominal(), PriceBasis::Nominal);
        let relays = known.as_ref().map(|known| (known.ingress.0, known.egress.0));
        let listed = relays.and_then(|(ingress, egress)| self.agent.relay_prices().between(ingress, egress));
        let supported = self.agent.services_for(mapping.sent, now);
        let criteria = Agent::selection_criteria(mapping.budget);
        let is_automatic = self.agent.selector(mapping.sent).is_some();
        // Nobody asked for the direct path alone, and a settings' service limits no explanation.
        let allowed = if is_automatic { criteria.allowed } else { Services::ALL };
        let allowed = allowed.without(Service::Internet);
        let both =
            Service::ALL.iter().filter(|service| allowed.allow(**service) && supported.allow(**service));
        let allowed = both.fold(Services::NONE, |all, service| all.with(*service));
        FlowFacts {
            service: self.service_of(mapping),
            is_automatic,
            known,
            flow: self.flow_terms(mapping, now),
            criteria: Criteria { allowed, ..criteria },
            compared: relays.map_or_else(nominal, |(ingress, egress)| {
                self.agent.relay_prices().compared(ingress, egress)
            }),
            costs: listed.map_or_else(
                || (Prices::nominal(), None),
                |prices| (prices, self.network_view.currency().map(str::to_owned)),
            ),
        }
    }

    /// Returns the flow as it was measured: mean rate and packet length since its first packet, and
    /// the loss of its direct path.
    fn flow_terms(&self, mapping: &Mapping, now: Time) -> FlowTerms {
        let SentUsage { began, source, .. } = self.agent.sent_usage(mapping.sent).unwrap_or_default();
        let bytes = self.ip_bytes(mapping, source);
        let packet = bytes.checked_div(source.packets).unwrap_or_default();
        // A flow of one packet has no rate yet.
        let lasting =
            began.map_or(Duration::ZERO, |began| now.saturating_since(began)).max(Duration::from_secs(1));
        let rate = u128::from(bytes) * 8 * 1_000_000_000 / u128::from(lasting.as_nanos());
        let selected = self.agent.selector(mapping.sent).and_then(|selector| selector.log().latest());
        let reported = || {
            let totals = self.agent.reported_totals(mapping.sent)?;
            Probability::from_ratio(totals.lost, totals.lost + totals.direct)
        };
        FlowTerms {
            rate: Rate::from_bits_per_second(u64::try_from(rate).unwrap_or(u64::MAX)),
            packet: Bytes::new(packet),
            loss: selected.map(|latest| latest.flow.loss).or_else(reported).unwrap_or(Probability::ZERO),
            loss_of_others: selected.and_then(|latest| latest.flow.loss_of_others),
            cross_stream: selected.and_then(|latest| latest.flow.cross_stream),
            in_stream: None,
            messages: MessageOverhead::Counted,
        }
    }

    /// Returns the bytes of packets with their headers of UDP and IP.
    pub(super) fn ip_bytes(&self, mapping: &Mapping, count: PacketCount) -> u64 {
        let unknown = (Ipv4Addr::UNSPECIFIED, 0).into();
        let headers = ip_bytes(&[], self.agent.sent_address(mapping.sent).unwrap_or(unknown));
        count.bytes + count.packets * headers.count()
    }

    fn measurements(&self, facts: &FlowFacts) -> FlowMeasurements {
        let known = facts.known.as_ref();
        FlowMeasurements {
            loss: facts.flow.loss.value(),
            direct_ms: known.map(|known| millis(known.direct)),
            to_ingress_ms: known.map(|known| millis(known.to_ingress)),
            ingress: known.map(|known| self.network_view.relay_name(known.ingress.0)),
            egress: known.map(|known| self.network_view.relay_name(known.egress.0)),
            rate_bits_per_second: facts.flow.rate.bits_per_second(),
            packet_bytes: facts.flow.packet.count(),
            prices: facts.compared.1.to_string(),
            currency: facts.costs.1.clone(),
        }
    }
}

impl FlowFacts {
    fn prediction(&self, known: &Candidate, delays: &Delays, choice: &Choice) -> ServicePrediction {
        let service = known.cost.service;
        let cost = cost(service, &self.flow, &self.costs.0);
        let [between, to_receiver] = relay_bytes(service, &self.flow);
        let is_one_relay = self.known.as_ref().is_some_and(|known| known.ingress.0 == known.egress.0);
        let between = if is_one_relay { Bytes::ZERO } else { between };
        #[allow(clippy::cast_precision_loss, reason = "cents for people have a few digits")]
        let cents_per_hour = cost.relays().nanodollars() as f64 / 1e7;
        ServicePrediction {
            service: service.name().to_owned(),
            is_in_force: service == self.service,
            p50_ms: percentile(0.5, service, self.flow.loss, delays).map(millis),
            p95_ms: percentile(0.95, service, self.flow.loss, delays).map(millis),
            repaired_ms: known.delivery.map(millis),
            residual_loss: known.residual.value(),
            cents_per_hour,
            uplink_bytes_per_hour: cost.endpoints.sender_sends.count(),
            relay_bytes_per_hour: between.saturating_add(to_receiver).count(),
            why_not: why_not(known, choice, self.is_automatic),
        }
    }
}

/// Returns the time within which this share of the delivered packets arrive; `None` if that many do
/// not.
fn percentile(share: f64, service: Service, loss: Probability, delays: &Delays) -> Option<Duration> {
    match service {
        Service::Forwarding | Service::Both => delays.delivery(service),
        _ if loss.value() <= 1.0 - share => Some(delays.direct),
        _ => delays.delivery(service),
    }
}

fn why_not(known: &Candidate, choice: &Choice, is_automatic: bool) -> Option<String> {
    let reason = match known.rejected {
        None if known.cost.service == choice.service => return None,
        None if known.cost.total() > choice.cost().total() => "costs more",
        None => "slower for the same cost",
        Some(Rejection::NotAllowed) if known.cost.service == Service::Internet => {
            "only if named: repairs nothing"
        }
        Some(Rejection::NotAllowed) if is_automatic => "no candidate of auto, or not supported",
        Some(Rejection::NotAllowed) => "not supported by both ends",
        Some(rejection) => return Some(rejection.to_string()),
    };
    Some(reason.to_owned())
}

fn reason(selector: Option<&Selector>, facts: &FlowFacts, choice: Option<&Choice>) -> String {
    let selection = selector.map(Selector::selection);
    match (selection, choice) {
        (None, Some(choice)) if choice.service != facts.service => {
            format!("named in the settings; auto would choose {}: {}", choice.service.name(), choice.reason)
        }
        (None, _) => "named in the settings".to_owned(),
        (Some(Some(selection)), _) if selection.service == facts.service => {
            format!("{}, by {}", selection.reason, facts.compared.1)
        }
        (Some(_), None) => "first service, until the delays of both paths are measured".to_owned(),
        (Some(_), Some(_)) => "first service, until the choice has settled".to_owned(),
    }
}

fn change_entry(change: &ServiceChange, now: Time) -> ServiceChangeEntry {
    ServiceChangeEntry {
        seconds_ago: now.saturating_since(change.at).as_micros() / 1_000_000,
        from: change.from.name().to_owned(),
        to: change.to.name().to_owned(),
        reason: change.reason.to_string(),
    }
}

#[allow(clippy::cast_precision_loss, reason = "microseconds of a delay are far below 2^53")]
fn millis(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_direct_path_until_it_loses_too_much() {
        let ms = Duration::from_millis;
        let delays = Delays { detection: ms(25), ..Delays::from_measured(ms(50), ms(10), false) };
        let of = |share, service, loss| {
            percentile(share, service, Probability::new(loss).expect("a share"), &delays)
        };
        assert_eq!(of(0.95, Service::Caching, 0.05), Some(ms(50)));
        assert_eq!(of(0.95, Service::Caching, 0.06), Some(ms(95)));
        assert_eq!(of(0.5, Service::Caching, 0.06), Some(ms(50)));
        assert_eq!(of(0.95, Service::Internet, 0.06), None);
        assert_eq!(of(0.5, Service::Forwarding, 0.0), Some(ms(70)));
    }
}
