//! Probes of one of several paths to the same node: delays, and silence.
//!
//! The answers contain the time of arrival by the other node's clock. Differences of its clock and
//! this node's have an unknown offset, which is the same for all paths. So one-way delays of paths
//! can be compared, whichever path the answers use.

use arrayvec::ArrayVec;
use byway_units::{Duration, Time};

use crate::limits::{
    TRANSIT_ANSWER_FIRST, TRANSIT_ANSWER_MARGIN, TRANSIT_OVERDUE_MAX, TRANSIT_PROBES_MAX, TRANSIT_SAMPLES,
};

/// Latest one-way delays of a path, as differences of two clocks in microseconds modulo 2^32.
#[derive(Clone, Debug, Default)]
pub struct DelaySamples {
    samples: ArrayVec<u32, TRANSIT_SAMPLES>,
    latest: Option<Time>,
}

impl DelaySamples {
    /// Adds a delay, in place of the oldest one.
    pub fn add(&mut self, delay: u32, now: Time) {
        if self.samples.is_full() {
            self.samples.remove(0);
        }
        self.samples.push(delay);
        self.latest = Some(now);
    }

    /// Returns the number of delays, up to [`TRANSIT_SAMPLES`].
    #[must_use]
    pub fn count(&self) -> usize {
        self.samples.len()
    }

    /// Returns the time of the latest delay; `None` without any.
    #[must_use]
    pub const fn latest(&self) -> Option<Time> {
        self.latest
    }

    /// Returns the median delay, the greater of the two in the middle; `None` without delays.
    #[must_use]
    pub fn median(&self) -> Option<u32> {
        let first = *self.samples.first()?;
        let mut offsets: ArrayVec<i32, TRANSIT_SAMPLES> =
            self.samples.iter().map(|delay| delay.wrapping_sub(first).cast_signed()).collect();
        offsets.sort_unstable();
        Some(first.wrapping_add(offsets[offsets.len() / 2].cast_unsigned()))
    }
}

/// Probes of one path: those in flight, and the delays of those that were answered.
#[derive(Clone, Debug, Default)]
pub struct PathProbes {
    /// Numbers and times of unanswered probes, the oldest first.
    in_flight: ArrayVec<(u32, Time), TRANSIT_PROBES_MAX>,
    delays: DelaySamples,
    /// Round-trip times of the latest answers.
    round_trips: ArrayVec<Duration, TRANSIT_SAMPLES>,
}

impl PathProbes {
    /// Records that the probe with this number leaves now.
    pub fn on_sent(&mut self, number: u32, now: Time) {
        if self.in_flight.is_full() {
            self.in_flight.remove(0);
        }
        self.in_flight.push((number, now));
    }

    /// Records the answer to a probe of this path, and its delay by both clocks. Returns false for
    /// other probes, and if a later one was answered.
    pub fn on_reply(&mut self, number: u32, delay: u32, now: Time) -> bool {
        let Some(index) = self.in_flight.iter().position(|(known, _)| *known == number) else {
            return false;
        };
        let (_, sent) = self.in_flight[index];
        self.in_flight.drain(..=index);
        if self.round_trips.is_full() {
            self.round_trips.remove(0);
        }
        self.round_trips.push(now.saturating_since(sent));
        self.delays.add(delay, now);
        true
    }

    /// Returns the delays of the latest answers.
    #[must_use]
    pub const fn delays(&self) -> &DelaySamples {
        &self.delays
    }

    /// True if so many answers are overdue that the path counts as failed.
    #[must_use]
    pub fn is_silent(&self, now: Time) -> bool {
        let slowest = self.round_trips.iter().max().copied();
        let timeout = slowest.map_or(TRANSIT_ANSWER_FIRST, |slowest| slowest + TRANSIT_ANSWER_MARGIN);
        let overdue = self.in_flight.iter().filter(|(_, sent)| *sent + timeout <= now);
        overdue.count() >= TRANSIT_OVERDUE_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::START + Duration::from_millis(ms)
    }

    #[test]
    fn the_median_is_that_of_the_latest_delays_and_survives_the_wrap_of_clocks() {
        let mut samples = DelaySamples::default();
        assert_eq!(samples.median(), None);
        let base = u32::MAX - 20;
        for (nth, delay) in [90, 10, 30, 20].into_iter().enumerate() {
            samples.add(base.wrapping_add(delay), at(nth as u64));
        }
        // Of 10, 20, 30 and 90, 30 is the greater one in the middle.
        assert_eq!(samples.median(), Some(base.wrapping_add(30)));
        (0..TRANSIT_SAMPLES).for_each(|_| samples.add(base.wrapping_sub(500), at(9)));
        assert_eq!(samples.median(), Some(base.wrapping_sub(500)), "the former ones are forgotten");
        assert_eq!((samples.count(), samples.latest()), (TRANSIT_SAMPLES, Some(at(9))));
    }

    #[test]
    fn half_of_the_delays_change_the_median() {
        let mut samples = DelaySamples::default();
        (0..8).for_each(|_| samples.add(40_000, at(0)));
        (0..3).for_each(|_| samples.add(240_000, at(0)));
        assert_eq!(samples.median(), Some(40_000));
        samples.add(240_000, at(0));
        assert_eq!(samples.median(), Some(240_000));
    }

    #[test]
    fn an_answer_counts_once_and_in_order() {
        let mut probes = PathProbes::default();
        (1..=3).for_each(|number| probes.on_sent(number, at(u64::from(number) * 200)));
        assert!(!probes.on_reply(9, 5, at(700)), "it is no probe of this path");
        assert!(probes.on_reply(2, 5, at(700)));
        assert!(!probes.on_reply(2, 5, at(701)), "once");
        assert!(!probes.on_reply(1, 5, at(701)), "a later one was answered");
        assert_eq!(probes.delays().count(), 1);
    }

    /// Returns the milliseconds after which a path is silent that fails after eight answers, each
    /// after this round trip.
    fn silent_after(round_trip: u64) -> u64 {
        let mut probes = PathProbes::default();
        for number in 0..8 {
            probes.on_sent(number, at(u64::from(number) * 200));
            assert!(probes.on_reply(number, 5, at(u64::from(number) * 200 + round_trip)));
        }
        let failed = 1_400 + round_trip;
        let silent = |ms: &u64| {
            let (number, is_due) = (u32::try_from(ms / 200).expect("few"), ms.is_multiple_of(200));
            if is_due {
                probes.on_sent(number, at(*ms));
            }
            probes.is_silent(at(*ms))
        };
        (failed + 1..10_000).find(silent).expect("it is silent") - failed
    }

    #[test]
    fn a_path_that_answers_no_more_is_silent_within_two_seconds() {
        // The fifth probe after the failure leaves within a second, and is overdue 200 ms after the
        // round trip.
        for round_trip in [20, 140, 700] {
            let after = silent_after(round_trip);
            assert!((1_000 + round_trip..=1_200 + round_trip).contains(&after), "{after} of {round_trip} ms");
            assert!(after < 2_000);
        }
    }

    #[test]
    fn a_path_that_never_answers_is_silent_and_memory_is_bounded() {
        let mut probes = PathProbes::default();
        for number in 0..5 {
            probes.on_sent(number, at(u64::from(number) * 200));
        }
        assert!(!probes.is_silent(at(1_799)));
        assert!(probes.is_silent(at(1_800)), "a second after the fifth");
        (5..100).for_each(|number| probes.on_sent(number, at(2_000)));
        assert_eq!(probes.in_flight.len(), TRANSIT_PROBES_MAX);
    }
}
