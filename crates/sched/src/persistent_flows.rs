//! Counting of persistent flows in a class, a limited number for each source. Flows of one packet,
//! which inflate a [`FlowCounter`](crate::FlowCounter), do not count.

use alloc::boxed::Box;
use alloc::vec;

use crate::flows::{FlowHash, estimated_flows};
use crate::limits::{FLOW_SLOTS, FLOWS_PER_SOURCE_MAX, SOURCE_SLOTS};

/// Bit of the present interval in a slot; the bits of earlier intervals are above it.
const NOW: u8 = 1;

/// Bits of the present interval and the two before it in a slot.
const WINDOW: u8 = 0b111;

/// Counts the persistent flows of a class: those with packets in two of three intervals. A flow's
/// slot is a byte with a bit for each interval.
#[derive(Clone, Debug)]
pub(crate) struct PersistentFlowCounter {
    slots: Box<[u8]>,
    /// Numbers of slots that each source used in the last interval, and in this one. Sources share
    /// entries by their hash.
    sources: [Box<[SourceSlots]>; 2],
}

/// Number of slots that a source used in an interval.
#[derive(Clone, Copy, Debug, Default)]
struct SourceSlots {
    all: u8,
    /// Number of these slots that were also used in an earlier interval of the window.
    persistent: u8,
}

impl PersistentFlowCounter {
    pub(crate) fn new() -> Self {
        let sources = || vec![SourceSlots::default(); SOURCE_SLOTS].into_boxed_slice();
        Self { slots: vec![0; FLOW_SLOTS].into_boxed_slice(), sources: [sources(), sources()] }
    }

    /// Records a packet of a flow and its source. The flow counts unless its source has too many.
    ///
    /// The code has no branch. With many flows, the slot's state is random, and a branch
    /// misprediction costs more than the whole function.
    #[allow(clippy::needless_bitwise_bool, reason = "a lazy operator is a branch")]
    #[inline]
    pub(crate) fn touch(&mut self, flow: FlowHash, source: FlowHash) {
        let slot = &mut self.slots[flow.slot(FLOW_SLOTS)];
        let index = source.slot(SOURCE_SLOTS);
        let before = self.sources[0][index].all;
        let used = &mut self.sources[1][index];
        let is_known = *slot & WINDOW != 0;
        // New flows may use the slots that the flows of the last interval leave. Otherwise, a
        // source with many flows would show others each time, and hardly one would persist.
        let has_slot = is_known | (used.all - used.persistent < FLOWS_PER_SOURCE_MAX - before);
        let is_used = (*slot & NOW == 0) & (used.all < FLOWS_PER_SOURCE_MAX) & has_slot;
        used.all += u8::from(is_used);
        used.persistent += u8::from(is_used & is_known);
        *slot |= NOW * u8::from(is_used);
    }

    /// Returns the estimated number of a source's flows that were persistent in the last interval.
    #[inline]
    pub(crate) fn of_source(&self, source: FlowHash) -> u8 {
        self.sources[0][source.slot(SOURCE_SLOTS)].persistent
    }

    /// True if a flow, whose packet was just recorded, is among the counted flows of its source.
    #[inline]
    pub(crate) fn is_counted(&self, flow: FlowHash) -> bool {
        self.slots[flow.slot(FLOW_SLOTS)] & NOW != 0
    }

    /// Removes all flows and sources.
    pub(crate) fn clear(&mut self) {
        self.slots.fill(0);
        self.sources.iter_mut().for_each(|sources| sources.fill(SourceSlots::default()));
    }

    /// Ends an interval, and returns the estimated number of persistent flows.
    pub(crate) fn count(&mut self) -> u32 {
        let mut active = 0;
        for slot in &mut self.slots {
            active += usize::from((*slot & WINDOW).count_ones() >= 2);
            *slot <<= 1;
        }
        self.sources.swap(0, 1);
        self.sources[1].fill(SourceSlots::default());
        estimated_flows(active, self.slots.len())
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// Random, not uniformly spread.
    fn hash(number: u64) -> FlowHash {
        let mixed = (number ^ number >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        FlowHash::new((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9))
    }

    #[test]
    fn flows_that_last_count_and_flows_of_one_packet_do_not() {
        let mut flows = PersistentFlowCounter::new();
        let mut counts = [0; 5];
        for (interval, count) in (1..).zip(&mut counts) {
            (0..100).for_each(|number| flows.touch(hash(number), hash(number)));
            (0..1_000)
                .for_each(|number| flows.touch(hash(interval << 32 | number), hash(interval << 32 | number)));
            *count = flows.count();
        }
        assert_eq!(counts[0], 0);
        // A thousand of 72,000 slots in each interval: some are hit twice.
        assert!(counts[1..].iter().all(|count| (95..150).contains(count)), "{counts:?}");
        assert_eq!([(); 3].map(|()| flows.count()).last(), Some(&0));
    }

    #[test]
    fn a_source_has_so_many_flows_and_no_more() {
        let mut flows = PersistentFlowCounter::new();
        for _ in 0..3 {
            (0..1_000).for_each(|number| flows.touch(hash(number), hash(7)));
            (1_000..1_010).for_each(|number| flows.touch(hash(number), hash(number)));
            let count = flows.count();
            assert!(count <= u32::from(FLOWS_PER_SOURCE_MAX) + 10, "{count}");
        }
        assert_eq!(
            [7, 1_000, 2_000].map(|source| flows.of_source(hash(source))),
            [FLOWS_PER_SOURCE_MAX, 1, 0]
        );
        (0..FLOWS_PER_SOURCE_MAX).for_each(|number| flows.touch(hash(5_000 + u64::from(number)), hash(7)));
        flows.count();
        assert_eq!(flows.of_source(hash(7)), 0, "none of these was there before");
        let counted = |number: &u64| {
            flows.touch(hash(*number), hash(8));
            flows.is_counted(hash(*number))
        };
        assert_eq!((10_000..11_000).filter(counted).count(), usize::from(FLOWS_PER_SOURCE_MAX));
    }

    #[test]
    fn a_source_with_more_flows_than_count_has_as_many_as_do() {
        for of_source in [32, 64, 100, 1_000, 20_000] {
            let mut flows = PersistentFlowCounter::new();
            let mut counts = Vec::new();
            for interval in 0..12_u64 {
                // Another random order each time.
                let mut order: Vec<u64> = (0..of_source).collect();
                order.sort_by_key(|number| hash(interval << 32 | number));
                for number in order {
                    flows.touch(hash(number), hash(7));
                }
                counts.push(flows.count());
            }
            assert!(counts[2..].iter().all(|count| (28..=34).contains(count)), "{of_source}: {counts:?}");
            assert!((28..=32).contains(&flows.of_source(hash(7))), "{of_source}");
        }
    }

    #[test]
    fn a_hundred_thousand_flows_are_counted_to_five_percent() {
        let mut flows = PersistentFlowCounter::new();
        for _ in 0..2 {
            (0..100_000).for_each(|number| flows.touch(hash(number), hash(number)));
            flows.count();
        }
        (0..100_000).for_each(|number| flows.touch(hash(number), hash(number)));
        let count = flows.count();
        assert!(count.abs_diff(100_000) < 5_000, "{count}");
    }
}
