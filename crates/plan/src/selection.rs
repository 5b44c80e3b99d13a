//! Selection of a flow's service, again and again while the flow runs.
//!
//! [`choose`] alone would change the service with every variation of a measurement. A [`Selector`]
//! upgrades at once if the service in force is not competent any more. It downgrades to a cheaper
//! one only if that has been competent for a while, with a margin. The more upgrades follow, the
//! longer it waits.
//!
//! The prediction may be wrong, because not all delays are measured. So packets that were missed
//! under a service count as well: that service, and all slower ones, are no candidates for a while.
//!
//! Forwarding is a second stage of both paths. It sends half of their bytes on the sender's uplink,
//! and as many at relays. But it has no repairs that would be in time, so the loss of the relay
//! path decides whether it suffices. Only a flow with both paths shows that loss, by the packets
//! that the direct path loses. So a flow changes to forwarding from both paths only, once they have
//! shown enough. It leaves forwarding over both paths, too.

use alloc::collections::VecDeque;

use byway_units::{Duration, Money, Probability, Time};
use byway_wire::messages::GroupActivity;
use byway_wire::{Service, Services};

use crate::choice::{Choice, Criteria, Reason, choose};
use crate::coding_prediction::CodingPrediction;
use crate::cost::{CODING_COMPUTE_RATIO, FLOWS_PER_THREAD, Prices, RelayPrices};
use crate::decision_log::{DecisionLog, Evaluation, PriceBasis, ServiceChange};
use crate::delay::Delays;
use crate::flow::FlowTerms;
use crate::price::PricePerGigabyte;
use crate::relay_loss::RelayLoss;

/// Shortest time between two changes of a flow's service: each costs registrations at both ends,
/// and two seconds in which relays serve both services. Relays that alone forward a flow, and are
/// not good enough, are left at once.
pub const CHANGE_INTERVAL: Duration = Duration::from_secs(5);

/// Time for which a cheaper service has to be competent before a downgrade. Bursts of losses are
/// seconds apart, so a shorter time would downgrade between them. It doubles with each upgrade
/// within [`UPGRADE_REMEMBERED`], up to that time.
pub const DOWNGRADE_AFTER: Duration = Duration::from_secs(30);

/// Time for which an upgrade delays the next downgrades. At the boundary of a budget, this allows
/// two changes in ten minutes.
pub const UPGRADE_REMEMBERED: Duration = Duration::from_secs(600);

/// Time for which a service that missed its target is no candidate, and no slower one is.
pub const FAILED_FOR: Duration = Duration::from_secs(60);

/// Time on a relay path before the first choice by delays that are partly assumed.
const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// Number of packets before the first choice by measured delays.
const PACKETS_AT_FIRST: u64 = 8;

/// Time after a change of service or path for which missed packets do not count: they may be those
/// of the one before.
const OVERLAP: Duration = Duration::from_secs(2);

/// Loss of the direct path that is assumed until it is measured, so that the first service repairs
/// losses in time.
const ASSUMED_LOSS: f64 = 0.01;

/// Number of packets after which the loss counts as measured, and the time that they have to take
/// at least. Of 200 packets, a path that loses 1 % loses one at least in 7 of 8 cases. Bursts of
/// losses are seconds apart, so fewer packets in a longer time show as much as many in a short one.
const MEASURED_AFTER: [(u64, Duration); 2] =
    [(200, Duration::from_secs(20)), (1_000, Duration::from_secs(8))];

/// Time over which recent losses and missed packets count: a few reports.
const RECENT: Duration = Duration::from_secs(5);

/// Time over which losses count.
const WINDOW: Duration = Duration::from_secs(60);

/// Most samples in the window: ten a second, more than receivers report.
const SAMPLES_MAX: usize = 600;

/// Missed packets of one burst that do not show a rate: one lost request.
const MISSED_BURST: f64 = 3.0;

/// Least number of packets that show a rate: a single one is chance.
const EVENTS_MIN: u64 = 2;

