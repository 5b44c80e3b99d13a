//! Opening of a TCP connection: SYN, SYN-ACK, and their retransmissions.

use byway_units::{Duration, Time};

use super::limits::{HANDSHAKE_RETRIES_MAX, RTO_AFTER_LOST_SYN};
use super::rtt::RttEstimator;

/// The opening segment of one side (SYN or SYN-ACK), until its answer arrives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handshake {
    begun: Time,
    round_trip: RttEstimator,
    timer: Time,
    must_send: bool,
    sent: u32,
    timeouts: u32,
}

impl Handshake {
    pub(crate) fn new(round_trip: RttEstimator, now: Time) -> Self {
        let timer = now + round_trip.retransmission_timeout();
        Self { begun: now, round_trip, timer, must_send: true, sent: 0, timeouts: 0 }
    }

    /// True if the opening segment must be sent now; it then counts as sent.
    pub(crate) fn poll_transmit(&mut self) -> bool {
        self.sent += u32::from(self.must_send);
        core::mem::take(&mut self.must_send)
    }

    /// True if the opening segment is a retransmission.
    pub(crate) const fn is_retransmission(&self) -> bool {
        self.sent > 1
    }

    /// Schedules a retransmission, because the peer repeated its opening segment: ours was lost, or
    /// is late.
    pub(crate) fn retransmit(&mut self, now: Time) {
        self.must_send = true;
        self.timer = now + self.round_trip.retransmission_timeout();
    }

    pub(crate) const fn deadline(&self) -> Time {
        self.timer
    }

    pub(crate) const fn timeouts(&self) -> u32 {
        self.timeouts
    }

    /// Handles the timer. Returns true if the retries are exhausted.
    pub(crate) fn wake(&mut self, now: Time) -> bool {
        if now < self.timer {
            return false;
        }
        self.timeouts += 1;
        self.round_trip.back_off();
        self.retransmit(now);
        self.timeouts > HANDSHAKE_RETRIES_MAX
    }

    /// Returns the RTT estimator of the open connection. Its first sample is the answer to the only
    /// transmission, or else the age of the timestamp that the answer echoes.
    pub(crate) fn round_trip_estimate(&self, echoed_after: Option<Duration>, now: Time) -> RttEstimator {
        let mut round_trip = self.round_trip;
        let sent_once = (self.sent == 1).then(|| now.saturating_since(self.begun));
        match sent_once.or(echoed_after) {
            Some(sample) => round_trip.on_rtt_sample(sample),
            None if self.timeouts > 0 => round_trip.begin_with(RTO_AFTER_LOST_SYN),
            None => {}
        }
        round_trip
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tcp::limits::RTO_MARGIN_MIN;

    fn seconds(seconds: u64) -> Time {
        Time::START + Duration::from_secs(seconds)
    }

    #[test]
    fn opening_segments_are_repeated_after_doubling_times_and_then_given_up() {
        let mut handshake = Handshake::new(RttEstimator::new(RTO_MARGIN_MIN), Time::START);
        assert!(handshake.poll_transmit() && !handshake.poll_transmit());
        for at in [1, 3, 7, 15, 31, 63] {
            assert_eq!(handshake.deadline(), seconds(at));
            assert!(!handshake.wake(seconds(at)));
            assert!(handshake.poll_transmit() && handshake.is_retransmission());
        }
        assert!(handshake.wake(seconds(127)));
    }

    #[test]
    fn an_ambiguous_answer_without_timestamps_measures_nothing() {
        let mut handshake = Handshake::new(RttEstimator::new(RTO_MARGIN_MIN), Time::START);
        handshake.poll_transmit();
        assert_eq!(handshake.round_trip_estimate(None, seconds(1)).smoothed(), Some(Duration::from_secs(1)));
        handshake.wake(seconds(1));
        handshake.poll_transmit();
        assert_eq!(
            handshake.round_trip_estimate(None, seconds(2)).retransmission_timeout(),
            RTO_AFTER_LOST_SYN
        );
        let echoed = Some(Duration::from_millis(200));
        assert_eq!(handshake.round_trip_estimate(echoed, seconds(2)).smoothed(), echoed);
    }
}
