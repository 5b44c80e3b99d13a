//! Does this path still deliver.

use byway_units::{Duration, Time};

/// A circuit breaker after RFC 8084: stops what is sent over a path that loses too much of it for too long, and
/// tries again after a pause that grows.
///
/// It is for traffic that does not slow down by itself, such as copies, and is no congestion control: it ends
/// what would otherwise go on for ever.
#[derive(Clone, Copy, Debug)]
pub struct Breaker {
    /// Of the interval that is not judged yet.
    sent: u64,
    received: u64,
    bad_intervals: u8,
    pause: Duration,
    /// Tripped: nothing is sent until then.
    closed_until: Option<Time>,
    trips: u64,
}

/// Trips on intervals with more than a tenth lost. Ordinary congestion stays well below; copies that lose so much
/// are not worth what they take from others.
const LOST_MAX: (u64, u64) = (1, 10);

/// So many bad intervals in a row trip: a burst of losses spans one or two.
const BAD_INTERVALS: u8 = 3;

/// Intervals with fewer packets are judged together with the next: of ten, a single loss is a tenth.
const PACKETS_MIN: u64 = 20;

/// The first pause is longer than most outages of a second.
const PAUSE_MIN: Duration = Duration::from_secs(5);

/// The longest pause: a path that came back is used again within minutes.
const PAUSE_MAX: Duration = Duration::from_secs(320);

impl Default for Breaker {
    fn default() -> Self {
        Self::new()
    }
}

impl Breaker {
    /// A path that is taken to deliver.
    #[must_use]
    pub const fn new() -> Self {
        Self { sent: 0, received: 0, bad_intervals: 0, pause: PAUSE_MIN, closed_until: None, trips: 0 }
    }

    /// Whether packets may be sent: all, or after a pause enough to judge the path by.
    #[must_use]
    pub fn allows(&self, now: Time) -> bool {
        self.closed_until.is_none_or(|until| now >= until)
    }

    /// When a pause ends.
    #[must_use]
    pub const fn deadline(&self) -> Option<Time> {
        self.closed_until
    }

    /// How many times it has tripped.
    #[must_use]
    pub const fn trips(&self) -> u64 {
        self.trips
    }

    /// A measurement interval is over: so many packets were sent in it, so many of them have arrived. Where the
    /// other side reports nothing, none have.
    pub fn interval(&mut self, sent: u64, received: u64, now: Time) {
        if !self.allows(now) {
            return;
        }
        self.sent += sent;
        self.received += received;
        if self.sent >= PACKETS_MIN {
            self.judge(now);
        }
    }

    fn judge(&mut self, now: Time) {
        let lost = self.sent.saturating_sub(self.received);
        let is_bad = lost * LOST_MAX.1 > self.sent * LOST_MAX.0;
        (self.sent, self.received) = (0, 0);
        if !is_bad {
            self.closed_until = None;
            self.bad_intervals = 0;
            self.pause = (self.pause / 2).max(PAUSE_MIN);
            return;
        }
        self.bad_intervals += 1;
        // After a pause, one bad interval is enough.
        if self.bad_intervals >= BAD_INTERVALS || self.closed_until.is_some() {
            self.trip(now);
        }
    }

    fn trip(&mut self, now: Time) {
        self.closed_until = Some(now.saturating_add(self.pause));
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        self.bad_intervals = 0;
        self.trips += 1;
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    fn at(secs: u64) -> Time {
        Time::START + Duration::from_secs(secs)
    }

    fn tripped() -> Breaker {
        let mut breaker = Breaker::new();
        (1..=3).for_each(|second| breaker.interval(100, 0, at(second)));
        breaker
    }

    #[test]
    fn three_bad_intervals_in_a_row_trip() {
        let mut breaker = Breaker::new();
        for (second, received) in (1..).zip([89, 89, 90, 89, 89]) {
            breaker.interval(100, received, at(second));
        }
        assert!(breaker.allows(at(5)));
        breaker.interval(100, 89, at(6));
        assert_eq!((breaker.allows(at(6)), breaker.trips(), breaker.deadline()), (false, 1, Some(at(11))));
    }

    #[test]
    fn a_tenth_lost_is_borne() {
        let mut breaker = Breaker::new();
        (1..100).for_each(|second| breaker.interval(100, 90, at(second)));
        assert_eq!(breaker.trips(), 0);
    }

    #[test]
    fn one_loss_of_few_packets_is_no_verdict() {
        let mut breaker = Breaker::new();
        // One lost of five, again and again, and then none of many.
        (1..=4).for_each(|second| breaker.interval(5, 4, at(second)));
        assert_eq!(breaker.bad_intervals, 1, "twenty packets are one interval");
        (5..=8).for_each(|second| breaker.interval(5, 5, at(second)));
        assert_eq!(breaker.bad_intervals, 0);
    }

    #[test]
    fn a_path_that_delivers_again_is_used_again() {
        let mut breaker = tripped();
        assert!(!breaker.allows(at(7)) && breaker.allows(at(8)));
        breaker.interval(100, 0, at(7));
        assert_eq!(breaker.deadline(), Some(at(8)), "in a pause nothing is judged");
        breaker.interval(100, 100, at(9));
        assert_eq!((breaker.allows(at(9)), breaker.deadline()), (true, None));
    }

    #[test]
    fn pauses_double_while_the_path_stays_dark_and_shrink_when_it_delivers() {
        let mut breaker = tripped();
        let mut pauses = Vec::new();
        for _ in 0..9 {
            let now = breaker.deadline().expect("tripped");
            breaker.interval(100, 0, now);
            pauses.push(breaker.deadline().expect("tripped again") - now);
        }
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 320, 320, 320].map(Duration::from_secs));
        let now = breaker.deadline().expect("tripped");
        for second in 0..3 {
            breaker.interval(100, 100, now + Duration::from_secs(second));
        }
        assert_eq!(breaker.pause, Duration::from_secs(40));
    }

    #[test]
    fn more_received_than_sent_is_no_loss() {
        let mut breaker = Breaker::new();
        (1..=9).for_each(|second| breaker.interval(100, 101, at(second)));
        assert_eq!(breaker.trips(), 0);
    }
}
