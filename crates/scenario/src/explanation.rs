//! Explanations of flows' services in a run, and what was measured after them.

use byway_plan::{PredictedTimes, Prediction};
use byway_proto::agent::Explanation;
use byway_units::{Duration, Time};
use serde::Serialize;

use crate::costs::cents;
use crate::delivery_counts::{DeliveryCounts, Quantiles, TimeHistogram, share};
use crate::record::PacketRecord;

/// Explanation of a flow's service, and what was measured from then on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExplanationOutcome {
    /// Name of the flow, which several flows may share.
    pub flow: String,
    /// Name of the sender's machine.
    pub from: String,
    /// Name of the receiver's machine.
    pub to: String,
    /// Service of the flow at that time.
    pub service: String,
    /// True if the sending agent chooses the service.
    pub is_automatic: bool,
    /// Measured loss of the direct path, as a share of packets.
    pub loss: f64,
    /// Prediction of each service; empty if delays were not known.
    pub predictions: Vec<PredictionOutcome>,
    /// Measured values of the flow from that time on.
    pub measured: MeasuredOutcome,
}

impl ExplanationOutcome {
    /// Returns the prediction of the service that the flow had; `None` if delays were not known.
    #[must_use]
    pub fn in_force(&self) -> Option<&PredictionOutcome> {
        self.predictions.iter().find(|known| known.service == self.service)
    }
}

/// Prediction of one service for a flow.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PredictionOutcome {
    /// Name of the service.
    pub service: String,
    /// Median of the time from sending to delivery of all packets that arrive, in milliseconds.
    pub p50_ms: Option<f64>,
    /// 95th percentile of that time.
    pub p95_ms: Option<f64>,
    /// Median of that time of packets that the direct path loses.
    pub repaired_p50_ms: Option<f64>,
    /// 95th percentile of that time of packets that the direct path loses.
    pub repaired_p95_ms: Option<f64>,
    /// Share of all packets that are lost for good or late.
    pub residual_loss: f64,
    /// Cost of the relays' bytes for an hour, in hundredths of the currency's unit.
    pub cents_per_hour: f64,
    /// Bytes that the sender sends in an hour.
    pub uplink_bytes_per_hour: u64,
    /// Bytes that relays send in an hour.
    pub relay_bytes_per_hour: u64,
}

/// Measured values of a flow after its explanation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct MeasuredOutcome {
    /// Packets that the application sent.
    pub sent: u64,
    /// Packets that the direct path lost.
    pub lost_direct: u64,
    /// Times from sending to delivery of all packets that arrived, in milliseconds; `None` without
    /// any.
    pub delay_ms: Option<Quantiles>,
    /// Times from sending to delivery of packets that the direct path lost; `None` without any.
    pub repaired_ms: Option<Quantiles>,
    /// Share of packets that were lost for good, or late.
    pub residual_loss: Option<f64>,
}

impl From<&Prediction> for PredictionOutcome {
    fn from(known: &Prediction) -> Self {
        let ms = |time: Option<Duration>| time.map(|time| time.as_secs_f64() * 1e3);
        let PredictedTimes { p50, p95 } = known.delivered;
        Self {
            service: known.service.name().to_owned(),
            p50_ms: ms(p50),
            p95_ms: ms(p95),
            repaired_p50_ms: ms(known.repaired.p50),
            repaired_p95_ms: ms(known.repaired.p95),
            residual_loss: known.residual.value(),
            cents_per_hour: cents(known.cost),
            uplink_bytes_per_hour: known.uplink.count(),
            relay_bytes_per_hour: known.relay_bytes.count(),
        }
    }
}

/// Explanation of a flow in a run, and the counts of packets that are sent from then on.
#[derive(Clone, Debug)]
pub(crate) struct ExplainedFlow {
    explanation: Explanation,
    at: Time,
    counts: DeliveryCounts,
    /// Times from sending to delivery of packets that the direct path lost.
    repaired: TimeHistogram,
}

impl ExplainedFlow {
    pub(crate) fn new(explanation: Explanation, at: Time) -> Self {
        Self { explanation, at, counts: DeliveryCounts::default(), repaired: TimeHistogram::default() }
    }

    /// Returns the memory of the histograms, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.counts.memory_bytes() + self.repaired.memory_bytes()
    }

    /// Records the repair of a packet, and returns the counts to which it belongs; `None` if it
    /// was sent before.
    pub(crate) fn record_repair_and_counts(&mut self, packet: &PacketRecord) -> Option<&mut DeliveryCounts> {
        if packet.sent < self.at {
            return None;
        }
        if let Some(delay) = packet.delay().filter(|_| packet.is_lost()) {
            self.repaired.push(delay);
        }
        Some(&mut self.counts)
    }

    /// Returns the explanation with the measured values, without names.
    pub(crate) fn outcome(&self) -> ExplanationOutcome {
        let Explanation { service, is_automatic, flow, predictions, .. } = &self.explanation;
        let counts = &self.counts;
        let sent = counts.sent - counts.in_flight;
        ExplanationOutcome {
            flow: String::new(),
            from: String::new(),
            to: String::new(),
            service: service.name().to_owned(),
            is_automatic: *is_automatic,
            loss: flow.loss.value(),
            predictions: predictions.iter().map(PredictionOutcome::from).collect(),
            measured: MeasuredOutcome {
                sent,
                lost_direct: counts.lost,
                delay_ms: counts.delays.quantiles(),
                repaired_ms: self.repaired.quantiles(),
                residual_loss: share(counts.late + counts.missing, sent),
            },
        }
    }
}
