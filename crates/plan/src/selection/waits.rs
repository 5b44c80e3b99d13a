//! Times between changes of a flow's service.

use byway_units::{Duration, Time};
use byway_wire::Service;

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

/// Times of a flow's changes, and the wait before its next downgrade.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    changed_at: Option<Time>,
    /// Cheaper service, and the time since which it has been competent.
    cheaper: Option<(Service, Time)>,
    /// Wait before a downgrade while the latest upgrade is remembered.
    downgrade_after: Duration,
    upgraded_at: Option<Time>,
}

impl Waits {
    /// Returns the waits of a flow whose service has not changed yet.
    pub(super) const fn new() -> Self {
        Self { changed_at: None, cheaper: None, downgrade_after: DOWNGRADE_AFTER, upgraded_at: None }
    }

    /// Returns the time of the latest change.
    pub(super) const fn changed_at(&self) -> Option<Time> {
        self.changed_at
    }

    /// Records a change. An upgrade, or the return after a downgrade that did not suffice, has the
    /// next downgrades wait longer.
    pub(super) fn on_changed(&mut self, is_upgrade: bool, now: Time) {
        if is_upgrade {
            let is_repeated = self.upgraded_recently(now);
            self.downgrade_after = if is_repeated {
                (self.downgrade_after * 2).min(UPGRADE_REMEMBERED)
            } else {
                DOWNGRADE_AFTER
            };
            self.upgraded_at = Some(now);
        }
        (self.changed_at, self.cheaper) = (Some(now), None);
    }

    /// Begins the wait before the next downgrade anew: no cheaper service suffices now.
    pub(super) const fn restart(&mut self) {
        self.cheaper = None;
    }

    /// Records that a cheaper service is competent now, and returns true if it has been for long
    /// enough.
    /// Without a recent upgrade, a flow that `has_waited` otherwise need not wait.
    pub(super) fn is_due(&mut self, cheaper: Service, has_waited: bool, now: Time) -> bool {
        let since = self.cheaper.filter(|(known, _)| *known == cheaper).map_or(now, |(_, since)| since);
        self.cheaper = Some((cheaper, since));
        let wait = match (self.upgraded_recently(now), has_waited) {
            (true, _) => self.downgrade_after,
            (false, true) => Duration::ZERO,
            (false, false) => DOWNGRADE_AFTER,
        };
        now.saturating_since(since) >= wait
    }

    /// Returns true if the latest change was less than [`CHANGE_INTERVAL`] ago.
    pub(super) fn has_just_changed(&self, now: Time) -> bool {
        self.changed_at.is_some_and(|at| now.saturating_since(at) < CHANGE_INTERVAL)
    }

    fn upgraded_recently(&self, now: Time) -> bool {
        self.upgraded_at.is_some_and(|at| now.saturating_since(at) < UPGRADE_REMEMBERED)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::delay::Delays;
    use crate::selection::harness::{Harness, delays, ms};

    fn at(second: u64) -> Time {
        Time::START + Duration::from_secs(second)
    }

    #[test]
    fn a_service_is_due_after_half_a_minute_in_which_no_other_one_was_cheaper() {
        let mut waits = Waits::new();
        let is_due = |waits: &mut Waits, second| waits.is_due(Service::Forwarding, false, at(second));
        assert_eq!([0, 29, 30].map(|second| is_due(&mut waits, second)), [false, false, true]);
        assert!(!waits.is_due(Service::Retransmission, false, at(31)));
        assert_eq!([40, 69, 70].map(|second| is_due(&mut waits, second)), [false, false, true]);
        waits.restart();
        assert_eq!([80, 109, 110].map(|second| is_due(&mut waits, second)), [false, false, true]);
        waits.on_changed(false, at(110));
        assert_eq!([120, 149, 150].map(|second| is_due(&mut waits, second)), [false, false, true]);
    }

    #[test]
    fn each_upgrade_in_ten_minutes_doubles_the_wait_and_a_later_one_resets_it() {
        let mut waits = Waits::new();
        let mut wait_after = |is_upgrade: bool, changed: u64| {
            waits.on_changed(is_upgrade, at(changed));
            let due = (changed..changed + 2_000).find(|now| waits.is_due(Service::Pull, false, at(*now)));
            due.map(|due| due - changed)
        };
        // The sixth wait ends once its upgrade is forgotten.
        let waited = [0, 100, 200, 300, 400, 999].map(|second| wait_after(true, second));
        assert_eq!(waited, [30, 60, 120, 240, 480, 600].map(Some));
        assert_eq!([1_599, 1_700].map(|second| wait_after(true, second)), [Some(30), Some(60)]);
        assert_eq!(wait_after(false, 1_800), Some(60), "a downgrade changes nothing");
    }

    #[test]
    fn the_time_that_a_flow_has_waited_otherwise_counts_without_a_recent_upgrade() {
        let mut waits = Waits::new();
        assert!(waits.is_due(Service::Retransmission, true, at(0)));
        waits.on_changed(true, at(1));
        assert!(!waits.is_due(Service::Retransmission, true, at(2)));
        waits.restart();
        assert!(waits.is_due(Service::Retransmission, true, at(601)));
    }

    #[test]
    fn a_change_is_recent_for_five_seconds() {
        let mut waits = Waits::new();
        assert!(!waits.has_just_changed(at(0)));
        waits.on_changed(false, at(10));
        assert_eq!([14, 15].map(|second| waits.has_just_changed(at(second))), [true, false]);
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
    fn changes_are_five_seconds_apart() {
        let mut harness = Harness::new(195);
        harness.run(3, 1);
        harness.observation.delays = Some(Delays { ingress_to_egress: ms(100), ..delays(190) });
        harness.run(20, 1);
        let changes = [(3, Service::Retransmission), (8, Service::Both)];
        assert_eq!(harness.changes, changes.map(|(second, to)| (Time::START + ms(second * 1_000), to)));
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
}
