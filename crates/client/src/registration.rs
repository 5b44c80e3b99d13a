//! What an application asks for, and what it is given.

use alloc::string::String;
use core::fmt;

use byway_proto::CodingRates;
use byway_proto::agent::{Duplication, Terms, Traffic};
use byway_units::{Duration, Rate};
use byway_wire::{BlockShape, Service};
use thiserror::Error;

use crate::flow_pair::FlowPair;

/// How a flow's service is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// The cheapest whose deliveries are expected within the latency budget; caching if no budget is stated.
    #[default]
    ByBudget,
    /// This one.
    Service(Service),
}

/// What an application asks for, of a flow there and one back.
#[derive(Clone, Copy, Debug)]
pub struct Registration {
    /// From sending to delivery; what is repaired later is lost. From 1 ms to 10 s. Without one, repairs have 250 ms.
    pub latency_budget: Option<Duration>,
    /// Which service, or how it is found.
    pub choice: Choice,
    /// How the flows are coded, if they are.
    pub rates: CodingRates,
    /// What each of them sends at most, from 1 kbit/s on.
    pub rate: Rate,
    /// What they carry.
    pub traffic: Traffic,
    /// Which packets this end copies to its relay: with [`Duplication::Marked`], those that are sent as marked.
    pub duplication: Duplication,
    /// Whether copies wait for the first losses.
    pub standby: bool,
}

impl Default for Registration {
    /// What `byway agent` does for a forward unless its file says otherwise, but that the service is by the budget.
    fn default() -> Self {
        Self {
            latency_budget: None,
            choice: Choice::ByBudget,
            rates: CodingRates { in_stream: BlockShape::new(16, 1), batch: BlockShape::new(8, 2) },
            rate: Rate::from_megabits_per_second(4),
            traffic: Traffic::Datagrams,
            duplication: Duplication::Usual,
            standby: false,
        }
    }
}

/// What repairs have when no latency budget is stated.
const USUAL_BUDGET: Duration = Duration::from_millis(250);

impl Registration {
    /// The terms of what this end sends.
    pub(crate) fn terms(&self, service: Service) -> Result<Terms, RegisterError> {
        let Self { latency_budget, choice: _, rates, rate, traffic, duplication, standby } = *self;
        let latency_budget = latency_budget.unwrap_or(USUAL_BUDGET);
        if !(Duration::from_millis(1)..=Duration::from_secs(10)).contains(&latency_budget) {
            return Err(RegisterError::BudgetOutOfRange(latency_budget));
        }
        if rate.bits_per_second() < 1_000 {
            return Err(RegisterError::RateOutOfRange(rate));
        }
        if !rates.are_kept() {
            return Err(RegisterError::TooManyRepairs);
        }
        Ok(Terms { service, rates, rate, latency_budget, duplication, traffic, standby, shares: false })
    }
}

/// Why nothing was registered. The application is to blame, or the network as it was described.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The peer is not in the network, or not paired with this agent.
    #[error("{0} is no peer of this agent: name the two in one of the network's pairs")]
    UnknownPeer(String),
    /// The name of what is sent to is too long.
    #[error("a name of {0} bytes is too long: 251 are possible")]
    NameTooLong(usize),
    /// The latency budget is out of range.
    #[error("a latency budget of {0} is out of range: 1 ms to 10 s")]
    BudgetOutOfRange(Duration),
    /// The rate is less than 1 kbit/s.
    #[error("a rate of {0} is less than 1 kbit/s")]
    RateOutOfRange(Rate),
    /// More repair packets than relays keep.
    #[error("relays keep fewer repair packets of a block or batch: see BATCH_REPAIRS_MAX")]
    TooManyRepairs,
    /// There are too many flows.
    #[error("there are as many flows as may be: close some")]
    NoRoom,
    /// The client has left.
    #[error("the client has left its network: make another one")]
    HasLeft,
}

/// What a registration leads to. The peer has still to accept it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    /// Both flows.
    pub flow: FlowPair,
    /// Their service, and why.
    pub chosen: Chosen,
}

/// A service, and why it is this one. As text, it is a sentence for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The service.
    pub service: Service,
    /// Whether copies wait for the first losses, or for an outage, also if the registration does not say so.
    pub standby: bool,
    /// Why.
    pub reason: Reason,
}

impl Chosen {
    /// A service that begins to work at once, unless the registration says otherwise.
    pub(crate) const fn of(service: Service, reason: Reason) -> Self {
        Self { service, standby: false, reason }
    }
}

/// Why a service is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The application named it.
    Asked,
    /// No relays lead to the peer: there is no other.
    NoRelays,
    /// No latency budget is stated.
    NoBudget,
    /// The round trips that tell how long repairs take are not known yet.
    NotMeasured,
    /// So many packets came to the peer, and none was lost.
    NothingIsLost {
        /// How many.
        packets: u64,
    },
    /// It is the cheapest that is expected to deliver in time.
    Cheapest {
        /// How long after its sending a packet is expected whose direct copy is lost.
        delivery: Duration,
        /// The budget.
        budget: Duration,
    },
    /// None is expected to deliver in time, and this is the fastest.
    NoneInTime {
        /// How long after its sending a packet is expected whose direct copy is lost.
        delivery: Duration,
        /// The budget.
        budget: Duration,
    },
}

impl fmt::Display for Chosen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = name_of(self.service);
        match self.reason {
            Reason::Asked => write!(f, "{name}, as the application asks for it"),
            Reason::NoRelays => write!(f, "{name}, as no relays lead to the peer"),
            Reason::NoBudget => {
                write!(f, "{name}, as no latency budget is stated: it repairs whatever is lost")
            }
            Reason::NotMeasured => write!(
                f,
                "{name}, as round trips to the peer and the relay are not measured yet: it repairs whatever is lost"
            ),
            Reason::NothingIsLost { packets } => {
                write!(
                    f,
                    "{name} on standby, as none of {packets} packets to the peer was lost: copies begin with the first losses, or an outage"
                )
            }
            Reason::Cheapest { delivery, budget } => write!(
                f,
                "{name}, the cheapest that delivers in time: what is lost is expected after {}, of {budget}",
                rounded(delivery)
            ),
            Reason::NoneInTime { delivery, budget } => write!(
                f,
                "{name}, the fastest, as none delivers in time: what is lost is expected after {}, of {budget}",
                rounded(delivery)
            ),
        }
    }
}

/// To tenths of a millisecond: the rest is not known.
fn rounded(delivery: Duration) -> Duration {
    Duration::from_micros((delivery.as_micros() + 50) / 100 * 100)
}

/// The word that files and status have for a service.
pub(crate) const fn name_of(service: Service) -> &'static str {
    match service {
        Service::Internet => "internet",
        Service::Coding => "coding",
        Service::Caching => "caching",
        Service::Forwarding => "forwarding",
        Service::Both => "both",
    }
}
