//! `Fractional`: a sender made for queues that hold a few packets. Its window may be a fraction of a segment, and segments are paced.
//!
//! Where many flows share little, a window of two segments each, below which RFC 5681 does not go, is more than there is room for, and what
//! is sent at once finds the queue full. (Sub-packet windows: Briscoe and De Schepper, *Scaling TCP's Congestion Window for Small Round Trip
//! Times*, 2015.)

use byway_units::{Bytes, Duration, Time};

use super::{CongestionControl, Progress};

/// The least window is a segment by this: one segment in so many round trips.
const LEAST_INVERSE: u64 = 16;

/// Like [`NewReno`](super::NewReno) above two segments; below, it grows by a quarter for each of its windows.
#[derive(Clone, Debug)]
pub struct Fractional {
    segment: Bytes,
    initial: Bytes,
    window: Bytes,
    threshold: Option<Bytes>,
}

impl Fractional {
    /// A new one, for segments of this many bytes of payload, and with this initial window.
    #[must_use]
    pub const fn new(segment: Bytes, initial: Bytes) -> Self {
        Self { segment, initial, window: initial, threshold: None }
    }

    fn least(&self) -> Bytes {
        Bytes::new((self.segment.count() / LEAST_INVERSE).max(1))
    }

    fn halve(&mut self) {
        self.window = Bytes::new(self.window.count() / 2).max(self.least());
        self.threshold = Some(self.window);
    }
}

impl CongestionControl for Fractional {
    fn acknowledged(&mut self, progress: Progress, _now: Time) {
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

    fn congested(&mut self, _in_flight: Bytes, _now: Time) {
        self.halve();
    }

    fn timed_out(&mut self, _in_flight: Bytes, _now: Time) {
        self.window = self.window.min(self.segment);
        self.halve();
    }

    fn idled(&mut self, _idle: Duration) {
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
        control.acknowledged(Progress { bytes, round_trip: Duration::from_millis(100) }, Time::START);
    }

    #[test]
    fn a_window_shrinks_to_a_sixteenth_of_a_segment_and_grows_by_a_quarter() {
        let mut control = Fractional::new(SEGMENT, SEGMENT * 2);
        (0..9).for_each(|_| control.congested(SEGMENT, Time::START));
        assert_eq!(control.window(), Bytes::new(62));
        acknowledge(&mut control, 1_000);
        assert_eq!(control.window(), Bytes::new(62 + 15));
    }

    #[test]
    fn above_two_segments_it_grows_by_one_in_a_window() {
        let mut control = Fractional::new(SEGMENT, SEGMENT * 20);
        control.congested(SEGMENT * 20, Time::START);
        (0..10).for_each(|_| acknowledge(&mut control, 1_000));
        let grown = control.window().count();
        assert!((10_900..=11_000).contains(&grown), "{grown}");
    }
}
