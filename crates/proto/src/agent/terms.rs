//! Terms of offered flow pairs: settings of the flow in each direction.

use alloc::boxed::Box;
use alloc::vec::Vec;

use byway_plan::LatencyTerms;
use byway_units::{AgentId, Duration, FlowId, Rate};
use byway_wire::messages::{self, LatencyLimits, OfferedLatency, Subject, TermsOptions};
use byway_wire::{KilobitsPerSecond, Microseconds, Service};

use super::settings::{Duplication, FlowSettings, RedundancyMode, RelayPath, Traffic};
use crate::policy::CodingRates;

/// Terms of an offered flow in one direction, which both its ends use.
///
/// Two values are equal if the peer cannot distinguish them.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Service that relays provide to the flow.
    pub service: Service,
    /// Code rates of in-stream and cross-stream coding.
    pub rates: CodingRates,
    /// Rule for the number of repair packets. The sender applies its own value, and the peer does
    /// not learn it.
    pub redundancy: RedundancyMode,
    /// Highest rate at which the flow sends.
    pub rate: Rate,
    /// Longest useful time from sending to delivery.
    pub latency_budget: Duration,
    /// Packets that the flow's sender copies to the ingress relay. With [`Duplication::Chosen`],
    /// the peer only learns that they are not all.
    pub duplication: Duplication,
    /// Kind of the flow's traffic, which determines useful repairs.
    pub traffic: Traffic,
    /// True if relays may code the flow together with other tenants' flows.
    pub shares: bool,
    /// True if the flow's sender chooses the service, and changes it while the flow is open.
    /// `service` is the initial one.
    pub automatic_service: bool,
    /// Delays from which the flow's sender sends it by relays, because the direct path is too slow.
    /// The receiver then reports the delays of both paths.
    pub latency: Option<LatencyTerms>,
}

impl Terms {
    /// Returns the settings of a flow with these terms and paths.
    #[must_use]
    pub fn settings(&self, paths: Vec<RelayPath>) -> FlowSettings {
        let Self {
            service,
            rates,
            redundancy,
            rate,
            latency_budget,
            duplication,
            traffic,
            shares,
            automatic_service,
            latency,
        } = *self;
        FlowSettings {
            service,
            rates,
            redundancy,
            rate,
            latency_budget,
            paths,
            duplication,
            traffic,
            shares,
            automatic_service,
            latency: latency.map(Box::new),
            ..FlowSettings::default()
        }
    }

    fn to_wire(self) -> messages::Terms {
        messages::Terms {
            service: self.service,
            in_stream: self.rates.in_stream,
            batch: self.rates.batch,
            options: TermsOptions {
                congestion_controlled: self.traffic == Traffic::CongestionControlled,
                relay_side_duplication: matches!(self.duplication, Duplication::ByRelay),
                sender_makes_repairs: matches!(self.duplication, Duplication::SenderFec),
                selective: self.duplication.is_selective(self.traffic),
                coded_with_other_tenants: self.shares,
                mixture: self.traffic == Traffic::Mixture,
                automatic_service: self.automatic_service,
            },
            rate: KilobitsPerSecond::from_rate(self.rate),
            budget: Microseconds::from_duration(self.latency_budget),
        }
    }

    fn from_wire(terms: &messages::Terms) -> Self {
        let options = terms.options;
        let duplication = if options.relay_side_duplication {
            Duplication::ByRelay
        } else if options.sender_makes_repairs {
            Duplication::SenderFec
        } else if options.selective {
            Duplication::Marked
        } else {
            Duplication::All
        };
        let traffic = match (options.congestion_controlled, options.mixture) {
            (true, _) => Traffic::CongestionControlled,
            (false, true) => Traffic::Mixture,
            (false, false) => Traffic::Datagrams,
        };
        Self {
            service: terms.service,
            rates: CodingRates { in_stream: terms.in_stream, batch: terms.batch },
            redundancy: RedundancyMode::default(),
            rate: terms.rate.rate(),
            latency_budget: terms.budget.duration(),
            duplication,
            traffic,
            shares: options.coded_with_other_tenants,
            automatic_service: options.automatic_service,
            latency: None,
        }
    }
}

impl PartialEq for Terms {
    fn eq(&self, other: &Self) -> bool {
        self.to_wire() == other.to_wire() && self.latency == other.latency
    }
}

impl Eq for Terms {}

impl Default for Terms {
    /// Returns the terms of [`FlowSettings::default`].
    fn default() -> Self {
        let FlowSettings {
            service,
            rates,
            redundancy,
            rate,
            latency_budget,
            duplication,
            traffic,
            shares,
            automatic_service,
            latency,
            ..
        } = FlowSettings::default();
        Self {
            service,
            rates,
            redundancy,
            rate,
            latency_budget,
            duplication,
            traffic,
            shares,
            automatic_service,
            latency: latency.map(|terms| *terms),
        }
    }
}

