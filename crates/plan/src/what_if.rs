//! Changes of circumstances that would change the choice of a service.

use alloc::vec::Vec;
use core::fmt;

use byway_units::{Duration, Probability};
use byway_wire::{BlockShape, Service};

use crate::choice::{Choice, Criteria, choose};
use crate::cost::Prices;
use crate::delay::Delays;
use crate::flow::FlowTerms;

/// Losses that are tried, in thousandths.
const LOSSES_PER_MILLE: [u64; 10] = [0, 1, 2, 5, 10, 20, 50, 100, 200, 300];

/// Circumstance under which another service would be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhatIf {
    /// The latency budget is at least this long.
    BudgetFrom(Duration, Service),
    /// The latency budget is shorter than this.
    BudgetBelow(Duration, Service),
    /// The direct path loses at least this share.
    LossFrom(Probability, Service),
    /// The direct path loses at most this share.
    LossUpTo(Probability, Service),
}

impl fmt::Display for WhatIf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: &Duration| time.as_micros().div_ceil(1_000);
        let percent = |loss: &Probability| loss.value() * 100.0;
        match self {
            Self::BudgetFrom(budget, service) => {
                write!(f, "with a latency budget of {} ms or more: {}", ms(budget), service.name())
            }
            Self::BudgetBelow(budget, service) => {
                write!(f, "with a latency budget below {} ms: {}", ms(budget), service.name())
            }
            Self::LossFrom(loss, service) => {
                write!(f, "if the direct path lost {:.1} % or more: {}", percent(loss), service.name())
            }
            Self::LossUpTo(loss, service) => {
                write!(f, "if the direct path lost {:.1} % or less: {}", percent(loss), service.name())
            }
        }
    }
}

/// Returns the nearest circumstances, in each direction, under which another service than the
/// chosen one would be chosen for the flow.
#[must_use]
pub fn what_if(
    flow: &FlowTerms,
    prices: &Prices,
    delays: &Delays,
    criteria: &Criteria,
    chosen: &Choice,
) -> Vec<WhatIf> {
    let differs = |service: Service| (service != chosen.service).then_some(service);
    let at_loss = |loss| {
        let flow = at_loss(flow, loss, criteria);
        differs(choose(&flow, prices, Some(delays), criteria).service)
    };
    let mut found = Vec::new();
    found.extend(budgets(flow, prices, delays, criteria, chosen));
    let losses = || LOSSES_PER_MILLE.iter().filter_map(|loss| Probability::from_ratio(*loss, 1_000));
    let mut above = losses().filter(|loss| *loss > flow.loss);
    found.extend(above.find_map(|loss| at_loss(loss).map(|service| WhatIf::LossFrom(loss, service))));
    let mut below = losses().filter(|loss| *loss < flow.loss).collect::<Vec<_>>().into_iter().rev();
    found.extend(below.find_map(|loss| at_loss(loss).map(|service| WhatIf::LossUpTo(loss, service))));
    found
}

/// Returns a flow whose direct path loses this share. If the other flows of its batches are known,
/// they lose as much, and the redundancy is that for it.
fn at_loss(flow: &FlowTerms, loss: Probability, criteria: &Criteria) -> FlowTerms {
    let flow = flow.at_loss(loss);
    if flow.loss_of_others.is_none() {
        return flow;
    }
    let size = flow.cross_stream.map_or(0, BlockShape::source_packets);
    FlowTerms { loss_of_others: Some(loss), ..flow }.with_adaptive_redundancy(size, criteria.residual_max)
}

