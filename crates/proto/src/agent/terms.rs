//! What one agent offers another: a flow in each direction, and by which terms.

use alloc::vec::Vec;

use byway_units::{AgentId, Duration, FlowId, Rate};
use byway_wire::messages::{self, Subject, TermsOptions};
use byway_wire::{KilobitsPerSecond, Microseconds, Service};

use super::settings::{Duplication, FlowSettings, RelayPath, Traffic};
use crate::policy::CodingRates;

/// One direction of an offered flow: what both its ends go by.
///
/// Terms are the same when the peer cannot tell them apart.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// What the overlay does for it.
    pub service: Service,
    /// How it is coded.
    pub rates: CodingRates,
    /// What it sends at most.
    pub rate: Rate,
    /// From sending to delivery.
    pub latency_budget: Duration,
    /// Which packets its sender copies. Of [`Duplication::Chosen`], the peer learns that they are not all.
    pub duplication: Duplication,
    /// What it carries.
    pub traffic: Traffic,
    /// Whether copies wait for the first losses.
    pub standby: bool,
    /// Whether it may be coded with other tenants' flows.
    pub shares: bool,
}

impl Terms {
    /// The settings of a flow by these terms and with these paths.
    #[must_use]
    pub fn settings(&self, paths: Vec<RelayPath>) -> FlowSettings {
        let Self { service, rates, rate, latency_budget, duplication, traffic, standby, shares } = *self;
        FlowSettings {
            service,
            rates,
            rate,
            latency_budget,
            paths,
            duplication,
            traffic,
            standby,
            shares,
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
                sender_makes_repairs: matches!(self.duplication, Duplication::OwnRepairs),
                selective: self.duplication.is_selective(self.traffic),
                standby: self.standby,
                coded_with_other_tenants: self.shares,
                mixture: self.traffic == Traffic::Mixture,
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
            Duplication::OwnRepairs
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
            rate: terms.rate.rate(),
            latency_budget: terms.budget.duration(),
            duplication,
            traffic,
            standby: options.standby,
            shares: options.coded_with_other_tenants,
        }
    }
}

impl PartialEq for Terms {
    fn eq(&self, other: &Self) -> bool {
        self.to_wire() == other.to_wire()
    }
}

impl Eq for Terms {}

impl Default for Terms {
    /// Those of [`FlowSettings::default`].
    fn default() -> Self {
        let FlowSettings {
            service, rates, rate, latency_budget, duplication, traffic, standby, shares, ..
        } = FlowSettings::default();
        Self { service, rates, rate, latency_budget, duplication, traffic, standby, shares }
    }
}

/// A flow in each direction, offered by one agent to another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// What the offering agent would send.
    pub forth: Terms,
    /// What it would receive.
    pub back: Terms,
    /// What the flows are for, in at most 255 bytes that mean something to those who use them.
    pub subject: Vec<u8>,
}

impl Offer {
    /// The message, unless the subject is too long.
    pub(super) fn to_wire(&self, flow: FlowId) -> Option<messages::Offer<'_>> {
        let subject = Subject::new(&self.subject)?;
        Some(messages::Offer { flow, forth: self.forth.to_wire(), back: self.back.to_wire(), subject })
    }

    pub(super) fn from_wire(offer: &messages::Offer<'_>) -> Self {
        Self {
            forth: Terms::from_wire(&offer.forth),
            back: Terms::from_wire(&offer.back),
            subject: Vec::from(offer.subject.bytes()),
        }
    }
}

/// Whether flows of this number are `offering`'s to offer to `other`: the agent with the smaller number offers the even
/// ones, the other one the odd ones, so that neither can take the other's.
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
            Duplication::OwnRepairs,
        ];
        for duplication in duplications {
            for traffic in [Traffic::Datagrams, Traffic::CongestionControlled, Traffic::Mixture] {
                for (standby, shares) in [(false, false), (true, false), (false, true)] {
                    let terms = Terms { duplication, traffic, standby, shares, ..Terms::default() };
                    let back = read_back(terms);
                    assert_eq!(back, terms);
                    assert_eq!((back.traffic, back.standby, back.shares), (traffic, standby, shares));
                    let marked_only = |duplication: Duplication| {
                        !duplication.takes(traffic, b"", false) && duplication.takes(traffic, b"", true)
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
        let settings = read_back(terms).settings(Vec::new());
        assert_eq!((settings.service, settings.rate), (terms.service, terms.rate));
        assert_eq!((settings.latency_budget, settings.rates), (terms.latency_budget, terms.rates));
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
