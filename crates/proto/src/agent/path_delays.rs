//! Delays of a received flow's packets on the direct path and on the relay path, for the receiver's
//! reports.
//!
//! The sender compares the two paths by them. Both are by the same clocks, and include their
//! offset: see [`RelativeDelay`].

use byway_units::Time;
use byway_wire::SequenceNumber;
use byway_wire::messages::{RelativeDelay, ReportedDelays};

use super::events::Delivery;
use super::owd::is_less;
use crate::limits::{REPORT_INTERVAL, SECOND_PATH_WITHIN};

/// Samples of one path in a report interval. The second highest of 32 is about their 95th
/// percentile.
const SAMPLES: usize = 32;

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
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PathDelayMeter {
    direct: DelaySamples,
    relayed: DelaySamples,
    /// Start of the current interval; `None` if a report has ended it. The next packet then starts
    /// a new one.
    since: Option<Time>,
    first: Option<FirstArrival>,
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
        let is_free = self.first.is_none_or(|first| now.saturating_since(first.at) > SECOND_PATH_WITHIN);
        if is_on_both && is_free {
            self.first = Some(FirstArrival { sequence, path, delay, at: now });
        }
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
            (self.direct, self.relayed) = (DelaySamples::default(), DelaySamples::default());
            self.since = Some(now);
        }
        match path {
            ArrivalPath::Direct => self.direct.add(delay),
            ArrivalPath::Relayed => self.relayed.add(delay),
        }
    }

    /// Returns the delays for a report; no delay if no packet has arrived since the interval that
    /// the last report ended.
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

/// Delays of one path: the least one, and evenly spaced samples of all.
#[derive(Clone, Copy, Debug, Default)]
struct DelaySamples {
    samples: [u32; SAMPLES],
    count: usize,
    least: u32,
    /// Packets for each sample, less one: 0, 1, 3, and so on.
    skips: u32,
    /// Packets to skip until the next sample.
    to_skip: u32,
}

impl DelaySamples {
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

    /// Returns the least delay and the 95th percentile; `None` without a sample.
    fn summary(&self) -> Option<RelativeDelay> {
        let mut samples = self.samples;
        let samples = &mut samples[..self.count];
        // Differences to the least delay are small and positive, whatever the clocks' offset.
        samples.sort_unstable_by_key(|delay| delay.wrapping_sub(self.least));
        let rank = (self.count * 95).div_ceil(100);
        let p95 = *samples.get(rank.checked_sub(1)?)?;
        Some(RelativeDelay { least: self.least, p95 })
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
            for packets in [1, 20, 100, 5_000] {
                let mut samples = DelaySamples::default();
                for packet in 0..packets {
                    // Evenly distributed between 0 and 99.
                    samples.add(offset.wrapping_add(packet * 37 % 100));
                }
                let found = samples.summary().expect("there are samples");
                assert_eq!(found.least, offset);
                let p95 = found.p95.wrapping_sub(offset);
                assert!(packets < 100 || (85..100).contains(&p95), "{p95} of {packets} at {offset}");
            }
        }
        assert_eq!(DelaySamples::default().summary(), None);
    }

    #[test]
    fn second_arrivals_are_measured_from_the_first() {
        let mut meter = PathDelayMeter::default();
        meter.on_first(number(1), (ArrivalPath::Relayed, 40_000), true, at(40));
        meter.on_first(number(2), (ArrivalPath::Relayed, 41_000), true, at(51));
        assert!(meter.awaits_direct(number(1)) && !meter.awaits_direct(number(2)), "one at a time");
        meter.on_second(number(1), ArrivalPath::Relayed, at(60));
        meter.on_second(number(2), ArrivalPath::Direct, at(131));
        meter.on_second(number(1), ArrivalPath::Direct, at(120));
        meter.on_second(number(1), ArrivalPath::Direct, at(130));
        let direct = RelativeDelay { least: 120_000, p95: 120_000 };
        let relayed = RelativeDelay { least: 40_000, p95: 41_000 };
        assert_eq!(meter.delays(), ReportedDelays { direct: Some(direct), relayed: Some(relayed) });
    }

    #[test]
    fn a_report_ends_the_interval_only_after_a_second() {
        let mut meter = PathDelayMeter::default();
        let only = |delay| ReportedDelays {
            direct: Some(RelativeDelay { least: delay, p95: delay }),
            relayed: None,
        };
        meter.on_first(number(1), (ArrivalPath::Direct, 30), false, at(0));
        meter.on_reported(at(50));
        assert_eq!(meter.delays(), only(30), "too soon");
        meter.on_reported(at(1_000));
        assert_eq!(meter.delays(), ReportedDelays::default(), "nothing has arrived since");
        meter.on_first(number(2), (ArrivalPath::Direct, 70), false, at(1_010));
        assert_eq!(meter.delays(), only(70));
    }
}
