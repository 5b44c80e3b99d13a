//! Delays of a received flow's packets on the direct path and on the relay path, for the receiver's
//! reports.
//!
//! The sender compares the two paths by them. Both are by the same clocks, and include their
//! offset: see [`RelativeDelay`].

use arrayvec::ArrayVec;
use byway_units::Time;
use byway_wire::SequenceNumber;
use byway_wire::messages::{RelativeDelay, ReportedDelays};

use super::events::Delivery;
use super::owd::is_less;
use crate::limits::{REPORT_INTERVAL, SECOND_PATH_WITHIN};

/// Samples of one path in a report interval. The third highest of 32 is about their 95th
/// percentile.
const SAMPLES: usize = 32;

/// Least number of samples for a percentile. With fewer, one late packet would determine it.
const SAMPLES_MIN: usize = 3;

/// Samples of earlier intervals that are stored for an interval with too few.
const FORMER_SAMPLES: usize = SAMPLES_MIN - 1;

/// Path by which a packet arrived without a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArrivalPath {
    Direct,
    Relayed,
}

impl ArrivalPath {
    /// Returns the path of an arrival; `None` for a repair, whose delay contains its request.
    pub(super) const fn of(delivery: Delivery) -> Option<Self> {
        match delivery {
            Delivery::Direct => Some(Self::Direct),
            Delivery::Forwarded => Some(Self::Relayed),
            Delivery::InStream | Delivery::Cooperative | Delivery::Cached | Delivery::Resent => None,
        }
    }
}

/// First arrival of a packet that is sent on both paths.
#[derive(Clone, Copy, Debug)]
struct FirstArrival {
    sequence: SequenceNumber,
    path: ArrivalPath,
    delay: u32,
    at: Time,
}

/// Delays of the latest report interval by path.
///
/// Only the first arrival of a packet shows its timestamp, because most duplicates are not opened.
/// So the delay of a second arrival follows from that of the first, for one packet at a time.
#[derive(Debug, Default)]
pub(super) struct PathDelayMeter {
    direct: DelaySamples,
    relayed: DelaySamples,
    /// Start of the current interval; `None` if a report has ended it. The next packet then starts
    /// a new one.
    since: Option<Time>,
    first: Option<FirstArrival>,
    /// Latest packet whose first arrival was by the direct path.
    last_direct: Option<SequenceNumber>,
}

impl PathDelayMeter {
    /// Adds the delay of a packet's first arrival. `is_on_both` is true if the packet is sent on
    /// both paths, so a second arrival may follow.
    pub(super) fn on_first(
        &mut self,
        sequence: SequenceNumber,
        (path, delay): (ArrivalPath, u32),
        is_on_both: bool,
        now: Time,
    ) {
        self.add(path, delay, now);
        if path == ArrivalPath::Direct {
            self.last_direct = Some(sequence);
        }
        let is_free = self.first.is_none_or(|first| now.saturating_since(first.at) > SECOND_PATH_WITHIN);
        if is_on_both && is_free {
            self.first = Some(FirstArrival { sequence, path, delay, at: now });
        }
    }

    /// Returns true if the packet before this one arrived first by the direct path.
    pub(super) fn follows_direct(&self, sequence: SequenceNumber) -> bool {
        self.last_direct.is_some_and(|last| last.next() == sequence)
    }

    /// Returns true if the second arrival of this packet, by the direct path, would be measured.
    pub(super) fn awaits_direct(&self, sequence: SequenceNumber) -> bool {
        self.first.is_some_and(|first| first.sequence == sequence && first.path == ArrivalPath::Relayed)
    }

    /// Adds the delay of a packet's second arrival, if its first one was by the other path.
    pub(super) fn on_second(&mut self, sequence: SequenceNumber, path: ArrivalPath, now: Time) {
        let awaited = |first: &mut FirstArrival| first.sequence == sequence && first.path != path;
        let Some(first) = self.first.take_if(awaited) else {
            return;
        };
        let behind = u32::try_from(now.saturating_since(first.at).as_micros()).unwrap_or(0);
        self.add(path, first.delay.wrapping_add(behind), now);
    }

    fn add(&mut self, path: ArrivalPath, delay: u32, now: Time) {
        if self.since.is_none() {
            self.direct.begin_interval();
            self.relayed.begin_interval();
            self.since = Some(now);
        }
        match path {
            ArrivalPath::Direct => self.direct.add(delay),
            ArrivalPath::Relayed => self.relayed.add(delay),
        }
    }

