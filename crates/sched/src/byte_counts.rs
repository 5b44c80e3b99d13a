//! Byte counts of flows, without a table of flows.

use alloc::boxed::Box;
use alloc::vec;

use crate::flows::FlowHash;
use crate::limits::BYTE_COUNT_SLOTS;

/// Numbers of bytes that flows sent in the current interval. Flows share some thousand slots by
/// their hash.
#[derive(Clone, Debug)]
pub(crate) struct FlowByteCounts {
    slots: Box<[u32]>,
}

impl FlowByteCounts {
    pub(crate) fn new() -> Self {
        Self { slots: vec![0; BYTE_COUNT_SLOTS].into_boxed_slice() }
    }

    /// Adds the bytes of a packet to its flow's slot.
    pub(crate) fn record(&mut self, flow: FlowHash, bytes: u32) {
        let slot = &mut self.slots[flow.slot(BYTE_COUNT_SLOTS)];
        *slot = slot.saturating_add(bytes);
    }

    /// Ends the interval: returns the bytes of each slot, and sets them to zero.
    pub(crate) fn end_interval(&mut self) -> impl Iterator<Item = u32> {
        self.slots.iter_mut().map(core::mem::take)
    }

    /// Ends the interval: returns the bytes of each slot, and halves them. The rest counts in the
    /// next interval, too.
    pub(crate) fn end_interval_decayed(&mut self) -> impl Iterator<Item = u32> {
        self.slots.iter_mut().map(|slot| {
            let count = *slot;
            *slot /= 2;
            count
        })
    }

    /// Sets the bytes of all slots to zero.
    pub(crate) fn clear(&mut self) {
        self.slots.fill(0);
    }
}
