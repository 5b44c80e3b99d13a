//! Selection of a flow's service, again and again while the flow runs.
//!
//! [`choose`](crate::choose) alone would change the service with every variation of a measurement.
//! A [`Selector`] upgrades at once if the service in force is not competent any more. It downgrades
//! to a cheaper one only if that has been competent for a while, with a margin. The more upgrades
//! follow, the longer it waits.
//!
//! The prediction may be wrong, because not all delays are measured. So packets that were missed
//! under a service count as well: that service, and all slower ones, are no candidates for a while.
//!
//! Forwarding is a second stage of both paths. It sends half of their bytes on the sender's uplink,
//! and as many at relays. But it has no repairs that would be in time, so the loss of the relay
//! path decides whether it suffices. Only a flow with both paths shows that loss, by the packets
//! that the direct path loses. So a flow changes to forwarding from both paths only, once they have
//! shown enough. It leaves forwarding over both paths, too.
//!
//! # Modules
//!
//! | module | subject |
//! |---|---|
//! | `comparison` | costs compared, and the prices for that if none are known |
//! | `failures` | services that missed their target |
//! | `forwarding_tests` | tests of the changes between both paths and forwarding |
//! | `harness` | flow of the tests |
//! | `history` | packets by their fate, and the loss of both paths |
//! | `interface` | inputs and outputs |
//! | `waits` | times between changes |

mod comparison;
mod failures;
#[cfg(test)]
mod forwarding_tests;
#[cfg(test)]
mod harness;
mod history;
mod interface;
mod waits;

use byway_units::{Duration, Time};
use byway_wire::{Service, Services};

pub use failures::FAILED_FOR;
pub use interface::{Observation, Selection};
pub use waits::{CHANGE_INTERVAL, DOWNGRADE_AFTER, UPGRADE_REMEMBERED};

use comparison::Comparison;
use failures::Failures;
use history::History;
use waits::Waits;

use crate::choice::{Criteria, Reason};
use crate::coding_prediction::CodingPrediction;
use crate::cost::Prices;
use crate::decision_log::{DecisionLog, Evaluation, PriceBasis, ServiceChange};
use crate::delay::Delays;
use crate::flow::FlowTerms;

/// Time on a relay path before the first choice by delays that are partly assumed.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// Number of packets before the first choice by measured delays.
const PACKETS_AT_FIRST: u64 = 8;

/// Time after a change of service or path for which missed packets do not count: they may be those
/// of the one before.
const OVERLAP: Duration = Duration::from_secs(2);

/// Selector of the service of one flow.
#[derive(Clone, Debug)]
pub struct Selector {
    flow: CodingPrediction,
    prices: (Prices, PriceBasis),
    criteria: Criteria,
    /// Service at the latest selection, and what was decided.
    in_force: Option<Service>,
    log: DecisionLog,
    selection: Option<Selection>,
    /// True until the loss was measured: the service in force was chosen by an assumed loss.
    is_assumed: bool,
    /// True if the latest selection is an upgrade.
    is_upgrade: bool,
    /// Relay path in use, and the time since which it has been.
    path: Option<(u64, Time)>,
    history: History,
    failures: Failures,
    waits: Waits,
}

impl Selector {
    /// Returns the selector of a flow. `criteria` contains the latency budget and the share of
    /// packets that may be lost or late.
    #[must_use]
    pub const fn new(flow: FlowTerms, prices: Prices, criteria: Criteria) -> Self {
        Self {
            flow: CodingPrediction::new(flow),
            prices: (prices, PriceBasis::Nominal),
            criteria,
            in_force: None,
            log: DecisionLog::new(),
            selection: None,
            is_assumed: true,
            is_upgrade: false,
            path: None,
            history: History::new(),
            failures: Failures::new(),
            waits: Waits::new(),
        }
    }

    /// Returns the service that was chosen last; `None` before the first choice for a relay path.
    #[must_use]
    pub const fn selection(&self) -> Option<Selection> {
        self.selection
    }