/// State of a flow and its paths at one time. The counts begin with the flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Observation {
    /// Packets that the direct path delivered first.
    pub direct: u64,
    /// Packets that the direct path lost, repaired ones included.
    pub lost: u64,
    /// Lost packets that were repaired in time.
    pub repaired: u64,
    /// Packets that relays delivered first, without a request.
    pub forwarded: u64,
    /// Packets of `forwarded` that the direct path lost. While relays alone forward the flow, only
    /// samples of the direct path count.
    pub covered: u64,
    /// Interval, in packets, of these samples. With any other service it is 1, and 0 counts as 1.
    pub direct_sample_interval: u64,
    /// Relay path in use, by any number that identifies its relays; `None` while none works.
    pub path: Option<u64>,
    /// Delays of the paths; `None` if they are not known.
    pub delays: Option<Delays>,
    /// True if all of `delays` are measured, and none is assumed.
    pub are_delays_measured: bool,
    /// Flows that could share batches with this one, as the ingress relay reports them; `None` if
    /// it does not.
    pub group_activity: Option<GroupActivity>,
}

/// Service that a selector has selected, with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Service of the flow.
    pub service: Service,
    /// Reason for the choice.
    pub reason: Reason,
}

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
    changed_at: Option<Time>,
    /// True until the loss was measured: the service in force was chosen by an assumed loss.
    is_assumed: bool,
    /// Cheaper service, and the time since which it has been competent.
    cheaper: Option<(Service, Time)>,
    downgrade_after: Duration,
    upgraded_at: Option<Time>,
    /// True if the latest selection is an upgrade.
    is_upgrade: bool,
    /// Delivery time from which on services are no candidates, and the time of the failure.
    failed: Option<(Duration, Time)>,
    /// Relay path in use, and the time since which it has been.
    path: Option<(u64, Time)>,
    history: History,
}

/// Packets of a flow by their fate.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    packets: u64,
    /// Packets that were sent on the direct path: all, or its samples.
    on_direct_path: u64,
    /// Packets of `on_direct_path` that the direct path lost.
    lost: u64,
    /// Packets that no path delivered, and no repair restored in time.
    missed: u64,
}

impl Counts {
    /// Returns true if most of the lost packets were missed, and not by chance alone.
    const fn misses_most(self) -> bool {
        self.missed >= EVENTS_MIN && self.missed * 2 >= self.lost
    }

    /// Returns true if the share of missed packets exceeds `residual_max`, and that is no chance:
    /// one burst of a few packets, or four standard deviations above the expected number.
    #[allow(clippy::cast_precision_loss, reason = "a threshold needs a few digits only")]
    fn exceed(self, residual_max: Probability) -> bool {
        let expected = self.packets as f64 * residual_max.value();
        let beyond = self.missed as f64 - expected - MISSED_BURST;
        beyond > 0.0 && beyond * beyond > 16.0 * expected
    }

    /// Returns the loss of the direct path: zero for a single lost packet.
    fn loss(self) -> Probability {
        let loss = if self.lost >= EVENTS_MIN { share(self.lost, self.on_direct_path) } else { 0.0 };
        Probability::new(loss.min(1.0)).unwrap_or(Probability::ONE)
    }

    const fn since(self, earlier: Self) -> Self {
        Self {
            packets: self.packets.saturating_sub(earlier.packets),
            on_direct_path: self.on_direct_path.saturating_sub(earlier.on_direct_path),
            lost: self.lost.saturating_sub(earlier.lost),
            missed: self.missed.saturating_sub(earlier.missed),
        }
    }
}

