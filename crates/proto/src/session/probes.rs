//! Probes of a session's peer: liveness, round-trip time and the traffic before each probe.

use arrayvec::ArrayVec;
use byway_units::{Bytes, Duration, Time};

use crate::limits::{
    FAST_PROBE_INTERVAL, INITIAL_ROUND_TRIP, PROBE_INTERVAL, SETTLING_ROUND_TRIPS, UNANSWERED_PROBES_MAX,
};

/// Number of unanswered probes that are remembered, so that their answers count.
const IN_FLIGHT_PROBES_MAX: usize = 8;

/// Number of unanswered probes after which the peer counts as dead.
const LAST_PROBE: u8 = UNANSWERED_PROBES_MAX + 1;

/// Traffic of this side before a probe, to interpret its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProbeContext {
    /// Number of envelopes sent in the session's epoch before the probe.
    pub(crate) envelopes: u32,
    /// Number of bytes sent on the uplink just before the probe, at the same instant.
    pub(crate) preceding_bytes: Bytes,
    /// Number of packets of the session sent through third relays before the probe.
    pub(crate) transit_packets: u32,
}

/// Probe that has no answer yet.
#[derive(Clone, Copy, Debug)]
struct InFlightProbe {
    number: u32,
    sent: Time,
    before: ProbeContext,
}

/// Measurement by the answer to a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProbeSample {
    pub(crate) round_trip: Duration,
    pub(crate) before: ProbeContext,
}

/// Probes of one session's peer: liveness and round-trip time.
#[derive(Clone, Debug)]
pub(crate) struct Probes {
    next_number: u32,
    in_flight: ArrayVec<InFlightProbe, IN_FLIGHT_PROBES_MAX>,
    /// Smoothed round-trip time and its mean deviation (RFC 6298, section 2.3); `None` before the
    /// first measurement.
    smoothed: Option<(Duration, Duration)>,
    /// Number of round-trip times measured, up to [`SETTLING_ROUND_TRIPS`].
    measurements: u8,
    /// Number of probes sent since the last packet from the peer.
    unanswered: u8,
    /// Probe number of the first probe in the latest train, and the train's length.
    train: (u32, u32),
}

impl Probes {
    pub(crate) const fn new() -> Self {
        Self {
            next_number: 0,
            in_flight: ArrayVec::new_const(),
            smoothed: None,
            measurements: 0,
            unanswered: 0,
            train: (0, 0),
        }
    }

    /// Records that a probe is sent now, after this traffic, and returns its number. It counts as
    /// unanswered until a packet of the peer arrives.
    pub(crate) fn on_sent(&mut self, before: ProbeContext, now: Time) -> u32 {
        let number = self.next_number();
        if self.in_flight.is_full() {
            self.in_flight.remove(0);
        }
        self.in_flight.push(InFlightProbe { number, sent: now, before });
        self.unanswered = self.unanswered.saturating_add(1);
        number
    }

    /// Handles the answer to a probe, and returns the measurement. `None` if the probe is unknown
    /// or a later one was answered. Otherwise, an attacker could replay a lost probe much later,
    /// and the long round-trip time would delay repairs.
    pub(crate) fn on_reply(&mut self, number: u32, now: Time) -> Option<ProbeSample> {
        let position = self.in_flight.iter().position(|known| known.number == number)?;
        let InFlightProbe { sent, before, .. } = self.in_flight[position];
        self.in_flight.drain(..=position);
        let round_trip = now.saturating_since(sent);
        self.update_round_trip(round_trip);
        self.on_packet();
        Some(ProbeSample { round_trip, before })
    }

    /// Allocates the number of a probe that does not measure, such as a padded one.
    pub(crate) const fn next_number(&mut self) -> u32 {
        self.next_numbers(1)
    }

    /// Allocates `count` consecutive probe numbers, and returns the first.
    pub(crate) const fn next_numbers(&mut self, count: u32) -> u32 {
        let first = self.next_number;
        self.next_number = first.wrapping_add(count);
        first
    }

    /// Records a train of `count` probes, and returns the number of the first. Its answers show
    /// neither liveness nor the round-trip time, because its packets wait for one another.
    pub(crate) const fn on_train_sent(&mut self, count: u32) -> u32 {
        let first = self.next_number;
        self.next_number = first.wrapping_add(count);
        self.train = (first, count);
        first
    }

