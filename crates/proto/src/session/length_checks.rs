//! Checks that long packets still arrive at a peer, because the path MTU may shrink without a
//! signal.
//!
//! A long packet is longer than [`PAYLOAD_BYTES_BASE`](crate::limits::PAYLOAD_BYTES_BASE). The
//! sender counts its long packets, and so does the receiver. A check is an ordinary probe whose
//! reply has the receiver's count. If some are missing, another check follows at once. Long packets
//! do not pass if none of those between the two checks arrived, and there were enough of them to
//! exclude chance. If the application sends too few long packets in between, padded probes replace
//! them.

use arrayvec::ArrayVec;
use byway_units::Time;

use crate::limits::{
    LENGTH_CHECK_AFTER, LENGTH_CHECK_INTERVAL_MIN, LENGTH_CHECK_LOSSES_MIN, LENGTH_CHECK_PADDED_INTERVAL,
};

/// Number of checks in flight that are remembered: one each 80 ms, on paths of up to a second, and
/// some early ones.
const IN_FLIGHT_CHECKS_MAX: usize = 16;

/// A check in flight: a probe whose reply will report the peer's count of long packets.
#[derive(Clone, Copy, Debug)]
struct Check {
    number: u32,
    sent_at: Time,
    /// Number of long packets sent before the check, modulo 2^32.
    sent: u32,
}

/// Counts of the latest answered check: long packets sent before it, and received, modulo 2^32.
#[derive(Clone, Copy, Debug)]
struct AcknowledgedCounts {
    sent: u32,
    arrived: u32,
}

/// Result of a reply to a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CheckResult {
    /// All long packets have arrived, or the reply proves nothing.
    Nothing,
    /// Some long packets are missing: the session should send another check.
    Missing,
    /// Long packets do not reach the peer, while short ones do: the path has become narrower.
    Narrowed,
}

/// Length checks of the path to one peer.
#[derive(Clone, Debug, Default)]
pub(super) struct LengthChecks {
    /// Number of long packets sent so far, modulo 2^32, and the number before the last check.
    sent: u32,
    checked: u32,
    in_flight: ArrayVec<Check, IN_FLIGHT_CHECKS_MAX>,
    acknowledged: Option<AcknowledgedCounts>,
    /// Time of the reply that showed missing long packets; `None` if none are missing. Only checks
    /// sent after it prove a loss.
    missing_since: Option<Time>,
    /// Number of long packets sent after `missing_since`, none of which arrived.
    lost: u32,
    last_sent_at: Time,
    /// Time before which all long packets sent have arrived, as far as replies show.
    intact_until: Time,
    next: Option<Time>,
    /// Time from which on padded probes may be sent again.
    padded_at: Time,
}

impl LengthChecks {
    /// Counts a long packet that is sent now; returns true if that sets the time of the next check.
    pub(super) fn on_sent(&mut self, now: Time) -> bool {
        self.sent = self.sent.wrapping_add(1);
        let is_planned = self.next.is_none();
        if is_planned {
            self.next = Some(now + LENGTH_CHECK_AFTER);
        }
        is_planned
    }

    /// Returns the time of the next check; `None` if no long packet was sent since the last one.
    pub(super) const fn deadline(&self) -> Option<Time> {
        self.next
    }

    /// Returns the number of padded probes to send now, before the check that is due; `None` if no
    /// check is due.
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

    /// Records that the session sends a check now, as the probe with this number.
    pub(super) fn on_check(&mut self, number: u32, now: Time) {
        if self.in_flight.is_full() {
            self.in_flight.remove(0);
        }
        self.in_flight.push(Check { number, sent_at: now, sent: self.sent });
        (self.checked, self.last_sent_at, self.next) = (self.sent, now, None);
    }

    /// Begins the checks, because long packets are sent from now on. `arrived` is the number of
    /// them that the peer has counted before.
    pub(super) fn begin(&mut self, arrived: u32) {
        self.acknowledged.get_or_insert(AcknowledgedCounts { sent: self.sent, arrived });
    }

    /// True if the probe with this number is a check in flight.
    pub(super) fn is_check(&self, number: u32) -> bool {
        self.in_flight.iter().any(|check| check.number == number)
    }

    /// Handles the reply to the check with this number; `arrived` is the peer's count of long
    /// packets. Compares it with the previous check.
    pub(super) fn on_reply(&mut self, number: u32, arrived: u32, now: Time) -> CheckResult {
        let Some(index) = self.in_flight.iter().position(|check| check.number == number) else {
            return CheckResult::Nothing;
        };
        let Check { sent_at, sent, .. } = self.in_flight[index];
        self.in_flight.drain(..=index);
        let before = self.acknowledged.replace(AcknowledgedCounts { sent, arrived });
        before.map_or(CheckResult::Nothing, |before| {
            let sent = sent.wrapping_sub(before.sent);
            // A peer that counts long packets has counted the padded probe that proved the length.
            let is_counted = sent > 0 && arrived > 0;
            let arrived = arrived.wrapping_sub(before.arrived);
            if is_counted {
                self.evaluate(sent_at, index == 0, sent, arrived, now)
            } else {
                CheckResult::Nothing
            }
        })
    }

    /// Evaluates two answered checks, the second of which was sent at `sent_at`. Of `sent` long
    /// packets between them, `arrived` arrived. `are_adjacent` is true if no check in between was
    /// lost.
    fn evaluate(
        &mut self,
        sent_at: Time,
        are_adjacent: bool,
        sent: u32,
        arrived: u32,
        now: Time,
    ) -> CheckResult {
        let is_later = self.missing_since.is_some_and(|since| since <= sent_at);
        if arrived >= sent {
            self.intact_until = sent_at;
            (self.missing_since, self.lost) = (None, 0);
            return CheckResult::Nothing;
        }
        if self.missing_since.is_some() && !is_later {
            return CheckResult::Nothing;
        }
        // If a check between the two is lost, short packets are lost, too, so the losses do not
        // depend on length.
        if is_later && arrived == 0 && are_adjacent {
            self.lost = self.lost.saturating_add(sent);
            if self.lost >= LENGTH_CHECK_LOSSES_MIN {
                return CheckResult::Narrowed;
            }
        } else {
            (self.missing_since, self.lost) = (Some(now), 0);
        }
        self.next = Some(now.max(self.last_sent_at + LENGTH_CHECK_INTERVAL_MIN));
        CheckResult::Missing
    }

    /// Returns the time before which all long packets sent have arrived, as far as replies show.
    pub(super) const fn intact_until(&self) -> Time {
        self.intact_until
    }

    /// Forgets the checks and the losses, because no long packets are sent until a padded probe
    /// passes.
    pub(super) fn restart(&mut self) {
        *self = Self { sent: self.sent, checked: self.sent, padded_at: self.padded_at, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use byway_units::Duration;

    use super::*;

    /// A path for short packets, and at times for long ones; a long packet is sent at each
    /// interval.
    struct Path {
        checks: LengthChecks,
        now: Time,
        number: u32,
        arrived: u32,
        /// Replies in flight: arrival time, number of the check, and number of received packets.
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

        /// Runs in steps of a millisecond until the checks find that long packets do not pass;
        /// returns the time it took.
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
                    if self.checks.on_reply(number, arrived, self.now) == CheckResult::Narrowed {
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
