//! Choice of the cheapest competent service for a flow, with the reason.

use alloc::vec::Vec;
use core::fmt;

use byway_units::{Bytes, Duration, Money, Probability};
use byway_wire::{Service, Services};

use crate::cost::{Cost, Prices, cost, relay_bytes};
use crate::delay::Delays;
use crate::flow::FlowTerms;

/// Criteria for the choice of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Criteria {
    /// Services that may be chosen. The Internet alone is chosen only if nothing is lost, or
    /// nothing else is allowed.
    pub allowed: Services,
    /// Longest acceptable time from sending to delivery of a packet whose direct copy is lost;
    /// `None` without a limit.
    pub budget: Option<Duration>,
    /// Least share of lost packets that a service has to restore. Only coding may restore less than
    /// all.
    pub repaired_min: Probability,
    /// Largest share of all packets that may be lost or late. If no more are lost on the direct
    /// path, a service may repair them too late, or not at all.
    pub residual_max: Probability,
    /// Share by which a service may cost more than the cheapest to count as equally cheap. Of
    /// these, the one with the fewest bytes on the uplink and at relays is chosen, then the
    /// fastest.
    pub indifference: Probability,
}

impl Default for Criteria {
    /// Returns criteria that allow coding, caching and forwarding, without a time limit. Coding has
    /// to restore 80 %, as the published system does on most paths (J-QoS, section 5.2).
    /// Differences up to 10 % are ignored, because tiers, taxes and discounts make list prices no
    /// more accurate.
    fn default() -> Self {
        Self {
            allowed: Services::NONE.with(Service::Coding).with(Service::Caching).with(Service::Forwarding),
            budget: None,
            repaired_min: Probability::from_ratio(4, 5).expect("four fifths are a share"),
            residual_max: Probability::ZERO,
            indifference: Probability::from_ratio(1, 10).expect("a tenth is a share"),
        }
    }
}

/// Reason for which a service is no choice for a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// The criteria do not allow the service.
    NotAllowed,
    /// The service delivers later than the budget if the direct copy is lost.
    TooSlow,
    /// The service restores too few lost packets: too many are lost, or no other flow can be coded
    /// with this one.
    RepairsTooLittle,
    /// Relays alone would forward the flow, and nobody has measured what they lose.
    NotMeasured,
    /// Relays alone would forward the flow, and they lose too many packets.
    RelaysLoseTooMuch,
}

/// Evaluation of one service for a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Cost of the service for an hour of the flow; it names the service.
    pub cost: Cost,
    /// Time from sending to delivery of a packet whose direct copy is lost; `None` if the service
    /// does not deliver it, or delays are unknown.
    pub delivery: Option<Duration>,
    /// Predicted share of all packets that are lost for good, or late.
    pub residual: Probability,
    /// Bytes that the service sends in an hour on the sender's uplink and from both relays.
    pub volume: Bytes,
    /// Reason for which the service is rejected; `None` for a competent one.
    pub rejected: Option<Rejection>,
}

/// Reason for which a service is chosen for a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The direct path loses nothing, so no repairs are necessary.
    NothingIsLost,
    /// The service is the cheapest of the competent ones.
    Cheapest,
    /// The service is forwarding, and its bytes cost less than its shares of machines. Services
    /// that send fewer bytes would save nothing.
    EgressNearlyFree,
    /// The service sends the fewest bytes of those with about the same cost (within the
    /// indifference), or as few and is the fastest. Another one is the cheapest.
    FewerBytesForTheSame {
        /// The cheapest competent service.
        than: Service,
    },
    /// The service is the only competent one.
    OnlyOneCompetent,
    /// No service is competent; this one is the fastest that the criteria allow.
    NoneCompetent,
    /// The service is both paths, on the way from forwarding to another one. So no packet depends
    /// on a path that the other end does not use yet.
    BetweenServices,
}

/// Choice of a service for a flow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Service that was chosen for the flow.
    pub service: Service,
    /// Reason for the choice.
    pub reason: Reason,
    /// Evaluations of all services, chosen or not, in the order of [`Service::ALL`].
    pub candidates: Vec<Candidate>,
}

