//! Schedule of the requests for one loss: the first, its repetitions, and the last.
//!
//! Receivers request packets from relays, ingress relays request copies from senders, and egress
//! relays request copies from ingress relays. All of them repeat a request by this schedule, each
//! with a [`RetryPolicy`] of its own.

use byway_units::{Duration, Time};

use crate::limits::COPY_REORDERING;

/// Largest number of doublings of the time between two requests.
const DOUBLINGS_MAX: u8 = 8;

/// Returns the time after which an unanswered request is repeated: one and a half round trips to
/// whoever was asked. An answer takes one, and half of one covers a varying delay.
#[must_use]
pub fn retry_interval(round_trip: Duration) -> Duration {
    round_trip + round_trip / 2
}

/// Returns the time within which a node at this round trip should answer a request, with a margin
/// for reordering.
#[must_use]
pub fn answer_timeout(round_trip: Duration) -> Duration {
    retry_interval(round_trip) + COPY_REORDERING
}

/// True if a packet that was sent at `sent_at` to a node at this round trip may still be in flight,
/// or its answer.
///
/// Measured round trips may be outdated; the margin of an eighth allows for that.
#[must_use]
pub fn may_be_in_flight(sent_at: Time, round_trip: Duration, now: Time) -> bool {
    sent_at + (round_trip - round_trip / 8) > now
}

/// Growth of the time between two requests for the same loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backoff {
    /// The time stays the same.
    Constant,
    /// The time doubles with each request.
    Doubling,
}

/// Limit on the requests for one loss, and the time between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Largest number of requests for one loss.
    pub requests_max: u8,
    /// Growth of the time between two requests.
    pub backoff: Backoff,
}

/// State of the requests for one loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RetryTimer {
    /// Time of the next request; [`Time::MAX`] if none follows.
    due: Time,
    requests: u8,
}

impl RetryTimer {
    /// Creates the timer of a loss that was never requested; its first request is due at `due`.
    #[must_use]
    pub const fn new(due: Time) -> Self {
        Self { due, requests: 0 }
    }

    /// Creates the timer of a loss that was requested once; the second request is due at `due`, if
    /// the policy allows two.
    #[must_use]
    pub const fn requested_once(policy: RetryPolicy, due: Time) -> Self {
        Self { due: if policy.requests_max > 1 { due } else { Time::MAX }, requests: 1 }
    }

    /// Returns the time of the next request; [`Time::MAX`] if none follows.
    #[must_use]
    pub const fn due(&self) -> Time {
        self.due
    }

    /// Returns the number of requests so far.
    #[must_use]
    pub const fn requests(&self) -> u8 {
        self.requests
    }

    /// True if a request is due now.
    #[must_use]
    pub fn is_due(&self, now: Time) -> bool {
        self.due <= now
    }

    /// True if the loss was never requested, and never will be.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.requests == 0 && self.due == Time::MAX
    }

    /// Makes the first request due now, unless it is cancelled. Later ones keep their time.
    pub fn hasten_first(&mut self, now: Time) {
        if self.requests == 0 && !self.is_cancelled() {
            self.due = self.due.min(now);
        }
    }

    /// Ends the schedule: no request follows.
    pub const fn cancel(&mut self) {
        self.due = Time::MAX;
    }

    /// Records a request, and sets the time of the next: `interval` from now, or longer by the
    /// policy's backoff. None follows the last one that the policy allows.
    pub fn on_request(&mut self, policy: RetryPolicy, interval: Duration, now: Time) {
        let doublings = match policy.backoff {
            Backoff::Constant => 0,
            Backoff::Doubling => self.requests.min(DOUBLINGS_MAX),
        };
        let wait = Duration::from_nanos(interval.as_nanos().saturating_mul(1 << doublings));
        self.requests = self.requests.saturating_add(1);
        self.due = if self.requests < policy.requests_max { now.saturating_add(wait) } else { Time::MAX };
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    const INTERVAL: Duration = Duration::from_millis(10);

    fn at(ms: u64) -> Time {
        Time::START + Duration::from_millis(ms)
    }

    /// Returns the times of all requests, in milliseconds, if each is sent when it is due.
    fn request_times(mut timer: RetryTimer, policy: RetryPolicy) -> Vec<u64> {
        let mut sent_at = Vec::new();
        while timer.due() < Time::MAX {
            let now = timer.due();
            sent_at.push(now.saturating_since(Time::START).as_millis());
            timer.on_request(policy, INTERVAL, now);
        }
        sent_at
    }

    #[test]
    fn a_request_is_repeated_at_constant_intervals() {
        let policy = RetryPolicy { requests_max: 3, backoff: Backoff::Constant };
        assert_eq!(request_times(RetryTimer::new(at(6)), policy), [6, 16, 26]);
    }

    #[test]
    fn a_request_is_repeated_at_intervals_that_double() {
        let policy = RetryPolicy { requests_max: 5, backoff: Backoff::Doubling };
        assert_eq!(request_times(RetryTimer::new(at(0)), policy), [0, 10, 30, 70, 150]);
        assert_eq!(request_times(RetryTimer::requested_once(policy, at(5)), policy), [5, 25, 65, 145]);
    }

    #[test]
    fn one_request_is_not_repeated_if_the_policy_allows_one() {
        let policy = RetryPolicy { requests_max: 1, backoff: Backoff::Doubling };
        assert_eq!(request_times(RetryTimer::new(at(3)), policy), [3]);
        assert_eq!(request_times(RetryTimer::requested_once(policy, at(3)), policy), []);
    }

    #[test]
    fn only_a_first_request_is_hastened() {
        let policy = RetryPolicy { requests_max: 2, backoff: Backoff::Constant };
        let mut timer = RetryTimer::new(at(50));
        timer.hasten_first(at(20));
        assert!(timer.is_due(at(20)) && !timer.is_due(at(19)));
        timer.on_request(policy, INTERVAL, at(20));
        timer.hasten_first(at(21));
        assert_eq!(timer.due(), at(30));
    }

    #[test]
    fn a_cancelled_request_is_never_due() {
        let mut timer = RetryTimer::new(at(50));
        timer.cancel();
        timer.hasten_first(at(60));
        assert!(timer.is_cancelled() && !timer.is_due(at(1_000)));
    }

    #[test]
    fn long_intervals_do_not_overflow() {
        let policy = RetryPolicy { requests_max: u8::MAX, backoff: Backoff::Doubling };
        let mut timer = RetryTimer::new(at(0));
        for _ in 0..300 {
            timer.on_request(policy, Duration::MAX, at(1));
        }
        assert_eq!((timer.due(), timer.requests()), (Time::MAX, u8::MAX));
    }
}
