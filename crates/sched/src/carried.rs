//! How much flows carry, without a table of flows.

use alloc::boxed::Box;
use alloc::vec;

use crate::flows::FlowHash;
use crate::limits::TYPICAL_SLOTS;

/// What each of some thousand slots carried in this interval, in bytes; flows share them by their hash.
#[derive(Clone, Debug)]
pub(crate) struct Carried {
    slots: Box<[u32]>,
}

impl Carried {
    pub(crate) fn new() -> Self {
        Self { slots: vec![0; TYPICAL_SLOTS].into_boxed_slice() }
    }

    /// Notes a packet of a flow.
    pub(crate) fn note(&mut self, flow: FlowHash, bytes: u32) {
        let slot = &mut self.slots[flow.slot(TYPICAL_SLOTS)];
        *slot = slot.saturating_add(bytes);
    }

    /// What each slot carried; an interval ends.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = u32> {
        self.slots.iter_mut().map(core::mem::take)
    }

    /// Returns what each slot carried; an interval ends, and half of that counts in the next one, too.
    pub(crate) fn fade(&mut self) -> impl Iterator<Item = u32> {
        self.slots.iter_mut().map(|slot| {
            let carried = *slot;
            *slot /= 2;
            carried
        })
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.slots.fill(0);
    }
}