    /// Returns the delays for a report. A path has none if no packet has arrived by it since the
    /// interval that the last report ended, or fewer than [`SAMPLES_MIN`] so far.
    pub(super) fn delays(&self) -> ReportedDelays {
        if self.since.is_none() {
            return ReportedDelays::default();
        }
        ReportedDelays { direct: self.direct.summary(), relayed: self.relayed.summary() }
    }

    /// Records that a report contains the delays. The interval ends only after the time between two
    /// reports, because reports that follow losses soon cover too few packets.
    pub(super) fn on_reported(&mut self, now: Time) {
        self.since = self.since.filter(|since| now.saturating_since(*since) < REPORT_INTERVAL);
    }
}

/// Delays of one path in an interval: the least one, and evenly spaced samples of all.
#[derive(Debug, Default)]
struct DelaySamples {
    samples: [u32; SAMPLES],
    count: usize,
    least: u32,
    /// Packets for each sample, less one: 0, 1, 3, and so on.
    skips: u32,
    /// Packets to skip until the next sample.
    to_skip: u32,
    /// Latest samples of earlier intervals. A flow with a route uses the direct path so seldom that
    /// an interval may have one sample.
    former_samples: ArrayVec<u32, FORMER_SAMPLES>,
}

impl DelaySamples {
    /// Starts an interval without samples, and stores the latest ones so far.
    fn begin_interval(&mut self) {
        let before = (self.former_samples.len() + self.count).saturating_sub(FORMER_SAMPLES);
        let samples = self.former_samples.iter().chain(&self.samples[..self.count]);
        let former_samples = samples.skip(before).copied().collect();
        *self = Self { former_samples, ..Self::default() };
    }

    /// Adds a delay. If there are too many samples, every other one is dropped.
    fn add(&mut self, delay: u32) {
        if self.count == 0 || is_less(delay, self.least) {
            self.least = delay;
        }
        if self.to_skip > 0 {
            self.to_skip -= 1;
            return;
        }
        if self.count == SAMPLES {
            self.count = SAMPLES / 2;
            for index in 0..self.count {
                self.samples[index] = self.samples[2 * index];
            }
            self.skips = self.skips.saturating_mul(2).saturating_add(1);
        }
        self.samples[self.count] = delay;
        self.count += 1;
        self.to_skip = self.skips;
    }

    /// Returns the least delay and the 95th percentile; `None` without a sample in the interval, or
    /// with fewer than [`SAMPLES_MIN`] together with those of earlier intervals.
    ///
    /// The percentile is rounded down. So one late packet of 20 or fewer does not determine it.
    fn summary(&self) -> Option<RelativeDelay> {
        let is_few = self.count < SAMPLES_MIN;
        let former: &[u32] = if is_few { &self.former_samples } else { &[] };
        if self.count == 0 || former.len() + self.count < SAMPLES_MIN {
            return None;
        }
        let earlier = former.iter().copied();
        let least =
            earlier.fold(self.least, |least, delay| if is_less(delay, least) { delay } else { least });
        let samples = former.iter().chain(&self.samples[..self.count]).copied();
        let mut samples: ArrayVec<u32, { SAMPLES + FORMER_SAMPLES }> = samples.collect();
        // Differences to the least delay are small and positive, whatever the clocks' offset.
        samples.sort_unstable_by_key(|delay| delay.wrapping_sub(least));
        let rank = (samples.len() * 95 / 100).max(1);
        Some(RelativeDelay { least, p95: samples[rank - 1] })
    }
}

#[cfg(test)]
mod tests {
    use byway_units::Duration;

    use super::*;

    fn at(ms: u64) -> Time {
        Time::START + Duration::from_millis(ms)
    }

    const fn number(number: u64) -> SequenceNumber {
        SequenceNumber::new(number)
    }

    #[test]
    fn percentiles_are_of_all_packets_of_an_interval_whatever_the_offset() {
        for offset in [0, u32::MAX - 50, 7_000_000] {
            for (packets, p95) in [(3, 37), (10, 85), (20, 92), (100, 88), (5_000, 92)] {
                let mut samples = DelaySamples::default();
                for packet in 0..packets {
                    // Evenly distributed between 0 and 99.
                    samples.add(offset.wrapping_add(packet * 37 % 100));
                }
                let expected = RelativeDelay { least: offset, p95: offset.wrapping_add(p95) };
                assert_eq!(samples.summary(), Some(expected), "{packets} at {offset}");
            }
        }
    }

