//! How long to wait for the next packet before asking for it.
//!
//! A gap in the sequence numbers shows a loss only once a later packet has arrived. When the path goes dark, or
//! the last packets of a burst are lost, none does, and a timer has to notice. Too short, it asks for packets
//! that were never sent; too long, its repairs come too late. Compared over ten minutes each, with outages of a
//! second (`cargo run --release -p byway-proto --example loss_timer_study`):
//!
//! | traffic | needless questions in ten minutes, fixed 25 ms | two states | outage noticed, fixed | two states |
//! |---|---|---|---|---|
//! | 100 packets/s, 5 ms jitter | 0 | 0 | 15 ms | 8 ms |
//! | 50 packets/s, 5 ms jitter | 0 | 0 | 5 ms | 10 ms |
//! | 1 to 20 packets each 40 ms | 14,999 | 1 | 22 ms | 53 ms |
//! | TCP windows each 100 ms | 18,233 | 1 | 24 ms | 119 ms |
//! | TCP transfers, pauses of 1 s | 22,895 | 988 | 23 ms | 161 ms |
//! | random, 100 packets/s | 5,329 | 314 | 17 ms | 45 ms |
//!
//! "Noticed" is from when the first lost packet was due, at a round trip of 100 ms.

mod gaps;

use byway_units::{Duration, Time};

use gaps::Gaps;

/// Decides when a silence is too long.
///
/// The caller asks for what follows the last packet once [`timeout`](Self::timeout) has passed since it arrived,
/// then says so to [`expired`](Self::expired), and asks again at the next timeout, measured from that same
/// arrival.
pub trait LossTimer {
    /// A packet arrived on the direct path. `follows` if it is the one after the highest so far: the silence
    /// across a loss says nothing about when packets are sent.
    fn arrival(&mut self, follows: bool, now: Time);

    /// How long after the last arrival to ask; `Duration::MAX`: not at all.
    fn timeout(&self) -> Duration;

    /// The timeout has passed, and packets were asked for.
    fn expired(&mut self, now: Time);
}

/// One timeout for all flows, again and again until a packet arrives: what [`TwoState`] is compared with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fixed {
    expiries: u64,
}

/// The small timeout before anything is learned: the start value of the CASPR paper, section 3.3.
const SMALL_START: Duration = Duration::from_millis(25);

impl LossTimer for Fixed {
    fn arrival(&mut self, _follows: bool, _now: Time) {
        self.expiries = 0;
    }

    fn timeout(&self) -> Duration {
        SMALL_START * (self.expiries + 1)
    }

    fn expired(&mut self, _now: Time) {
        self.expiries += 1;
    }
}

/// The two-state Markov timer of the CASPR paper, section 3.3, which learns both of its timeouts.
///
/// It starts in the *long* state, goes to the *small* one when a packet arrives within the small timeout of the
/// one before or shows that packets in between were lost, and back when the timeout expires. What it learns is how the silences between packets are
/// distributed:
///
/// - *small*: a quarter more than all but one in 128 of them. For paced flows that is a little more than the
///   interval and its jitter; for flows that send in bursts, a little more than the silence between bursts if
///   that is regular. At least 5 ms; at most the long timeout or 250 ms.
/// - *long*: two round trips, but at least 100 ms and a quarter more than nine in ten of the silences: so even
///   where silences have no rule, at most every tenth packet is followed by a needless question.
///
/// In one silence it asks at the timeout, a long timeout later, and then four times as late each time, six times
/// in all: an open-ended request holds until packets arrive, and is repeated only because it may be lost.
#[derive(Clone, Debug)]
pub struct TwoState {
    gaps: Gaps,
    /// What [`Gaps`] said when it was asked last.
    small: Duration,
    long: Duration,
    rtt: Duration,
    is_small: bool,
    last: Option<Time>,
    /// How often was asked in this silence, and when last.
    expiries: u32,
    asked: Duration,
    until_learned: u8,
    /// Packets in a row that came at a much faster pace than was learned, and the longest silence between them.
    hurried: u8,
    hurried_longest: Duration,
}

/// No state is smaller: operating systems and radio links hold packets back for a few milliseconds.
const SMALL_MIN: Duration = Duration::from_millis(5);

/// The small timeout is no larger, unless the long one is: five frames a second are the slowest bursts within
/// which an outage is told from silence.
const SMALL_MAX: Duration = Duration::from_millis(250);

/// The long timeout before any round trip is measured, and the least: below the 200 ms after which TCP gives up
/// on a tail, above the interval of nearly all video.
const LONG_MIN: Duration = Duration::from_millis(100);

/// The long timeout is no larger, except after two longer round trips.
const LONG_MAX: Duration = Duration::from_secs(4);

