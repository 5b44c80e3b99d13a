//! Queueing delay of a path.

use core::num::NonZeroU32;

use byway_units::{Duration, Time};

/// Queueing delay: the recent one-way delay less the base delay.
///
/// One-way delays are measured as in LEDBAT (RFC 6817). The two clocks need not agree, because only
/// differences count. They may drift apart, because the minimum expires after `SPANS` spans of
/// `SPAN_MILLIS` each. Clocks are in microseconds modulo 2^32.
#[derive(Clone, Debug)]
pub struct QueueDelay<const SPANS: usize = COPY_SPANS, const SPAN_MILLIS: u64 = LONG_SPAN_MILLIS> {
    /// Least delay of each span of the window, the present one first; spans without a sample are
    /// `None`.
    minima: [Option<Delay>; SPANS],
    /// Least delay of the window: the base delay.
    base: Option<Delay>,
    span_end: Time,
    /// Latest one-way delays, unordered.
    latest: [Option<Delay>; LATEST as usize],
    next: u8,
    is_queueing: bool,
}

/// One-way delay plus an unknown, nearly constant difference of clocks. Zero counts as one
/// microsecond, so that `Option<Delay>` takes four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Delay(NonZeroU32);

impl Delay {
    /// Returns the microseconds by which this is more than `other`; both are within half an hour of
    /// each other.
    const fn beyond(self, other: Self) -> i32 {
        self.0.get().wrapping_sub(other.0.get()).cast_signed()
    }

    fn least(self, other: Self) -> Self {
        if self.beyond(other) < 0 { self } else { other }
    }
}

/// Spans of the base-delay window for the threshold of copies. A queue that lasts longer becomes
/// part of the base delay. A clock drift of 100 ppm shows as 12 ms. With the ten minutes of RFC
/// 6817 it would be 60 ms, more than the threshold.
const COPY_SPANS: usize = 10;
const LONG_SPAN_MILLIS: u64 = 12_000;

/// Number of latest delays whose least counts, because queues are not the only cause of delay of
/// single packets.
const LATEST: u8 = 4;

/// Queueing delay from which on copies disturb other traffic. LEDBAT's target may be up to 100 ms,
/// which interactive flows beside it would notice.
const QUEUEING_FROM_MICROS: i32 = 25_000;

/// Queueing delay below which the queue counts as empty again: half of the threshold, because one
/// queue should not be reported many times.
const QUEUEING_UNTIL_MICROS: i32 = 12_500;

/// Difference that no queue causes: after a clock step or a path change, the measurement restarts.
const STEP_MICROS: i32 = 10_000_000;

impl<const SPANS: usize, const SPAN_MILLIS: u64> Default for QueueDelay<SPANS, SPAN_MILLIS> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const SPANS: usize, const SPAN_MILLIS: u64> QueueDelay<SPANS, SPAN_MILLIS> {
    const SPAN: Duration = Duration::from_millis(SPAN_MILLIS);

    /// Creates the state of an unknown path.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            minima: [None; SPANS],
            base: None,
            span_end: Time::START,
            latest: [None; LATEST as usize],
            next: 0,
            is_queueing: false,
        }
    }

    /// Records a packet; both times are in microseconds modulo 2^32, each by the clock of its side.
    pub fn sample(&mut self, sent_micros: u32, received_micros: u32, now: Time) {
        let micros = received_micros.wrapping_sub(sent_micros);
        let delay = Delay(NonZeroU32::new(micros).unwrap_or(NonZeroU32::MIN));
        if self.base.is_some_and(|base| delay.beyond(base).unsigned_abs() > STEP_MICROS.unsigned_abs()) {
            *self = Self { is_queueing: self.is_queueing, ..Self::new() };
        }
        self.advance(now);
        let below = |least: Option<Delay>| Some(least.map_or(delay, |least| least.least(delay)));
        self.minima[0] = below(self.minima[0]);
        self.base = below(self.base);
        self.latest[usize::from(self.next)] = Some(delay);
        self.next = (self.next + 1) % LATEST;
        let threshold = if self.is_queueing { QUEUEING_UNTIL_MICROS } else { QUEUEING_FROM_MICROS };
        self.is_queueing = self.delay_micros().is_some_and(|delay| delay > threshold);
    }

    /// Returns the least of the latest queueing delays; `None` before the first sample.
    #[must_use]
    pub fn delay(&self) -> Option<Duration> {
        let micros = self.delay_micros()?;
        Some(Duration::from_micros(micros.max(0).unsigned_abs().into()))
    }

    /// True if packets queue: from 25 ms on, until the delay falls below half of that.
    #[must_use]
    pub const fn is_queueing(&self) -> bool {
        self.is_queueing
    }

    fn delay_micros(&self) -> Option<i32> {
        Some(least(&self.latest)?.beyond(self.base?))
    }

    /// Begins the spans that the passed time covers.
    fn advance(&mut self, now: Time) {
        let mut begun = 0;
        while now >= self.span_end && begun < SPANS {
            self.minima.rotate_right(1);
            self.minima[0] = None;
            self.span_end = self.span_end.saturating_add(Self::SPAN);
            begun += 1;
        }
        if now >= self.span_end {
            self.span_end = now.saturating_add(Self::SPAN);
        }
        if begun > 0 {
            self.base = least(&self.minima);
        }
    }
}

