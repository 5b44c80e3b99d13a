//! Delay of the parts of a path that no table has.

use byway_units::{Duration, Time};

use crate::convert::seconds;
use crate::least::Least;
use crate::limits::{LEAST_RTT_PERIOD, ROUND_TRIP_SECONDS_MIN};

/// Delay of the rest of a path: the least round trip of 10 s, beyond what the table explains.
///
/// Without it, a flow uses 66 % of a link if 40 ms of its 100 ms are not in the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RestOfPath {
    round_trips: Least<Duration>,
    /// Round trips without the queues of the table.
    without_queues: Least<Duration>,
}

impl RestOfPath {
    pub(crate) const fn new() -> Self {
        Self { round_trips: Least::new(LEAST_RTT_PERIOD), without_queues: Least::new(LEAST_RTT_PERIOD) }
    }

    /// Adds a round trip, while packets wait in the table's queues for `wait` seconds at least.
    ///
    /// The queues do not count as the rest: otherwise each flow's own packet would, and the window
    /// would grow by it each 10 s.
    pub(crate) fn on_round_trip(&mut self, round_trip: Duration, wait: f64, now: Time) {
        self.round_trips.add(round_trip, now);
        self.without_queues.add(round_trip.saturating_sub(seconds(wait)), now);
    }

    /// Returns the least round trip in seconds, whatever the table says.
    pub(crate) fn least_round_trip(&self, now: Time) -> Option<f64> {
        self.round_trips.least(now).map(|least| least.as_secs_f64().max(ROUND_TRIP_SECONDS_MIN))
    }

    /// Returns the delay of the rest in seconds, while the table has `base_delay` seconds without
    /// queues.
    ///
    /// It is negative if the table has too much: the delay of a link that stores and forwards is
    /// that of a full packet, and acknowledgments are short. At most `surplus_max` seconds are
    /// taken for that, because a queue that just emptied looks the same.
    pub(crate) fn delay(&self, base_delay: f64, surplus_max: f64, now: Time) -> f64 {
        let least = self.without_queues.least(now);
        least.map_or(0.0, |least| (least.as_secs_f64() - base_delay).max(-surplus_max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_values::{at, is_close, millis};

    #[test]
    fn the_least_round_trip_beyond_table_and_queues_is_the_rest() {
        let (mut rest, now) = (RestOfPath::new(), Time::START);
        assert!(is_close(rest.delay(0.06, 0.0, now), 0.0));
        rest.on_round_trip(millis(105), 0.002, now);
        rest.on_round_trip(millis(104), 0.004, now);
        rest.on_round_trip(millis(150), 0.040, now);
        assert!(is_close(rest.delay(0.06, 0.0, now), 0.04));
        assert!(rest.least_round_trip(now).is_some_and(|least| is_close(least, 0.104)));
    }

    #[test]
    fn it_is_forgotten_after_ten_seconds() {
        let mut rest = RestOfPath::new();
        rest.on_round_trip(millis(100), 0.0, Time::START);
        rest.on_round_trip(millis(120), 0.0, at(9_000));
        assert!(is_close(rest.delay(0.06, 0.0, at(9_000)), 0.04));
        assert!(is_close(rest.delay(0.06, 0.0, at(11_000)), 0.06));
    }

    #[test]
    fn a_table_with_too_much_delay_is_corrected_by_short_packets_only() {
        let mut rest = RestOfPath::new();
        rest.on_round_trip(millis(100), 0.0, Time::START);
        assert!(is_close(rest.delay(0.103, 0.005, Time::START), -0.003));
        assert!(is_close(rest.delay(0.150, 0.005, Time::START), -0.005));
    }
}
