//! How long packets are of late.

use byway_units::Bytes;

use super::classifier::Seen;

/// Rounds for which the longest high-rate packet is remembered: as long as a flow is.
const ROUNDS: usize = 3;

/// The longest packets of both classes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Longest {
    low_delay: u32,
    high_rate: [u32; ROUNDS],
}

impl Longest {
    /// After a round in which these packets came, and with about so many low-delay flows.
    pub(super) fn note(&mut self, seen: [Seen; 2], low_delay_flows: u32) {
        self.high_rate.rotate_left(1);
        self.high_rate[ROUNDS - 1] = seen[0].longest;
        let known = if low_delay_flows == 0 { 0 } else { self.low_delay };
        self.low_delay = known.max(seen[1].longest);
    }

    /// The longest low-delay packet of the flows that there are; `None` if there are none.
    pub(super) fn low_delay(&self) -> Option<Bytes> {
        (self.low_delay > 0).then(|| Bytes::new(self.low_delay.into()))
    }

    /// The longest high-rate packet of the last second.
    pub(super) fn high_rate(&self) -> Option<Bytes> {
        let longest = self.high_rate.iter().max().filter(|longest| **longest > 0);
        longest.map(|longest| Bytes::new(u64::from(*longest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(high: u32, low: u32) -> [Seen; 2] {
        [high, low].map(|longest| Seen { joined: 0, longest })
    }

    #[test]
    fn low_delay_packets_are_remembered_while_there_are_flows_and_others_for_a_second() {
        let mut longest = Longest::default();
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