    #[test]
    fn one_late_packet_of_ten_does_not_determine_the_percentile() {
        for late in 0..10 {
            let mut samples = DelaySamples::default();
            (0..10).for_each(|packet| samples.add(if packet == late { 400 } else { 40 }));
            assert_eq!(samples.summary(), Some(RelativeDelay { least: 40, p95: 40 }), "packet {late}");
        }
    }

    /// Returns the delay of the direct path in a report after a second with packets of these
    /// delays.
    fn report(meter: &mut PathDelayMeter, second: u64, delays: &[u32]) -> Option<RelativeDelay> {
        let begin = second * 1_000;
        for (packet, delay) in (0..).zip(delays) {
            meter.on_first(number(begin + packet), (ArrivalPath::Direct, *delay), false, at(begin + packet));
        }
        let reported = meter.delays();
        assert_eq!(reported.relayed, None);
        meter.on_reported(at(begin + 1_000));
        reported.direct
    }

    #[test]
    fn an_interval_with_too_few_packets_includes_the_latest_ones_before() {
        let mut meter = PathDelayMeter::default();
        assert_eq!(report(&mut meter, 0, &[40, 400]), None, "too few so far");
        let delay = |least, p95| Some(RelativeDelay { least, p95 });
        assert_eq!(report(&mut meter, 1, &[41]), delay(40, 41));
        assert_eq!(report(&mut meter, 2, &[]), None, "nothing has arrived");
        assert_eq!(report(&mut meter, 3, &[120]), delay(41, 120), "of 400, 41 and 120");
        assert_eq!(report(&mut meter, 4, &[121, 122, 123]), delay(121, 122), "enough");
    }

    #[test]
    fn second_arrivals_are_measured_from_the_first() {
        let mut meter = PathDelayMeter::default();
        for packet in 0..3 {
            let (sequence, sent) = (number(2 * packet), packet * 200);
            meter.on_first(sequence, (ArrivalPath::Relayed, 40_000), true, at(sent + 40));
            meter.on_first(sequence.next(), (ArrivalPath::Relayed, 41_000), true, at(sent + 51));
            assert!(meter.awaits_direct(sequence), "packet {packet}");
            assert!(!meter.awaits_direct(sequence.next()), "one at a time");
            meter.on_second(sequence, ArrivalPath::Relayed, at(sent + 60));
            meter.on_second(sequence, ArrivalPath::Direct, at(sent + 120));
            meter.on_second(sequence, ArrivalPath::Direct, at(sent + 130));
            meter.on_second(sequence.next(), ArrivalPath::Direct, at(sent + 131));
        }
        let direct = RelativeDelay { least: 120_000, p95: 120_000 };
        let relayed = RelativeDelay { least: 40_000, p95: 41_000 };
        assert_eq!(meter.delays(), ReportedDelays { direct: Some(direct), relayed: Some(relayed) });
    }

    #[test]
    fn a_packet_follows_the_direct_path_only_if_the_one_before_it_arrived_by_it() {
        let mut meter = PathDelayMeter::default();
        meter.on_first(number(15), (ArrivalPath::Relayed, 40), false, at(0));
        assert!(!meter.follows_direct(number(16)));
        meter.on_first(number(16), (ArrivalPath::Direct, 40), false, at(1));
        assert!(meter.follows_direct(number(17)) && !meter.follows_direct(number(32)));
        meter.on_first(number(31), (ArrivalPath::Direct, 40), false, at(2));
        assert!(meter.follows_direct(number(32)));
    }

    #[test]
    fn a_report_ends_the_interval_only_after_a_second() {
        let mut meter = PathDelayMeter::default();
        let add = |meter: &mut PathDelayMeter, delay, time: u64| {
            for packet in 0..3 {
                let at = at(time + packet);
                meter.on_first(number(time + packet), (ArrivalPath::Direct, delay), false, at);
            }
        };
        let only = |delay| ReportedDelays {
            direct: Some(RelativeDelay { least: delay, p95: delay }),
            relayed: None,
        };
        add(&mut meter, 30, 0);
        meter.on_reported(at(50));
        assert_eq!(meter.delays(), only(30), "too soon");
        meter.on_reported(at(1_000));
        assert_eq!(meter.delays(), ReportedDelays::default(), "nothing has arrived since");
        add(&mut meter, 70, 1_010);
        assert_eq!(meter.delays(), only(70));
    }
}
