//! Loss timer: timeout for the next packet of a flow.
//!
//! A gap in the sequence numbers shows a loss only once a later packet has arrived. In an outage,
//! or if the last packets of a burst are lost, no later packet arrives, and a timer has to detect
//! the loss. If it is too short, it requests packets that were never sent. If it is too long,
//! repairs arrive too late. This table compares timers over ten minutes each, with outages of a
//! second (`cargo run --release -p byway-proto --example loss_timer_study`):
//!
//! | traffic | spurious NACKs in ten minutes, fixed 25 ms | two states | outage detected, fixed | two states |
//! |---|---|---|---|---|
//! | 100 packets/s, 5 ms jitter | 0 | 0 | 15 ms | 8 ms |
//! | 50 packets/s, 5 ms jitter | 0 | 0 | 5 ms | 10 ms |
//! | 1 to 20 packets each 40 ms | 14,999 | 1 | 22 ms | 53 ms |
//! | TCP windows each 100 ms | 18,233 | 1 | 24 ms | 119 ms |
//! | TCP transfers, pauses of 1 s | 22,895 | 988 | 23 ms | 161 ms |
//! | random, 100 packets/s | 5,329 | 314 | 17 ms | 45 ms |
//!
//! The detection time counts from when the first lost packet was due, at a round-trip time of 100
//! ms.

mod gaps;

use byway_units::{Duration, Time};

use gaps::Gaps;

/// Timer that decides when a silence of a flow counts as a loss.
///
/// When [`timeout`](Self::timeout) has passed since the last packet arrived, the caller requests
/// the packets that follow it, and calls [`on_timeout`](Self::on_timeout). The next timeout counts
/// from the same arrival.
pub trait LossTimer {
    /// Records a packet that arrives on the direct path. `follows` is true if its sequence number
    /// is one above the highest so far. A silence across a loss does not show the sender's
    /// interval.
    fn on_packet(&mut self, follows: bool, now: Time);

    /// Returns the time from the last arrival to the next NACK; `Duration::MAX` if none follows.
    fn timeout(&self) -> Duration;

    /// Records that the timeout has passed, and that the caller has sent a NACK.
    fn on_timeout(&mut self, now: Time);
}

/// Fixed timeout for all flows, repeated until a packet arrives; for comparison with [`TwoState`].
#[derive(Clone, Copy, Debug, Default)]
pub struct FixedTimeout {
    expiries: u64,
}

/// Small timeout of a flow before the timer has learned its silences (CASPR paper, section 3.3).
const SMALL_START: Duration = Duration::from_millis(25);

impl LossTimer for FixedTimeout {
    fn on_packet(&mut self, _follows: bool, _now: Time) {
        self.expiries = 0;
    }

    fn timeout(&self) -> Duration {
        SMALL_START * (self.expiries + 1)
    }

    fn on_timeout(&mut self, _now: Time) {
        self.expiries += 1;
    }
}

/// Two-state Markov timer of the CASPR paper, section 3.3, which learns both of its timeouts.
///
/// It starts in the *long* state. It enters the *small* state when a packet arrives within the
/// small timeout of the previous one, or reveals losses in between. It returns to the long state
/// when the timeout expires. It learns the distribution of silences between packets:
///
/// - *small*: 25 % above all but one in 128 silences. For paced flows that is a little more than
///   the interval and its jitter. For flows that send in regular bursts, it is a little more than
///   the silence between bursts. At least 5 ms; at most the long timeout or 250 ms.
/// - *long*: two round-trip times, but at least 100 ms and 25 % above nine in ten silences. So even
///   with irregular silences, at most every tenth packet is followed by a spurious NACK.
///
/// In one silence it expires at the timeout, a long timeout later, and then after four times as
/// long each time, six times in all. An open-ended NACK is valid until packets arrive; repetitions
/// only protect against its loss.
#[derive(Clone, Debug)]
pub struct TwoState {
    gaps: Gaps,
    /// Small and long timeout, as computed at the last update.
    small: Duration,
    long: Duration,
    rtt: Duration,
    is_small: bool,
    last: Option<Time>,
    /// Number of expiries in this silence, and the timeout of the last expiry.
    expiries: u32,
    last_timeout: Duration,
    until_learned: u8,
    /// Number of consecutive silences of less than a quarter of the small timeout, and the longest
    /// of them.
    hurried: u8,
    hurried_longest: Duration,
}

