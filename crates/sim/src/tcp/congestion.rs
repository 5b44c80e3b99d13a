//! Congestion control of TCP: the limit on the bytes in flight.

mod cubic;
mod fractional;
mod new_reno;

use alloc::boxed::Box;
use core::fmt::Debug;

use byway_units::{Bytes, Duration, Time};

pub use cubic::Cubic;
pub use fractional::Fractional;
pub use new_reno::NewReno;

/// Observations that an acknowledgment reports to a [`CongestionControl`].
#[derive(Clone, Copy, Debug)]
pub struct AckSample {
    /// Payload bytes that were acknowledged in order for the first time.
    pub bytes: Bytes,
    /// Smoothed round-trip time of the connection.
    pub round_trip: Duration,
}

/// Congestion control algorithm: it receives observations, and returns the congestion window.
///
/// Windows count bytes of payload. Loss detection and retransmission are decided elsewhere.
pub trait CongestionControl: Debug + Send {
    /// Reports an acknowledgment that arrived while the window was in full use, outside of fast
    /// recovery.
    fn on_ack(&mut self, progress: AckSample, now: Time);

    /// Reports congestion: a segment of this window was lost, or marked. Called once per window;
    /// `in_flight` is RFC 5681's `FlightSize`.
    fn on_congestion_event(&mut self, in_flight: Bytes, now: Time);

    /// Reports the first expiry of the retransmission timer since the last acknowledgment.
    fn on_retransmission_timeout(&mut self, in_flight: Bytes, now: Time);

    /// Reports that nothing was in flight for longer than the retransmission timeout, `idle` in
    /// all. The window is no longer reliable.
    fn on_idle(&mut self, idle: Duration);

    /// Returns the congestion window: the most bytes in flight.
    fn window(&self) -> Bytes;

    /// Returns the threshold below which the window grows exponentially; `None` before the first
    /// congestion.
    fn slow_start_threshold(&self) -> Option<Bytes>;

    /// True if segments are paced over the round trip; then the window may be less than a segment.
    fn is_paced(&self) -> bool {
        false
    }
}

/// Choice of a congestion control algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// [`NewReno`] of RFC 5681.
    NewReno,
    /// [`Fractional`], whose window may be less than a segment.
    Fractional,
    /// [`Cubic`], which real peers use.
    #[default]
    Cubic,
}

impl Algorithm {
    /// Creates a controller for segments of this many bytes of payload, with this initial window.
    #[must_use]
    pub fn build(self, segment: Bytes, initial_window: Bytes) -> Box<dyn CongestionControl> {
        match self {
            Self::NewReno => Box::new(NewReno::new(segment, initial_window)),
            Self::Fractional => Box::new(Fractional::new(segment, initial_window)),
            Self::Cubic => Box::new(Cubic::new(segment, initial_window)),
        }
    }
}

/// Returns the growth of a window below its threshold: the acknowledged bytes, at most two segments
/// for each acknowledgment. With this, delayed acknowledgments do not slow the growth (RFC 3465,
/// 2.2).
fn slow_start_increase(acknowledged: Bytes, segment: Bytes) -> Bytes {
    acknowledged.min(segment * 2)
}
