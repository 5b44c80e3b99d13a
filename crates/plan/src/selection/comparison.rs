//! Comparison of the services of a flow by their costs.

use byway_units::{Duration, Money, Probability};
use byway_wire::Service;

use super::interface::Selection;
use crate::choice::{Candidate, Choice, Criteria, Reason, choose};
use crate::cost::{CODING_COMPUTE_RATIO, FLOWS_PER_THREAD, Prices, RelayPrices};
use crate::delay::Delays;
use crate::flow::FlowTerms;
use crate::price::PricePerGigabyte;

/// Comparison of all services for a flow: by its criteria, and by the stricter ones that a cheaper
/// service has to meet.
#[derive(Debug)]
pub(super) struct Comparison {
    /// Choice by the criteria.
    pub(super) choice: Choice,
    /// Choice by the stricter criteria.
    with_margin: Choice,
}

impl Comparison {
    /// Compares the services for this flow.
    pub(super) fn new(flow: &FlowTerms, prices: &Prices, delays: &Delays, criteria: &Criteria) -> Self {
        let choose = |criteria: &Criteria| choose(flow, prices, Some(delays), criteria);
        Self { choice: choose(criteria), with_margin: choose(&with_margin(criteria, delays.direct)) }
    }

    /// Returns the service that the criteria select.
    pub(super) const fn selection(&self) -> Selection {
        Selection { service: self.choice.service, reason: self.choice.reason }
    }

    /// Returns the evaluation of a service by the criteria.
    pub(super) fn candidate(&self, service: Service) -> Option<&Candidate> {
        self.choice.candidates.iter().find(|known| known.cost.service == service)
    }

    /// Returns the service that the stricter criteria select, if it costs less than the one in
    /// force, or about the same (within the indifference) with fewer bytes.
    pub(super) fn cheaper_than(&self, in_force: &Candidate, indifference: Probability) -> Option<Selection> {
        let selection = Selection { service: self.with_margin.service, reason: self.with_margin.reason };
        let is_cheaper = self.with_margin.is_better_than(in_force, indifference);
        (selection.reason != Reason::NoneCompetent && is_cheaper).then_some(selection)
    }
}

/// Returns criteria that are stricter by a fifth: the share that may be missed, and the time that a
/// repair may take. The delay of the direct path is that of most packets with any service, so it
/// needs no margin.
fn with_margin(criteria: &Criteria, direct: Duration) -> Criteria {
    let residual_max = Probability::new(criteria.residual_max.value() * 0.8).unwrap_or(Probability::ZERO);
    let stricter = |budget: Duration| budget - budget.saturating_sub(direct) / 5;
    Criteria { budget: criteria.budget.map(stricter), residual_max, ..*criteria }
}

impl Prices {
    /// Returns prices by which services are compared if no list is known: outgoing bytes of relays
    /// cost the same everywhere, and bytes on the sender's uplink a fiftieth of it.
    #[must_use]
    pub fn nominal() -> Self {
        let relay = RelayPrices {
            incoming: PricePerGigabyte::FREE,
            outgoing: PricePerGigabyte::new(Money::from_cents(5)),
            machine_per_hour: Money::ZERO,
            flows_per_machine: FLOWS_PER_THREAD,
        };
        Self {
            ingress_relay: relay,
            egress_relay: relay,
            coding_compute_ratio: CODING_COMPUTE_RATIO,
            sender_access: PricePerGigabyte::new(Money::from_nanodollars(1_000_000)),
            receiver_access: PricePerGigabyte::FREE,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;

    use super::*;
    use crate::decision_log::PriceBasis;
    use crate::selection::harness::{Harness, delays, ms};

    #[test]
    fn the_margin_is_a_fifth_of_what_may_be_missed_and_of_the_time_behind_the_direct_path() {
        let residual_max = Probability::new(0.5).expect("it is a share");
        let criteria = Criteria { budget: Some(ms(150)), residual_max, ..Criteria::default() };
        for (direct, budget) in [(0, 120), (50, 130), (150, 150), (200, 150)] {
            let stricter = with_margin(&criteria, ms(direct));
            assert_eq!(stricter.budget, Some(ms(budget)), "{direct}");
            assert_eq!(stricter.residual_max, Probability::new(0.4).expect("it is a share"));
            assert_eq!(stricter.allowed, criteria.allowed);
        }
    }

    #[test]
    fn a_clean_path_needs_requests_only_even_if_it_takes_nearly_the_whole_budget() {
        let mut harness = Harness::new(55);
        harness.run(60, 0);
        assert_eq!(harness.services(), [Service::Both, Service::Retransmission]);
    }

    #[test]
    fn at_the_boundary_of_the_budget_the_service_stays_the_dearer_one() {
        let mut harness = Harness::new(195);
        for nth in 0..600 {
            harness.observation.delays = Some(delays(48 + 2 * (nth % 3)));
            harness.run(1, 1);
        }
        assert!(harness.changes.len() <= 2, "{:?}", harness.changes);
        assert_eq!(harness.service, Service::Caching);
    }

    #[test]
    fn services_in_time_are_compared_by_price_and_then_by_bytes() {
        let chosen = |outgoing: i64, sender_access: i64| {
            let mut harness = Harness::new(110);
            let relay = RelayPrices {
                outgoing: PricePerGigabyte::new(Money::from_nanodollars(outgoing)),
                ..Prices::nominal().ingress_relay
            };
            let sender_access = PricePerGigabyte::new(Money::from_nanodollars(sender_access));
            let prices =
                Prices { ingress_relay: relay, egress_relay: relay, sender_access, ..Prices::nominal() };
            harness.selector.set_prices(prices, PriceBasis::Listed);
            assert_eq!(harness.selector.prices(), (&prices, PriceBasis::Listed));
            harness.run(20, 1);
            let latest = harness.selector.log().latest().expect("it has evaluated");
            let cost = |service| {
                let known = latest.choice.candidates.iter().find(|known| known.cost.service == service);
                known.expect("it is a candidate").cost.total()
            };
            (harness.service, cost(Service::Caching) < cost(Service::Both))
        };
        // Dear relays: a cached copy costs one relay, a forwarded packet two.
        assert_eq!(chosen(90_000_000, 1_000_000), (Service::Caching, true));
        // Relays without a price per byte: both cost the uplink only. Caching sends fewer bytes.
        assert_eq!(chosen(0, 1_000_000), (Service::Caching, false));
    }

    #[test]
    fn of_services_at_one_price_the_one_with_fewer_bytes_is_returned_to() {
        let mut harness = Harness::new(125);
        harness.selector.criteria.indifference = Probability::from_ratio(1, 10).expect("a share");
        let free = RelayPrices { outgoing: PricePerGigabyte::FREE, ..Prices::nominal().ingress_relay };
        let prices = Prices { ingress_relay: free, egress_relay: free, ..Prices::nominal() };
        harness.selector.set_prices(prices, PriceBasis::Listed);
        harness.run(10, 1);
        harness.repairs = Box::new(|_| false);
        harness.run(10, 2);
        harness.repairs = Box::new(|_| true);
        harness.run(200, 1);
        assert_eq!(harness.services(), [Service::Both, Service::Caching]);
    }
}