/// Returns the nearest budgets above and below at which the choice changes. Each is the delivery
/// time of a service: between two of them, no service becomes too slow or fast enough.
fn budgets(
    flow: &FlowTerms,
    prices: &Prices,
    delays: &Delays,
    criteria: &Criteria,
    chosen: &Choice,
) -> impl Iterator<Item = WhatIf> {
    let with = |budget: Duration| {
        let criteria = Criteria { budget: Some(budget), ..*criteria };
        let service = choose(flow, prices, Some(delays), &criteria).service;
        (service != chosen.service).then_some(service)
    };
    let mut times: Vec<Duration> =
        Service::ALL.iter().filter_map(|service| delays.delivery(*service)).collect();
    times.push(delays.direct);
    times.sort_unstable();
    let budget = criteria.budget.unwrap_or(Duration::MAX);
    let (shorter, longer): (Vec<Duration>, Vec<Duration>) =
        times.into_iter().partition(|time| *time <= budget);
    let from =
        longer.into_iter().find_map(|time| with(time).map(|service| WhatIf::BudgetFrom(time, service)));
    let just_below = |time: Duration| with(time.saturating_sub(Duration::from_nanos(1)));
    let mut shorter = shorter.into_iter().rev();
    let below = shorter.find_map(|time| just_below(time).map(|service| WhatIf::BudgetBelow(time, service)));
    [from, below].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use alloc::string::{String, ToString};
    use byway_units::Bytes;
    use byway_wire::Services;

    use super::*;
    use crate::flow::MessageOverhead;

    fn texts(budget_ms: u64, loss: f64) -> (Service, Vec<String>) {
        texts_in_batches(budget_ms, loss, None)
    }

    /// Returns the choice, and what would change it, for a flow in batches of this shape with flows
    /// of the same loss.
    fn texts_in_batches(budget_ms: u64, loss: f64, shape: Option<BlockShape>) -> (Service, Vec<String>) {
        let others = shape.and_then(|_| Probability::new(loss).ok());
        let flow = FlowTerms {
            cross_stream: shape,
            loss_of_others: others,
            packet: Bytes::new(1_000),
            messages: MessageOverhead::Counted,
            ..FlowTerms::published_call(Probability::new(loss).expect("a share"))
        };
        let ms = Duration::from_millis;
        let delays = Delays { detection: ms(25), ..Delays::from_measured(ms(50), ms(10), false) };
        let allowed =
            [Service::Retransmission, Service::Pull, Service::Coding, Service::Caching, Service::Both];
        let criteria = Criteria {
            allowed: allowed.iter().fold(Services::NONE, |all, service| all.with(*service)),
            budget: Some(ms(budget_ms)),
            repaired_min: Probability::ONE,
            residual_max: Probability::from_ratio(1, 1_000).expect("a share"),
            indifference: Probability::ZERO,
        };
        let prices = Prices::nominal();
        let choice = choose(&flow, &prices, Some(&delays), &criteria);
        let found = what_if(&flow, &prices, &delays, &criteria, &choice);
        for what in &found {
            // Each text is true: under that circumstance, that service is chosen.
            let (mut flow, mut criteria) = (flow, criteria);
            let expected = match *what {
                WhatIf::BudgetFrom(budget, service) => {
                    criteria.budget = Some(budget);
                    service
                }
                WhatIf::BudgetBelow(budget, service) => {
                    criteria.budget = Some(budget - Duration::from_nanos(1));
                    service
                }
                WhatIf::LossFrom(loss, service) | WhatIf::LossUpTo(loss, service) => {
                    flow = at_loss(&flow, loss, &criteria);
                    service
                }
            };
            assert_eq!(choose(&flow, &prices, Some(&delays), &criteria).service, expected, "{what}");
        }
        (choice.service, found.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn the_nearest_budgets_and_losses_that_change_the_choice_are_named() {
        let (service, found) = texts(110, 0.01);
        assert_eq!(service, Service::Caching);
        assert_eq!(
            found,
            [
                "with a latency budget of 195 ms or more: retransmission",
                "with a latency budget below 95 ms: both",
                "if the direct path lost 0.1 % or less: retransmission",
            ]
        );
    }

    #[test]
    fn batches_have_the_redundancy_for_the_other_loss() {
        let (service, found) = texts_in_batches(120, 0.02, BlockShape::new(8, 2));
        assert_eq!(service, Service::Coding);
        assert_eq!(
            found,
            [
                "with a latency budget of 195 ms or more: retransmission",
                "with a latency budget below 115 ms: caching",
                "if the direct path lost 20.0 % or more: caching",
                "if the direct path lost 0.1 % or less: retransmission",
            ]
        );
    }

    #[test]
    fn where_nothing_is_lost_only_a_tight_budget_or_heavy_loss_matters() {
        let (service, found) = texts(300, 0.0);
        assert_eq!(service, Service::Retransmission);
        assert_eq!(
            found,
            ["with a latency budget below 50 ms: both", "if the direct path lost 30.0 % or more: pull"]
        );
    }
}
