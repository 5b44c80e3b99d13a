//! Offered load of flows in a class: the bytes that they send, dropped ones included.

use crate::byte_counts::FlowByteCounts;
use crate::flows::FlowHash;
use crate::rate_histogram::FlowRateHistogram;

/// Bytes that flows offer to a class, and bytes of them that the class drops, in the current
/// interval. Flows share slots by their hash.
#[derive(Clone, Debug)]
pub(crate) struct OfferedLoad {
    all: FlowByteCounts,
    refused: FlowByteCounts,
}

/// Offered load of a class in an interval that has ended.
#[derive(Debug)]
pub(crate) struct Demand {
    /// Demand of each flow that has one: its offered bytes, at most twice its admitted bytes.
    pub requested: FlowRateHistogram,
    /// Bytes that all flows offered, dropped ones included.
    pub bytes: u64,
}

impl OfferedLoad {
    pub(crate) fn new() -> Self {
        Self { all: FlowByteCounts::new(), refused: FlowByteCounts::new() }
    }

    /// Records a packet that a flow offers, whether it is admitted or not.
    pub(crate) fn record(&mut self, flow: FlowHash, bytes: u32) {
        self.all.record(flow, bytes);
    }

    /// Records that the class drops an offered packet, because the flow exceeds its share.
    pub(crate) fn record_refused(&mut self, flow: FlowHash, bytes: u32) {
        self.refused.record(flow, bytes);
    }

    /// Ends an interval, and returns the offered load of flows in it.
    ///
    /// A flow's demand is at most twice its admitted bytes. A flow that loses more than half is
    /// unresponsive: it keeps its share, but its excess load does not show how much it would use.
    /// Made-up flows, whose packets are all dropped, have no demand.
    pub(crate) fn end_interval(&mut self) -> Demand {
        let mut demand = Demand { requested: FlowRateHistogram::empty(), bytes: 0 };
        for (all, refused) in self.all.end_interval().zip(self.refused.end_interval()) {
            demand.bytes += u64::from(all);
            demand.requested.add(all.saturating_sub(refused).saturating_mul(2).min(all));
        }
        demand
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(number: u64) -> FlowHash {
        FlowHash::new(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    #[test]
    fn who_does_not_slow_down_when_refused_asks_for_twice_what_is_let_in() {
        let mut load = OfferedLoad::new();
        (0..100).for_each(|number| load.record(hash(number), 30_000));
        // Flow 0 loses as much as TCP does, the next 20 flows nearly everything, and the last two
        // everything.
        load.record_refused(hash(0), 3_000);
        for (number, refused) in
            (100..120).map(|number| (number, 70_000)).chain([(120, 90_000), (121, 90_000)])
        {
            load.record(hash(number), 90_000);
            load.record_refused(hash(number), refused);
        }
        let demand = load.end_interval();
        assert_eq!(demand.bytes, 4_980_000);
        assert_eq!(demand.requested.bytes(), 3_000_000 + 20 * 40_000);
        let share = demand.requested.fair_share(2_400_000).expect("more came");
        assert!((19_000..21_000).contains(&share), "{share}: a share of 120");
        assert_eq!(load.end_interval().bytes, 0, "of this interval only");
    }
}
