//! AQM of the low-average class: drops or marks more packets as the sojourn time grows, and
//! controls its long-term mean to the target. Short spikes pass. It is PI2, a proportional-integral
//! controller with squared output (De Schepper and others, `CoNEXT` 2016; RFC 9332, appendix A).

use byway_units::{Duration, Time};

use crate::ecn_marker::consume_debt;
use crate::limits::{PI2_EXPIRY, PI2_LEVEL_MAX, PI2_ROUND_TRIP_MAX, PI2_UPDATE_INTERVAL};

/// Selects arriving packets of the low-average class that signal congestion, by a mark or by their
/// loss.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pi2Aqm {
    target: f64,
    /// Square root of the share of packets that signal congestion (the controller's output).
    level: f64,
    /// Sojourn time of the oldest packet at the last update of the level, in seconds.
    sojourn: f64,
    update_at: Time,
    /// Sums of marking probabilities (in packets) and of drop probabilities (in longest packets)
    /// since the last signals.
    debts: [f64; 2],
}

impl Pi2Aqm {
    /// Creates an AQM that bounds the mean sojourn time of the class.
    pub(crate) fn new(bound: Duration, now: Time) -> Self {
        Self { target: target(bound), level: 0.0, sojourn: 0.0, update_at: now, debts: [0.0; 2] }
    }

    /// Sets another bound on the mean sojourn time.
    pub(crate) fn set_bound(&mut self, bound: Duration) {
        self.target = target(bound);
    }

    /// True if the arriving packet should signal congestion: by a mark if `can_mark`, otherwise by
    /// its loss. `length` is its length as a part of the longest packet's. `sojourn` is the sojourn
    /// time of the oldest queued packet.
    pub(crate) fn should_signal(
        &mut self,
        sojourn: Duration,
        can_mark: bool,
        length: f64,
        now: Time,
    ) -> bool {
        self.update(sojourn, now);
        let share = self.level * self.level;
        if can_mark {
            consume_debt(&mut self.debts[0], share)
        } else {
            consume_debt(&mut self.debts[1], share * length)
        }
    }

    /// Updates the level from the sojourn time of the oldest queued packet, once in an interval.
    #[inline(never)]
    fn update(&mut self, sojourn: Duration, now: Time) {
        if now < self.update_at {
            return;
        }
        let missed = now.saturating_since(self.update_at);
        self.update_at = now + PI2_UPDATE_INTERVAL;
        if missed > PI2_EXPIRY {
            (self.level, self.sojourn) = (0.0, 0.0);
        }
        let sojourn = sojourn.as_secs_f64();
        let integral = 0.1 * PI2_UPDATE_INTERVAL.as_secs_f64() / (PI2_ROUND_TRIP_MAX * PI2_ROUND_TRIP_MAX);
        let proportional = 0.3 / PI2_ROUND_TRIP_MAX;
        let change = integral * (sojourn - self.target) + proportional * (sojourn - self.sojourn);
        self.level = (self.level + change).clamp(0.0, PI2_LEVEL_MAX);
        self.sojourn = sojourn;
    }
}

/// Returns the target sojourn time of the oldest packet, in seconds: half of the bound on the mean,
/// because spikes add to it.
fn target(bound: Duration) -> f64 {
    (bound / 2).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of marked packets in ten seconds at this sojourn time, with one packet
    /// each millisecond.
    fn count_marked(aqm: &mut Pi2Aqm, from: Time, waited: Duration) -> usize {
        let times = (0..10_000).map(|millis| from + Duration::from_millis(millis));
        times.filter(|now| aqm.should_signal(waited, true, 1.0, *now)).count()
    }

    #[test]
    fn who_waits_longer_than_the_target_is_told_ever_more_and_who_does_not_is_not() {
        let target = Duration::from_millis(10);
        let mut aqm = Pi2Aqm::new(target * 2, Time::START);
        assert_eq!(count_marked(&mut aqm, Time::START, target / 2), 0);
        let later = |seconds| Time::START + Duration::from_secs(seconds);
        let some = count_marked(&mut aqm, later(10), target * 3);
        let more = count_marked(&mut aqm, later(20), target * 3);
        assert!(some > 0 && more > some && more <= 2_500, "{some} {more}");
        let less = count_marked(&mut aqm, later(30), Duration::ZERO);
        assert!(less < more, "{less}");
    }

    #[test]
    fn a_short_spike_passes_and_a_long_pause_is_forgotten() {
        let target = Duration::from_millis(10);
        let mut aqm = Pi2Aqm::new(target * 2, Time::START);
        let spike = (0..50).map(|millis| Time::START + Duration::from_millis(millis));
        assert_eq!(spike.filter(|now| aqm.should_signal(target * 4, true, 1.0, *now)).count(), 0);
        count_marked(&mut aqm, Time::START + Duration::from_secs(1), target * 5);
        let later = Time::START + Duration::from_secs(60);
        assert!(!aqm.should_signal(Duration::ZERO, true, 1.0, later) && aqm.level == 0.0);
    }

    #[test]
    fn short_packets_are_hardly_ever_dropped() {
        let mut aqm = Pi2Aqm::new(Duration::from_millis(20), Time::START);
        let mut dropped = [0_u32; 2];
        for millis in 0..20_000 {
            let now = Time::START + Duration::from_millis(millis);
            let [of_short, of_long] =
                [0.03, 1.0].map(|length| aqm.should_signal(Duration::from_millis(30), false, length, now));
            dropped[0] += u32::from(of_short);
            dropped[1] += u32::from(of_long);
        }
        assert!(dropped[1] > 100, "{dropped:?}");
    }
}
