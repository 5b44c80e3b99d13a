//! What leaves by a line, and what would leave if the line bore it.

use byway_units::{Bytes, Duration, Rate, Time};

/// How much is sent: what has to leave, the *originals*, and what is to follow them if there is room, the *extras*,
/// which count whether they leave or not.
#[derive(Clone, Debug)]
pub struct LineLoad {
    /// What was sent in each span, the present one first.
    spans: [Span; SPANS],
    span_end: Time,
    /// Since when there was no silence as long as the window.
    began: Time,
    measured: Measured,
    /// Until when that is taken for true.
    measured_until: Time,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Span {
    originals: u64,
    extras: u64,
}

/// What a line has to carry, measured over the last second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// For the originals alone.
    pub originals: Rate,
    /// With all extras.
    pub with_extras: Rate,
}

/// The window is a second: thirty frames of video, among them a key frame or two. A flow that grows shows within half of it.
const SPANS: usize = 8;
const SPAN: Duration = Duration::from_millis(125);

/// A rate is measured over so long at least: a first packet alone would seem to be sent without end. With two packets, what a
/// call needs is known.
const MEASURED_OVER_MIN: Duration = Duration::from_millis(20);

/// The rates are measured anew after this part of the time that they were measured over: at first with each packet, later
/// with each span.
const MEASURED_FOR_PART: u64 = 8;

impl Default for LineLoad {
    fn default() -> Self {
        Self::new()
    }
}

impl LineLoad {
    /// A line by which nothing left yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            spans: [Span { originals: 0, extras: 0 }; SPANS],
            span_end: Time::START,
            began: Time::START,
            measured: Measured { originals: Rate::ZERO, with_extras: Rate::ZERO },
            measured_until: Time::START,
        }
    }

    /// An original leaves, and is to be followed by extras of so many bytes.
    pub fn note(&mut self, original: Bytes, extras: Bytes, now: Time) {
        if now >= self.span_end {
            self.advance(now);
        }
        self.spans[0].originals += original.count();
        self.spans[0].extras += extras.count();
        if now >= self.measured_until {
            self.measure(now);
        }
    }

    /// What the line has to carry, as of the last original.
    #[must_use]
    pub const fn measured(&self) -> Measured {
        self.measured
    }

    /// Whether nothing has left for as long as the window.
    #[must_use]
    pub fn is_idle(&self, now: Time) -> bool {
        now >= self.span_end.saturating_add(SPAN * (SPANS as u64 - 1))
            || self.spans == [Span::default(); SPANS]
    }

    #[cold]
    fn measure(&mut self, now: Time) {
        let covered = SPAN * SPANS as u64;
        let covered = covered.saturating_sub(self.span_end.saturating_since(now));
        let time = now.saturating_since(self.began).min(covered);
        let rate =
            |bytes: u64| Rate::over(Bytes::new(bytes), time.max(MEASURED_OVER_MIN)).unwrap_or(Rate::MAX);
        let originals = self.spans.iter().map(|span| span.originals).sum();
        let extras: u64 = self.spans.iter().map(|span| span.extras).sum();
        self.measured = Measured { originals: rate(originals), with_extras: rate(originals + extras) };
        self.measured_until = now.saturating_add((time / MEASURED_FOR_PART).min(SPAN));
    }

    /// Begins as many spans as time has passed for.
    #[cold]
    fn advance(&mut self, now: Time) {
        if self.is_idle(now) {
            *self = Self { span_end: now.saturating_add(SPAN), began: now, ..Self::new() };
            return;
        }
        while now >= self.span_end {
            self.spans.rotate_right(1);
            self.spans[0] = Span::default();
            self.span_end = self.span_end.saturating_add(SPAN);
        }
    }
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

    fn note(load: &mut LineLoad, original: u64, extras: u64, millis: u64) {
        load.note(Bytes::new(original), Bytes::new(extras), at(millis));
    }

    #[test]
    fn what_is_needed_is_known_within_a_tenth_after_a_tenth_of_a_second() {
        let mut load = LineLoad::new();
        for millis in (5_000..9_000).step_by(10) {
            note(&mut load, 500, 600, millis);
            let Measured { originals, with_extras } = load.measured();
            let (originals, all) = (originals.bits_per_second(), with_extras.bits_per_second());
            if millis >= 5_010 {
                assert!(originals >= 400_000 && all >= 880_000, "{all} after {millis} ms");
            }
            if millis >= 5_100 {
                assert!(originals <= 444_445 && all <= 977_778, "{all} after {millis} ms");
            }
        }
    }

    #[test]
    fn after_a_silence_everything_is_measured_anew() {
        let mut load = LineLoad::new();
        assert!(load.is_idle(at(0)));
        (0..4_000).step_by(10).for_each(|millis| note(&mut load, 500, 500, millis));
        assert!(!load.is_idle(at(4_700)) && load.is_idle(at(60_000)));
        note(&mut load, 50, 0, 60_000);
        assert_eq!(load.measured().with_extras, Rate::from_bits_per_second(20_000));
    }

    proptest! {
        #[test]
        fn no_rate_is_far_from_that_of_the_last_second(
            packets in proptest::collection::vec((0_u64..120, 1_u64..1_500), 50..400),
        ) {
            let (mut load, mut naive, mut now) = (LineLoad::new(), Vec::new(), 1_000);
            for (gap, bytes) in packets {
                now += gap;
                note(&mut load, bytes, bytes, now);
                naive.push((now, bytes));
                let began = naive[0].0;
                if now - began < 2_000 {
                    continue;
                }
                // A measurement may be a span old, and its window is a span shorter than the whole at its beginning.
                let bits_since = |from: u64, until: u64| -> u64 {
                    let times = naive.iter().filter(|(time, _)| (from..=until).contains(time));
                    times.map(|(_, bytes)| bytes * 16).sum()
                };
                let found = load.measured().with_extras.bits_per_second();
                prop_assert!(found * 875 / 1_000 <= bits_since(now - 1_125, now), "{} at {}", found, now);
                prop_assert!(found + 1 >= bits_since(now - 875, now - 125).min(bits_since(now - 875, now)), "{} at {}", found, now);
            }
        }
    }
}
