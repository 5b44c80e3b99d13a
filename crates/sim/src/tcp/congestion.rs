//! Congestion control: how much may be on its way.

mod cubic;
mod fractional;
mod new_reno;

use alloc::boxed::Box;
use core::fmt::Debug;

use byway_units::{Bytes, Duration, Time};

pub use cubic::Cubic;
pub use fractional::Fractional;
pub use new_reno::NewReno;

/// What an acknowledgment says to a [`CongestionControl`].
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// How many bytes were acknowledged in order for the first time.
    pub bytes: Bytes,
    /// The smoothed round-trip time.
    pub round_trip: Duration,
}

/// Facts in, one question out: how much may be on its way?
///
/// Windows count bytes of payload. Which segments are lost, and what is sent again, is decided elsewhere.
pub trait CongestionControl: Debug + Send {
    /// Data was acknowledged while the window was in full use, and outside of fast recovery.
    fn acknowledged(&mut self, progress: Progress, now: Time);

    /// The path is congested: a segment of this window was lost, or marked. Called once per window; `in_flight` were on their
    /// way (RFC 5681's `FlightSize`).
    fn congested(&mut self, in_flight: Bytes, now: Time);

    /// The retransmission timer expired for the first time since data was last acknowledged.
    fn timed_out(&mut self, in_flight: Bytes, now: Time);

    /// Nothing was on its way for longer than the retransmission timeout, `idle` in all: the window is a guess again.
    fn idled(&mut self, idle: Duration);

    /// How much may be on its way.
    fn window(&self) -> Bytes;

    /// Below which window growth is exponential; `None` until there was congestion.
    fn slow_start_threshold(&self) -> Option<Bytes>;

    /// Whether segments leave evenly spread over the round trip; then the window may be less than a segment.
    fn is_paced(&self) -> bool {
        false
    }
}

/// The algorithms there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// [`NewReno`].
    NewReno,
    /// [`Fractional`].
    Fractional,
    /// [`Cubic`], what real peers use.
    #[default]
    Cubic,
}

impl Algorithm {
    /// One of its kind, for segments of this many bytes of payload, and with this initial window.
    #[must_use]
    pub fn start(self, segment: Bytes, initial_window: Bytes) -> Box<dyn CongestionControl> {
        match self {
            Self::NewReno => Box::new(NewReno::new(segment, initial_window)),
            Self::Fractional => Box::new(Fractional::new(segment, initial_window)),
            Self::Cubic => Box::new(Cubic::new(segment, initial_window)),
        }
    }
}

/// By how much a window below its threshold grows: by what was acknowledged, up to two segments for each acknowledgment, so that
/// delayed acknowledgments do not slow it down (RFC 3465, 2.2).
fn slow_start_increase(acknowledged: Bytes, segment: Bytes) -> Bytes {
    acknowledged.min(segment * 2)
}