/// Lower bound of the small timeout: operating systems and radio links delay packets by a few
/// milliseconds.
const SMALL_MIN: Duration = Duration::from_millis(5);

/// Upper bound of the small timeout, unless the long one is longer. Five frames a second are the
/// slowest bursts within which an outage can be distinguished from silence.
const SMALL_MAX: Duration = Duration::from_millis(250);

/// Lower bound of the long timeout, and its value before a round-trip time is measured. It is below
/// the 200 ms of TCP's tail-loss timeout, and above the frame interval of nearly all video.
const LONG_MIN: Duration = Duration::from_millis(100);

/// Upper bound of the long timeout, unless two round-trip times are longer.
const LONG_MAX: Duration = Duration::from_secs(4);

/// One in this number of silences may exceed the small timeout. Spurious NACKs then stay below one
/// in a hundred packets. A busy machine that sometimes delays packets by 50 ms does not delay the
/// detection of outages by as much.
const SMALL_PART: u32 = 128;

/// One in this number of silences may exceed the long timeout.
const LONG_PART: u32 = 10;

/// Largest number of NACKs in one silence of a flow.
const EXPIRIES_MAX: u32 = 6;

/// Number of observed silences from which on the small timeout may be less than its start value.
const LEARNED_FROM: u16 = 32;

/// Packets closer together than this belong to one burst.
const BACK_TO_BACK: Duration = Duration::from_millis(1);

/// Number of consecutive silences at a much faster pace after which the timer adopts that pace:
/// more than bursts have by chance.
const HURRIED_MAX: u8 = 32;

/// Largest number of packets between two computations of the timeouts.
const LEARN_EVERY: u8 = 32;

impl TwoState {
    /// Creates the timer of a flow without packets, on a direct path with this round-trip time.
    #[must_use]
    pub fn new(rtt: Duration) -> Self {
        let mut timer = Self {
            gaps: Gaps::new(),
            small: SMALL_START,
            long: LONG_MIN,
            rtt,
            is_small: false,
            last: None,
            expiries: 0,
            last_timeout: Duration::ZERO,
            until_learned: LEARN_EVERY,
            hurried: 0,
            hurried_longest: Duration::ZERO,
        };
        timer.learn();
        timer
    }

    /// Sets the round-trip time of the direct path, and computes the timeouts again.
    pub fn set_rtt(&mut self, rtt: Duration) {
        self.rtt = rtt;
        self.learn();
    }

    /// Returns the timeout of a silence that begins now: small or long, depending on the state.
    #[must_use]
    pub fn first_timeout(&self) -> Duration {
        if self.is_small { self.small } else { self.long }
    }

    /// Returns the small timeout: a little more than the interval of a paced flow.
    #[must_use]
    pub const fn small_timeout(&self) -> Duration {
        self.small
    }

    /// Returns the time from the expected arrival of a lost packet to the timeout. It is the small
    /// timeout less the interval of the flow, which three in four silences reach. At least 1 ms.
    #[must_use]
    pub fn detection(&self) -> Duration {
        self.small.saturating_sub(self.gaps.at_least_in_three_of_four()).max(BACK_TO_BACK)
    }

    /// Returns by how much [`detection`](Self::detection) is too long for a paced flow with this
    /// interval, because the timer knows intervals only to a step of its histogram.
    #[must_use]
    pub fn detection_excess(interval: Duration) -> Duration {
        Gaps::above_step(interval)
    }

    fn note(&mut self, gap: Duration) {
        self.gaps.add(gap);
        self.note_pace(gap);
        self.until_learned -= 1;
        // Learns a longer silence than ever at once, before it occurs again.
        if self.until_learned == 0 || gap > self.small - self.small / 5 {
            self.learn();
        }
    }

