//! Adaptive redundancy of a coding group, for the flows of each tenant.
//!
//! Flows with adaptive redundancy share batches with flows of their tenant only. So the receivers
//! of one tenant, whatever losses they report, change no other tenant's batches.

use alloc::vec::Vec;

use byway_units::{Bytes, Time};

use crate::limits::{OVERHEAD_PERCENT, OVERHEAD_RESERVE};
use crate::parts::batcher::{ClosedQueue, CodingClass, RedundancyBudget, RedundancyPolicy};
use crate::parts::redundancy::Redundancy;

/// Redundancy of one tenant's batches in a group.
#[derive(Debug)]
pub(super) struct AdaptiveClass {
    class: CodingClass,
    /// Number of the tenant's registered flows in the group.
    flows: u32,
    pub(super) redundancy: Redundancy,
    /// Budget of repair bytes: the redundancy's share of the flows' bytes.
    budget: RedundancyBudget,
}

impl AdaptiveClass {
    /// Counts a source packet, and adds its share of repair bytes to the budget.
    pub(super) fn on_packet(&mut self, bytes: u16, now: Time) {
        self.redundancy.on_packet(now);
        self.budget.set_repairs(self.redundancy.repairs(now));
        self.budget.deposit(bytes);
    }

    /// Returns the number of repair packets of a closed batch, and charges their bytes.
    pub(super) fn allocate_repairs(&mut self, closed: &ClosedQueue, now: Time) -> u8 {
        self.redundancy.on_batch(closed.size);
        self.budget.set_repairs(self.redundancy.repairs(now));
        self.budget.allocate_repairs(closed.size, closed.longest)
    }
}

/// Redundancy of the batches in one coding group, by tenant. Empty if it is fixed.
#[derive(Debug, Default)]
pub(super) struct AdaptiveClasses(Vec<AdaptiveClass>);

impl AdaptiveClasses {
    /// Counts a registered flow of this class, in batches of this shape.
    pub(super) fn join(&mut self, class: CodingClass, (packets, repairs): (u8, u8)) {
        if let Some(known) = self.get_mut(class) {
            known.flows += 1;
            return;
        }
        let reserve = Bytes::new(OVERHEAD_RESERVE);
        let policy = RedundancyPolicy::TokenBucket { percent: OVERHEAD_PERCENT, reserve };
        let (redundancy, budget) =
            (Redundancy::new(packets, repairs), RedundancyBudget::new(packets, repairs, policy));
        self.0.reserve_exact(1);
        self.0.push(AdaptiveClass { class, flows: 1, redundancy, budget });
    }

    /// Removes a registered flow of this class, and the class with its last flow.
    pub(super) fn leave(&mut self, class: CodingClass) {
        if let Some(known) = self.get_mut(class) {
            known.flows -= 1;
            self.0.retain(|known| known.flows > 0);
        }
    }

    pub(super) fn set_reserve(&mut self, reserve: Bytes) {
        self.0.iter_mut().for_each(|known| known.budget.set_reserve(reserve));
    }

    pub(super) fn get_mut(&mut self, class: CodingClass) -> Option<&mut AdaptiveClass> {
        self.0.iter_mut().find(|known| known.class == class)
    }

    /// Returns the memory of the table, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        (self.0.capacity() * size_of::<AdaptiveClass>()) as u64
    }
}
