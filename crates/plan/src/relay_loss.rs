//! Loss of a flow's relay path, by its receiver's reports.
//!
//! While packets use both paths, those that the direct path loses are a sample: relays deliver
//! them, or nobody does. While relays alone forward the flow, all its packets are.

use byway_units::Probability;

/// Number of packets from which on the loss counts as measured. Fewer cannot show a loss of 0.1 %,
/// the agents' target.
const MEASURED_AFTER: u64 = 1_000;

/// Number of packets from which on all before count half. The remaining 10,000 suffice: a path that
/// loses 0.05 % exceeds 0.1 % of them by chance in one case of 70.
const HALVED_AFTER: u64 = 20_000;

/// Packets that the relay path had to deliver, and those of them that were lost or late.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RelayLoss {
    packets: u64,
    missed: u64,
}

impl RelayLoss {
    /// Returns the counts of a path that has not delivered anything yet.
    pub(crate) const fn new() -> Self {
        Self { packets: 0, missed: 0 }
    }

    /// Counts packets that only relays could deliver, and those of them that were missed.
    pub(crate) fn add(&mut self, packets: u64, missed: u64) {
        (self.packets, self.missed) = (self.packets + packets, self.missed + missed);
        while self.packets >= HALVED_AFTER {
            (self.packets, self.missed) = (self.packets / 2, self.missed / 2);
        }
    }

    /// Returns the share of missed packets; `None` before enough of them were counted.
    pub(crate) fn share(self) -> Option<Probability> {
        if self.packets < MEASURED_AFTER {
            return None;
        }
        Probability::from_ratio(self.missed.min(self.packets), self.packets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(counts: impl IntoIterator<Item = (u64, u64)>) -> Option<f64> {
        let mut loss = RelayLoss::new();
        counts.into_iter().for_each(|(packets, missed)| loss.add(packets, missed));
        loss.share().map(Probability::value)
    }

    #[test]
    fn a_thousand_packets_are_a_measurement_and_fewer_are_none() {
        assert_eq!(after([(999, 0)]), None);
        assert_eq!(after([(999, 0), (1, 1)]), Some(0.001));
        assert_eq!(after([(1_000, 0)]), Some(0.0));
    }

    #[test]
    fn earlier_packets_count_less_and_less() {
        let burst_then = |packets: u64| after([(1_000, 40)].into_iter().chain((0..packets).map(|_| (1, 0))));
        assert_eq!(burst_then(0), Some(0.04));
        assert_eq!(burst_then(19_000), Some(0.002));
        assert_eq!(burst_then(19_000 + 10_000), Some(0.001));
        assert_eq!(burst_then(200_000), Some(0.0));
    }
}
