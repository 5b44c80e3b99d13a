//! Largest recent packet sizes of the classes.

use byway_units::Bytes;

use super::classifier::PacketStats;

/// Number of recent updates over which the longest high-rate packet is remembered, as long as a
/// flow is.
const ROUNDS: usize = 3;

/// Lengths of the longest recent packets of both classes, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MaxPacketSizes {
    low_delay: u32,
    high_rate: [u32; ROUNDS],
}

impl MaxPacketSizes {
    /// Records the longest packets since the previous update, by class, and whether low-delay flows
    /// exist.
    pub(super) fn note(&mut self, stats: [PacketStats; 2], low_delay_flows: u32) {
        self.high_rate.rotate_left(1);
        self.high_rate[ROUNDS - 1] = stats[0].max_packet_bytes;
        let known = if low_delay_flows == 0 { 0 } else { self.low_delay };
        self.low_delay = known.max(stats[1].max_packet_bytes);
    }

    /// Returns the length of the present flows' longest low-delay packet; `None` without such
    /// flows.
    pub(super) fn low_delay(&self) -> Option<Bytes> {
        (self.low_delay > 0).then(|| Bytes::new(self.low_delay.into()))
    }

    /// Returns the length of the longest high-rate packet of the recent updates; `None` without
    /// packets.
    pub(super) fn high_rate(&self) -> Option<Bytes> {
        let longest = self.high_rate.iter().max().filter(|longest| **longest > 0);
        longest.map(|longest| Bytes::new(u64::from(*longest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(high: u32, low: u32) -> [PacketStats; 2] {
        [high, low].map(|longest| PacketStats { gso_packets: 0, max_packet_bytes: longest })
    }

    #[test]
    fn low_delay_packets_are_remembered_while_there_are_flows_and_others_for_a_second() {
        let mut longest = MaxPacketSizes::default();
        assert_eq!((longest.low_delay(), longest.high_rate()), (None, None));
        longest.note(seen(9_000, 1_514), 1);
        longest.note(seen(1_514, 200), 1);
        longest.note(seen(1_514, 0), 1);
        assert_eq!(longest.low_delay(), Some(Bytes::new(1_514)));
        assert_eq!(longest.high_rate(), Some(Bytes::new(9_000)));
        longest.note(seen(1_514, 0), 0);
        assert_eq!((longest.low_delay(), longest.high_rate()), (None, Some(Bytes::new(1_514))));
        longest.note(seen(0, 300), 1);
        assert_eq!(longest.low_delay(), Some(Bytes::new(300)));
    }
}