    /// Returns the index of the probe with this number in the latest train; `None` if it is not
    /// part of it.
    pub(crate) fn train_index(&self, number: u32) -> Option<usize> {
        let (first, count) = self.train;
        let index = number.wrapping_sub(first);
        usize::try_from(index).ok().filter(|_| index < count)
    }

    /// Records a measured round-trip time.
    ///
    /// The deviation begins as a quarter of the first sample, and the next samples have a larger
    /// weight than later ones. RFC 6298, section 2, begins with half, and gives each sample a
    /// weight of a quarter. With that, the death of a new peer would be detected two round-trip
    /// times later than that of others.
    pub(crate) fn update_round_trip(&mut self, round_trip: Duration) {
        self.smoothed = Some(match self.smoothed {
            None => (round_trip, round_trip / 4),
            Some((mean, deviation)) => {
                let error = round_trip.max(mean).saturating_sub(round_trip.min(mean));
                let old_weight = if self.measurements < SETTLING_ROUND_TRIPS { 1 } else { 3 };
                ((mean * 7 + round_trip) / 8, (deviation * old_weight + error) / (old_weight + 1))
            }
        });
        self.measurements = self.measurements.saturating_add(1).min(SETTLING_ROUND_TRIPS);
    }

    /// Records an authenticated packet from the peer, which shows that it is alive.
    pub(crate) const fn on_packet(&mut self) {
        self.unanswered = 0;
    }

    /// Returns the smoothed round-trip time, or [`INITIAL_ROUND_TRIP`] before the first
    /// measurement.
    pub(crate) fn round_trip(&self) -> Duration {
        self.smoothed.map_or(INITIAL_ROUND_TRIP, |(mean, _)| mean)
    }

    /// Returns the smoothed round-trip time; `None` before the first measurement.
    pub(crate) fn measured(&self) -> Option<Duration> {
        self.smoothed.map(|(mean, _)| mean)
    }

    /// Returns the timeout of an answer: the mean and four deviations (RFC 6298, section 2.3).
    pub(crate) fn reply_timeout(&self) -> Duration {
        self.smoothed.map_or(INITIAL_ROUND_TRIP * 2, |(mean, deviation)| mean + deviation * 4)
    }

    /// Returns the time until the next probe. After an unanswered probe, others follow fast, and
    /// the last of these has the full time for an answer. So the death of a distant peer is
    /// detected hardly later than that of a near one.
    pub(crate) fn interval(&self) -> Duration {
        self.interval_after(0)
    }

    /// Returns the time until the next probe, if at least so many are `unanswered`.
    pub(crate) fn interval_after(&self, unanswered: u8) -> Duration {
        match self.unanswered.max(unanswered) {
            _ if self.smoothed.is_none() => PROBE_INTERVAL,
            1 => self.reply_timeout().clamp(FAST_PROBE_INTERVAL, PROBE_INTERVAL),
            2..=UNANSWERED_PROBES_MAX => FAST_PROBE_INTERVAL,
            LAST_PROBE => self.reply_timeout().max(FAST_PROBE_INTERVAL),
            _ => PROBE_INTERVAL,
        }
    }

    /// True if the next probe is due only because of its interval, so that it may be sent a little
    /// sooner. After a missing answer it may not, because the answer needs its full time.
    pub(crate) fn may_hurry(&self) -> bool {
        self.smoothed.is_some() && self.unanswered < LAST_PROBE && self.interval() == PROBE_INTERVAL
    }

    /// True if no round-trip time was measured and no probe is in flight.
    pub(crate) const fn is_first_due(&self) -> bool {
        self.smoothed.is_none() && self.unanswered == 0
    }

    /// True if the next answer decides about the peer: its round-trip time is unknown, or its
    /// liveness is in doubt. False once the peer counts as dead.
    pub(crate) const fn is_answer_decisive(&self) -> bool {
        (self.unanswered > 0 || self.smoothed.is_none()) && self.unanswered <= LAST_PROBE
    }

    /// True if so many probes are unanswered that the peer counts as dead once the next one is due.
    pub(crate) const fn is_dead(&self) -> bool {
        self.unanswered >= LAST_PROBE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::START + Duration::from_millis(ms)
    }

