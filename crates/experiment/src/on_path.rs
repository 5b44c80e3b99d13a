//! Comparison with codes and retransmissions on the direct path alone, on the losses of that path.
//!
//! A repair packet is lost if the packet sent at its time was lost, because losses depend on the
//! time. So all schemes meet the same losses, as in J-QoS (section 5.2, figure 6c).

use byway_scenario::FlowRecord;
use byway_units::Duration;

use crate::findings::{Findings, Unit, number, share};

/// Code or retransmission on the direct path. Returns for each packet of the path whether the
/// scheme repairs it within a round trip.
type Scheme = fn(&Path) -> Vec<bool>;

/// Compared schemes, with the names of their measures.
const SCHEMES: [(&str, Scheme); 7] = [
    ("fec-20", |path| path.next_burst(1)),
    ("fec-40", |path| path.next_burst(2)),
    ("fec-100", |path| path.next_burst(5)),
    ("duplication", Path::duplication),
    ("reed-solomon-20", |path| path.blocks(10, 2)),
    ("sliding-window-20", |path| path.sliding_window(5, 40)),
    ("retransmission", Path::retransmission),
];

/// Fewest losses of a path that counts in the comparison of paths.
const LOSSES_MIN: usize = 20;

/// Adds the share of losses that each scheme would have repaired within a round trip, and compares
/// each scheme with the actual repairs of each flow.
pub(crate) fn compare(records: &[FlowRecord], findings: &mut Findings) {
    let paths: Vec<Path> = records.iter().map(Path::new).collect();
    let lost: usize = paths.iter().map(Path::lost_count).sum();
    for (name, scheme) in SCHEMES {
        let (mut repaired, mut only_here) = (0, 0);
        let mut counted = 0;
        for (path, record) in paths.iter().zip(records) {
            let by_scheme = scheme(path);
            let here = |index: usize| path.lost[index] && path.repaired[index];
            let there = |index: usize| path.lost[index] && by_scheme[index];
            let indices = || 0..path.lost.len();
            let (own, other) = (
                indices().filter(|index| here(*index)).count(),
                indices().filter(|index| there(*index)).count(),
            );
            repaired += other;
            if path.lost_count() < LOSSES_MIN {
                continue;
            }
            counted += 1;
            only_here += u64::from(indices().any(|index| here(index) && !there(index)));
            // The gain is limited, because it is infinite if the scheme repairs nothing.
            let gain =
                if other == 0 { 10.0 } else { (number(own as u64) / number(other as u64) - 1.0).min(10.0) };
            findings.sample(&format!("gain-over-{name}"), &record.name, &[gain * 100.0]);
        }
        findings.measure(name, None, share(repaired as u64, lost as u64), Unit::Share);
        findings.measure(&format!("paths-beyond-{name}"), None, share(only_here, counted), Unit::Share);
    }
}

/// Losses and repairs of a flow's packets on its direct path, by the packets' index.
struct Path {
    lost: Vec<bool>,
    repaired: Vec<bool>,
    interval: Duration,
    round_trip: Duration,
}

impl Path {
    fn new(record: &FlowRecord) -> Self {
        let repaired = |fate: &byway_scenario::PacketRecord| {
            fate.repair_time(&record.terms).is_some_and(|time| time <= record.terms.round_trip)
        };
        let between = record.packets.windows(2).map(|two| two[1].sent.saturating_since(two[0].sent));
        Self {
            lost: record.packets.iter().map(byway_scenario::PacketRecord::is_lost).collect(),
            repaired: record.packets.iter().map(repaired).collect(),
            interval: between.min().unwrap_or_default().max(Duration::from_nanos(1)),
            round_trip: record.terms.round_trip,
        }
    }

    fn lost_count(&self) -> usize {
        self.lost.iter().filter(|lost| **lost).count()
    }

    /// Returns the number of packets that the path delivered among the `count` packets from index
    /// `from` on.
    fn received_in(&self, from: usize, count: usize) -> usize {
        (from..from + count).filter(|index| self.lost.get(*index) == Some(&false)).count()
    }

