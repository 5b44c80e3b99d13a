//! Opening a connection: SYN, SYN-ACK, and both again until they arrive.

use byway_units::{Duration, Time};

use super::limits::{HANDSHAKE_RETRIES_MAX, RTO_AFTER_LOST_SYN};
use super::round_trip::RoundTrip;

/// The opening segment of one side, until it is answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handshake {
    begun: Time,
    round_trip: RoundTrip,
    timer: Time,
    must_send: bool,
    sent: u32,
    timeouts: u32,
}

impl Handshake {
    pub(crate) fn new(round_trip: RoundTrip, now: Time) -> Self {
        let timer = now + round_trip.timeout();
        Self { begun: now, round_trip, timer, must_send: true, sent: 0, timeouts: 0 }
    }

    /// Whether the opening segment is to be sent now; it then counts as sent.
    pub(crate) fn take(&mut self) -> bool {
        self.sent += u32::from(self.must_send);
        core::mem::take(&mut self.must_send)
    }

    /// Whether the opening segment is sent again.
    pub(crate) const fn is_repeated(&self) -> bool {
        self.sent > 1
    }

    /// The peer's opening segment came again: ours was lost, or is late.
    pub(crate) fn repeat(&mut self, now: Time) {
        self.must_send = true;
        self.timer = now + self.round_trip.timeout();
    }

    pub(crate) const fn deadline(&self) -> Time {
        self.timer
    }

    pub(crate) const fn timeouts(&self) -> u32 {
        self.timeouts
    }

    /// Does what is due; whether the peer is to be given up.
    pub(crate) fn wake(&mut self, now: Time) -> bool {
        if now < self.timer {
            return false;
        }
        self.timeouts += 1;
        self.round_trip.back_off();
        self.repeat(now);
        self.timeouts > HANDSHAKE_RETRIES_MAX
    }

    /// What is known about the round-trip time, now that the opening segment is answered.
    pub(crate) fn measured(&self, echoed_after: Option<Duration>, now: Time) -> RoundTrip {
        let mut round_trip = self.round_trip;
        let sent_once = (self.sent == 1).then(|| now.saturating_since(self.begun));
        match sent_once.or(echoed_after) {
            Some(sample) => round_trip.measure(sample),
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
        let mut handshake = Handshake::new(RoundTrip::new(RTO_MARGIN_MIN), Time::START);
        assert!(handshake.take() && !handshake.take());
        for at in [1, 3, 7, 15, 31, 63] {
            assert_eq!(handshake.deadline(), seconds(at));
            assert!(!handshake.wake(seconds(at)));
            assert!(handshake.take() && handshake.is_repeated());
        }
        assert!(handshake.wake(seconds(127)));
    }

    #[test]
    fn an_ambiguous_answer_without_timestamps_measures_nothing() {
        let mut handshake = Handshake::new(RoundTrip::new(RTO_MARGIN_MIN), Time::START);
        handshake.take();
        assert_eq!(handshake.measured(None, seconds(1)).smoothed(), Some(Duration::from_secs(1)));
        handshake.wake(seconds(1));
        handshake.take();
        assert_eq!(handshake.measured(None, seconds(2)).timeout(), RTO_AFTER_LOST_SYN);
        let echoed = Some(Duration::from_millis(200));
        assert_eq!(handshake.measured(echoed, seconds(2)).smoothed(), echoed);
    }
}
