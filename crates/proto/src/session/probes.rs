//! Probes: is the peer there, how far away, and do packets queue on the way to it?

use arrayvec::ArrayVec;
use byway_units::{Bytes, Duration, Time};

use crate::limits::{
    FAST_PROBE_INTERVAL, INITIAL_ROUND_TRIP, PROBE_INTERVAL, SETTLING_ROUND_TRIPS, UNANSWERED_PROBES_MAX,
};

/// Probes under way that are remembered.
const UNDER_WAY_MAX: usize = 8;

/// The probe after which, unanswered too, the peer is taken for dead.
const LAST_PROBE: u8 = UNANSWERED_PROBES_MAX + 1;

/// What was sent before a probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Before {
    /// How many envelopes, in the epoch.
    pub(crate) envelopes: u32,
    /// What the line needed for just before it, at the same instant.
    pub(crate) at_once: Bytes,
}

/// A probe that was sent.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    number: u32,
    sent: Time,
    before: Before,
}

/// What an answered probe tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    pub(crate) round_trip: Duration,
    pub(crate) before: Before,
}

/// The probes of one session.
#[derive(Clone, Debug)]
pub(crate) struct Probes {
    next_number: u32,
    under_way: ArrayVec<UnderWay, UNDER_WAY_MAX>,
    /// Smoothed round trip and its mean deviation (RFC 6298, section 2.3); `None` before the first answer.
    smoothed: Option<(Duration, Duration)>,
    /// Round trips measured, up to [`SETTLING_ROUND_TRIPS`].
    measurements: u8,
    /// Probes without an answer since something was last heard.
    unanswered: u8,
    /// The number of the first probe of the latest train, and how many it had.
    train: (u32, u32),
}

impl Probes {
    pub(crate) const fn new() -> Self {
        Self {
            next_number: 0,
            under_way: ArrayVec::new_const(),
            smoothed: None,
            measurements: 0,
            unanswered: 0,
            train: (0, 0),
        }
    }

    /// Notes that a probe is sent, and gives its number.
    pub(crate) fn sent(&mut self, before: Before, now: Time) -> u32 {
        let number = self.take_number();
        if self.under_way.is_full() {
            self.under_way.remove(0);
        }
        self.under_way.push(UnderWay { number, sent: now, before });
        self.unanswered = self.unanswered.saturating_add(1);
        number
    }

    /// Takes an answer; what it tells, if the probe was ours and neither it nor a later one was answered before. Else whoever sees
    /// a probe that is lost could send it on much later, and the round trip would seem so long that repairs are late.
    pub(crate) fn answered(&mut self, number: u32, now: Time) -> Option<Answered> {
        let position = self.under_way.iter().position(|known| known.number == number)?;
        let UnderWay { sent, before, .. } = self.under_way[position];
        self.under_way.drain(..=position);
        let round_trip = now.saturating_since(sent);
        self.measure(round_trip);
        self.heard();
        Some(Answered { round_trip, before })
    }

    /// A number for a probe about which nothing is noted here.
    pub(crate) const fn take_number(&mut self) -> u32 {
        self.take_numbers(1)
    }

    /// Numbers for so many of them, of which it returns the first.
    pub(crate) const fn take_numbers(&mut self, count: u32) -> u32 {
        let first = self.next_number;
        self.next_number = first.wrapping_add(count);
        first
    }

    /// Notes that a train of so many probes is sent, and gives the number of the first. Whether they are answered says nothing
    /// of the peer, and how soon nothing of the way: they wait for one another.
    pub(crate) const fn sent_train(&mut self, count: u32) -> u32 {
        let first = self.next_number;
        self.next_number = first.wrapping_add(count);
        self.train = (first, count);
        first
    }

    /// The place in the latest train of a probe that was answered; `None` if it was not in it.
    pub(crate) fn place_in_train(&self, number: u32) -> Option<usize> {
        let (first, count) = self.train;
        let place = number.wrapping_sub(first);
        usize::try_from(place).ok().filter(|_| place < count)
    }

    /// Takes in a measured round trip.
    ///
    /// The deviation begins as a quarter of the first, and the next ones weigh more than those that follow. With half, and a quarter
    /// for each (RFC 6298, section 2), a peer that dies soon after it was met is missed two round trips later than others.
    pub(crate) fn measure(&mut self, round_trip: Duration) {
        self.smoothed = Some(match self.smoothed {
            None => (round_trip, round_trip / 4),
            Some((mean, deviation)) => {
                let error = round_trip.max(mean).saturating_sub(round_trip.min(mean));
                let kept = if self.measurements < SETTLING_ROUND_TRIPS { 1 } else { 3 };
                ((mean * 7 + round_trip) / 8, (deviation * kept + error) / (kept + 1))
            }
        });
        self.measurements = self.measurements.saturating_add(1).min(SETTLING_ROUND_TRIPS);
    }

    /// Something authenticated came from the peer: it is there.
    pub(crate) const fn heard(&mut self) {
        self.unanswered = 0;
    }

    /// The smoothed round trip, or a guess before the first answer.
    pub(crate) fn round_trip(&self) -> Duration {
        self.smoothed.map_or(INITIAL_ROUND_TRIP, |(mean, _)| mean)
    }