fn least(delays: &[Option<Delay>]) -> Option<Delay> {
    delays.iter().flatten().copied().reduce(Delay::least)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn at(millis: u64) -> Time {
        Time::START + Duration::from_millis(millis)
    }

    /// Samples a path with these queueing delays, 20 ms apart, by clocks that differ by `offset`.
    fn measure(queue: &mut QueueDelay, from_millis: u64, offset: u32, delays_millis: &[u32]) -> Vec<bool> {
        let sample = |(index, delay): (u64, &u32)| {
            let millis = from_millis + 20 * index;
            let sent = u32::try_from(millis * 1_000 % (1 << 32)).expect("reduced");
            queue.sample(sent, sent.wrapping_add(offset).wrapping_add(50_000 + delay * 1_000), at(millis));
            queue.is_queueing()
        };
        (0..).zip(delays_millis).map(sample).collect()
    }

    #[test]
    fn nothing_is_known_before_the_first_sample() {
        assert_eq!(<QueueDelay>::new().delay(), None);
        assert!(!<QueueDelay>::new().is_queueing());
    }

    #[test]
    fn a_queue_is_seen_once_four_packets_have_waited_and_gone_once_one_has_not() {
        let mut queue = <QueueDelay>::new();
        let seen = measure(&mut queue, 0, 0, &[0, 0, 30, 30, 30, 30, 30, 13, 12, 30]);
        assert_eq!(seen, [false, false, false, false, false, true, true, true, false, false]);
        assert_eq!(queue.delay(), Some(Duration::from_millis(12)));
    }

    #[test]
    fn a_single_late_packet_is_no_queue() {
        let mut queue = <QueueDelay>::new();
        let seen = measure(&mut queue, 0, 0, &[0, 100, 0, 0, 0, 300, 200, 100, 0]);
        assert!(!seen.contains(&true));
    }

    #[test]
    fn clocks_that_wrap_or_differ_change_nothing() {
        for offset in [1, u32::MAX - 60_000, 1 << 31] {
            let mut queue = <QueueDelay>::new();
            let mut delays = [5; 100];
            delays[96..].fill(35);
            measure(&mut queue, (1 << 32) / 1_000 - 1_000, offset, &delays);
            assert_eq!(queue.delay(), Some(Duration::from_millis(30)), "{offset}");
        }
    }

    #[test]
    fn a_minimum_is_forgotten_after_two_minutes() {
        let mut queue = <QueueDelay>::new();
        measure(&mut queue, 0, 0, &[0]);
        measure(&mut queue, 1_000, 0, &[40; 5]);
        assert!(queue.is_queueing());
        measure(&mut queue, 100_000, 0, &[40; 5]);
        assert_eq!(queue.delay(), Some(Duration::from_millis(40)));
        measure(&mut queue, 121_000, 0, &[40; 5]);
        assert_eq!((queue.delay(), queue.is_queueing()), (Some(Duration::ZERO), false));
    }

    #[test]
    fn after_a_long_silence_the_window_is_whole_again() {
        let mut queue = <QueueDelay>::new();
        measure(&mut queue, 0, 0, &[0]);
        measure(&mut queue, 3_600_000, 0, &[40]);
        assert_eq!(queue.delay(), Some(Duration::ZERO));
        measure(&mut queue, 3_600_100, 0, &[80; 4]);
        assert_eq!(queue.delay(), Some(Duration::from_millis(40)));
    }

    #[test]
    fn a_clock_that_was_set_is_measured_anew() {
        for step in [20_000_000_u32, 20_000_000_u32.wrapping_neg()] {
            let mut queue = <QueueDelay>::new();
            measure(&mut queue, 0, 0, &[0; 10]);
            measure(&mut queue, 1_000, step, &[0; 10]);
            assert_eq!(queue.delay(), Some(Duration::ZERO));
        }
    }

    proptest! {
        #[test]
        fn the_delay_is_the_least_of_four_above_the_least_of_all(
            offset: u32,
            delays in proptest::collection::vec(0_u32..1_000, 1..200),
        ) {
            let mut queue = <QueueDelay>::new();
            measure(&mut queue, 0, offset, &delays);
            let latest = delays.iter().rev().take(4).min().expect("some");
            let base = delays.iter().min().expect("some");
            prop_assert_eq!(queue.delay(), Some(Duration::from_millis((latest - base).into())));
        }
    }
}
