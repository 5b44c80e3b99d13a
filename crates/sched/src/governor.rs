//! How the low-average class keeps what its packets wait at its target in the long run: it drops or marks more of them the longer they wait, and
//! lets short spikes pass (a proportional-integral controller with its output squared: De Schepper and others, `CoNEXT` 2016; RFC
//! 9332, appendix A).

use byway_units::{Duration, Time};

use crate::limits::{GOVERNED_LEVEL_MAX, GOVERNED_ROUND_TRIP, GOVERNING_EXPIRY, GOVERNING_INTERVAL};
use crate::marker::take;

/// Decides which packets tell of congestion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Governor {
    target: f64,
    /// The square root of the share of packets that are told of it.
    level: f64,
    /// What the oldest packet had waited at the last look, in seconds.
    waited: f64,
    look_at: Time,
    /// What is to be marked and has not been yet, in packets; and to be dropped, in the longest ones.
    owed: [f64; 2],
}

impl Governor {
    /// That keeps the mean wait at or below a bound.
    pub(crate) fn new(bound: Duration, now: Time) -> Self {
        Self { target: target(bound), level: 0.0, waited: 0.0, look_at: now, owed: [0.0; 2] }
    }

    /// Another bound from now on.
    pub(crate) fn aim(&mut self, bound: Duration) {
        self.target = target(bound);
    }

    /// Whether the packet that comes tells of congestion, which is so much of the longest one, where the oldest has waited for so long.
    pub(crate) fn chooses(&mut self, waited: Duration, is_marked: bool, length: f64, now: Time) -> bool {
        self.look(waited, now);
        let share = self.level * self.level;
        if is_marked { take(&mut self.owed[0], share) } else { take(&mut self.owed[1], share * length) }
    }

    /// Moves the level, once in an interval.
    #[inline(never)]
    fn look(&mut self, waited: Duration, now: Time) {
        if now < self.look_at {
            return;
        }
        let missed = now.saturating_since(self.look_at);
        self.look_at = now + GOVERNING_INTERVAL;
        if missed > GOVERNING_EXPIRY {
            (self.level, self.waited) = (0.0, 0.0);
        }
        let waited = waited.as_secs_f64();
        let integral = 0.1 * GOVERNING_INTERVAL.as_secs_f64() / (GOVERNED_ROUND_TRIP * GOVERNED_ROUND_TRIP);
        let proportional = 0.3 / GOVERNED_ROUND_TRIP;
        let change = integral * (waited - self.target) + proportional * (waited - self.waited);
        self.level = (self.level + change).clamp(0.0, GOVERNED_LEVEL_MAX);
        self.waited = waited;
    }
}

/// What the oldest packet is to have waited, in seconds: half of the bound on the mean, as what spikes add comes on top.
fn target(bound: Duration) -> f64 {
    (bound / 2).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of packets, one in a millisecond, that are marked in ten seconds of such a wait.
    fn marked(governor: &mut Governor, from: Time, waited: Duration) -> usize {
        let times = (0..10_000).map(|millis| from + Duration::from_millis(millis));
        times.filter(|now| governor.chooses(waited, true, 1.0, *now)).count()
    }

    #[test]
    fn who_waits_longer_than_the_target_is_told_ever_more_and_who_does_not_is_not() {
        let target = Duration::from_millis(10);
        let mut governor = Governor::new(target * 2, Time::START);
        assert_eq!(marked(&mut governor, Time::START, target / 2), 0);
        let later = |seconds| Time::START + Duration::from_secs(seconds);
        let some = marked(&mut governor, later(10), target * 3);
        let more = marked(&mut governor, later(20), target * 3);
        assert!(some > 0 && more > some && more <= 2_500, "{some} {more}");
        let less = marked(&mut governor, later(30), Duration::ZERO);
        assert!(less < more, "{less}");
    }

    #[test]
    fn a_short_spike_passes_and_a_long_pause_is_forgotten() {
        let target = Duration::from_millis(10);
        let mut governor = Governor::new(target * 2, Time::START);
        let spike = (0..50).map(|millis| Time::START + Duration::from_millis(millis));
        assert_eq!(spike.filter(|now| governor.chooses(target * 4, true, 1.0, *now)).count(), 0);
        marked(&mut governor, Time::START + Duration::from_secs(1), target * 5);
        let later = Time::START + Duration::from_secs(60);
        assert!(!governor.chooses(Duration::ZERO, true, 1.0, later) && governor.level == 0.0);
    }

    #[test]
    fn short_packets_are_hardly_ever_dropped() {
        let mut governor = Governor::new(Duration::from_millis(20), Time::START);
        let mut dropped = [0_u32; 2];
        for millis in 0..20_000 {
            let now = Time::START + Duration::from_millis(millis);
            let [of_short, of_long] =
                [0.03, 1.0].map(|length| governor.chooses(Duration::from_millis(30), false, length, now));
            dropped[0] += u32::from(of_short);
            dropped[1] += u32::from(of_long);
        }
        assert!(dropped[1] > 100, "{dropped:?}");
    }
}
