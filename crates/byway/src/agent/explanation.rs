//! Explanations of a flow's service for people: all candidates, and what would change the choice.

use byway_api::{
    FlowExplanation, FlowList, FlowMeasurements, FlowSummary, ServiceChangeEntry, ServicePrediction,
};
use byway_plan::{Choice, Prediction, Rejection, Selector, ServiceChange};
use byway_proto::agent::{Explanation, SendFlowId, explain};
use byway_units::{Duration, Time};
use byway_wire::Service;

use super::explain_request::ExplainRequest;
use super::mappings::Mapping;
use super::status::{FlowView, path_reason};

impl FlowView<'_> {
    /// Answers a request. Returns the flow that was explained; `None` for other requests.
    pub(super) fn explain(&self, request: ExplainRequest, now: Time) -> Option<SendFlowId> {
        // The receiver may have been dropped.
        match request {
            ExplainRequest::List(answer) => drop(answer.send(self.flow_list())),
            ExplainRequest::Cost(answer) => drop(answer.send(self.costs())),
            ExplainRequest::Flow(id, answer) => {
                let mapping = self.mappings.iter().find(|(_, mapping)| self.flow_id(mapping) == id);
                drop(answer.send(mapping.map(|(_, mapping)| self.explanation(mapping, now))));
                return mapping.map(|(_, mapping)| mapping.sent);
            }
        }
        None
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
        let explanation = explain(self.agent, mapping.sent, now);
        let selector = self.agent.selector(mapping.sent);
        let log = selector.map(Selector::log);
        let changes = log.into_iter().flat_map(|log| log.changes().rev());
        let known = explanation.as_ref();
        let reason = |known| path_reason(self.agent, mapping.sent).unwrap_or_else(|| reason(selector, known));
        FlowExplanation {
            flow: self.flow_summary(mapping),
            reason: known.map_or_else(|| "closed".to_owned(), reason),
            latency_budget_ms: known.and_then(|known| known.criteria.budget).map_or(0.0, millis),
            residual_loss_max: known.map_or(0.0, |known| known.criteria.residual_max.value()),
            measured: known.map(|known| self.measurements(known)).unwrap_or_default(),
            candidates: known.map(candidates).unwrap_or_default(),
            would_change: known
                .map(|known| known.would_change.iter().map(ToString::to_string).collect())
                .unwrap_or_default(),
            changes: changes.map(|change| change_entry(change, now)).collect(),
        }
    }

    fn measurements(&self, explanation: &Explanation) -> FlowMeasurements {
        let Explanation { known, flow, basis, .. } = explanation;
        let currency = self.network_view.currency().filter(|_| explanation.are_costs_listed);
        FlowMeasurements {
            loss: flow.loss.value(),
            direct_ms: known.map(|known| millis(known.direct)),
            to_ingress_ms: known.map(|known| millis(known.to_ingress)),
            between_relays_ms: known.and_then(|known| known.between).map(millis),
            to_receiver_ms: known.and_then(|known| known.to_receiver).map(millis),
            ingress: known.map(|known| self.network_view.relay_name(known.ingress.0)),
            egress: known.map(|known| self.network_view.relay_name(known.egress.0)),
            rate_bits_per_second: flow.rate.bits_per_second(),
            packet_bytes: flow.packet.count(),
            prices: basis.to_string(),
            currency: currency.map(str::to_owned),
        }
    }
}

/// Returns the predictions for all services; none before delays are known.
fn candidates(explanation: &Explanation) -> Vec<ServicePrediction> {
    let Explanation { predictions, choice, .. } = explanation;
    let of_choice = choice.iter().flat_map(|choice| {
        predictions.iter().map(|known| ServicePrediction {
            is_in_force: known.service == explanation.service,
            why_not: why_not(known, choice, explanation.is_automatic),
            ..prediction(known)
        })
    });
    of_choice.collect()
}

fn prediction(known: &Prediction) -> ServicePrediction {
    #[allow(clippy::cast_precision_loss, reason = "cents for people have a few digits")]
    let cents_per_hour = known.cost.nanodollars() as f64 / 1e7;
    let ms = |time: Option<Duration>| time.map(millis);
    ServicePrediction {
        service: known.service.name().to_owned(),
        is_in_force: false,
        p50_ms: ms(known.delivered.p50),
        p95_ms: ms(known.delivered.p95),
        repaired_p50_ms: ms(known.repaired.p50),
        repaired_p95_ms: ms(known.repaired.p95),
        residual_loss: known.residual.value(),
        cents_per_hour,
        uplink_bytes_per_hour: known.uplink.count(),
        relay_bytes_per_hour: known.relay_bytes.count(),
        why_not: None,
    }
}

fn why_not(known: &Prediction, choice: &Choice, is_automatic: bool) -> Option<String> {
    let total = choice.candidates.iter().find(|one| one.cost.service == known.service);
    let total = total.map(|candidate| candidate.cost.total());
    let reason = match known.rejected {
        None if known.service == choice.service => return None,
        None if total > Some(choice.cost().total()) => "costs more",
        None => "slower for the same cost",
        Some(Rejection::NotAllowed) if known.service == Service::Internet => "only if named: repairs nothing",
        Some(Rejection::NotAllowed) if is_automatic => "no candidate of auto, or not supported",
        Some(Rejection::NotAllowed) => "not supported by both ends",
        Some(rejection) => return Some(rejection.to_string()),
    };
    Some(reason.to_owned())
}

fn reason(selector: Option<&Selector>, explanation: &Explanation) -> String {
    let Explanation { choice, service, basis, .. } = explanation;
    let selection = selector.map(Selector::selection);
    match (selection, choice) {
        (None, Some(choice)) if choice.service != *service => {
            format!("named in the settings; auto would choose {}: {}", choice.service.name(), choice.reason)
        }
        (None, _) => "named in the settings".to_owned(),
        (Some(Some(selection)), _) if selection.service == *service => {
            format!("{}, by {basis}", selection.reason)
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
