//! What codes and retransmissions on the direct path alone would have repaired, by what that path did with the packets that were
//! sent on it.
//!
//! A repair packet meets the fate of the packet that was sent when it would have been: losses depend on the time. So all are
//! compared on the same losses, as J-QoS does (section 5.2, figure 6c).

use byway_scenario::FlowRecord;
use byway_units::Duration;

use crate::findings::{Findings, Unit, number, share};

/// A code or a retransmission on the direct path.
type Scheme = fn(&Path) -> Vec<bool>;

/// All, with what they are called.
const SCHEMES: [(&str, Scheme); 7] = [
    ("fec-20", |path| path.next_burst(1)),
    ("fec-40", |path| path.next_burst(2)),
    ("fec-100", |path| path.next_burst(5)),
    ("duplication", Path::duplication),
    ("reed-solomon-20", |path| path.blocks(10, 2)),
    ("sliding-window-20", |path| path.sliding_window(5, 40)),
    ("retransmission", Path::retransmission),
];

/// Losses from which on a path counts.
const LOSSES_MIN: usize = 20;

/// Adds what each scheme would have repaired within a round trip, of all flows and of each by itself beside what was repaired.
pub(crate) fn compare(records: &[FlowRecord], findings: &mut Findings) {
    let paths: Vec<Path> = records.iter().map(Path::new).collect();
    let lost: usize = paths.iter().map(Path::lost_count).sum();
    for (name, scheme) in SCHEMES {
        let (mut repaired, mut only_here) = (0, 0);
        let mut counted = 0;
        for (path, record) in paths.iter().zip(records) {
            let by_scheme = scheme(path);
            let here = |place: usize| path.lost[place] && path.repaired[place];
            let there = |place: usize| path.lost[place] && by_scheme[place];
            let places = || 0..path.lost.len();
            let (own, other) = (
                places().filter(|place| here(*place)).count(),
                places().filter(|place| there(*place)).count(),
            );
            repaired += other;
            if path.lost_count() < LOSSES_MIN {
                continue;
            }
            counted += 1;
            only_here += u64::from(places().any(|place| here(place) && !there(place)));
            // Of a scheme that repairs nothing, whatever is more is infinitely more.
            let gain =
                if other == 0 { 10.0 } else { (number(own as u64) / number(other as u64) - 1.0).min(10.0) };
            findings.sample(&format!("gain-over-{name}"), &record.name, &[gain * 100.0]);
        }
        findings.measure(name, None, share(repaired as u64, lost as u64), Unit::Share);
        findings.measure(&format!("paths-beyond-{name}"), None, share(only_here, counted), Unit::Share);
    }
}

/// What a path did with the packets of a flow.
struct Path {
    lost: Vec<bool>,
    repaired: Vec<bool>,
    interval: Duration,
    round_trip: Duration,
}

impl Path {
    fn new(record: &FlowRecord) -> Self {
        let repaired = |fate: &byway_scenario::Fate| {
            fate.repair_time(&record.terms).is_some_and(|time| time <= record.terms.round_trip)
        };
        let between = record.fates.windows(2).map(|two| two[1].sent.saturating_since(two[0].sent));
        Self {
            lost: record.fates.iter().map(byway_scenario::Fate::is_lost).collect(),
            repaired: record.fates.iter().map(repaired).collect(),
            interval: between.min().unwrap_or_default().max(Duration::from_nanos(1)),
            round_trip: record.terms.round_trip,
        }
    }

    fn lost_count(&self) -> usize {
        self.lost.iter().filter(|lost| **lost).count()
    }

    /// How many of the packets from a place on come.
    fn come(&self, from: usize, count: usize) -> usize {
        (from..from + count).filter(|place| self.lost.get(*place) == Some(&false)).count()
    }

    fn lost_in(&self, from: usize, count: usize) -> usize {
        (from..(from + count).min(self.lost.len())).filter(|place| self.lost[*place]).count()
    }

    /// Bursts of five packets, of which so many of the next burst are repair packets (J-QoS, section 5.2).
    fn next_burst(&self, repairs: usize) -> Vec<bool> {
        self.blocks(5, repairs)
    }