/// Counts of the latest minute.
#[derive(Clone, Debug, Default)]
struct History {
    began: Option<Time>,
    last: Observation,
    total: Counts,
    /// Packets that do not make up a whole interval of samples of the direct path yet.
    unsampled: u64,
    samples: VecDeque<(Time, Counts)>,
    /// Loss of the relay path in use, since both paths or relays alone deliver the flow.
    relay_loss: RelayLoss,
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
            changed_at: None,
            is_assumed: true,
            cheaper: None,
            downgrade_after: DOWNGRADE_AFTER,
            upgraded_at: None,
            is_upgrade: false,
            failed: None,
            path: None,
            history: History {
                began: None,
                last: Observation {
                    direct: 0,
                    lost: 0,
                    repaired: 0,
                    forwarded: 0,
                    covered: 0,
                    direct_sample_interval: 1,
                    path: None,
                    delays: None,
                    are_delays_measured: false,
                    group_activity: None,
                },
                total: Counts { packets: 0, on_direct_path: 0, lost: 0, missed: 0 },
                unsampled: 0,
                samples: VecDeque::new(),
                relay_loss: RelayLoss::new(),
            },
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
        let since = self.path.map(|(_, since)| since).max(self.changed_at);
        let is_overlap = since.is_some_and(|at| now.saturating_since(at) < OVERLAP);
        self.history.add(observation, (in_force, is_overlap), now);
        self.in_force = Some(in_force);
        let known = observation.delays.zip(observation.path);
        if let Some((_, path)) = known {
            self.note_path(path, now);
        }
        let is_settled = self.path.is_some_and(|(_, since)| now.saturating_since(since) >= SETTLED_AFTER)
            || (observation.are_delays_measured && self.history.total.packets >= PACKETS_AT_FIRST);
        let is_observed = is_settled && self.history.counts(RECENT, now).packets > 0;
        let Some((delays, _)) = known.filter(|_| is_observed) else {
            // Nothing is known of a pause or an outage: no cheaper service suffices meanwhile.
            self.cheaper = None;
            return None;
        };
        self.note_failure(&delays, (in_force, allowed), now);
        let failed = self.failed.filter(|(_, at)| now.saturating_since(*at) < FAILED_FOR);
        let has_failed = |service: Service| {
            failed.zip(delays.delivery(service)).is_some_and(|((from, _), delivery)| delivery >= from)
        };
        let failed = Service::ALL.iter().filter(|service| has_failed(**service));
        let permitted = failed.fold(allowed, |allowed, service| allowed.without(*service));
        let criteria = Criteria { allowed: permitted, ..self.criteria };
        self.flow.observe(observation.group_activity, in_force == Service::Coding, now);
        let flow = self.flow_terms(now);
        let choose = |criteria: &Criteria| choose(&flow, &self.prices.0, Some(&delays), criteria);
        let (choice, stricter) = (choose(&criteria), choose(&with_margin(&criteria, delays.direct)));
        let selection = self.decide(in_force, &choice, &stricter, now);
        self.is_assumed &= !self.history.is_measured(now) || self.has_just_changed(now);
        self.log.record(Evaluation { at: now, flow, choice });
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
        if self.is_upgrade || is_return {
            let is_repeated = self.upgraded_recently(now);
            self.downgrade_after = if is_repeated {
                (self.downgrade_after * 2).min(UPGRADE_REMEMBERED)
            } else {
                DOWNGRADE_AFTER
            };
            self.upgraded_at = Some(now);
        }
        if let Some(from) = self.in_force {
            self.log.record_change(ServiceChange { at: now, from, to: to.service, reason: to.reason });
        }
        (self.selection, self.changed_at, self.cheaper) = (Some(to), Some(now), None);
    }

    fn decide(
        &mut self,
        in_force: Service,
        choice: &Choice,
        with_margin: &Choice,
        now: Time,
    ) -> Option<Selection> {
        let selection = Selection { service: choice.service, reason: choice.reason };
        let known = choice.candidates.iter().find(|known| known.cost.service == in_force)?;
        if selection.service == in_force {
            (self.selection, self.cheaper) = (Some(selection), None);
            return None;
        }
        // Both paths are safe at any time, so relays that are not good enough are left at once.
        let leaves_relays = in_force == Service::Forwarding && known.rejected.is_some();
        if self.has_just_changed(now) && !leaves_relays {
            return None;
        }
        // The initial service was no choice. Forwarding follows both paths after a wait only.
        let is_first =
            self.selection.is_none() && self.changed_at.is_none() && selection.service != Service::Forwarding;
        self.is_upgrade = known.rejected.is_some() && !is_first;
        if self.is_upgrade || is_first {
            return Some(selection);
        }
        let service = with_margin.service;
        let is_cheaper = with_margin.is_better_than(known, self.criteria.indifference);
        if with_margin.reason == Reason::NoneCompetent || !is_cheaper {
            self.cheaper = None;
            return None;
        }
        let since = self.cheaper.filter(|(known, _)| *known == service).map_or(now, |(_, since)| since);
        self.cheaper = Some((service, since));
        let wait = match (self.upgraded_recently(now), self.is_assumed) {
            (true, _) => self.downgrade_after,
            // The time of the measurement was the wait.
            (false, true) if service != Service::Forwarding && self.history.is_measured(now) => {
                Duration::ZERO
            }
            (false, _) => DOWNGRADE_AFTER,
        };
        let is_due = now.saturating_since(since) >= wait;
        is_due.then_some(Selection { service, reason: with_margin.reason })
    }

    /// Returns the terms of the flow at the measured loss, in batches with the redundancy for it.
    ///
    /// A burst of this flow's losses is no burst of the others, whose packets repair it. So these
    /// lose as much as this flow does in the whole window.
    fn flow_terms(&self, now: Time) -> FlowTerms {
        let (loss, mean) = (self.history.loss(now), self.history.mean_loss(now));
        let terms = self.flow.terms((loss, mean), self.criteria.residual_max, now);
        FlowTerms { relay_loss: self.history.relay_loss.share(), ..terms }
    }

    fn has_just_changed(&self, now: Time) -> bool {
        self.changed_at.is_some_and(|at| now.saturating_since(at) < CHANGE_INTERVAL)
    }

    fn upgraded_recently(&self, now: Time) -> bool {
        self.upgraded_at.is_some_and(|at| now.saturating_since(at) < UPGRADE_REMEMBERED)
    }

    /// Records the relay path in use. Another one has other delays, so failures and waiting times
    /// on the former one do not count.
    fn note_path(&mut self, path: u64, now: Time) {
        if self.path.is_none_or(|(known, _)| known != path) {
            (self.path, self.failed, self.cheaper) = (Some((path, now)), None, None);
            self.history.relay_loss = RelayLoss::new();
            self.flow.forget_group();
        }
    }

    /// Records that the service in force misses its target, if a faster one is allowed. Forwarding
    /// has no faster one: its relay path has to show anew that it delivers.
    fn note_failure(&mut self, delays: &Delays, (in_force, allowed): (Service, Services), now: Time) {
        let since = self.path.map(|(_, since)| since).max(self.changed_at).unwrap_or(now);
        let settled_for = now.saturating_since(since).saturating_sub(OVERLAP);
        let recent = self.history.counts(settled_for.min(RECENT), now);
        let whole = self.history.counts(settled_for.min(WINDOW), now);
        let residual_max = self.criteria.residual_max;
        let is_beyond = share(recent.missed, recent.packets) > residual_max.value();
        let misses = (recent.misses_most() && is_beyond)
            || [recent, whole].iter().any(|counts| counts.exceed(residual_max));
        if misses && in_force == Service::Forwarding {
            self.history.relay_loss = RelayLoss::new();
            return;
        }
        let Some(own) = delays.delivery(in_force).filter(|_| misses) else {
            return;
        };
        let is_faster = |service: &&Service| {
            allowed.allow(**service) && delays.delivery(**service).is_some_and(|other| other < own)
        };
        if Service::ALL.iter().any(|service| is_faster(&service)) {
            let before = self.failed.filter(|(_, at)| now.saturating_since(*at) < FAILED_FOR);
            self.failed = Some((before.map_or(own, |(from, _)| from.min(own)), now));
        }
    }
}

