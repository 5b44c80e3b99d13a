//! Settings of a TCP endpoint.

use byway_units::{Bytes, Duration};

use super::congestion::Algorithm;
use super::limits::{
    INITIAL_WINDOW_SEGMENTS, RECEIVE_WINDOW, RECEIVE_WINDOW_MAX, RTO_INITIAL, RTO_MARGIN_MIN, SEGMENT_BYTES,
    SEGMENT_BYTES_MIN,
};

/// Settings of a TCP endpoint. The default corresponds to a Linux server, as far as this TCP
/// implements it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Congestion control algorithm of the endpoint's connections.
    pub algorithm: Algorithm,
    /// Largest payload with options in a segment, in bytes, sent or received: at least
    /// [`SEGMENT_BYTES_MIN`].
    pub segment_bytes: u16,
    /// The initial window, in segments; at least one.
    pub initial_window_segments: u64,
    /// Receive window: most bytes beyond those received in order, at most [`RECEIVE_WINDOW_MAX`].
    pub receive_window: Bytes,
    /// Retransmission timeout before any measurement: a lost SYN or SYN-ACK costs this time, and
    /// twice that if the next one is lost, too.
    pub rto_initial: Duration,
    /// The least margin of the retransmission timeout over the smoothed RTT.
    pub rto_margin_min: Duration,
    /// True if an acknowledgment waits for a second segment (RFC 5681, 4.2).
    pub delays_acknowledgments: bool,
    /// True to use timestamps (RFC 7323), if the peer does.
    pub timestamps: bool,
    /// True to use ECN (RFC 3168), if the peer does.
    pub ecn: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::default(),
            segment_bytes: SEGMENT_BYTES,
            initial_window_segments: INITIAL_WINDOW_SEGMENTS,
            receive_window: RECEIVE_WINDOW,
            rto_initial: RTO_INITIAL,
            rto_margin_min: RTO_MARGIN_MIN,
            delays_acknowledgments: true,
            timestamps: true,
            ecn: false,
        }
    }
}

impl Settings {
    /// Returns these settings, with out-of-range values limited to their bounds.
    pub(crate) fn bounded(self) -> Self {
        Self {
            segment_bytes: self.segment_bytes.max(SEGMENT_BYTES_MIN),
            initial_window_segments: self.initial_window_segments.max(1),
            receive_window: self.receive_window.min(RECEIVE_WINDOW_MAX),
            ..self
        }
    }

    /// Returns the shift of the receive window in bits that fits it into its field (RFC 7323, 2).
    pub(crate) fn window_scale(&self) -> u8 {
        let window = self.receive_window.count();
        let bits = u64::BITS - (window >> 16).leading_zeros();
        u8::try_from(bits).expect("a window has at most 64 bits")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_is_the_least_with_which_the_window_fits_its_field() {
        let scale =
            |count| Settings { receive_window: Bytes::new(count), ..Settings::default() }.window_scale();
        assert_eq!([0, 65_535, 65_536, 131_071, 131_072].map(scale), [0, 0, 1, 1, 2]);
        assert_eq!(scale(RECEIVE_WINDOW_MAX.count()), 14);
    }
}