impl Choice {
    /// Returns the cost of the chosen service.
    ///
    /// # Panics
    /// Only if `candidates` was emptied.
    #[must_use]
    pub fn cost(&self) -> &Cost {
        &self.chosen().cost
    }

    fn chosen(&self) -> &Candidate {
        let chosen = self.candidates.iter().find(|candidate| candidate.cost.service == self.service);
        chosen.expect("every service is among the candidates")
    }

    /// Returns true if the chosen service costs less than `other`, or about the same (within the
    /// indifference) with fewer bytes.
    pub(crate) fn is_better_than(&self, other: &Candidate, indifference: Probability) -> bool {
        let (own, total) = (self.cost().total(), other.cost.total());
        own < total || (own <= at_most(total, indifference) && self.chosen().volume < other.volume)
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAllowed => "is not allowed",
            Self::TooSlow => "exceeds the budget",
            Self::RepairsTooLittle => "repairs too few of the lost packets",
            Self::NotMeasured => "the loss of the relay path is not measured",
            Self::RelaysLoseTooMuch => "the relay path loses too many packets",
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NothingIsLost => "no packet is lost",
            Self::Cheapest => "cheapest service",
            Self::EgressNearlyFree => "bytes cost less than machines, so coding saves nothing",
            Self::FewerBytesForTheSame { .. } => "fewest bytes for about the same cost",
            Self::OnlyOneCompetent => "only competent service",
            Self::NoneCompetent => "no competent service; this is the fastest",
            Self::BetweenServices => "both paths between forwarding and the next service",
        })
    }
}

/// Returns the cheapest competent service for this flow, by the total cost of relays and endpoints.
///
/// Without delays, no service is too slow, and later services in [`Service::ALL`] count as faster.
#[must_use]
pub fn choose(flow: &FlowTerms, prices: &Prices, delays: Option<&Delays>, criteria: &Criteria) -> Choice {
    let candidates: Vec<_> =
        Service::ALL.iter().map(|service| candidate(*service, flow, prices, delays, criteria)).collect();
    let (service, reason) = pick(flow, &candidates, criteria);
    Choice { service, reason, candidates }
}

fn candidate(
    service: Service,
    flow: &FlowTerms,
    prices: &Prices,
    delays: Option<&Delays>,
    criteria: &Criteria,
) -> Candidate {
    let delivery = delays.and_then(|delays| delays.delivery(service));
    let is_late = |time: Option<Duration>| time.zip(criteria.budget).is_some_and(|(time, most)| time > most);
    let direct = delays.map(|delays| delays.direct).filter(|_| relies_on_direct_path(service));
    let repaired = repaired(service, flow);
    let unrepaired = match service {
        Service::Forwarding => flow.relay_loss.map_or(0.0, Probability::value),
        _ => flow.loss.value() * repaired.complement().value(),
    };
    let late = match (is_late(direct.or(delivery)), is_late(delivery)) {
        (true, _) => 1.0,
        (false, true) => flow.loss.value(),
        (false, false) => 0.0,
    };
    // A packet that is never repaired is not late too.
    let residual = Probability::new(late.max(unrepaired)).unwrap_or(Probability::ONE);
    let residual_max = criteria.residual_max.value();
    let rejected = if !criteria.allowed.allow(service) {
        Some(Rejection::NotAllowed)
    } else if service == Service::Forwarding && flow.relay_loss.is_none() {
        Some(Rejection::NotMeasured)
    } else if service == Service::Forwarding && unrepaired > residual_max {
        Some(Rejection::RelaysLoseTooMuch)
    } else if repaired < criteria.repaired_min && unrepaired > residual_max {
        Some(Rejection::RepairsTooLittle)
    } else if late > residual_max {
        Some(Rejection::TooSlow)
    } else {
        None
    };
    let cost = cost(service, flow, prices);
    Candidate { volume: volume(&cost, flow), cost, delivery, residual, rejected }
}

/// True if a packet of the service that the direct path does not lose arrives by that path.
const fn relies_on_direct_path(service: Service) -> bool {
    !matches!(service, Service::Forwarding | Service::Both)
}