    /// The smoothed round trip, once one was measured.
    pub(crate) fn measured(&self) -> Option<Duration> {
        self.smoothed.map(|(mean, _)| mean)
    }

    /// How long an answer may take: the mean and four deviations (RFC 6298, section 2.3).
    pub(crate) fn answer_within(&self) -> Duration {
        self.smoothed.map_or(INITIAL_ROUND_TRIP * 2, |(mean, deviation)| mean + deviation * 4)
    }

    /// How long to wait for the next probe. The first that stays unanswered is followed by others in quick
    /// succession, and the last of these has the time it needs: a peer far away is missed hardly later than one nearby.
    pub(crate) fn interval(&self) -> Duration {
        match self.unanswered {
            _ if self.smoothed.is_none() => PROBE_INTERVAL,
            1 => self.answer_within().clamp(FAST_PROBE_INTERVAL, PROBE_INTERVAL),
            2..=UNANSWERED_PROBES_MAX => FAST_PROBE_INTERVAL,
            LAST_PROBE => self.answer_within().max(FAST_PROBE_INTERVAL),
            _ => PROBE_INTERVAL,
        }
    }

    /// Whether the next probe is due for its interval's sake alone, and may leave a little sooner. One that is due before that, as an
    /// answer is missed, may not: it says that the answer had its time.
    pub(crate) fn may_hurry(&self) -> bool {
        self.smoothed.is_some() && self.unanswered < LAST_PROBE && self.interval() == PROBE_INTERVAL
    }

    /// True if no round trip was measured and no probe waits for its reply.
    pub(crate) const fn is_first_due(&self) -> bool {
        self.smoothed.is_none() && self.unanswered == 0
    }

    /// Whether an answer that is still expected decides what is known of the peer: how far away it is, or whether it is
    /// there. Of one that is taken for dead, none is.
    pub(crate) const fn wait_for_answer(&self) -> bool {
        (self.unanswered > 0 || self.smoothed.is_none()) && self.unanswered <= LAST_PROBE
    }

    /// Whether the peer has to be taken for dead, now that another probe is due.
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
        let first = probes.sent(Before::default(), at(0));
        let answered = probes.answered(first, at(80)).map(|answered| answered.round_trip);
        assert_eq!(answered, Some(Duration::from_millis(80)));
        assert_eq!(probes.round_trip(), Duration::from_millis(80));
        assert_eq!(probes.answer_within(), Duration::from_millis(160));
        for ms in 1..=100 {
            let number = probes.sent(Before::default(), at(ms * 200));
            probes.answered(number, at(ms * 200 + 80));
        }
        assert_eq!(probes.answer_within().as_millis(), 80);
        let last = probes.sent(Before::default(), at(30_000));
        probes.answered(last, at(30_160));
        assert_eq!(probes.round_trip(), Duration::from_millis(90));
        assert_eq!(probes.answer_within().as_millis(), 90 + 4 * 20);
    }

    #[test]
    fn probes_of_a_train_are_told_from_others_and_say_nothing_of_the_peer() {
        let mut probes = Probes::new();
        let before = probes.sent(Before::default(), at(0));
        let first = probes.sent_train(4);
        let after = probes.sent(Before::default(), at(0));
        let places = [before, first, first + 3, after].map(|number| probes.place_in_train(number));
        assert_eq!(places, [None, Some(0), Some(3), None]);
        assert_eq!(probes.answered(first, at(10)), None);
        assert_eq!(probes.unanswered, 2);
    }

    #[test]
    fn an_answer_counts_once_and_only_for_our_probe() {
        let mut probes = Probes::new();
        let number = probes.sent(Before::default(), at(0));
        assert_eq!(probes.answered(number.wrapping_add(1), at(10)), None);
        assert!(probes.answered(number, at(10)).is_some());
        assert_eq!(probes.answered(number, at(10)), None);
    }

    #[test]
    fn a_probe_that_is_answered_after_a_later_one_measures_nothing() {
        let mut probes = Probes::new();
        let [first, second] = [0, 200].map(|ms| probes.sent(Before::default(), at(ms)));
        assert!(probes.answered(second, at(220)).is_some());
        assert_eq!(probes.answered(first, at(3_000)), None);
        assert_eq!(probes.round_trip(), Duration::from_millis(20));
    }

    /// After how many milliseconds a peer that falls silent is taken for dead, given the round trip to it and how often it was measured.
    fn dead_after(round_trip_ms: u64, measurements: usize) -> u64 {
        let mut probes = Probes::new();
        let mut now = Time::START;
        for _ in 0..measurements {
            let number = probes.sent(Before::default(), now);
            probes.answered(number, now + Duration::from_millis(round_trip_ms));
            now += PROBE_INTERVAL;
        }
        let silent_since = now - PROBE_INTERVAL;
        while !probes.is_dead() {
            probes.sent(Before::default(), now);
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
            let number = probes.sent(Before::default(), at(ms));
            assert!(!probes.may_hurry(), "it is waited for");
            probes.answered(number, at(ms + 20));
            assert!(probes.may_hurry());
        }
        for _ in 0..=LAST_PROBE {
            probes.sent(Before::default(), at(400));
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
            probes.sent(Before::default(), at(ms * 200));
            probes.heard();
            assert!(!probes.is_dead());
        }
    }
}
