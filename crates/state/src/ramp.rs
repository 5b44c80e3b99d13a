//! Start of a window, and its return after a silence or an outage of the state.

use byway_units::Time;

use crate::limits::SILENCE;

/// Limit of a window that doubles each round trip until the window from the state is reached.
///
/// If several flows began with full windows at one instant, 26 packets of each would wait. With
/// this limit, it is 8.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ramp {
    /// Bytes that may be in flight; `None` once the window is reached.
    limit: Option<f64>,
    initial: f64,
    sent_at: Option<Time>,
}

impl Ramp {
    /// Begins with a window of `initial` bytes.
    pub(crate) const fn new(initial: f64) -> Self {
        Self { limit: Some(initial), initial, sent_at: None }
    }

    /// Begins anew with a window of so many bytes.
    pub(crate) fn restart(&mut self, limit: f64) {
        self.limit = Some(limit.max(self.initial));
    }

    /// Handles acknowledged bytes: their number adds to the limit, which doubles in a round trip.
    pub(crate) fn on_ack(&mut self, bytes: f64, window: f64) {
        if let Some(limit) = &mut self.limit {
            *limit += bytes;
            // Twice the window: while the averages of a new flow settle, the window grows.
            if *limit > 2.0 * window {
                self.limit = None;
            }
        }
    }

    /// Handles a sent packet. After a silence, the window begins anew.
    pub(crate) fn on_sent(&mut self, now: Time) {
        if self.sent_at.is_some_and(|at| now.saturating_since(at) >= SILENCE) {
            self.limit = Some(self.initial);
        }
        self.sent_at = Some(now);
    }

    /// Returns the window, limited.
    pub(crate) fn limited(&self, window: f64) -> f64 {
        self.limit.map_or(window, |limit| window.min(limit))
    }
}

#[cfg(test)]
mod tests {
    use byway_units::Duration;

    use super::*;

    fn at(millis: u64) -> Time {
        Time::START + Duration::from_millis(millis)
    }

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
        assert!((ramp.limited(640_000.0) - 640_000.0).abs() < 1.0, "a larger window is free");
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
