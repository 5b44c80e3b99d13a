//! `NewReno`: the window grows by a segment per window, and halves at a loss (RFC 5681).

use byway_units::{Bytes, Duration, Time};

use super::{AckSample, CongestionControl, slow_start_increase};

/// Classic congestion control (RFC 5681), with growth counted in bytes (RFC 3465).
#[derive(Clone, Debug)]
pub struct NewReno {
    /// Payload of a full segment (SMSS).
    segment: Bytes,
    initial: Bytes,
    window: Bytes,
    threshold: Option<Bytes>,
    /// Bytes acknowledged since the window last grew, in congestion avoidance.
    counted: Bytes,
}

impl NewReno {
    /// Creates a controller for segments of this many bytes of payload, with this initial window.
    #[must_use]
    pub const fn new(segment: Bytes, initial: Bytes) -> Self {
        Self { segment, initial, window: initial, threshold: None, counted: Bytes::ZERO }
    }

    /// Returns half of the bytes in flight, but two segments at least (RFC 5681, equation 4).
    fn half(&self, in_flight: Bytes) -> Bytes {
        Bytes::new(in_flight.count() / 2).max(self.segment * 2)
    }
}

impl CongestionControl for NewReno {
    fn on_ack(&mut self, progress: AckSample, _now: Time) {
        if self.threshold.is_none_or(|threshold| self.window < threshold) {
            self.window += slow_start_increase(progress.bytes, self.segment);
            return;
        }
        self.counted += progress.bytes;
        if self.counted >= self.window {
            self.counted -= self.window;
            self.window += self.segment;
        }
    }

    fn on_congestion_event(&mut self, in_flight: Bytes, _now: Time) {
        self.window = self.half(in_flight);
        self.threshold = Some(self.window);
        self.counted = Bytes::ZERO;
    }

    fn on_retransmission_timeout(&mut self, in_flight: Bytes, _now: Time) {
        self.threshold = Some(self.half(in_flight));
        self.window = self.segment;
        self.counted = Bytes::ZERO;
    }

    fn on_idle(&mut self, _idle: Duration) {
        self.window = self.window.min(self.initial);
    }

    fn window(&self) -> Bytes {
        self.window
    }

    fn slow_start_threshold(&self) -> Option<Bytes> {
        self.threshold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: Bytes = Bytes::new(1_000);

    fn segments(count: u64) -> Bytes {
        SEGMENT * count
    }

    fn acknowledge(control: &mut NewReno, bytes: Bytes) {
        control.on_ack(AckSample { bytes, round_trip: Duration::from_millis(100) }, Time::START);
    }

    #[test]
    fn slow_start_doubles_the_window_despite_delayed_acknowledgments() {
        let mut control = NewReno::new(SEGMENT, segments(10));
        (0..5).for_each(|_| acknowledge(&mut control, segments(2)));
        assert_eq!(control.window(), segments(20));
        // A segment that fills a gap acknowledges many bytes at once, and must not cause a burst.
        acknowledge(&mut control, segments(15));
        assert_eq!(control.window(), segments(22));
    }

    #[test]
    fn congestion_halves_what_is_on_its_way_and_growth_is_linear_then() {
        let mut control = NewReno::new(SEGMENT, segments(30));
        control.on_congestion_event(segments(20), Time::START);
        assert_eq!((control.window(), control.slow_start_threshold()), (segments(10), Some(segments(10))));
        (0..9).for_each(|_| acknowledge(&mut control, segments(1)));
        assert_eq!(control.window(), segments(10));
        acknowledge(&mut control, segments(1));
        assert_eq!(control.window(), segments(11));
    }

    #[test]
    fn a_timeout_leaves_one_segment_and_half_as_threshold() {
        let mut control = NewReno::new(SEGMENT, segments(30));
        control.on_retransmission_timeout(segments(3), Time::START);
        assert_eq!((control.window(), control.slow_start_threshold()), (segments(1), Some(segments(2))));
    }

    #[test]
    fn an_idle_window_is_the_initial_one_at_most() {
        let mut control = NewReno::new(SEGMENT, segments(10));
        (0..50).for_each(|_| acknowledge(&mut control, segments(2)));
        control.on_idle(Duration::from_secs(1));
        assert_eq!(control.window(), segments(10));
    }
}