    /// Detects a faster pace, as when an application that sent keep-alives begins a call: forgets
    /// longer silences after [`HURRIED_MAX`] short ones in a row. A back-to-back packet or a long
    /// silence restarts the count, because bursts do not show a pace.
    fn note_pace(&mut self, gap: Duration) {
        // If outages are already detected early, a faster pace gains nothing.
        if self.small <= SMALL_START {
            return;
        }
        if gap < BACK_TO_BACK || gap > self.small / 4 {
            (self.hurried, self.hurried_longest) = (0, Duration::ZERO);
            return;
        }
        self.hurried += 1;
        self.hurried_longest = self.hurried_longest.max(gap);
        if self.hurried == HURRIED_MAX {
            self.gaps.forget_above(self.hurried_longest);
            self.learn();
            (self.hurried, self.hurried_longest) = (0, Duration::ZERO);
        }
    }

    fn learn(&mut self) {
        self.until_learned = LEARN_EVERY;
        let long = self.gaps.exceeded_by_one_in(LONG_PART, LONG_MAX);
        self.long = margin(long).min(LONG_MAX).max(self.rtt * 2).max(LONG_MIN);
        let small_max = SMALL_MAX.max(self.long);
        let small = margin(self.gaps.exceeded_by_one_in(SMALL_PART, small_max - small_max / 5));
        // One burst does not show the silence after it.
        let small_min = if self.gaps.total() < LEARNED_FROM { SMALL_START } else { SMALL_MIN };
        self.small = small.clamp(small_min, small_max);
    }
}

/// Returns the length of a silence plus 25 %; zero for `None`.
fn margin(gap: Option<Duration>) -> Duration {
    gap.map_or(Duration::ZERO, |gap| gap + gap / 4)
}

impl LossTimer for TwoState {
    fn on_packet(&mut self, follows: bool, now: Time) {
        let gap = self.last.map(|last| now.saturating_since(last));
        if let Some(gap) = gap {
            // Packets lost in the silence show that the sender did not pause.
            if gap <= self.small || !follows {
                self.is_small = true;
            }
            if follows {
                self.note(gap);
            }
        }
        self.last = Some(now);
        self.expiries = 0;
    }

    fn timeout(&self) -> Duration {
        match self.expiries {
            0 => self.first_timeout(),
            // 4^5 long timeouts are an hour at most, which fits.
            1..EXPIRIES_MAX => self.last_timeout.saturating_add(self.long * 4_u64.pow(self.expiries - 1)),
            _ => Duration::MAX,
        }
    }