    /// Blocks of a maximum-distance-separable code, the repair packets at their end.
    fn blocks(&self, sources: usize, repairs: usize) -> Vec<bool> {
        let mut repaired = vec![false; self.lost.len()];
        for first in (0..self.lost.len()).step_by(sources) {
            let is_decoded = self.lost_in(first, sources) <= self.come(first + sources, repairs);
            let end = (first + sources).min(self.lost.len());
            repaired[first..end].fill(is_decoded);
        }
        repaired
    }

    /// Each packet again with the next.
    fn duplication(&self) -> Vec<bool> {
        (0..self.lost.len()).map(|place| self.come(place + 1, 1) == 1).collect()
    }

    /// A repair packet after every few source packets over the last ones (RFC 8681), decoded as soon as as many came as are
    /// missing, if that is within a round trip.
    fn sliding_window(&self, every: usize, window: usize) -> Vec<bool> {
        let mut repaired = vec![false; self.lost.len()];
        let in_time = self.packets_in(self.round_trip);
        let (mut unknown, mut equations): (Vec<usize>, usize) = (Vec::new(), 0);
        for place in 0..self.lost.len() {
            if self.lost[place] {
                unknown.push(place);
            }
            let before = unknown.len();
            unknown.retain(|lost| lost + window > place);
            if unknown.is_empty() || unknown.len() < before {
                // What is behind the window stays unknown in all that covered it.
                equations = 0;
            }
            if (place + 1).is_multiple_of(every) && !unknown.is_empty() {
                equations += self.come(place + 1, 1);
                if equations >= unknown.len() {
                    unknown.drain(..).for_each(|lost| repaired[lost] = lost + in_time > place);
                }
            }
        }
        repaired
    }

    /// The receiver asks once the next packet is there, and the sender sends again: a round trip and more after it was due.
    fn retransmission(&self) -> Vec<bool> {
        vec![false; self.lost.len()]
    }

    fn packets_in(&self, time: Duration) -> usize {
        usize::try_from(time.as_nanos() / self.interval.as_nanos()).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path of which `1` are lost, at 10 ms and a round trip of 100 ms.
    fn path(text: &str) -> Path {
        let lost: Vec<bool> = text.chars().map(|sign| sign == '1').collect();
        let repaired = vec![false; lost.len()];
        Path { lost, repaired, interval: Duration::from_millis(10), round_trip: Duration::from_millis(100) }
    }

    fn found(path: &Path, repaired: &[bool]) -> String {
        let sign = |(lost, repaired): (&bool, &bool)| match (lost, repaired) {
            (false, _) => '.',
            (true, true) => 'r',
            (true, false) => 'x',
        };
        path.lost.iter().zip(repaired).map(sign).collect()
    }

    #[test]
    fn blocks_are_decoded_if_enough_repair_packets_come() {
        for (text, repairs, wanted) in [
            ("0100000000", 1, ".r........"),
            ("0100010000", 1, ".x...x...."),
            ("0110000000", 1, ".xx......."),
            ("0110000000", 2, ".rr......."),
            ("0110010000", 2, ".xx..x...."),
            ("0110010000000", 2, ".xx..r......."),
            // What is sent after the end repairs nothing.
            ("0000000001", 1, ".........x"),
        ] {
            let path = path(text);
            assert_eq!(found(&path, &path.blocks(5, repairs)), wanted, "{text}");
        }
    }

    #[test]
    fn a_sliding_window_waits_for_as_many_as_are_missing() {
        let short = path("00011000000000000000");
        assert_eq!(found(&short, &short.sliding_window(5, 40)), "...rr...............");
        let long = path("00011111111000000000");
        assert_eq!(found(&long, &long.sliding_window(5, 40)), "...xxxxxxxx.........");
    }

    #[test]
    fn duplicates_fall_to_the_same_burst() {
        let path = path("0100110");
        assert_eq!(found(&path, &path.duplication()), ".r..xr.");
    }
}
