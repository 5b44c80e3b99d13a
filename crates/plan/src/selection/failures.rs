//! Services that missed their target, although the prediction said that they would meet it.

use byway_units::{Duration, Time};
use byway_wire::{Service, Services};

use crate::delay::Delays;

/// Time for which a service that missed its target is no candidate, and no slower one is.
pub const FAILED_FOR: Duration = Duration::from_secs(60);

/// Latest failure of a flow's services.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failures {
    /// Delivery time from which on services are no candidates, and the time of the failure.
    latest: Option<(Duration, Time)>,
}

impl Failures {
    /// Returns the state of a flow whose services have met their targets.
    pub(super) const fn new() -> Self {
        Self { latest: None }
    }

    /// Records that a service missed its target, if a faster one is allowed.
    pub(super) fn record(&mut self, (service, allowed): (Service, Services), delays: &Delays, now: Time) {
        let Some(own) = delays.delivery(service) else {
            return;
        };
        let is_faster = |other: &Service| {
            allowed.allow(*other) && delays.delivery(*other).is_some_and(|other| other < own)
        };
        if Service::ALL.iter().any(is_faster) {
            let before = self.recent(now);
            self.latest = Some((before.map_or(own, |from| from.min(own)), now));
        }
    }

    /// Returns the services of `allowed` without those that failed recently, and all slower ones.
    pub(super) fn permitted(&self, allowed: Services, delays: &Delays, now: Time) -> Services {
        let failed_from = self.recent(now);
        let has_failed = |service: Service| {
            failed_from.zip(delays.delivery(service)).is_some_and(|(from, delivery)| delivery >= from)
        };
        let failed = Service::ALL.iter().filter(|service| has_failed(**service));
        failed.fold(allowed, |allowed, service| allowed.without(*service))
    }

    /// Returns the delivery time from which on services failed within the last [`FAILED_FOR`].
    fn recent(&self, now: Time) -> Option<Duration> {
        let recent = self.latest.filter(|(_, at)| now.saturating_since(*at) < FAILED_FOR);
        recent.map(|(from, _)| from)
    }
}

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;

    use super::*;
    use crate::selection::harness::{ALL, Harness, delays};

    fn at(second: u64) -> Time {
        Time::START + Duration::from_secs(second)
    }

    /// Returns the services that are permitted at a second. The direct path takes 50 ms, and
    /// relays 70: caching delivers after 95, pull and retransmission after 195.
    fn permitted(failures: &Failures, second: u64) -> Services {
        failures.permitted(ALL.with(Service::Forwarding), &delays(50), at(second))
    }

    #[test]
    fn failed_services_and_slower_ones_are_no_candidates_for_a_minute() {
        let mut failures = Failures::new();
        failures.record((Service::Caching, ALL), &delays(50), at(0));
        let faster = Services::NONE.with(Service::Both).with(Service::Forwarding);
        assert_eq!(permitted(&failures, 59), faster);
        assert_eq!(permitted(&failures, 60), ALL.with(Service::Forwarding));
        failures.record((Service::Retransmission, ALL), &delays(50), at(60));
        assert_eq!(permitted(&failures, 61), faster.with(Service::Caching));
    }

    #[test]
    fn a_failure_of_a_slower_service_forgets_none_of_a_faster_one() {
        let mut failures = Failures::new();
        failures.record((Service::Caching, ALL), &delays(50), at(0));
        failures.record((Service::Retransmission, ALL), &delays(50), at(10));
        assert_eq!(permitted(&failures, 65), Services::NONE.with(Service::Both).with(Service::Forwarding));
    }

    #[test]
    fn the_fastest_service_stays_a_candidate() {
        let mut failures = Failures::new();
        failures.record((Service::Both, ALL), &delays(50), at(0));
        failures.record((Service::Caching, ALL.without(Service::Both)), &delays(50), at(0));
        assert_eq!(permitted(&failures, 0), ALL.with(Service::Forwarding));
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
}