    fn on_timeout(&mut self, _now: Time) {
        self.last_timeout = self.timeout();
        self.expiries += 1;
        self.is_small = false;
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    const RTT: Duration = Duration::from_millis(60);

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Returns a timer after packets with these silences before them, after a first one.
    fn timer(silences_ms: impl IntoIterator<Item = u64>) -> (TwoState, Time) {
        let mut timer = TwoState::new(RTT);
        let mut now = Time::START;
        timer.on_packet(true, now);
        for silence in silences_ms {
            now += ms(silence);
            timer.on_packet(true, now);
        }
        (timer, now)
    }

    #[test]
    fn a_flow_starts_with_the_long_timeout_of_two_round_trips() {
        assert_eq!(timer([]).0.timeout(), RTT * 2);
        assert_eq!(TwoState::new(ms(1)).timeout(), LONG_MIN);
        let mut timer = timer([]).0;
        timer.set_rtt(ms(300));
        assert_eq!(timer.timeout(), ms(600));
    }

    #[test]
    fn a_loss_is_detected_by_the_timeout_less_the_interval() {
        assert_eq!(timer([]).0.detection(), SMALL_START);
        let paced = timer([20; 200]).0;
        assert!((ms(5)..ms(15)).contains(&paced.detection()), "{:?}", paced.detection());
        let frames = timer([0, 40].into_iter().cycle().take(200)).0;
        assert_eq!(frames.detection(), frames.small_timeout());
    }

    #[test]
    fn packets_close_to_each_other_lead_to_the_small_timeout_and_an_expiry_back() {
        let (mut timer, now) = timer([0]);
        assert_eq!(timer.timeout(), SMALL_START);
        timer.on_timeout(now + SMALL_START);
        timer.on_packet(true, now + ms(40));
        assert_eq!(timer.timeout(), RTT * 2, "one packet is no burst");
        timer.on_packet(true, now + ms(40));
        assert!(timer.timeout() < RTT);
    }

    #[test]
    fn another_pace_is_learned_soon() {
        let keepalives = core::iter::repeat_n(100, 60);
        assert!(timer(keepalives.clone()).0.timeout() > ms(100));
        let (timer, _) = timer(keepalives.chain((0..32).map(|number| 7 + number % 5)));
        assert!(timer.timeout() < ms(20), "{}", timer.timeout());
    }

    #[test]
    fn pauses_and_a_busy_machine_now_and_then_do_not_make_it_slow() {
        let silences = (0..600).map(|number| match number {
            0 | 1 => 1_000,
            _ if number % 150 == 0 => 60,
            _ => 7 + number % 5,
        });
        let (timer, _) = timer(silences);
        assert!(timer.timeout() < ms(20), "{}", timer.timeout());
    }

    #[test]
    fn one_burst_does_not_make_the_timeout_less_than_at_the_start() {
        assert_eq!(timer([0; 31]).0.timeout(), SMALL_START);
        assert_eq!(timer([0; 32]).0.timeout(), SMALL_MIN);
    }

    #[test]
    fn a_paced_flow_with_jitter_is_given_a_little_more_than_its_interval() {
        let (timer, _) = timer((0..200).map(|number| [10, 15, 8, 5, 12, 10][number % 6]));
        assert!((ms(18)..=ms(25)).contains(&timer.timeout()), "{}", timer.timeout());
    }

    #[test]
    fn regular_bursts_are_told_from_outages() {
        let frames = (0..400).map(|number| if number % 20 == 0 { 40 } else { 0 });
        let (timer, _) = timer(frames);
        assert!((ms(45)..=ms(60)).contains(&timer.timeout()), "{}", timer.timeout());
    }

    #[test]
    fn silences_across_losses_are_not_learned_from() {
        let (mut timer, mut now) = timer([10; 200]);
        let usual = timer.timeout();
        for _ in 0..50 {
            timer.on_timeout(now + timer.timeout());
            now += ms(2_000);
            timer.on_packet(false, now);
            now += ms(10);
            timer.on_packet(true, now);
        }
        assert_eq!(timer.timeout(), usual);
    }

    #[test]
    fn sparse_flows_are_given_more_than_two_round_trips() {
        let (timer, _) = timer([1_000; 20]);
        assert!((ms(1_200)..ms(1_500)).contains(&timer.timeout()), "{}", timer.timeout());
    }

    #[test]
    fn in_one_silence_packets_are_asked_for_six_times_ever_more_rarely() {
        let (mut timer, now) = timer([10; 64]);
        let mut timeouts = Vec::new();
        while timer.timeout() < Duration::MAX {
            timeouts.push(timer.timeout());
            timer.on_timeout(now + timer.timeout());
        }
        let after_first: Vec<_> = timeouts.iter().map(|timeout| *timeout - timeouts[0]).collect();
        let long = RTT * 2;
        assert_eq!(after_first, [0, 1, 5, 21, 85, 341].map(|times| long * times));
        timer.on_packet(true, now + ms(100_000));
        assert!(timer.timeout() <= long);
    }

    #[test]
    fn the_fixed_timer_asks_again_and_again() {
        let mut timer = FixedTimeout::default();
        timer.on_packet(true, Time::START);
        timer.on_timeout(Time::START + ms(25));
        timer.on_timeout(Time::START + ms(50));
        assert_eq!(timer.timeout(), ms(75));
        timer.on_packet(true, Time::START + ms(60));
        assert_eq!(timer.timeout(), ms(25));
    }
}
