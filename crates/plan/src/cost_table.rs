//! Costs between all regions of a price book.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;
use byway_units::Probability;
use byway_wire::Service;

use crate::book::PriceBook;
use crate::choice::{Choice, Criteria, choose};
use crate::cost::break_even;
use crate::flow::FlowTerms;

/// The published range of loss rates: 0.01 % to 50 %, in steps of about two.
pub const LOSS_RATES: [f64; 12] =
    [0.000_1, 0.000_2, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5];

/// What services cost between two regions at one loss rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostRow {
    /// The ingress relay's region.
    pub ingress: String,
    /// The egress relay's region.
    pub egress: String,
    /// The share of packets that the direct path loses.
    pub loss: Probability,
    /// Every service with its cost for an hour, and the cheapest competent one with the reason.
    pub choice: Choice,
}

/// The loss rates between two regions from which on coding is not cheapest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// The ingress relay's region.
    pub ingress: String,
    /// The egress relay's region.
    pub egress: String,
    /// From where on caching costs less than coding; `None` if it never does.
    pub caching: Option<Probability>,
    /// From where on forwarding costs less than coding; `None` if it never does.
    pub forwarding: Option<Probability>,
}

/// What each service costs between every ordered pair of a book's regions, at each of these loss rates: for a flow like this,
/// whose own loss rate is replaced.
///
/// A row for each pair and loss rate, in the order of [`PriceBook::region_pairs`].
#[must_use]
pub fn cost_table(
    book: &PriceBook,
    flow: &FlowTerms,
    losses: &[Probability],
    criteria: &Criteria,
) -> Vec<CostRow> {
    let pairs = book.region_pairs().filter_map(|(from, to)| Some((from, to, book.prices(from, to)?)));
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

/// From which loss rates on caching and forwarding cost less than coding, for every ordered pair of a book's regions.
///
/// Costs alone decide here, as in J-QoS, section 5.1.1; whether coding still repairs enough is another matter.
#[must_use]
pub fn thresholds(book: &PriceBook, flow: &FlowTerms) -> Vec<Threshold> {
    let rows = book.region_pairs().filter_map(|(ingress, egress)| {
        let prices = book.prices(ingress, egress)?;
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
    use crate::flow::Messages;
    use crate::places::World;
    use crate::price::PricePerGigabyte;

    fn call() -> FlowTerms {
        FlowTerms { messages: Messages::OnTheWire, ..FlowTerms::published_call(Probability::ZERO) }
    }

    fn losses() -> Vec<Probability> {
        LOSS_RATES.iter().map(|loss| Probability::new(*loss).expect("it is a share")).collect()
    }

    #[test]
    fn at_typical_loss_coding_is_cheapest_between_all_regions_of_hyperscale_clouds() {
        let book = PriceBook::hyperscale(&World::built_in());
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
        for book in [PriceBook::flat_rate(&world), PriceBook::quota(&world)] {
            for row in cost_table(&book, &call(), &losses(), &Criteria::default()) {
                let choice = (row.choice.service, row.choice.reason);
                assert_eq!(choice, (Service::Forwarding, Reason::EgressNearlyFree));
            }
        }
    }

    #[test]
    fn ten_cents_for_what_comes_in_double_forwarding_on_the_average() {
        let free = PriceBook::hyperscale(&World::built_in());
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
        // Published: "doubles", and "around 40 %", which is coding's cost as a part of forwarding's.
        assert_eq!(per_cent(forwarding, total(&free, Service::Forwarding)), 191);
        assert_eq!(per_cent(total(&charged, Service::Coding), forwarding), 37);
    }

    #[test]
    fn thresholds_of_hyperscale_clouds_lie_above_ten_per_cent() {
        let rows = thresholds(&PriceBook::hyperscale(&World::built_in()), &call());
        let mut found: Vec<_> = rows.iter().filter_map(|row| row.caching).collect();
        found.sort_unstable();
        let share = |loss: Option<&Probability>| loss.map(|loss| (loss.value() * 1e3).round() / 10.0);
        assert_eq!((rows.len(), found.len()), (132, 36));
        assert_eq!((share(found.first()), share(found.last())), (Some(18.6), Some(97.4)));
    }
}