    /// Sets the prices by which services are compared from the next selection on.
    pub const fn set_prices(&mut self, prices: Prices, basis: PriceBasis) {
        self.prices = (prices, basis);
    }

    /// Returns the prices by which services are compared.
    #[must_use]
    pub const fn prices(&self) -> (&Prices, PriceBasis) {
        (&self.prices.0, self.prices.1)
    }

    /// Returns the criteria of the choice, without regard to services that failed or that an end
    /// does not support.
    #[must_use]
    pub const fn criteria(&self) -> &Criteria {
        &self.criteria
    }

    /// Returns the latest evaluation of all services, and the last changes.
    #[must_use]
    pub const fn log(&self) -> &DecisionLog {
        &self.log
    }

    /// Selects the service of the flow by a new observation. `in_force` is the flow's service, and
    /// `allowed` has those that both ends support now.
    ///
    /// Returns the service to change to; `None` to keep the one in force. Call
    /// [`Selector::on_changed`] once the change has begun.
    pub fn select(
        &mut self,
        observation: &Observation,
        (in_force, allowed): (Service, Services),
        now: Time,
    ) -> Option<Selection> {
        let is_overlap = self.used_since().is_some_and(|at| now.saturating_since(at) < OVERLAP);
        self.history.add(observation, (in_force, is_overlap), now);
        self.in_force = Some(in_force);
        let known = observation.delays.zip(observation.path);
        if let Some((_, path)) = known {
            self.note_path(path, now);
        }
        let is_settled = self.path.is_some_and(|(_, since)| now.saturating_since(since) >= SETTLED_AFTER)
            || (observation.are_delays_measured && self.history.packets() >= PACKETS_AT_FIRST);
        let is_observed = is_settled && self.history.is_active(now);
        let Some((delays, _)) = known.filter(|_| is_observed) else {
            // Nothing is known of a pause or an outage: no cheaper service suffices meanwhile.
            self.waits.restart();
            return None;
        };
        self.note_failure(&delays, (in_force, allowed), now);
        let criteria = Criteria { allowed: self.failures.permitted(allowed, &delays, now), ..self.criteria };
        self.flow.observe(observation.group_activity, in_force == Service::Coding, now);
        let flow = self.flow_terms(now);
        let comparison = Comparison::new(&flow, &self.prices.0, &delays, &criteria);
        let selection = self.decide(in_force, &comparison, now);
        self.is_assumed &= !self.history.is_measured(now) || self.waits.has_just_changed(now);
        self.log.record(Evaluation { at: now, flow, choice: comparison.choice });
        // If no service may be relied on, the choice is the Internet, which nobody asked for.
        let selection = selection.filter(|selection| allowed.allow(selection.service));
        selection.map(|selection| next_step(selection, (in_force, allowed)))
    }

    /// Records that the flow changes to the selected service.
    pub fn on_changed(&mut self, to: Selection, now: Time) {
        // If a flow leaves forwarding for a cheaper service, and both paths then show that this
        // would not suffice, the next such attempt waits longer, as after an upgrade.
        let is_return = to.service == Service::Forwarding
            && self.log.changes().next_back().is_some_and(|last| last.reason == Reason::BetweenServices);
        self.waits.on_changed(self.is_upgrade || is_return, now);
        if let Some(from) = self.in_force {
            self.log.record_change(ServiceChange { at: now, from, to: to.service, reason: to.reason });
        }
        self.selection = Some(to);
    }

    fn decide(&mut self, in_force: Service, comparison: &Comparison, now: Time) -> Option<Selection> {
        let selection = comparison.selection();
        let known = comparison.candidate(in_force)?;
        if selection.service == in_force {
            self.selection = Some(selection);
            self.waits.restart();
            return None;
        }
        // Both paths are safe at any time, so relays that are not good enough are left at once.
        let leaves_relays = in_force == Service::Forwarding && known.rejected.is_some();
        if self.waits.has_just_changed(now) && !leaves_relays {
            return None;
        }
        // The initial service was no choice. Forwarding follows both paths after a wait only.
        let is_first = self.selection.is_none() && selection.service != Service::Forwarding;
        self.is_upgrade = known.rejected.is_some() && !is_first;
        if self.is_upgrade || is_first {
            return Some(selection);
        }
        let Some(cheaper) = comparison.cheaper_than(known, self.criteria.indifference) else {
            self.waits.restart();
            return None;
        };
        // The time of the measurement was the wait.
        let has_waited =
            self.is_assumed && cheaper.service != Service::Forwarding && self.history.is_measured(now);
        self.waits.is_due(cheaper.service, has_waited, now).then_some(cheaper)
    }

