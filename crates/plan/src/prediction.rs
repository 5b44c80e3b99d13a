//! Predictions of what a service does for a flow: delivery times, residual loss, bytes and costs.

use byway_units::{Bytes, Duration, Money, Probability};
use byway_wire::Service;

use crate::choice::{Candidate, Rejection};
use crate::delay::Delays;
use crate::flow::{FlowTerms, HOUR};
use crate::path_usage::{PathUsage, UsageTerms};
use crate::price_table::SegmentPrices;

/// Median and 95th percentile of predicted times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PredictedTimes {
    /// Median; `None` if fewer than half of the packets have such a time.
    pub p50: Option<Duration>,
    /// 95th percentile; `None` if fewer packets have such a time.
    pub p95: Option<Duration>,
}

/// Prediction of one service for a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prediction {
    /// Service of the prediction.
    pub service: Service,
    /// Times from sending to delivery of all packets that are delivered.
    pub delivered: PredictedTimes,
    /// Times from sending to delivery of packets that the direct path loses; none if the service
    /// does not deliver them.
    pub repaired: PredictedTimes,
    /// Share of all packets that are lost for good, or late.
    pub residual: Probability,
    /// Cost of the relays' bytes in an hour.
    pub cost: Money,
    /// Bytes that the sender sends in an hour.
    pub uplink: Bytes,
    /// Bytes that both relays send in an hour.
    pub relay_bytes: Bytes,
    /// Reason for which the service is rejected; `None` for a competent one.
    pub rejected: Option<Rejection>,
}

/// Facts on which predictions for a flow rest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PredictionTerms {
    /// Flow with its rate, packet length and loss.
    pub flow: FlowTerms,
    /// Delays with the time to detect half of the losses.
    pub median: Delays,
    /// Delays with the time to detect 95 % of the losses.
    pub delays: Delays,
    /// Delays with the time to detect the share of losses of [`repairs_within`] at 95 %.
    pub delays_of_all: Delays,
    /// Facts on which the bytes depend.
    pub usage: UsageTerms,
    /// Prices of the relays.
    pub prices: SegmentPrices,
}

impl Prediction {
    /// Predicts a service that was compared with others as this candidate.
    #[must_use]
    pub fn new(known: &Candidate, terms: &PredictionTerms) -> Self {
        let service = known.cost.service;
        let PredictionTerms { flow, median, delays, delays_of_all, usage, prices } = terms;
        let path = PathUsage::new(service, flow, usage);
        let source = flow.rate.bytes_in(HOUR).unwrap_or(Bytes::MAX);
        let direct = if service == Service::Forwarding { Bytes::ZERO } else { source };
        Self {
            service,
            delivered: PredictedTimes {
                p50: delivered_percentile(0.5, service, flow.loss, median),
                p95: delivered_percentile(0.95, service, flow.loss, delays_of_all),
            },
            repaired: PredictedTimes { p50: repaired(service, median), p95: repaired(service, delays) },
            residual: known.residual,
            cost: path.cost(prices),
            uplink: direct.saturating_add(path.sender_to_ingress),
            relay_bytes: path.relays_send(),
            rejected: known.rejected,
        }
    }
}

/// Returns the share of lost packets that have to be repaired for this share of all packets to
/// arrive: 0 if the direct path delivers that many.
#[must_use]
pub fn repairs_within(share: f64, loss: Probability) -> f64 {
    let direct = 1.0 - loss.value();
    if share > direct { (share - direct) / loss.value() } else { 0.0 }
}

/// Returns the time from sending to delivery of a packet that the direct path loses; `None` if it
/// is lost for good.
fn repaired(service: Service, delays: &Delays) -> Option<Duration> {
    match service {
        Service::Both => Some(delays.relayed()),
        _ => delays.delivery(service),
    }
}

/// Returns the time within which this share of the delivered packets arrive; `None` if that many do
/// not.
fn delivered_percentile(
    share: f64,
    service: Service,
    loss: Probability,
    delays: &Delays,
) -> Option<Duration> {
    match service {
        Service::Forwarding => delays.delivery(service),
        Service::Internet => Some(delays.direct),
        _ if loss.value() > 1.0 - share => repaired(service, delays),
        Service::Both => delays.delivery(service),
        _ => Some(delays.direct),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_direct_path_until_it_loses_too_much() {
        let ms = Duration::from_millis;
        let delays = Delays { detection: ms(25), ..Delays::from_measured(ms(50), ms(10), false) };
        let of = |share, service, loss| {
            delivered_percentile(share, service, Probability::new(loss).expect("a share"), &delays)
        };
        assert_eq!(of(0.95, Service::Caching, 0.05), Some(ms(50)));
        assert_eq!(of(0.95, Service::Caching, 0.06), Some(ms(95)));
        assert_eq!(of(0.5, Service::Caching, 0.06), Some(ms(50)));
        assert_eq!(of(0.95, Service::Internet, 0.06), Some(ms(50)), "of those that arrive");
        assert_eq!(of(0.5, Service::Forwarding, 0.0), Some(ms(70)));
        assert_eq!(of(0.95, Service::Both, 0.05), Some(ms(50)));
        assert_eq!(repaired(Service::Both, &delays), Some(ms(70)), "the direct path lost its copy");
        let share = |loss| repairs_within(0.95, Probability::new(loss).expect("a share"));
        assert!(share(0.05) < 1e-9 && (share(0.07) - 2.0 / 7.0).abs() < 1e-9 && share(0.0) < 1e-9);
    }
}