    fn lost_in(&self, from: usize, count: usize) -> usize {
        (from..(from + count).min(self.lost.len())).filter(|index| self.lost[*index]).count()
    }

    /// Returns the losses that a code over bursts of five packets repairs, with `repairs` repair
    /// packets in the next burst (J-QoS, section 5.2).
    fn next_burst(&self, repairs: usize) -> Vec<bool> {
        self.blocks(5, repairs)
    }

    /// Returns the packets that a maximum distance separable (MDS) code repairs. Each block has
    /// `sources` source packets and then `repairs` repair packets.
    fn blocks(&self, sources: usize, repairs: usize) -> Vec<bool> {
        let mut repaired = vec![false; self.lost.len()];
        for first in (0..self.lost.len()).step_by(sources) {
            let is_decoded = self.lost_in(first, sources) <= self.received_in(first + sources, repairs);
            let end = (first + sources).min(self.lost.len());
            repaired[first..end].fill(is_decoded);
        }
        repaired
    }

    /// Returns the losses that duplication repairs: the sender sends each packet again with the
    /// next one.
    fn duplication(&self) -> Vec<bool> {
        (0..self.lost.len()).map(|index| self.received_in(index + 1, 1) == 1).collect()
    }

    /// Returns the losses that a sliding-window code (RFC 8681) repairs. A repair packet after
    /// every `every` source packets covers the last `window` ones; lost packets are decoded as soon
    /// as enough repair packets have arrived, within a round trip.
    fn sliding_window(&self, every: usize, window: usize) -> Vec<bool> {
        let mut repaired = vec![false; self.lost.len()];
        let in_time = self.packets_in(self.round_trip);
        let (mut unknown, mut equations): (Vec<usize>, usize) = (Vec::new(), 0);
        for index in 0..self.lost.len() {
            if self.lost[index] {
                unknown.push(index);
            }
            let before = unknown.len();
            unknown.retain(|lost| lost + window > index);
            if unknown.is_empty() || unknown.len() < before {
                // A packet behind the window stays unknown, so equations with it are useless.
                equations = 0;
            }
            if (index + 1).is_multiple_of(every) && !unknown.is_empty() {
                equations += self.received_in(index + 1, 1);
                if equations >= unknown.len() {
                    unknown.drain(..).for_each(|lost| repaired[lost] = lost + in_time > index);
                }
            }
        }
        repaired
    }

    /// Returns the losses that retransmission repairs within a round trip: none. The NACK waits for
    /// the next packet, so the retransmission arrives more than a round trip late.
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

    /// Makes a path that loses packets marked `1`, with an interval of 10 ms and a round trip of
    /// 100 ms.
    fn path(text: &str) -> Path {
        let lost: Vec<bool> = text.chars().map(|sign| sign == '1').collect();
        let repaired = vec![false; lost.len()];
        Path { lost, repaired, interval: Duration::from_millis(10), round_trip: Duration::from_millis(100) }
    }

    fn draw_repairs(path: &Path, repaired: &[bool]) -> String {
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
            // Packets after the end do not repair anything.
            ("0000000001", 1, ".........x"),
        ] {
            let path = path(text);
            assert_eq!(draw_repairs(&path, &path.blocks(5, repairs)), wanted, "{text}");
        }
    }

    #[test]
    fn a_sliding_window_waits_for_as_many_as_are_missing() {
        let short = path("00011000000000000000");
        assert_eq!(draw_repairs(&short, &short.sliding_window(5, 40)), "...rr...............");
        let long = path("00011111111000000000");
        assert_eq!(draw_repairs(&long, &long.sliding_window(5, 40)), "...xxxxxxxx.........");
    }

    #[test]
    fn duplicates_fall_to_the_same_burst() {
        let path = path("0100110");
        assert_eq!(draw_repairs(&path, &path.duplication()), ".r..xr.");
    }
}