/// Returns the share of a flow's lost packets that the service restores.
fn repaired(service: Service, flow: &FlowTerms) -> Probability {
    match service {
        Service::Internet if flow.loss > Probability::ZERO => Probability::ZERO,
        Service::Coding => flow.repaired_by_coding(),
        Service::Internet
        | Service::Caching
        | Service::Forwarding
        | Service::Both
        | Service::Pull
        | Service::Retransmission => Probability::ONE,
    }
}

fn pick(flow: &FlowTerms, candidates: &[Candidate], criteria: &Criteria) -> (Service, Reason) {
    let allows = |service| criteria.allowed.allow(service);
    if flow.loss == Probability::ZERO && allows(Service::Internet) {
        return (Service::Internet, Reason::NothingIsLost);
    }
    let competent: Vec<_> = candidates.iter().filter(|candidate| candidate.rejected.is_none()).collect();
    let Some(cheapest) = competent.iter().min_by_key(|candidate| candidate.cost.total()) else {
        let allowed = candidates.iter().filter(|candidate| {
            let service = candidate.cost.service;
            // Relays alone are no fallback without a measured, small loss.
            let is_unproven =
                matches!(candidate.rejected, Some(Rejection::NotMeasured | Rejection::RelaysLoseTooMuch));
            allows(service) && service != Service::Internet && !is_unproven
        });
        let fastest = allowed.min_by_key(|candidate| slowness(candidate));
        let service = fastest.map_or(Service::Internet, |candidate| candidate.cost.service);
        return (service, Reason::NoneCompetent);
    };
    let limit = at_most(cheapest.cost.total(), criteria.indifference);
    let about_the_same = competent.iter().filter(|candidate| candidate.cost.total() <= limit);
    let key = |candidate: &&&Candidate| (candidate.volume, slowness(candidate));
    let chosen = about_the_same.min_by_key(key).unwrap_or(cheapest);
    (chosen.cost.service, reason(&chosen.cost, &cheapest.cost, competent.len()))
}

fn reason(chosen: &Cost, cheapest: &Cost, competent: usize) -> Reason {
    if competent == 1 {
        Reason::OnlyOneCompetent
    } else if chosen.service == Service::Forwarding && chosen.bandwidth() <= chosen.compute() {
        Reason::EgressNearlyFree
    } else if chosen.total() == cheapest.total() {
        Reason::Cheapest
    } else {
        Reason::FewerBytesForTheSame { than: cheapest.service }
    }
}

/// Returns the bytes of a service on the sender's uplink and from both relays, in an hour.
fn volume(cost: &Cost, flow: &FlowTerms) -> Bytes {
    let [ingress, egress] = relay_bytes(cost.service, flow);
    ingress.saturating_add(egress).saturating_add(cost.endpoints.sender_sends)
}

/// Returns the sort key of candidates: fastest first, then cheapest. Without delays, services count
/// as faster the more they send. Of equally fast ones, forwarding is the last, because its packets
/// have one path only.
fn slowness(candidate: &Candidate) -> (Duration, u8, Money) {
    let service = candidate.cost.service;
    let rank = match candidate.delivery {
        Some(_) => u8::from(service == Service::Forwarding),
        None => u8::MAX - service as u8,
    };
    (candidate.delivery.unwrap_or(Duration::MAX), rank, candidate.cost.total())
}