    /// Returns the terms of the flow at the measured loss, in batches with the redundancy for it.
    ///
    /// A burst of this flow's losses is no burst of the others, whose packets repair it. So these
    /// lose as much as this flow does in the whole window.
    fn flow_terms(&self, now: Time) -> FlowTerms {
        let (loss, mean) = (self.history.loss(now), self.history.mean_loss(now));
        let terms = self.flow.terms((loss, mean), self.criteria.residual_max, now);
        FlowTerms { relay_loss: self.history.relay_loss(), ..terms }
    }

    /// Returns the time since which the flow has used its service and its relay path.
    fn used_since(&self) -> Option<Time> {
        self.path.map(|(_, since)| since).max(self.waits.changed_at())
    }

    /// Records the relay path in use. Another one has other delays, so failures and waiting times
    /// on the former one do not count.
    fn note_path(&mut self, path: u64, now: Time) {
        if self.path.is_none_or(|(known, _)| known != path) {
            self.path = Some((path, now));
            self.failures = Failures::new();
            self.waits.restart();
            self.history.forget_relay_loss();
            self.flow.forget_group();
        }
    }

    /// Records that the service in force misses its target, if a faster one is allowed. Forwarding
    /// has no faster one: its relay path has to show anew that it delivers.
    fn note_failure(&mut self, delays: &Delays, (in_force, allowed): (Service, Services), now: Time) {
        let since = self.used_since().unwrap_or(now);
        let settled_for = now.saturating_since(since).saturating_sub(OVERLAP);
        if !self.history.misses(self.criteria.residual_max, settled_for, now) {
            return;
        }
        if in_force == Service::Forwarding {
            self.history.forget_relay_loss();
        } else {
            self.failures.record((in_force, allowed), delays, now);
        }
    }
}