impl History {
    /// Adds what happened since the last observation, with this service in force. `is_overlap` is
    /// true shortly after a change, when counts may be about the service before.
    fn add(&mut self, observation: &Observation, (in_force, is_overlap): (Service, bool), now: Time) {
        let since = |count: fn(&Observation) -> u64| count(observation).saturating_sub(count(&self.last));
        let (direct, lost) = (since(|counts| counts.direct), since(|counts| counts.lost));
        let (forwarded, covered) = (since(|counts| counts.forwarded), since(|counts| counts.covered));
        let packets = direct + lost + forwarded;
        let missed = lost.saturating_sub(since(|counts| counts.repaired));
        let interval = observation.direct_sample_interval.max(1);
        let sampled = packets + self.unsampled;
        self.unsampled = sampled % interval;
        self.total.packets += packets;
        self.total.on_direct_path += sampled / interval;
        self.total.missed += missed;
        // What relays lose while they alone forward the flow is no loss of the direct path.
        self.total.lost += covered + if in_force == Service::Forwarding { 0 } else { lost };
        // A report after a gap may be about packets of any time before.
        let is_gap = self.samples.back().is_some_and(|(at, _)| now.saturating_since(*at) > RECENT);
        match in_force {
            Service::Forwarding | Service::Both if is_overlap || is_gap => {}
            Service::Forwarding => self.relay_loss.add(forwarded + missed, missed),
            Service::Both => self.relay_loss.add(covered + lost, missed),
            _ => self.relay_loss = RelayLoss::new(),
        }
        self.last = *observation;
        self.began.get_or_insert(now);
        let is_past = |at: Time| now.saturating_since(at) > WINDOW;
        while self.samples.len() >= SAMPLES_MAX || self.samples.get(1).is_some_and(|(at, _)| is_past(*at)) {
            self.samples.pop_front();
        }
        self.samples.push_back((now, self.total));
    }

