//! Registration of flows by an application, and its outcome.

use alloc::string::String;
use core::fmt;

use byway_proto::CodingRates;
use byway_proto::agent::{Duplication, Terms, Traffic};
use byway_units::{Duration, Rate};
use byway_wire::{BlockShape, Service};
use thiserror::Error;

use crate::flow_pair::FlowPair;

/// Selection of the service for a flow: by the latency budget, or by the application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ServiceSelector {
    /// Cheapest service whose deliveries are expected within the latency budget; caching without a
    /// budget.
    #[default]
    ByBudget,
    /// Service that the application names.
    Service(Service),
}

/// An application's request for a pair of flows, one in each direction.
#[derive(Clone, Copy, Debug)]
pub struct Registration {
    /// Latency budget from sending to delivery, 1 ms to 10 s. Repairs that arrive later count as
    /// lost. If `None`, repairs may take 250 ms.
    pub latency_budget: Option<Duration>,
    /// Service, or the rule that selects the service.
    pub choice: ServiceSelector,
    /// Code rates of the flow that this end sends, if its service is coding.
    pub rates: CodingRates,
    /// Upper bound of each flow's rate, at least 1 kbit/s.
    pub rate: Rate,
    /// Kind of traffic, which determines the copies and the order of deliveries.
    pub traffic: Traffic,
    /// Packets of which this end sends copies to its relay. With [`Duplication::Marked`]: those
    /// sent as marked.
    pub duplication: Duplication,
    /// True if this end sends copies only after the first losses.
    pub standby: bool,
}

impl Default for Registration {
    /// The defaults of a forward of `byway agent`, except that the budget selects the service.
    fn default() -> Self {
        Self {
            latency_budget: None,
            choice: ServiceSelector::ByBudget,
            rates: CodingRates { in_stream: BlockShape::new(16, 1), batch: BlockShape::new(8, 2) },
            rate: Rate::from_megabits_per_second(4),
            traffic: Traffic::Datagrams,
            duplication: Duplication::Usual,
            standby: false,
        }
    }
}

/// Latency budget for repairs of a registration without one.
const USUAL_BUDGET: Duration = Duration::from_millis(250);

impl Registration {
    /// Returns the terms of the flow that this end sends with this service.
    pub(crate) fn terms(&self, service: Service) -> Result<Terms, RegisterError> {
        let Self { latency_budget, choice: _, rates, rate, traffic, duplication, standby } = *self;
        let latency_budget = latency_budget.unwrap_or(USUAL_BUDGET);
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
            rate,
            latency_budget,
            duplication,
            traffic,
            standby,
            shares: false,
            ..Terms::default()
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

/// Outcome of a successful registration. The peer has not accepted it yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistrationOutcome {
    /// Pair of flows that the client offers to the peer.
    pub flow: FlowPair,
    /// Service of the flow that this end sends, and the reason for it.
    pub chosen: ServiceChoice,
}

/// Service of a flow, and the reason for its choice. The text form is a sentence for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceChoice {
    /// Service of the flow.
    pub service: Service,
    /// True if copies begin only after the first losses or an outage, even if the registration has
    /// no standby.
    pub standby: bool,
    /// Reason for the choice.
    pub reason: Reason,
}

impl ServiceChoice {
    /// Returns the choice of a service whose copies begin at once, unless the registration has
    /// standby.
    pub(crate) const fn of(service: Service, reason: Reason) -> Self {
        Self { service, standby: false, reason }
    }
}

/// Reason for the choice of a flow's service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The application named the service.
    Asked,
    /// There are no relays on a path to the peer, so only the direct path is possible.
    NoRelays,
    /// The registration has no latency budget.
    NoBudget,
    /// Round-trip times that determine the time of repairs are not measured yet.
    NotMeasured,
    /// Many packets were delivered to the peer, and none was lost, so copies wait for a loss.
    NothingIsLost {
        /// Number of packets delivered to the peer.
        packets: u64,
    },
    /// The service is the cheapest that is expected to deliver in time.
    Cheapest {
        /// Expected time from sending to delivery of a packet that the direct path lost.
        delivery: Duration,
        /// Latency budget of the registration.
        budget: Duration,
    },
    /// The service is the fastest, because none is expected to deliver in time.
    NoneInTime {
        /// Expected time from sending to delivery of a packet that the direct path lost.
        delivery: Duration,
        /// Latency budget of the registration.
        budget: Duration,
    },
}

impl fmt::Display for ServiceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.service.name();
        match self.reason {
            Reason::Asked => write!(f, "{name}, requested by the application"),
            Reason::NoRelays => write!(f, "{name}, because the peer has no relay path"),
            Reason::NoBudget => {
                write!(f, "{name}, because no latency budget is set: it repairs all losses")
            }
            Reason::NotMeasured => write!(
                f,
                "{name}, because round trips to the peer and the relay are not measured yet: it \
                 repairs all losses"
            ),
            Reason::NothingIsLost { packets } => {
                write!(
                    f,
                    "{name} on standby, because none of {packets} packets to the peer was lost: \
                     copies start with the first loss or outage"
                )
            }
            Reason::Cheapest { delivery, budget } => write!(
                f,
                "{name}, the cheapest within the budget: lost packets are expected after {}, budget {budget}",
                rounded(delivery)
            ),
            Reason::NoneInTime { delivery, budget } => write!(
                f,
                "{name}, the fastest, because none meets the budget: lost packets are expected after \
                 {}, budget {budget}",
                rounded(delivery)
            ),
        }
    }
}

/// Rounds a delay to tenths of a millisecond, the accuracy of the estimate.
fn rounded(delivery: Duration) -> Duration {
    Duration::from_micros((delivery.as_micros() + 50) / 100 * 100)
}
