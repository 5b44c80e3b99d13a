//! `Fractional`: congestion control for queues of a few packets. Its window may be a fraction of a
//! segment, and segments are paced.
//!
//! If many flows share little bandwidth, RFC 5681's least window of two segments each exceeds the
//! capacity, and segments sent at once arrive at a full queue. (Sub-packet windows: Briscoe and De
//! Schepper, *Scaling TCP's Congestion Window for Small Round Trip Times*, 2015.)

use byway_units::{Bytes, Duration, Time};

use super::{AckSample, CongestionControl};

/// Inverse of the least window in segments: one segment in this many round trips.
const WINDOW_MIN_INVERSE: u64 = 16;

/// Like [`NewReno`](super::NewReno) above two segments; below, it grows by a quarter for each of
/// its windows.
#[derive(Clone, Debug)]
pub struct Fractional {
    segment: Bytes,
    initial: Bytes,
    window: Bytes,
    threshold: Option<Bytes>,
}

impl Fractional {
    /// Creates a controller for segments of this many bytes of payload, with this initial window.
    #[must_use]
    pub const fn new(segment: Bytes, initial: Bytes) -> Self {
        Self { segment, initial, window: initial, threshold: None }
    }

    fn window_min(&self) -> Bytes {
        Bytes::new((self.segment.count() / WINDOW_MIN_INVERSE).max(1))
    }

    fn halve(&mut self) {
        self.window = Bytes::new(self.window.count() / 2).max(self.window_min());
        self.threshold = Some(self.window);
    }
}

impl CongestionControl for Fractional {
    fn on_ack(&mut self, progress: AckSample, _now: Time) {
        let (bytes, segment, window) = (progress.bytes.count(), self.segment.count(), self.window.count());
        let increase = if self.threshold.is_none() {
            bytes.min(2 * segment)
        } else if window >= 2 * segment {
            segment * bytes / window
        } else {
            window * bytes.min(segment) / segment / 4
        };
        self.window += Bytes::new(increase.max(1));
    }

    fn on_congestion_event(&mut self, _in_flight: Bytes, _now: Time) {
        self.halve();
    }

    fn on_retransmission_timeout(&mut self, _in_flight: Bytes, _now: Time) {
        self.window = self.window.min(self.segment);
        self.halve();
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

    fn is_paced(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEGMENT: Bytes = Bytes::new(1_000);

    fn acknowledge(control: &mut Fractional, bytes: u64) {
        let bytes = Bytes::new(bytes);
        control.on_ack(AckSample { bytes, round_trip: Duration::from_millis(100) }, Time::START);
    }

    #[test]
    fn a_window_shrinks_to_a_sixteenth_of_a_segment_and_grows_by_a_quarter() {
        let mut control = Fractional::new(SEGMENT, SEGMENT * 2);
        (0..9).for_each(|_| control.on_congestion_event(SEGMENT, Time::START));
        assert_eq!(control.window(), Bytes::new(62));
        acknowledge(&mut control, 1_000);
        assert_eq!(control.window(), Bytes::new(62 + 15));
    }

    #[test]
    fn above_two_segments_it_grows_by_one_in_a_window() {
        let mut control = Fractional::new(SEGMENT, SEGMENT * 20);
        control.on_congestion_event(SEGMENT * 20, Time::START);
        (0..10).for_each(|_| acknowledge(&mut control, 1_000));
        let grown = control.window().count();
        assert!((10_900..=11_000).contains(&grown), "{grown}");
    }
}
