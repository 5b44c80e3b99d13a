//! Load of an uplink, without and with extra packets.

use byway_units::{Bytes, Duration, Rate, Time};

/// Offered load of an uplink in two parts: *source packets*, which have to be sent, and *extras*,
/// such as copies, which follow them if the capacity suffices. Extras count whether they are sent
/// or not.
#[derive(Clone, Debug)]
pub struct UplinkLoad {
    /// Bytes of each span, the present one first.
    spans: [Span; SPANS],
    span_end: Time,
    /// End of the last silence that was as long as the window: rates are measured from there.
    began: Time,
    measured: LoadRates,
    /// Time until which the measured rates are valid.
    measured_until: Time,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Span {
    source_packets: u64,
    extras: u64,
}

/// Load of an uplink, measured over the last second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadRates {
    /// Rate of the source packets, without extras.
    pub source_packets: Rate,
    /// Rate of the source packets and all their extras.
    pub with_extras: Rate,
}

/// Number of spans: the window is a second, which has thirty frames of video, including a key frame
/// or two. A growing flow shows within half of it.
const SPANS: usize = 8;
const SPAN: Duration = Duration::from_millis(125);

/// Shortest time over which a rate is measured, because a first packet alone would show an infinite
/// rate. Two packets show the rate of a call.
const MEASURED_OVER_MIN: Duration = Duration::from_millis(20);

/// Divisor of the time that a measurement covered, for the time until the next one: at first each
/// packet measures again, later each span.
const MEASURED_FOR_PART: u64 = 8;

impl Default for UplinkLoad {
    fn default() -> Self {
        Self::new()
    }
}

impl UplinkLoad {
    /// Creates the state of an unused uplink.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            spans: [Span { source_packets: 0, extras: 0 }; SPANS],
            span_end: Time::START,
            began: Time::START,
            measured: LoadRates { source_packets: Rate::ZERO, with_extras: Rate::ZERO },
            measured_until: Time::START,
        }
    }

    /// Records a source packet, and the bytes of its extras. If the last measurement is old enough,
    /// the rates are measured again.
    pub fn note(&mut self, source_bytes: Bytes, extras: Bytes, now: Time) {
        if now >= self.span_end {
            self.advance(now);
        }
        self.spans[0].source_packets += source_bytes.count();
        self.spans[0].extras += extras.count();
        if now >= self.measured_until {
            self.measure(now);
        }
    }

    /// Returns the rates as measured at one of the latest source packets, not as of now.
    #[must_use]
    pub const fn measured(&self) -> LoadRates {
        self.measured
    }

    /// True if the uplink has had no source packets for as long as the window.
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
        let source_bytes = self.spans.iter().map(|span| span.source_packets).sum();
        let extras: u64 = self.spans.iter().map(|span| span.extras).sum();
        self.measured =
            LoadRates { source_packets: rate(source_bytes), with_extras: rate(source_bytes + extras) };
        self.measured_until = now.saturating_add((time / MEASURED_FOR_PART).min(SPAN));
    }

    /// Begins the spans that the passed time covers.
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

    fn note(load: &mut UplinkLoad, source_bytes: u64, extras: u64, millis: u64) {
        load.note(Bytes::new(source_bytes), Bytes::new(extras), at(millis));
    }

    #[test]
    fn what_is_needed_is_known_within_a_tenth_after_a_tenth_of_a_second() {
        let mut load = UplinkLoad::new();
        for millis in (5_000..9_000).step_by(10) {
            note(&mut load, 500, 600, millis);
            let LoadRates { source_packets: source_rate, with_extras } = load.measured();
            let (source_rate, all) = (source_rate.bits_per_second(), with_extras.bits_per_second());
            if millis >= 5_010 {
                assert!(source_rate >= 400_000 && all >= 880_000, "{all} after {millis} ms");
            }
            if millis >= 5_100 {
                assert!(source_rate <= 444_445 && all <= 977_778, "{all} after {millis} ms");
            }
        }
    }

    #[test]
    fn after_a_silence_everything_is_measured_anew() {
        let mut load = UplinkLoad::new();
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
            let (mut load, mut naive, mut now) = (UplinkLoad::new(), Vec::new(), 1_000);
            for (gap, bytes) in packets {
                now += gap;
                note(&mut load, bytes, bytes, now);
                naive.push((now, bytes));
                let began = naive[0].0;
                if now - began < 2_000 {
                    continue;
                }
                // A measurement may be a span old, and its window is a span shorter than the whole
                // at its beginning.
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
