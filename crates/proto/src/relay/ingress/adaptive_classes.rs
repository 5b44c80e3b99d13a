//! Adaptive redundancy of a coding group, for the flows of each tenant.
//!
//! Flows with adaptive redundancy share batches with flows of their tenant only. So the receivers
//! of one tenant, whatever losses they report, change no other tenant's batches.

use alloc::vec::Vec;

use byway_units::{Bytes, Rate, Time};

use super::group::reserve_of;

use crate::limits::{OVERHEAD_PERCENT, OVERHEAD_RESERVE};
use crate::parts::active_flows::ActiveFlows;
use crate::parts::batcher::{ClosedQueue, CodingClass, RedundancyBudget, RedundancyPolicy};
use crate::parts::redundancy::Redundancy;

/// Redundancy of one tenant's batches in a group.
#[derive(Debug)]
pub(super) struct AdaptiveClass {
    class: CodingClass,
    /// Number of the tenant's registered flows in the group.
    flows: u32,
    pub(super) redundancy: Redundancy,
    pub(super) active_flows: ActiveFlows,
    /// Budget of repair bytes: the redundancy's share of the flows' bytes.
    budget: RedundancyBudget,
    /// Sum of the flows' registered rates, in bit/s.
    rate_sum: u128,
}

impl AdaptiveClass {
    /// Returns the number of repair packets of a closed batch of `bytes` bytes, at most `most`. The
    /// batch pays for them with their share of its bytes.
    pub(super) fn allocate_repairs(&mut self, closed: &ClosedQueue, bytes: u32, most: u8, now: Time) -> u8 {
        self.redundancy.on_batch(closed.size);
        let size = u8::try_from(closed.size).unwrap_or(u8::MAX);
        let repairs = self.redundancy.repairs_of(size, now).min(most);
        self.budget.deposit_share(bytes, (repairs, size));
        self.budget.allocate_at_most(repairs, closed.size, closed.longest)
    }
}

/// Redundancy of the batches in one coding group, by tenant. Empty if it is fixed.
#[derive(Debug, Default)]
pub(super) struct AdaptiveClasses(Vec<AdaptiveClass>);

impl AdaptiveClasses {
    /// Counts a registered flow of this class with this rate, in batches of this shape. Only one
    /// that is coded now restarts the redundancy.
    pub(super) fn join(&mut self, class: CodingClass, is_coded: bool, shape: (u8, u8), rate: Rate) {
        if self.get_mut(class).is_none() {
            let policy = RedundancyPolicy::TokenBucket {
                percent: OVERHEAD_PERCENT,
                reserve: Bytes::new(OVERHEAD_RESERVE),
            };
            self.0.reserve_exact(1);
            self.0.push(AdaptiveClass {
                class,
                flows: 0,
                redundancy: Redundancy::new(shape.0, shape.1),
                active_flows: ActiveFlows::default(),
                budget: RedundancyBudget::new(shape.0, shape.1, policy),
                rate_sum: 0,
            });
        }
        if let Some(known) = self.get_mut(class) {
            known.flows += 1;
            known.rate_sum += u128::from(rate.bits_per_second());
            if is_coded {
                known.redundancy.on_join();
            }
            known.budget.set_reserve(reserve_of(known.rate_sum, shape));
        }
    }

    /// Removes a registered flow of this class with this rate, and the class with its last flow.
    pub(super) fn leave(&mut self, class: CodingClass, shape: (u8, u8), rate: Rate) {
        if let Some(known) = self.get_mut(class) {
            known.flows -= 1;
            known.rate_sum -= u128::from(rate.bits_per_second());
            known.budget.set_reserve(reserve_of(known.rate_sum, shape));
            self.0.retain(|known| known.flows > 0);
        }
    }

    pub(super) fn get_mut(&mut self, class: CodingClass) -> Option<&mut AdaptiveClass> {
        self.0.iter_mut().find(|known| known.class == class)
    }

    /// Returns the memory of the table, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        (self.0.capacity() * size_of::<AdaptiveClass>()) as u64
    }
}
