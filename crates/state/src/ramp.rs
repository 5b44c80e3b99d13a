//! Start of a window, and its return after a silence or an outage of the state.

use byway_units::Time;

use crate::limits::{RAMP_GAIN, SILENCE};

/// Limit of a window: it at most doubles in each round trip, at the start and later.
///
/// If several flows began with full windows at one instant, 26 packets of each would wait. With
/// this limit, it is 10.
///
/// If a link suddenly shows a hundred times its rate, 1,300 packets would wait until round trips
/// reveal that. With this limit, it is 200 for a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ramp {
    /// Bytes that may be in flight.
    limit: f64,
    initial: f64,
    sent_at: Option<Time>,
}

impl Ramp {
    /// Begins with a window of `initial` bytes.
    pub(crate) const fn new(initial: f64) -> Self {
        Self { limit: initial, initial, sent_at: None }
    }

    /// Begins anew with a window of so many bytes.
    pub(crate) fn restart(&mut self, limit: f64) {
        self.limit = limit.max(self.initial);
    }

    /// Handles acknowledged bytes: their number adds to the limit, which doubles in a round trip.
    pub(crate) fn on_ack(&mut self, bytes: f64, window: f64) {
        self.limit = (self.limit + bytes).min(RAMP_GAIN * window).max(self.initial);
    }

    /// Handles a sent packet. After a silence, the window begins anew.
    pub(crate) fn on_sent(&mut self, now: Time) {
        if self.sent_at.is_some_and(|at| now.saturating_since(at) >= SILENCE) {
            self.limit = self.initial;
        }
        self.sent_at = Some(now);
    }

    /// Returns the window, limited.
    pub(crate) fn limited(&self, window: f64) -> f64 {
        window.min(self.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_values::at;

    #[test]
    fn the_window_doubles_until_it_is_reached() {
        let mut ramp = Ramp::new(15_000.0);
        let mut windows = [0.0; 5];
        for window in &mut windows {
            *window = ramp.limited(64_000.0);
            ramp.on_ack(*window, 64_000.0);
        }
        assert!(
            windows
                .iter()
                .zip([15_000.0, 30_000.0, 60_000.0, 64_000.0, 64_000.0])
                .all(|(a, b)| (a - b).abs() < 1.0)
        );
    }

    #[test]
    fn a_window_that_grows_suddenly_doubles_in_each_round_trip_too() {
        let mut ramp = Ramp::new(15_000.0);
        ramp.on_ack(640_000.0, 64_000.0);
        assert!((ramp.limited(6_400_000.0) - 128_000.0).abs() < 1.0);
        ramp.on_ack(128_000.0, 6_400_000.0);
        assert!((ramp.limited(6_400_000.0) - 256_000.0).abs() < 1.0);
    }

    #[test]
    fn a_small_window_does_not_end_the_ramp_of_a_larger_one() {
        let mut ramp = Ramp::new(15_000.0);
        ramp.on_ack(3_000.0, 1_500.0);
        assert!((ramp.limited(64_000.0) - 15_000.0).abs() < 1.0);
    }

    #[test]
    fn a_second_of_silence_begins_anew() {
        let mut ramp = Ramp::new(15_000.0);
        ramp.on_sent(at(0));
        ramp.on_ack(200_000.0, 64_000.0);
        ramp.on_sent(at(999));
        assert!(ramp.limited(64_000.0) > 60_000.0);
        ramp.on_sent(at(1_999));
        assert!(ramp.limited(64_000.0) < 16_000.0);
        ramp.restart(40_000.0);
        assert!((ramp.limited(64_000.0) - 40_000.0).abs() < 1.0);
    }
}