/// Of this many silences, one may be longer than the small timeout: needless questions stay below one in a hundred packets,
/// and a busy machine that now and then holds packets back for 50 ms does not make outages be noticed so much later.
const SMALL_PART: u32 = 128;

/// Of this many silences, one may be longer than the long timeout.
const LONG_PART: u32 = 10;

/// How often in one silence packets are asked for.
const EXPIRIES_MAX: u32 = 6;

/// From so many silences on, the small timeout may be less than at the start.
const LEARNED_FROM: u16 = 32;

/// Packets closer than this are of one burst.
const BACK_TO_BACK: Duration = Duration::from_millis(1);

/// So many packets in a row at a much faster pace are another pace: longer than anything that bursts have by chance.
const HURRIED_MAX: u8 = 32;

/// After how many packets both timeouts are learned anew, at the latest.
const LEARN_EVERY: u8 = 32;

impl TwoState {
    /// A flow of which nothing is known, on a path with this round trip.
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
            asked: Duration::ZERO,
            until_learned: LEARN_EVERY,
            hurried: 0,
            hurried_longest: Duration::ZERO,
        };
        timer.learn();
        timer
    }

    /// The round trip of the direct path is so long from now on.
    pub fn set_rtt(&mut self, rtt: Duration) {
        self.rtt = rtt;
        self.learn();
    }

    /// The first timeout of a silence that begins now.
    #[must_use]
    pub fn first(&self) -> Duration {
        if self.is_small { self.small } else { self.long }
    }

    fn note(&mut self, gap: Duration) {
        self.gaps.add(gap);
        self.note_pace(gap);
        self.until_learned -= 1;
        // A longer silence than ever is learned from at once, before it comes again.
        if self.until_learned == 0 || gap > self.small - self.small / 5 {
            self.learn();
        }
    }

    /// An application that sends keep-alives, and then a call, does something else now. Packets of one frame say nothing of
    /// that: they come back to back.
    fn note_pace(&mut self, gap: Duration) {
        // Where outages are noticed soon as it is, there is nothing to gain.
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
        // One burst says nothing yet about the silence after it.
        let small_min = if self.gaps.total() < LEARNED_FROM { SMALL_START } else { SMALL_MIN };
        self.small = small.clamp(small_min, small_max);
    }
}

/// A quarter more.
fn margin(gap: Option<Duration>) -> Duration {
    gap.map_or(Duration::ZERO, |gap| gap + gap / 4)
}

impl LossTimer for TwoState {
    fn arrival(&mut self, follows: bool, now: Time) {
        let gap = self.last.map(|last| now.saturating_since(last));
        if let Some(gap) = gap {
            // Packets were sent in a silence that lost some: it was no pause of the sender.
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
            0 => self.first(),
            // 4^5 long timeouts are an hour at most: they fit.
            1..EXPIRIES_MAX => self.asked.saturating_add(self.long * 4_u64.pow(self.expiries - 1)),
            _ => Duration::MAX,
        }
    }

    fn expired(&mut self, _now: Time) {
        self.asked = self.timeout();
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

    /// Packets with these silences before them, after a first one.
    fn timer(silences_ms: impl IntoIterator<Item = u64>) -> (TwoState, Time) {
        let mut timer = TwoState::new(RTT);
        let mut now = Time::START;
        timer.arrival(true, now);
        for silence in silences_ms {
            now += ms(silence);
            timer.arrival(true, now);
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
    fn packets_close_to_each_other_lead_to_the_small_timeout_and_an_expiry_back() {
        let (mut timer, now) = timer([0]);
        assert_eq!(timer.timeout(), SMALL_START);
        timer.expired(now + SMALL_START);
        timer.arrival(true, now + ms(40));
        assert_eq!(timer.timeout(), RTT * 2, "one packet is no burst");
        timer.arrival(true, now + ms(40));
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
            timer.expired(now + timer.timeout());
            now += ms(2_000);
            timer.arrival(false, now);
            now += ms(10);
            timer.arrival(true, now);
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
        let mut asked = Vec::new();
        while timer.timeout() < Duration::MAX {
            asked.push(timer.timeout());
            timer.expired(now + timer.timeout());
        }
        let after_first: Vec<_> = asked.iter().map(|timeout| *timeout - asked[0]).collect();
        let long = RTT * 2;
        assert_eq!(after_first, [0, 1, 5, 21, 85, 341].map(|times| long * times));
        timer.arrival(true, now + ms(100_000));
        assert!(timer.timeout() <= long);
    }

    #[test]
    fn the_fixed_timer_asks_again_and_again() {
        let mut timer = Fixed::default();
        timer.arrival(true, Time::START);
        timer.expired(Time::START + ms(25));
        timer.expired(Time::START + ms(50));
        assert_eq!(timer.timeout(), ms(75));
        timer.arrival(true, Time::START + ms(60));
        assert_eq!(timer.timeout(), ms(25));
    }
}
