//! Checks that long packets arrive: a path may become narrower without a sign.
//!
//! Whoever sends packets that are longer than every path carries counts them, and so does the peer. A check is an
//! ordinary probe: its reply says how many have arrived. If some are missing, another check follows at once. If none
//! arrived of those that were sent between the two, and they were enough to rule out chance, long packets do not pass
//! while short ones do. Padded probes make up for long packets that the application did not send meanwhile.

use arrayvec::ArrayVec;
use byway_units::Time;

use crate::limits::{
    LENGTH_CHECK_AFTER, LENGTH_CHECK_INTERVAL_MIN, LENGTH_CHECK_LOSSES_MIN, LENGTH_CHECK_PADDED_INTERVAL,
};

/// Checks under way that are remembered: one each 80 ms, on paths of up to a second, and some that were hurried.
const UNDER_WAY_MAX: usize = 16;

/// A check that was sent.
#[derive(Clone, Copy, Debug)]
struct Check {
    number: u32,
    left: Time,
    /// Long packets sent before it, modulo 2^32.
    sent: u32,
}

/// Long packets that were sent, and how many of them arrived, modulo 2^32.
#[derive(Clone, Copy, Debug)]
struct Acknowledged {
    sent: u32,
    arrived: u32,
}

/// What a reply to a check tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finding {
    /// Nothing that is to be acted on.
    Nothing,
    /// Some long packets are missing: another check is due now.
    Missing,
    /// Long packets do not pass, while short ones do.
    Narrowed,
}

/// The checks of one path.
#[derive(Clone, Debug, Default)]
pub(super) struct LengthChecks {
    /// Long packets sent so far, modulo 2^32, and before the last check.
    sent: u32,
    checked: u32,
    under_way: ArrayVec<Check, UNDER_WAY_MAX>,
    acknowledged: Option<Acknowledged>,
    /// Time since which it is known that long packets are missing.
    missing_since: Option<Time>,
    /// Long packets in a row that were sent after that and did not arrive.
    lost: u32,
    last_left: Time,
    /// Long packets sent before this time have all arrived, or were given up.
    intact_until: Time,
    next: Option<Time>,
    /// When padded probes may make up for long packets again.
    padded_at: Time,
}

impl LengthChecks {
    /// Counts a long packet that leaves now; true if that plans the next check.
    pub(super) fn on_sent(&mut self, now: Time) -> bool {
        self.sent = self.sent.wrapping_add(1);
        let is_planned = self.next.is_none();
        if is_planned {
            self.next = Some(now + LENGTH_CHECK_AFTER);
        }
        is_planned
    }

    /// When the next check is due.
    pub(super) const fn deadline(&self) -> Option<Time> {
        self.next
    }

    /// The number of padded probes that are to leave now, in front of a check; `None` if none is due.
    pub(super) fn due(&mut self, now: Time) -> Option<u32> {
        self.next.filter(|at| *at <= now)?;
        let evidence = self.lost.saturating_add(self.sent.wrapping_sub(self.checked));
        let wanted = LENGTH_CHECK_LOSSES_MIN.saturating_sub(evidence);
        if self.missing_since.is_none() || wanted == 0 || now < self.padded_at {
            return Some(0);
        }
        self.padded_at = now + LENGTH_CHECK_PADDED_INTERVAL;
        Some(wanted)
    }

    /// Notes a check that leaves now.
    pub(super) fn on_check(&mut self, number: u32, now: Time) {
        if self.under_way.is_full() {
            self.under_way.remove(0);
        }
        self.under_way.push(Check { number, left: now, sent: self.sent });
        (self.checked, self.last_left, self.next) = (self.sent, now, None);
    }

    /// Long packets are sent from now on: so many have arrived before.
    pub(super) fn begin(&mut self, arrived: u32) {
        self.acknowledged.get_or_insert(Acknowledged { sent: self.sent, arrived });
    }

    /// True if a check with this number is under way.
    pub(super) fn is_check(&self, number: u32) -> bool {
        self.under_way.iter().any(|check| check.number == number)
    }

    /// Takes the reply to a check: so many long packets have arrived at the peer.
    pub(super) fn on_reply(&mut self, number: u32, arrived: u32, now: Time) -> Finding {
        let Some(place) = self.under_way.iter().position(|check| check.number == number) else {
            return Finding::Nothing;
        };
        let Check { left, sent, .. } = self.under_way[place];
        self.under_way.drain(..=place);
        let before = self.acknowledged.replace(Acknowledged { sent, arrived });
        before.map_or(Finding::Nothing, |before| {
            let sent = sent.wrapping_sub(before.sent);
            // A peer that counts has counted the padded probe that showed how long packets may be.
            let is_counted = sent > 0 && arrived > 0;
            let arrived = arrived.wrapping_sub(before.arrived);
            if is_counted { self.judge(left, place == 0, sent, arrived, now) } else { Finding::Nothing }
        })
    }