    /// Returns the counts of the latest `time`.
    fn counts(&self, time: Duration, now: Time) -> Counts {
        let samples = self.samples.iter().rev();
        let earliest = samples.take_while(|(at, _)| now.saturating_since(*at) <= time).last();
        earliest.map_or_else(Counts::default, |(_, counts)| self.total.since(*counts))
    }

    /// Returns true if enough packets were sent to measure the loss.
    fn is_measured(&self, now: Time) -> bool {
        let elapsed = self.began.map_or(Duration::ZERO, |began| now.saturating_since(began));
        MEASURED_AFTER.iter().any(|(packets, time)| self.total.packets >= *packets && elapsed >= *time)
    }

    /// Returns the loss of the direct path: the larger one of the recent losses and of all in the
    /// window. Before enough packets were sent, it is not less than [`ASSUMED_LOSS`].
    fn loss(&self, now: Time) -> Probability {
        self.mean_loss(now).max(self.counts(RECENT, now).loss())
    }

    /// Returns the loss of the direct path in the window. Before enough packets were sent, it is
    /// not less than [`ASSUMED_LOSS`].
    fn mean_loss(&self, now: Time) -> Probability {
        let assumed = if self.is_measured(now) { 0.0 } else { ASSUMED_LOSS };
        let assumed = Probability::new(assumed).unwrap_or(Probability::ZERO);
        self.counts(WINDOW, now).loss().max(assumed)
    }
}

/// Returns the first step of a change to a selected service: both paths, if relays alone forward
/// the flow now, and that is not the service itself.
fn next_step(selection: Selection, (in_force, allowed): (Service, Services)) -> Selection {
    let is_step =
        in_force == Service::Forwarding && selection.service != Service::Both && allowed.allow(Service::Both);
    if is_step { Selection { service: Service::Both, reason: Reason::BetweenServices } } else { selection }
}

/// Returns criteria that are stricter by a fifth: the share that may be missed, and the time that a
/// repair may take. The delay of the direct path is that of most packets with any service, so it
/// needs no margin.
fn with_margin(criteria: &Criteria, direct: Duration) -> Criteria {
    let residual_max = Probability::new(criteria.residual_max.value() * 0.8).unwrap_or(Probability::ZERO);
    let stricter = |budget: Duration| budget - budget.saturating_sub(direct) / 5;
    Criteria { budget: criteria.budget.map(stricter), residual_max, ..*criteria }
}