    #[test]
    fn round_trips_are_smoothed_as_in_rfc_6298_once_they_have_settled() {
        let mut probes = Probes::new();
        let first = probes.on_sent(ProbeContext::default(), at(0));
        let answered = probes.on_reply(first, at(80)).map(|answered| answered.round_trip);
        assert_eq!(answered, Some(Duration::from_millis(80)));
        assert_eq!(probes.round_trip(), Duration::from_millis(80));
        assert_eq!(probes.reply_timeout(), Duration::from_millis(160));
        for ms in 1..=100 {
            let number = probes.on_sent(ProbeContext::default(), at(ms * 200));
            probes.on_reply(number, at(ms * 200 + 80));
        }
        assert_eq!(probes.reply_timeout().as_millis(), 80);
        let last = probes.on_sent(ProbeContext::default(), at(30_000));
        probes.on_reply(last, at(30_160));
        assert_eq!(probes.round_trip(), Duration::from_millis(90));
        assert_eq!(probes.reply_timeout().as_millis(), 90 + 4 * 20);
    }

    #[test]
    fn probes_of_a_train_are_told_from_others_and_say_nothing_of_the_peer() {
        let mut probes = Probes::new();
        let before = probes.on_sent(ProbeContext::default(), at(0));
        let first = probes.on_train_sent(4);
        let after = probes.on_sent(ProbeContext::default(), at(0));
        let indices = [before, first, first + 3, after].map(|number| probes.train_index(number));
        assert_eq!(indices, [None, Some(0), Some(3), None]);
        assert_eq!(probes.on_reply(first, at(10)), None);
        assert_eq!(probes.unanswered, 2);
    }

    #[test]
    fn an_answer_counts_once_and_only_for_our_probe() {
        let mut probes = Probes::new();
        let number = probes.on_sent(ProbeContext::default(), at(0));
        assert_eq!(probes.on_reply(number.wrapping_add(1), at(10)), None);
        assert!(probes.on_reply(number, at(10)).is_some());
        assert_eq!(probes.on_reply(number, at(10)), None);
    }

    #[test]
    fn a_probe_that_is_answered_after_a_later_one_measures_nothing() {
        let mut probes = Probes::new();
        let [first, second] = [0, 200].map(|ms| probes.on_sent(ProbeContext::default(), at(ms)));
        assert!(probes.on_reply(second, at(220)).is_some());
        assert_eq!(probes.on_reply(first, at(3_000)), None);
        assert_eq!(probes.round_trip(), Duration::from_millis(20));
    }

    /// Returns the milliseconds after which a silent peer counts as dead, given its round-trip time
    /// and the number of measurements.
    fn dead_after(round_trip_ms: u64, measurements: usize) -> u64 {
        let mut probes = Probes::new();
        let mut now = Time::START;
        for _ in 0..measurements {
            let number = probes.on_sent(ProbeContext::default(), now);
            probes.on_reply(number, now + Duration::from_millis(round_trip_ms));
            now += PROBE_INTERVAL;
        }
        let silent_since = now - PROBE_INTERVAL;
        while !probes.is_dead() {
            probes.on_sent(ProbeContext::default(), now);
            now += probes.interval();
        }
        now.saturating_since(silent_since).as_millis()
    }

    #[test]
    fn a_silent_peer_is_dead_in_time_to_move_within_600_ms() {
        assert_eq!([15, 70, 100, 120].map(|ms| dead_after(ms, 50)), [450, 490, 550, 590]);
    }

    #[test]
    fn a_peer_that_was_just_met_is_missed_hardly_later() {
        assert_eq!([1, 2, 3, 4].map(|measured| dead_after(70, measured)), [630, 560, 525, 507]);
    }

    #[test]
    fn only_a_probe_that_waits_for_no_answer_may_hurry() {
        let mut probes = Probes::new();
        assert!(!probes.may_hurry());
        for ms in [0, 200] {
            let number = probes.on_sent(ProbeContext::default(), at(ms));
            assert!(!probes.may_hurry(), "it is waited for");
            probes.on_reply(number, at(ms + 20));
            assert!(probes.may_hurry());
        }
        for _ in 0..=LAST_PROBE {
            probes.on_sent(ProbeContext::default(), at(400));
        }
        assert!(!probes.may_hurry(), "the peer is taken for dead");
    }

    #[test]
    fn the_last_probe_has_the_time_that_an_answer_takes() {
        assert_eq!(dead_after(600, 50), 200 + 200 + 150 + 600);
    }

    #[test]
    fn whatever_is_heard_keeps_the_peer_alive() {
        let mut probes = Probes::new();
        for ms in 0..100 {
            probes.on_sent(ProbeContext::default(), at(ms * 200));
            probes.on_packet();
            assert!(!probes.is_dead());
        }
    }
}