    /// What it says that so many of so many long packets arrived between two checks, of which the second left then.
    fn judge(&mut self, left: Time, are_adjacent: bool, sent: u32, arrived: u32, now: Time) -> Finding {
        let is_later = self.missing_since.is_some_and(|since| since <= left);
        if arrived >= sent {
            self.intact_until = left;
            (self.missing_since, self.lost) = (None, 0);
            return Finding::Nothing;
        }
        if self.missing_since.is_some() && !is_later {
            return Finding::Nothing;
        }
        // If a check between the two is lost, short packets were, too: that says nothing of lengths.
        if is_later && arrived == 0 && are_adjacent {
            self.lost = self.lost.saturating_add(sent);
            if self.lost >= LENGTH_CHECK_LOSSES_MIN {
                return Finding::Narrowed;
            }
        } else {
            (self.missing_since, self.lost) = (Some(now), 0);
        }
        self.next = Some(now.max(self.last_left + LENGTH_CHECK_INTERVAL_MIN));
        Finding::Missing
    }

    /// The time before which long packets have arrived, as far as is known.
    pub(super) const fn intact_until(&self) -> Time {
        self.intact_until
    }

    /// Forgets what was sent: from now on, nothing long is, until a padded probe passes.
    pub(super) fn restart(&mut self) {
        *self = Self { sent: self.sent, checked: self.sent, padded_at: self.padded_at, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use byway_units::Duration;

    use super::*;

    /// A path that carries long packets or not, and short ones always; a long packet leaves every so often.
    struct Path {
        checks: LengthChecks,
        now: Time,
        number: u32,
        arrived: u32,
        /// When replies come, with the number of the check and what had arrived.
        replies: alloc::collections::VecDeque<(Time, u32, u32)>,
        round_trip: Duration,
        interval: Duration,
        next_long: Time,
        padded: u32,
    }

    impl Path {
        fn new(round_trip: Duration, interval: Duration) -> Self {
            Self {
                checks: LengthChecks::default(),
                now: Time::START,
                number: 0,
                arrived: 1,
                replies: alloc::collections::VecDeque::new(),
                round_trip,
                interval,
                next_long: Time::START,
                padded: 0,
            }
        }

        /// Time passes in steps of a millisecond, until long packets are found not to pass; how long that took.
        fn run(&mut self, time: Duration, mut passes: impl FnMut(Time) -> (bool, bool)) -> Option<Duration> {
            let began = self.now;
            while self.now.saturating_since(began) < time {
                if self.next_long <= self.now {
                    self.next_long = self.now + self.interval;
                    self.checks.on_sent(self.now);
                    self.arrived += u32::from(passes(self.now).0);
                }
                if let Some(padded) = self.checks.due(self.now) {
                    for _ in 0..padded {
                        self.checks.on_sent(self.now);
                        self.arrived += u32::from(passes(self.now).0);
                    }
                    self.padded += padded;
                    self.number += 1;
                    self.checks.on_check(self.number, self.now);
                    if passes(self.now).1 {
                        self.replies.push_back((self.now + self.round_trip, self.number, self.arrived));
                    }
                }
                while let Some((_, number, arrived)) =
                    self.replies.front().copied().filter(|(at, ..)| *at <= self.now)
                {
                    self.replies.pop_front();
                    if self.checks.on_reply(number, arrived, self.now) == Finding::Narrowed {
                        return Some(self.now.saturating_since(began));
                    }
                }
                self.now += Duration::from_millis(1);
            }
            None
        }
    }

    #[test]
    fn a_path_that_loses_long_packets_is_found_within_two_round_trips_and_100_ms() {
        for round_trip in [1, 5, 20, 50, 100, 300] {
            for (interval, after) in
                [(5, 1_000), (20, 1_000), (20, 1_033), (20, 1_079), (40, 1_011), (100, 1_001)]
            {
                let round_trip = Duration::from_millis(round_trip);
                let mut path = Path::new(round_trip, Duration::from_millis(interval));
                assert_eq!(path.run(Duration::from_millis(after), |_| (true, true)), None);
                assert_eq!(path.padded, 0, "nothing is missing");
                let next = path.next_long.saturating_since(path.now);
                let found = path.run(Duration::from_secs(2), |_| (false, true)).expect("it is found");
                let limit = next + round_trip * 2 + Duration::from_millis(100);
                assert!(found <= limit, "{found} of {limit}: {round_trip}, {interval} ms");
            }
        }
    }

    #[test]
    fn losses_and_outages_of_all_lengths_are_no_sign() {
        let mut random = crate::random::Generator::new([7; 32]);
        for (share, interval) in [(1, 20), (5, 20), (10, 5), (10, 100)] {
            let mut path = Path::new(Duration::from_millis(50), Duration::from_millis(interval));
            let mut dark_until = Time::START;
            let found = path.run(Duration::from_secs(600), |now| {
                if random.number().is_multiple_of(2_000) {
                    dark_until = now + Duration::from_millis(u64::from(random.number() % 500));
                }
                let mut passes = || now >= dark_until && random.number() % 100 >= share;
                (passes(), passes())
            });
            assert_eq!(found, None, "{share} %");
            assert!(path.padded <= LENGTH_CHECK_LOSSES_MIN * 300, "{} padded probes", path.padded);
        }
    }

    #[test]
    fn a_peer_that_does_not_count_says_nothing() {
        let mut path = Path::new(Duration::from_millis(50), Duration::from_millis(20));
        path.arrived = 0;
        assert_eq!(path.run(Duration::from_secs(10), |_| (false, true)), None);
    }
}
