//! Estimate of the offset between the clocks of a flow's two ends, by its sender.
//!
//! Reports contain differences between the receiver's clock and the sender's timestamps. Less the
//! offset, they are one-way delays. Half of the round trip of the direct path is its one-way delay
//! as far as an end can know. So the offset is the difference to that, at the time of the shortest
//! round trip (clock filter, RFC 5905, section 10).
//!
//! A path that becomes slower in one direction for long has no shorter round trip any more. Half of
//! the longer one would be wrong by half of the change. So the filter keeps the shortest round trip
//! until the clocks may have drifted by more than that.

use byway_units::{Duration, Time};
use byway_wire::messages::RelativeDelay;

use crate::limits::{CLOCK_DRIFT_PART, CLOCK_JUMP_MIN, DELAY_STEADY_WITHIN};

/// Round trip of the direct path, and the least relative delay of its packets at that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sample {
    round_trip: Duration,
    least: u32,
}

impl Sample {
    /// True if the path had the same delay in both samples. Otherwise it changes, and the smoothed
    /// round trip lags behind the packets.
    fn is_steady(self, before: Self) -> bool {
        let difference = self.round_trip.max(before.round_trip) - self.round_trip.min(before.round_trip);
        let tolerance = DELAY_STEADY_WITHIN.max(self.round_trip / 16);
        difference <= tolerance && distance(self.least, before.least) * 2 <= tolerance
    }
}

/// Filter for the clocks' offset. It follows the drift of the clocks, because the error of a sample
/// grows with its age: by a [`CLOCK_DRIFT_PART`]th of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ClockOffset {
    latest: Option<Sample>,
    /// Sample with the least error, and its time.
    best: Option<(Sample, Time)>,
}

impl ClockOffset {
    /// Updates the estimate with the delay of the direct path in a report, and the round trip that
    /// this end has measured.
    pub(super) fn on_report(&mut self, direct: RelativeDelay, round_trip: Duration, now: Time) {
        let sample = Sample { round_trip, least: direct.least };
        if self.latest.is_some_and(|latest| distance(latest.least, sample.least) > CLOCK_JUMP_MIN) {
            *self = Self::default();
        }
        let is_steady = self.latest.replace(sample).is_some_and(|latest| sample.is_steady(latest));
        let is_better = self.best.is_none_or(|(best, at)| {
            let drift = now.saturating_since(at) / CLOCK_DRIFT_PART;
            is_steady && sample.round_trip / 2 <= (best.round_trip / 2).saturating_add(drift)
        });
        if is_better {
            self.best = Some((sample, now));
        }
    }

    /// Returns the one-way delay for a relative delay; `None` before the first report.
    pub(super) fn delay(&self, relative: u32) -> Option<Duration> {
        let (Sample { round_trip, least }, _) = self.best?;
        let beyond = i64::from(relative.wrapping_sub(least).cast_signed());
        let half = i64::try_from(round_trip.as_micros() / 2).unwrap_or(i64::MAX);
        Some(Duration::from_micros(half.saturating_add(beyond).max(0).unsigned_abs()))
    }
}

/// Returns the time between two relative delays, across the wrap.
fn distance(one: u32, other: u32) -> Duration {
    Duration::from_micros(one.wrapping_sub(other).cast_signed().unsigned_abs().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offset of the receiver's clock in microseconds: relative delays wrap.
    const OFFSET: u32 = u32::MAX - 20_000;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn relative(delay_ms: u32) -> u32 {
        OFFSET.wrapping_add(delay_ms * 1_000)
    }

    /// Reports each second of a direct path with these least delays and smoothed round trips, in
    /// milliseconds.
    fn report(clock: &mut ClockOffset, second: &mut u64, samples: &[(u32, u64)]) {
        for (least, round_trip) in samples {
            *second += 1;
            let direct = RelativeDelay { least: relative(*least), p95: relative(*least) };
            clock.on_report(direct, ms(*round_trip), Time::START + Duration::from_secs(*second));
        }
    }

    #[test]
    fn delays_are_those_above_half_the_shortest_round_trip() {
        let (mut clock, mut second) = (ClockOffset::default(), 0);
        assert_eq!(clock.delay(relative(40)), None);
        report(&mut clock, &mut second, &[(40, 80), (40, 80)]);
        assert_eq!(clock.delay(relative(40)), Some(ms(40)));
        assert_eq!(clock.delay(relative(120)), Some(ms(120)));
        assert_eq!(clock.delay(relative(25)), Some(ms(25)), "a relay path is faster");
    }

    #[test]
    fn a_round_trip_that_lags_behind_a_change_is_not_used() {
        let (mut clock, mut second) = (ClockOffset::default(), 0);
        report(&mut clock, &mut second, &[(40, 80); 29]);
        // The path becomes slower at the start of a window, and the round trip follows slowly.
        report(&mut clock, &mut second, &[(120, 80), (120, 160), (120, 200), (120, 220), (120, 230)]);
        assert_eq!(clock.delay(relative(120)), Some(ms(120)));
        report(&mut clock, &mut second, &[(120, 240); 100]);
        assert_eq!(clock.delay(relative(120)), Some(ms(120)), "a standing queue");
        report(&mut clock, &mut second, &[(40, 240), (40, 160), (40, 100), (40, 85), (40, 80), (40, 80)]);
        assert_eq!(clock.delay(relative(40)), Some(ms(40)));
    }

    #[test]
    fn a_standing_change_in_one_direction_counts_in_that_direction_alone() {
        let before = [(40, 80); 10];
        for (after, expected) in [((120, 160), ms(120)), ((40, 160), ms(40))] {
            let (mut clock, mut second) = (ClockOffset::default(), 0);
            report(&mut clock, &mut second, &before);
            for _ in 0..300 {
                report(&mut clock, &mut second, &[after]);
                assert_eq!(clock.delay(relative(after.0)), Some(expected), "second {second}");
            }
        }
    }

    #[test]
    fn clocks_that_drift_are_followed_though_the_round_trip_has_become_longer() {
        let mut clock = ClockOffset::default();
        let mut error_max = Duration::ZERO;
        for second in 0..3_600 {
            let (one_way, round_trip) = if second < 10 { (40, 80) } else { (50, 100) };
            let least = relative(one_way).wrapping_add(50 * second);
            let direct = RelativeDelay { least, p95: least };
            clock.on_report(direct, ms(round_trip), Time::START + Duration::from_secs(second.into()));
            let (found, expected) = (clock.delay(least).expect("it is known"), ms(one_way.into()));
            error_max = error_max.max(found.max(expected) - found.min(expected));
        }
        assert!(error_max <= ms(10), "half of the change: {error_max}");
    }

    #[test]
    fn a_restarted_receiver_has_another_offset() {
        let (mut clock, mut second) = (ClockOffset::default(), 0);
        report(&mut clock, &mut second, &[(40, 80), (40, 80), (60_000, 80), (60_000, 80)]);
        assert_eq!(clock.delay(relative(60_000)), Some(ms(40)));
    }
}
