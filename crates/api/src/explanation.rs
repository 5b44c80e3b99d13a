//! Explanations of a flow's service.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The flows that an agent sends.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FlowList {
    /// The flows, by the peer's name and the flow's number.
    pub flows: Vec<FlowSummary>,
}

/// A flow that an agent sends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FlowSummary {
    /// Identifier of the flow: the peer's name, a colon and the flow's number, as in `bob:7`.
    pub id: String,
    /// Name that the agent with the target exposes.
    pub to: String,
    /// Service of the flow.
    pub service: String,
    /// True if the agent chooses the service.
    pub is_automatic: bool,
}

/// Explanation of a flow's service: what was measured, every candidate, and what would change the
/// choice.
///
/// Costs are of relays' bytes at the prices of the next bytes, and of nothing else. Delays are of
/// the measured half round trips.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FlowExplanation {
    /// The flow, and its service.
    #[serde(flatten)]
    pub flow: FlowSummary,
    /// Reason for the service.
    pub reason: String,
    /// Latency budget of the flow in milliseconds.
    pub latency_budget_ms: f64,
    /// Largest share of packets that may be lost or late.
    pub residual_loss_max: f64,
    /// Measurements by which the candidates were predicted.
    pub measured: FlowMeasurements,
    /// Predictions for every service; empty while delays are not measured.
    pub candidates: Vec<ServicePrediction>,
    /// Circumstances under which another service would be the cheapest competent one.
    pub would_change: Vec<String>,
    /// Last changes of the service, the latest first.
    pub changes: Vec<ServiceChangeEntry>,
}

/// Measurements of a flow and its paths.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FlowMeasurements {
    /// Share of packets that the direct path loses; assumed until enough packets were sent.
    pub loss: f64,
    /// Delay of the direct path in milliseconds; absent before it is measured.
    pub direct_ms: Option<f64>,
    /// Delay to the ingress relay in milliseconds; absent before it is measured.
    pub to_ingress_ms: Option<f64>,
    /// Delay between the relays in milliseconds; absent before it is measured, and then assumed.
    pub between_relays_ms: Option<f64>,
    /// Delay from the egress relay to the receiver in milliseconds; absent before it is measured,
    /// and then assumed.
    pub to_receiver_ms: Option<f64>,
    /// Name of the ingress relay in use; absent without one.
    pub ingress: Option<String>,
    /// Name of the egress relay in use; absent without one.
    pub egress: Option<String>,
    /// Mean rate of the flow since its first packet, in bits per second of IP packets.
    pub rate_bits_per_second: u64,
    /// Mean length of the flow's packets in bytes, headers of IP included.
    pub packet_bytes: u64,
    /// Prices of the comparison: `list prices` or `nominal prices`.
    pub prices: String,
    /// Currency of the costs; absent if the prices are nominal.
    pub currency: Option<String>,
}

/// Prediction of a service for a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ServicePrediction {
    /// Name of the service.
    pub service: String,
    /// True if the flow has this service.
    pub is_in_force: bool,
    /// Median of the time from sending to delivery of all packets that arrive, in milliseconds;
    /// absent if fewer than half arrive.
    pub p50_ms: Option<f64>,
    /// 95th percentile of that time.
    pub p95_ms: Option<f64>,
    /// Median of the time from sending to delivery of packets that the direct path loses; absent if
    /// they are lost for good.
    pub repaired_p50_ms: Option<f64>,
    /// 95th percentile of that time.
    pub repaired_p95_ms: Option<f64>,
    /// Share of all packets that are lost for good or late.
    pub residual_loss: f64,
    /// Cost of the relays' bytes for an hour of the flow, in hundredths of the currency's unit.
    pub cents_per_hour: f64,
    /// Bytes that the sender sends in an hour of the flow.
    pub uplink_bytes_per_hour: u64,
    /// Bytes that relays send in an hour of the flow.
    pub relay_bytes_per_hour: u64,
    /// Reason against the service; absent for the one that would be chosen.
    pub why_not: Option<String>,
}

/// Change of a flow's service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ServiceChangeEntry {
    /// Seconds since the change.
    pub seconds_ago: u64,
    /// Service before.
    pub from: String,
    /// Service after.
    pub to: String,
    /// Reason for the choice.
    pub reason: String,
}
