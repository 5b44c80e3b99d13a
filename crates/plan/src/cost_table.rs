//! Costs between all regions of a price list.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use byway_units::Probability;
use byway_wire::Service;

use crate::choice::{Choice, Criteria, choose};
use crate::cost::break_even;
use crate::flow::FlowTerms;
use crate::price_list::PriceList;

/// Published range of loss rates: 0.01 % to 50 %, in steps of about two.
pub const LOSS_RATES: [f64; 12] =
    [0.000_1, 0.000_2, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5];

/// Costs of all services between two regions, at one loss rate, and the choice among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostRow {
    /// Region of the ingress relay.
    pub ingress: String,
    /// Region of the egress relay.
    pub egress: String,
    /// Share of packets that the direct path between them loses.
    pub loss: Probability,
    /// Cost of each service for an hour, and the choice among them with its reason.
    pub choice: Choice,
}

/// Loss rates between two regions from which on another service costs less than coding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// Region of the ingress relay.
    pub ingress: String,
    /// Region of the egress relay.
    pub egress: String,
    /// Loss rate from which on caching costs less than coding; `None` if there is none.
    pub caching: Option<Probability>,
    /// Loss rate from which on forwarding costs less than coding; `None` if there is none.
    pub forwarding: Option<Probability>,
}

/// Returns the cost of each service between every ordered pair of a price list's regions, at each
/// of these loss rates. The loss rate of `flow` is replaced.
///
/// There is a row for each pair and loss rate, in the order of [`PriceList::region_pairs`].
#[must_use]
pub fn cost_table(
    list: &PriceList,
    flow: &FlowTerms,
    losses: &[Probability],
    criteria: &Criteria,
) -> Vec<CostRow> {
    let pairs = list.region_pairs().filter_map(|(from, to)| Some((from, to, list.prices(from, to)?)));
    let rows = pairs.flat_map(|(ingress, egress, prices)| {
        losses.iter().map(move |loss| CostRow {
            ingress: ingress.to_owned(),
            egress: egress.to_owned(),
            loss: *loss,
            choice: choose(&flow.at_loss(*loss), &prices, None, criteria),
        })
    });
    rows.collect()
}

/// Returns the loss rates from which on caching and forwarding cost less than coding, for every
/// ordered pair of a price list's regions.
///
/// Only costs count here, as in J-QoS, section 5.1.1; coding may repair too little at these loss
/// rates.
#[must_use]
pub fn thresholds(list: &PriceList, flow: &FlowTerms) -> Vec<Threshold> {
    let rows = list.region_pairs().filter_map(|(ingress, egress)| {
        let prices = list.prices(ingress, egress)?;
        Some(Threshold {
            ingress: ingress.to_owned(),
            egress: egress.to_owned(),
            caching: break_even(Service::Coding, Service::Caching, flow, &prices),
            forwarding: break_even(Service::Coding, Service::Forwarding, flow, &prices),
        })
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use byway_units::Money;

    use super::*;
    use crate::choice::Reason;
    use crate::flow::MessageOverhead;
    use crate::locations::World;
    use crate::price::PricePerGigabyte;

    fn call() -> FlowTerms {
        FlowTerms { messages: MessageOverhead::Counted, ..FlowTerms::published_call(Probability::ZERO) }
    }

    fn losses() -> Vec<Probability> {
        LOSS_RATES.iter().map(|loss| Probability::new(*loss).expect("it is a share")).collect()
    }

    #[test]
    fn at_typical_loss_coding_is_cheapest_between_all_regions_of_hyperscale_clouds() {
        let book = PriceList::hyperscale(&World::built_in());
        let rows = cost_table(&book, &call(), &losses(), &Criteria::default());
        assert_eq!(rows.len(), 132 * LOSS_RATES.len());
        for row in rows.iter().filter(|row| row.loss.value() <= 0.01) {
            assert_eq!(row.choice.service, Service::Coding, "{row:?}");
        }
        assert!(rows.iter().all(|row| row.loss.value() < 0.2 || row.choice.service == Service::Caching));
    }

    #[test]
    fn where_bytes_are_included_forwarding_wins_everywhere() {
        let world = World::built_in();
        for book in [PriceList::flat_rate(&world), PriceList::quota(&world)] {
            for row in cost_table(&book, &call(), &losses(), &Criteria::default()) {
                let choice = (row.choice.service, row.choice.reason);
                assert_eq!(choice, (Service::Forwarding, Reason::EgressNearlyFree));
            }
        }
    }

    #[test]
    fn ten_cents_for_what_comes_in_double_forwarding_on_the_average() {
        let free = PriceList::hyperscale(&World::built_in());
        let charged = free.clone().with_incoming(PricePerGigabyte::new(Money::from_cents(10)));
        let one_per_cent = [Probability::from_ratio(1, 100).expect("it is a share")];
        let total = |book, service| {
            let rows = cost_table(book, &call(), &one_per_cent, &Criteria::default());
            let costs = rows.iter().flat_map(|row| &row.choice.candidates).map(|candidate| candidate.cost);
            let relays = costs.filter(|cost| cost.service == service).map(|cost| cost.relays());
            relays.sum::<Money>().nanodollars()
        };
        let per_cent = |part, whole| 100 * part / whole;
        let forwarding = total(&charged, Service::Forwarding);
        // Published: "doubles", and "around 40 %", which is coding's cost relative to forwarding's.
        assert_eq!(per_cent(forwarding, total(&free, Service::Forwarding)), 191);
        assert_eq!(per_cent(total(&charged, Service::Coding), forwarding), 37);
    }

    #[test]
    fn thresholds_of_hyperscale_clouds_lie_above_ten_per_cent() {
        let rows = thresholds(&PriceList::hyperscale(&World::built_in()), &call());
        let mut found: Vec<_> = rows.iter().filter_map(|row| row.caching).collect();
        found.sort_unstable();
        let share = |loss: Option<&Probability>| loss.map(|loss| (loss.value() * 1e3).round() / 10.0);
        assert_eq!((rows.len(), found.len()), (132, 36));
        assert_eq!((share(found.first()), share(found.last())), (Some(18.6), Some(97.4)));
    }
}