/// Flow pair that one agent offers to another: terms of the flow in each direction, and its
/// purpose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// Terms of the flow that the offering agent sends.
    pub forth: Terms,
    /// Terms of the flow that the offering agent receives.
    pub back: Terms,
    /// Purpose of the flows, in at most 255 bytes that the users of the flows define.
    pub subject: Vec<u8>,
}

impl Offer {
    /// Returns the offer message for this flow number; `None` if the subject is too long.
    pub(super) fn to_wire(&self, flow: FlowId) -> Option<messages::Offer<'_>> {
        let subject = Subject::new(&self.subject)?;
        let (forth, back) = (self.forth.to_wire(), self.back.to_wire());
        let limits = |terms: LatencyTerms| LatencyLimits {
            acceptable: Microseconds::from_duration(terms.acceptable),
            gain: Microseconds::from_duration(terms.gain),
        };
        let latency =
            OfferedLatency { forth: self.forth.latency.map(limits), back: self.back.latency.map(limits) };
        Some(messages::Offer { flow, forth, back, subject, latency })
    }

    pub(super) fn from_wire(offer: &messages::Offer<'_>) -> Self {
        Self {
            forth: Terms {
                latency: offer.latency.forth.map(latency_terms),
                ..Terms::from_wire(&offer.forth)
            },
            back: Terms { latency: offer.latency.back.map(latency_terms), ..Terms::from_wire(&offer.back) },
            subject: Vec::from(offer.subject.bytes()),
        }
    }
}

fn latency_terms(limits: LatencyLimits) -> LatencyTerms {
    LatencyTerms { acceptable: limits.acceptable.duration(), gain: limits.gain.duration() }
}

/// Returns true if the agent `offering` may offer flows of this number to `other`. The agent with
/// the smaller number offers the even ones, the other agent the odd ones. So neither can use the
/// other's numbers.
#[must_use]
pub fn may_offer(offering: AgentId, other: AgentId, flow: FlowId) -> bool {
    (flow.number() % 2 == 1) == (offering > other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_back(terms: Terms) -> Terms {
        Terms::from_wire(&terms.to_wire())
    }

    #[test]
    fn terms_come_back_as_what_they_mean() {
        let duplications = [
            Duplication::Usual,
            Duplication::All,
            Duplication::Marked,
            Duplication::Chosen(|_| true),
            Duplication::ByRelay,
            Duplication::SenderFec,
        ];
        for duplication in duplications {
            for traffic in [Traffic::Datagrams, Traffic::CongestionControlled, Traffic::Mixture] {
                for shares in [false, true] {
                    let terms = Terms { duplication, traffic, shares, ..Terms::default() };
                    let back = read_back(terms);
                    assert_eq!(back, terms);
                    assert_eq!((back.traffic, back.shares), (traffic, shares));
                    let marked_only = |duplication: Duplication| {
                        !duplication.includes(traffic, b"", false) && duplication.includes(traffic, b"", true)
                    };
                    if !matches!(duplication, Duplication::Chosen(_)) {
                        assert_eq!(marked_only(back.duplication), marked_only(duplication));
                    }
                }
            }
        }
    }

    #[test]
    fn terms_become_settings() {
        let terms = Terms {
            service: Service::Caching,
            rate: Rate::from_megabits_per_second(7),
            latency_budget: Duration::from_millis(123),
            rates: CodingRates { in_stream: None, ..CodingRates::default() },
            ..Terms::default()
        };
        assert!(!read_back(terms).automatic_service);
        assert!(read_back(Terms { automatic_service: true, ..terms }).automatic_service);
        let settings = read_back(terms).settings(Vec::new());
        assert_eq!((settings.service, settings.rate), (terms.service, terms.rate));
        assert_eq!((settings.latency_budget, settings.rates), (terms.latency_budget, terms.rates));
    }

    #[test]
    fn limits_of_the_latency_are_offered_for_each_direction() {
        let (acceptable, gain) = (Duration::from_millis(50), Duration::from_millis(10));
        let some = Some(LatencyTerms { acceptable, gain });
        for (forth, back) in [(None, None), (some, None), (None, some), (some, some)] {
            let [forth, back] = [forth, back].map(|latency| Terms { latency, ..Terms::default() });
            let offer = Offer { forth, back, subject: Vec::new() };
            let message = offer.to_wire(FlowId::new(1)).expect("the subject is short");
            assert_eq!(Offer::from_wire(&message), offer);
        }
    }

    #[test]
    fn each_number_is_one_agents_to_offer() {
        let (small, large) = (AgentId::new(3), AgentId::new(8));
        for number in [0, 1, 2, 65_535] {
            let flow = FlowId::new(number);
            assert_eq!(may_offer(small, large, flow), number % 2 == 0);
            assert_ne!(may_offer(small, large, flow), may_offer(large, small, flow));
        }
    }
}