/// Returns an amount of money plus this share of it.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "an allowance is known to a few digits, and the cast saturates"
)]
fn at_most(money: Money, more: Probability) -> Money {
    let allowance = (money.nanodollars() as f64 * more.value()) as i64;
    money.saturating_add(Money::from_nanodollars(allowance.max(0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{CODING_COMPUTE_RATIO, FLOWS_PER_THREAD, RelayPrices};
    use crate::price::PricePerGigabyte;

    fn prices(outgoing_nanodollars: i64) -> Prices {
        let relay = RelayPrices {
            incoming: PricePerGigabyte::FREE,
            outgoing: PricePerGigabyte::new(Money::from_nanodollars(outgoing_nanodollars)),
            machine_per_hour: Money::from_cents(8),
            flows_per_machine: FLOWS_PER_THREAD,
        };
        Prices {
            ingress_relay: relay,
            egress_relay: relay,
            coding_compute_ratio: CODING_COMPUTE_RATIO,
            sender_access: PricePerGigabyte::FREE,
            receiver_access: PricePerGigabyte::FREE,
        }
    }

    fn call(loss: f64) -> FlowTerms {
        FlowTerms::published_call(Probability::new(loss).expect("the test gives a share"))
    }

    fn chosen(flow: &FlowTerms, prices: &Prices, criteria: &Criteria) -> (Service, Reason) {
        let choice = choose(flow, prices, None, criteria);
        assert_eq!(choice.cost().service, choice.service);
        (choice.service, choice.reason)
    }

    #[test]
    fn where_bytes_are_dear_coding_is_cheapest() {
        let criteria = Criteria::default();
        assert_eq!(chosen(&call(0.01), &prices(90_000_000), &criteria), (Service::Coding, Reason::Cheapest));
    }

    #[test]
    fn where_bytes_are_free_forwarding_is_the_answer() {
        let criteria = Criteria::default();
        let expected = (Service::Forwarding, Reason::EgressNearlyFree);
        assert_eq!(chosen(&call(0.01), &prices(0), &criteria), expected);
        assert_eq!(chosen(&call(0.01), &prices(20_000), &criteria), expected);
    }

    #[test]
    fn a_flow_with_nobody_to_be_coded_with_is_cached() {
        let lone = FlowTerms { cross_stream: None, ..call(0.01) };
        let choice = choose(&lone, &prices(90_000_000), None, &Criteria::default());
        assert_eq!((choice.service, choice.reason), (Service::Caching, Reason::Cheapest));
        let coding = choice.candidates.iter().find(|one| one.cost.service == Service::Coding);
        assert_eq!(coding.and_then(|one| one.rejected), Some(Rejection::RepairsTooLittle));
    }

    #[test]
    fn heavy_loss_is_too_much_for_batches() {
        let criteria = Criteria::default();
        assert_eq!(chosen(&call(0.3), &prices(90_000_000), &criteria), (Service::Caching, Reason::Cheapest));
    }

    #[test]
    fn budgets_leave_out_what_is_too_slow() {
        let ms = Duration::from_millis;
        let delays = Delays {
            sender_to_ingress: ms(10),
            ingress_to_egress: ms(80),
            egress_to_receiver: ms(10),
            direct: ms(110),
            cooperating: ms(10),
            ..Delays::default()
        };
        let choice = |budget| {
            let criteria = Criteria { budget: Some(ms(budget)), ..Criteria::default() };
            let choice = choose(&call(0.01), &prices(90_000_000), Some(&delays), &criteria);
            (choice.service, choice.reason)
        };
        assert_eq!(choice(150), (Service::Coding, Reason::Cheapest));
        let residual = |budget, service| {
            let criteria = Criteria { budget: Some(ms(budget)), ..Criteria::default() };
            let choice = choose(&call(0.01), &prices(90_000_000), Some(&delays), &criteria);
            let known = choice.candidates.iter().find(|known| known.cost.service == service);
            known.expect("it is a candidate").residual
        };
        let caching = |budget| residual(budget, Service::Caching);
        let one_percent = Probability::new(0.01).expect("a share");
        let expected = [Probability::ZERO, one_percent, Probability::ONE];
        assert_eq!([200, 129, 109].map(caching), expected, "in time, repairs late, all late");
        assert_eq!(residual(200, Service::Internet), one_percent);
        assert_eq!(choice(149), (Service::Caching, Reason::Cheapest));
        assert_eq!(choice(129), (Service::Forwarding, Reason::OnlyOneCompetent));
        assert_eq!(choice(99), (Service::Forwarding, Reason::NoneCompetent));
    }

    /// Returns the choice within 80 ms, of which the direct path needs 50 and relays 70, and the
    /// reason for which forwarding is rejected. Repairs from a cache need 85.
    fn choice_in_80_ms(relay_loss: Option<f64>, prices: &Prices) -> (Service, Option<Rejection>) {
        let ms = Duration::from_millis;
        let delays = Delays { detection: ms(15), ..Delays::from_measured(ms(50), ms(10), false) };
        let services = [Service::Caching, Service::Forwarding, Service::Both];
        let criteria = Criteria {
            allowed: services.into_iter().fold(Services::NONE, Services::with),
            budget: Some(ms(80)),
            repaired_min: Probability::ONE,
            residual_max: Probability::new(0.001).expect("a share"),
            ..Criteria::default()
        };
        let relay_loss = relay_loss.map(|loss| Probability::new(loss).expect("a share"));
        let choice = choose(&FlowTerms { relay_loss, ..call(0.4) }, prices, Some(&delays), &criteria);
        let known = choice.candidates.iter().find(|known| known.cost.service == Service::Forwarding);
        (choice.service, known.expect("it is a candidate").rejected)
    }

    #[test]
    fn relays_alone_cost_less_than_both_paths_if_they_deliver() {
        let per_gigabyte = |cents| PricePerGigabyte::new(Money::from_cents(cents));
        let metered = Prices { sender_access: per_gigabyte(100), ..prices(10_000_000) };
        // On a metered uplink, both paths cost more. Otherwise the price is the same, and the bytes
        // on the uplink decide.
        for prices in [metered, prices(0), prices(90_000_000), Prices::nominal()] {
            let choice = |relay_loss| choice_in_80_ms(relay_loss, &prices);
            assert_eq!(choice(Some(0.0)), (Service::Forwarding, None));
            assert_eq!(choice(Some(0.001)), (Service::Forwarding, None));
            assert_eq!(choice(Some(0.002)), (Service::Both, Some(Rejection::RelaysLoseTooMuch)));
            assert_eq!(choice(None), (Service::Both, Some(Rejection::NotMeasured)));
        }
    }

    #[test]
    fn what_no_service_delivers_in_time_uses_both_paths_and_not_relays_alone() {
        let ms = Duration::from_millis;
        let allowed = Services::NONE.with(Service::Forwarding).with(Service::Both);
        let criteria = Criteria { allowed, budget: Some(ms(30)), ..Criteria::default() };
        // Relays are faster than the direct path, so both services deliver after 40 ms.
        let delays = Delays { direct: ms(60), ingress_to_egress: ms(40), ..Delays::default() };
        let choice = choose(&call(0.1), &prices(90_000_000), Some(&delays), &criteria);
        assert_eq!((choice.service, choice.reason), (Service::Both, Reason::NoneCompetent));
    }

    #[test]
    fn relays_alone_are_no_fallback_before_they_have_shown_that_they_deliver() {
        let ms = Duration::from_millis;
        let allowed = Services::NONE.with(Service::Caching).with(Service::Forwarding);
        let criteria = Criteria { allowed, budget: Some(ms(30)), ..Criteria::default() };
        // Repairs from a cache take 60 ms, and relays alone 40.
        let delays = Delays { direct: ms(60), ingress_to_egress: ms(40), ..Delays::default() };
        for (relay_loss, expected) in
            [(None, Service::Caching), (Some(0.002), Service::Caching), (Some(0.0), Service::Forwarding)]
        {
            let relay_loss = relay_loss.map(|loss| Probability::new(loss).expect("a share"));
            let flow = FlowTerms { relay_loss, ..call(0.1) };
            let choice = choose(&flow, &prices(90_000_000), Some(&delays), &criteria);
            assert_eq!((choice.service, choice.reason), (expected, Reason::NoneCompetent), "{relay_loss:?}");
        }
    }

    #[test]
    fn what_loses_nothing_needs_nothing() {
        let allowed = Criteria::default().allowed.with(Service::Internet);
        let criteria = Criteria { allowed, ..Criteria::default() };
        let clean = chosen(&call(0.0), &prices(90_000_000), &criteria);
        assert_eq!(clean, (Service::Internet, Reason::NothingIsLost));
        assert_eq!(chosen(&call(0.000_1), &prices(90_000_000), &criteria).0, Service::Coding);
        let nothing = Criteria { allowed: Services::NONE, ..criteria };
        assert_eq!(chosen(&call(0.1), &prices(0), &nothing), (Service::Internet, Reason::NoneCompetent));
    }
}