/// Returns the first step of a change to a selected service: both paths, if relays alone forward
/// the flow now, and that is not the service itself.
fn next_step(selection: Selection, (in_force, allowed): (Service, Services)) -> Selection {
    let is_step =
        in_force == Service::Forwarding && selection.service != Service::Both && allowed.allow(Service::Both);
    if is_step { Selection { service: Service::Both, reason: Reason::BetweenServices } } else { selection }
}

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;
    use alloc::vec::Vec;

    use byway_units::Probability;
    use byway_wire::messages::GroupActivity;

    use super::harness::{ALL, Harness, delays, ms};
    use super::*;

    #[test]
    fn requests_are_the_first_choice_where_the_budget_leaves_time_for_them() {
        // Retransmission: 50 + 25 + 50 + 70.
        for (budget, expected) in [(195, Service::Retransmission), (194, Service::Caching)] {
            let mut harness = Harness::new(budget);
            harness.run(4, 1);
            assert_eq!(harness.service, expected, "{budget}");
        }
    }

    #[test]
    fn measured_delays_need_a_few_packets_and_assumed_ones_two_seconds() {
        for (are_measured, expected) in [(true, 2), (false, 21)] {
            let mut harness = Harness::new(250);
            harness.observation.are_delays_measured = are_measured;
            for _ in 0..25 {
                harness.now += ms(100);
                harness.observation.direct += 5;
                harness.select();
            }
            let first = harness.changes.first().expect("it is made").0;
            assert_eq!(first, Time::START + ms(100 * expected), "{are_measured}");
        }
    }

    #[test]
    fn a_path_that_begins_to_lose_gets_a_faster_service_with_the_next_reports() {
        let mut harness = Harness::new(110);
        harness.run(100, 0);
        assert_eq!(harness.service, Service::Retransmission);
        let began = harness.now;
        harness.run(2, 2);
        assert_eq!(harness.service, Service::Caching);
        assert!(harness.changes.last().is_some_and(|(at, _)| *at <= began + ms(2_000)));
    }

    #[test]
    fn the_log_has_the_latest_evaluation_and_the_changes_with_their_reasons() {
        let mut harness = Harness::new(195);
        harness.run(5, 1);
        let log = harness.selector.log();
        let latest = log.latest().expect("it has evaluated");
        assert_eq!((latest.at, latest.choice.service), (harness.now, Service::Retransmission));
        assert_eq!(latest.choice.candidates.len(), Service::ALL.len());
        assert!(latest.flow.loss >= Probability::new(0.01).expect("it is a share"));
        let changes: Vec<_> = log.changes().map(|change| (change.from, change.to, change.reason)).collect();
        assert_eq!(changes, [(Service::Caching, Service::Retransmission, Reason::Cheapest)]);
    }

    /// Returns a harness of a cached flow whose budget allows coding, with `cached` and `coded`
    /// others.
    fn with_coding_peers(cached: u8, coded: u8) -> Harness {
        let mut harness = Harness::new(140);
        harness.allowed = ALL.with(Service::Coding);
        harness.observation.group_activity = Some(GroupActivity { coded, cached });
        harness
    }

    #[test]
    fn a_flow_with_coding_peers_is_coded_if_its_losses_need_few_repair_packets() {
        // 2 %: two repair packets for eight. 24 %: four do not suffice.
        for (lost, expected) in [(1, Service::Coding), (12, Service::Caching)] {
            let mut harness = with_coding_peers(7, 0);
            harness.run(30, lost);
            assert_eq!(harness.service, expected, "{lost}");
        }
        let mut lone = with_coding_peers(0, 0);
        lone.run(30, 1);
        assert_eq!(lone.service, Service::Caching);
    }

    #[test]
    fn coding_that_receivers_do_not_answer_is_left_and_tried_ever_more_rarely() {
        let mut harness = with_coding_peers(0, 7);
        let in_time = core::mem::replace(&mut harness.repairs, Box::new(|_| true));
        harness.repairs = Box::new(move |service| service != Service::Coding && in_time(service));
        harness.run(1_200, 1);
        let coded = harness.services().iter().filter(|service| **service == Service::Coding).count();
        assert!((2..=6).contains(&coded), "{:?}", harness.changes);
        assert_eq!(harness.service, Service::Caching);
    }

    #[test]
    fn coding_that_the_cached_flows_do_not_follow_is_left_for_ten_minutes() {
        let mut harness = with_coding_peers(7, 0);
        harness.run(600, 1);
        assert_eq!(harness.services(), [Service::Coding, Service::Caching]);
    }

    #[test]
    fn a_burst_of_one_flow_does_not_end_its_coding() {
        let mut harness = with_coding_peers(0, 7);
        harness.run(60, 1);
        harness.run(4, 12);
        harness.run(60, 1);
        assert_eq!(harness.services(), [Service::Coding]);
    }

    #[test]
    fn where_the_direct_path_is_too_slow_packets_take_both() {
        let mut harness = Harness::new(90);
        harness.observation.delays = Some(Delays { ingress_to_egress: ms(30), ..delays(100) });
        harness.run(4, 0);
        assert_eq!(harness.service, Service::Both);
    }

    #[test]
    fn without_delays_and_without_alternatives_the_service_stays() {
        let mut harness = Harness::new(250);
        harness.observation.delays = None;
        harness.run(60, 3);
        assert_eq!(harness.changes, []);
        harness.observation.delays = Some(delays(50));
        let only = Services::NONE.with(Service::Caching);
        for _ in 0..20 {
            harness.now += ms(1_000);
            harness.observation.direct += 40;
            harness.observation.lost += 10;
            let selected =
                harness.selector.select(&harness.observation, (Service::Caching, only), harness.now);
            assert_eq!(selected, None);
        }
    }
}