#[allow(clippy::cast_precision_loss, reason = "a share needs a few digits only")]
fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
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
mod forwarding_tests;

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;
    use alloc::vec::Vec;
    use byway_wire::BlockShape;

    use super::*;
    use crate::flow::MessageOverhead;

    /// Services of a flow without coding peers.
    pub(super) const ALL: Services = Services::NONE
        .with(Service::Retransmission)
        .with(Service::Pull)
        .with(Service::Caching)
        .with(Service::Both);

    /// A flow of 50 packets a second between two agents that are 50 ms apart and 10 ms from their
    /// relays.
    pub(super) struct Harness {
        pub(super) selector: Selector,
        pub(super) service: Service,
        pub(super) observation: Observation,
        pub(super) now: Time,
        pub(super) changes: Vec<(Time, Service)>,
        /// Services that both ends support.
        pub(super) allowed: Services,
        /// True for the services whose repairs arrive in time.
        repairs: Box<dyn Fn(Service) -> bool>,
    }

    pub(super) const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn delays(direct: u64) -> Delays {
        Delays { detection: ms(25), ..Delays::from_measured(ms(direct), ms(10), false) }
    }

    fn criteria(budget: u64) -> Criteria {
        Criteria {
            budget: Some(ms(budget)),
            repaired_min: Probability::ONE,
            residual_max: Probability::new(0.001).expect("it is a share"),
            indifference: Probability::ZERO,
            ..Criteria::default()
        }
    }

    impl Harness {
        /// Returns a harness of a flow with this latency budget, in milliseconds, which begins with
        /// caching. Repairs are as fast as predicted.
        pub(super) fn new(budget: u64) -> Self {
            let flow = FlowTerms {
                cross_stream: BlockShape::new(8, 2),
                messages: MessageOverhead::Counted,
                ..FlowTerms::published_call(Probability::ZERO)
            };
            Self {
                selector: Selector::new(flow, Prices::nominal(), criteria(budget)),
                service: Service::Caching,
                observation: Observation {
                    path: Some(0),
                    delays: Some(delays(50)),
                    ..Observation::default()
                },
                now: Time::START,
                changes: Vec::new(),
                allowed: ALL,
                repairs: Box::new(move |service| {
                    delays(50).delivery(service).is_some_and(|delivery| delivery <= ms(budget))
                }),
            }
        }

        /// Lets the flow send for `seconds`, with this number of losses in each.
        fn run(&mut self, seconds: u64, lost: u64) {
            for _ in 0..seconds {
                self.now += ms(1_000);
                self.observation.direct += 50 - lost;
                if self.service == Service::Both {
                    self.observation.forwarded += lost;
                    self.observation.covered += lost;
                } else {
                    self.observation.lost += lost;
                    self.observation.repaired += if (self.repairs)(self.service) { lost } else { 0 };
                }
                self.select();
            }
        }

        /// Lets the application pause.
        fn pause(&mut self, seconds: u64) {
            for _ in 0..seconds {
                self.now += ms(1_000);
                self.select();
            }
        }

        pub(super) fn select(&mut self) {
            if let Some(change) =
                self.selector.select(&self.observation, (self.service, self.allowed), self.now)
            {
                assert_ne!(change.service, self.service);
                self.selector.on_changed(change, self.now);
                self.service = change.service;
                self.changes.push((self.now, change.service));
            }
        }

        /// Returns the services since the begin, the first one included.
        pub(super) fn services(&self) -> Vec<Service> {
            self.changes.iter().map(|(_, service)| *service).collect()
        }
    }

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
    fn a_path_that_loses_nothing_needs_requests_only_whatever_the_budget() {
        let mut harness = Harness::new(110);
        harness.run(15, 0);
        assert_eq!(harness.service, Service::Caching, "not measured yet");
        harness.run(45, 0);
        assert_eq!(harness.services(), [Service::Retransmission]);
        assert_eq!(harness.selector.selection().map(|selection| selection.service), Some(harness.service));
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
    fn a_clean_path_needs_requests_only_even_if_it_takes_nearly_the_whole_budget() {
        let mut harness = Harness::new(55);
        harness.run(60, 0);
        assert_eq!(harness.services(), [Service::Both, Service::Retransmission]);
    }

    #[test]
    fn the_loss_of_a_fast_flow_is_measured_sooner() {
        let measured_after = |packets: u64| {
            let mut harness = Harness::new(110);
            while harness.service == Service::Caching {
                harness.now += ms(1_000);
                harness.observation.direct += packets;
                harness.select();
            }
            harness.now
        };
        assert_eq!(measured_after(40), Time::START + ms(21_000));
        assert_eq!(measured_after(200), Time::START + ms(9_000));
    }

    #[test]
    fn a_first_choice_just_before_the_measurement_does_not_delay_the_downgrade() {
        let mut harness = Harness::new(80);
        harness.observation.delays = None;
        harness.run(15, 0);
        harness.observation.delays = Some(delays(50));
        harness.run(10, 0);
        assert_eq!(harness.services(), [Service::Both, Service::Retransmission]);
    }

    #[test]
    fn packets_that_relays_deliver_first_are_no_losses() {
        let mut harness = Harness::new(110);
        harness.service = Service::Both;
        for _ in 0..60 {
            harness.now += ms(1_000);
            harness.observation.forwarded += 50;
            harness.select();
        }
        assert_eq!(harness.services().last(), Some(&Service::Retransmission));
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
    fn after_each_upgrade_the_downgrade_waits_longer() {
        let mut harness = Harness::new(110);
        for _ in 0..8 {
            harness.run(400, 0);
            harness.run(10, 2);
        }
        let downgrades: Vec<Time> = harness.changes.iter().step_by(2).map(|(at, _)| *at).collect();
        let upgrades: Vec<Time> = harness.changes.iter().skip(1).step_by(2).map(|(at, _)| *at).collect();
        let waits = upgrades.iter().zip(&downgrades[1..]).map(|(from, to)| (*to - *from).as_millis() / 1_000);
        let waits: Vec<u64> = waits.collect();
        let (longer, after) = waits.split_at(5);
        assert!(longer.windows(2).all(|pair| pair[1] > pair[0]), "{waits:?}");
        assert!(longer[4] >= 600 && after[0] < 120, "{waits:?}: then the upgrades are forgotten");
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
    fn changes_are_five_seconds_apart() {
        let mut harness = Harness::new(195);
        harness.run(3, 1);
        harness.observation.delays = Some(Delays { ingress_to_egress: ms(100), ..delays(190) });
        harness.run(20, 1);
        let changes = [(3, Service::Retransmission), (8, Service::Both)];
        assert_eq!(harness.changes, changes.map(|(second, to)| (Time::START + ms(second * 1_000), to)));
    }

    #[test]
    fn if_the_prediction_is_wrong_the_missed_packets_decide() {
        let mut harness = Harness::new(250);
        harness.repairs = Box::new(|service| service == Service::Caching);
        harness.run(58, 2);
        assert_eq!(
            harness.services(),
            [Service::Retransmission, Service::Caching],
            "not pull, which is as slow"
        );
        let mut harness = Harness::new(250);
        harness.repairs = Box::new(|_| false);
        harness.run(58, 2);
        assert_eq!(harness.service, Service::Both);
    }

    #[test]
    fn a_few_missed_packets_of_many_lost_ones_are_chance() {
        let mut harness = Harness::new(250);
        harness.run(4, 2);
        for _ in 0..60 {
            // Of 100 lost packets in ten seconds, two are missed together: 0.04 % of all.
            harness.run(9, 1);
            harness.observation.lost += 93;
            harness.observation.repaired += 91;
            harness.observation.direct += 4_000;
            harness.run(1, 0);
        }
        harness.run(9, 1);
        assert_eq!(harness.services(), [Service::Retransmission]);
        harness.observation.lost += 400;
        harness.observation.repaired += 380;
        harness.observation.direct += 4_000;
        harness.run(1, 0);
        assert_eq!(harness.service, Service::Caching, "20 of 4,650 are more than may be missed");
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

    #[test]
    fn losses_that_both_paths_hide_keep_the_flow_on_both() {
        let mut harness = Harness::new(80);
        harness.run(300, 1);
        assert_eq!(harness.services(), [Service::Both]);
        harness.run(300, 0);
        assert_eq!(harness.services(), [Service::Both, Service::Retransmission]);
    }

    #[test]
    fn pauses_change_nothing() {
        let mut harness = Harness::new(110);
        harness.run(100, 0);
        let changes = harness.changes.len();
        for _ in 0..5 {
            harness.pause(100);
            harness.run(10, 0);
        }
        assert_eq!((harness.service, harness.changes.len()), (Service::Retransmission, changes));
        let mut harness = Harness::new(110);
        harness.run(21, 1);
        harness.pause(70);
        harness.run(3, 0);
        assert_eq!(harness.changes, [], "a pause is no time without losses");
    }

    #[test]
    fn misses_of_another_path_do_not_count() {
        let mut harness = Harness::new(250);
        harness.run(20, 1);
        assert_eq!(harness.service, Service::Retransmission);
        harness.observation.path = Some(1);
        harness.repairs = Box::new(|_| false);
        harness.run(1, 5);
        harness.repairs = Box::new(|_| true);
        harness.run(30, 1);
        assert_eq!(harness.services(), [Service::Retransmission]);
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
