//! Registration of flows by an application.

use alloc::string::String;

use byway_proto::CodingRates;
use byway_proto::agent::{Duplication, RedundancyMode, Terms, Traffic, initial_service};
use byway_units::{Duration, Rate};
use byway_wire::{BlockShape, Service};
use thiserror::Error;

/// Selection of the service for a flow: by the client, or by the application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServiceSelector {
    /// Cheapest service that repairs the losses within the latency budget, selected again and again
    /// while the flows are open. Each end selects the service of the flow that it sends. Both paths
    /// until the first measurements; caching for flows of which the relay does not get all packets.
    #[default]
    Automatic,
    /// Service that the application names.
    Service(Service),
}

/// An application's request for a pair of flows, one in each direction.
#[derive(Clone, Copy, Debug)]
pub struct Registration {
    /// Latency budget from sending to delivery, 1 ms to 10 s. Repairs that arrive later count as
    /// lost.
    pub latency_budget: Duration,
    /// Service of the flow that this end sends, or its automatic selection.
    pub choice: ServiceSelector,
    /// Code rates of the flow that this end sends, if its service is coding.
    pub rates: CodingRates,
    /// Rule for the number of repair packets of that flow, if its service is coding.
    pub redundancy: RedundancyMode,
    /// True if relays may code the flows with those of other tenants that agree as well. It has an
    /// effect only if the service is coding. The number of repair packets is then fixed.
    pub coded_with_other_tenants: bool,
    /// Upper bound of each flow's rate, at least 1 kbit/s.
    pub rate: Rate,
    /// Kind of traffic, which determines the copies and the order of deliveries.
    pub traffic: Traffic,
    /// Packets of which this end sends copies to its relay. With [`Duplication::Marked`]: those
    /// sent as marked.
    pub duplication: Duplication,
}

impl Default for Registration {
    /// The defaults of a forward of `byway agent`, with a latency budget of 250 ms.
    fn default() -> Self {
        Self {
            latency_budget: Duration::from_millis(250),
            choice: ServiceSelector::Automatic,
            rates: CodingRates { in_stream: BlockShape::new(16, 1), batch: BlockShape::new(8, 2) },
            redundancy: RedundancyMode::Fixed,
            coded_with_other_tenants: false,
            rate: Rate::from_megabits_per_second(4),
            traffic: Traffic::Datagrams,
            duplication: Duplication::Usual,
        }
    }
}

impl Registration {
    /// Returns the terms of the flow that this end sends. Without relays between the two ends, the
    /// service is the Internet alone, unless the application names another one.
    pub(crate) fn terms(&self, has_relays: bool) -> Result<Terms, RegisterError> {
        let Self { latency_budget, choice, rates, redundancy, rate, traffic, duplication, .. } = *self;
        let (service, automatic_service) = match choice {
            ServiceSelector::Service(service) => (service, false),
            ServiceSelector::Automatic if has_relays => (initial_service(traffic, duplication), true),
            ServiceSelector::Automatic => (Service::Internet, false),
        };
        if !(Duration::from_millis(1)..=Duration::from_secs(10)).contains(&latency_budget) {
            return Err(RegisterError::BudgetOutOfRange(latency_budget));
        }
        if rate.bits_per_second() < 1_000 {
            return Err(RegisterError::RateOutOfRange(rate));
        }
        if !rates.is_within_limits() {
            return Err(RegisterError::TooManyRepairs);
        }
        Ok(Terms {
            service,
            rates,
            redundancy,
            rate,
            latency_budget,
            duplication,
            traffic,
            shares: self.coded_with_other_tenants,
            automatic_service,
            latency: None,
        })
    }
}

/// Reason for which a registration failed. Either the application or the network's description is
/// at fault.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The peer is not in the network, or not paired with this agent.
    #[error("{0} is not a peer of this agent: add a pair of the two to the network")]
    UnknownPeer(String),
    /// The exposed name is too long.
    #[error("name of {0} bytes too long: use at most 251")]
    NameTooLong(usize),
    /// The latency budget is out of range.
    #[error("latency budget {0} out of range: 1 ms to 10 s")]
    BudgetOutOfRange(Duration),
    /// The rate is less than 1 kbit/s.
    #[error("rate {0} too low: at least 1 kbit/s")]
    RateOutOfRange(Rate),
    /// The code rates have more repair packets than relays store.
    #[error("too many repair packets of a block or batch: see BATCH_REPAIRS_MAX")]
    TooManyRepairs,
    /// The client, or its agent, has as many flows as its limits permit.
    #[error("too many flows: close some")]
    Full,
    /// The client has left its network.
    #[error("the client has left its network: create another client")]
    HasLeft,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_whose_service_cannot_be_selected_begin_with_caching() {
        let service = |registration: Registration| registration.terms(true).expect("it is valid").service;
        let usual = Registration::default();
        assert_eq!(service(usual), Service::Both);
        assert_eq!(service(Registration { duplication: Duplication::Marked, ..usual }), Service::Caching);
        assert_eq!(service(Registration { traffic: Traffic::Mixture, ..usual }), Service::Caching);
    }
}
