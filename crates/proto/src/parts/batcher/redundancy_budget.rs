//! Budget for the repair packets towards one egress relay.

use byway_units::Bytes;

use crate::limits::{BATCH_PACKETS_MAX, BUDGETED_REPAIRS_MAX};

/// Policy of a batcher for the number of repair packets of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedundancyPolicy {
    /// `ceil(r * size / k)` repair packets for every batch, none for a single packet. Small batches
    /// cost up to `k / r` times as much as full ones, per packet.
    PerBatch,
    /// At most as many as with `PerBatch`, within a budget: each source packet adds tokens, and
    /// each repair packet costs its length.
    TokenBucket {
        /// Tokens for each source packet, in per cent of the `r / k` of its length that a full
        /// batch costs.
        percent: u16,
        /// Balance in bytes that is reserved for first repair packets. Only a balance above half of
        /// it allows repetitions of single packets, and further repair packets. The balance is at
        /// most twice the reserve, which bounds a temporary excess over the budget.
        ///
        /// 125 ms of the income of all flows at their registered rates bridge the time from one
        /// round of video frames to the next. With half of that, many more packets of video with
        /// key frames have no repair packets.
        reserve: Bytes,
    },
}

/// Token bucket of a batcher for the bytes of repair packets.
///
/// Repair packets differ in value. The first one makes a whole batch repairable. The second one
/// protects against one cooperating receiver that does not answer. The repetition of a packet alone
/// in its batch protects just that packet. So the first one needs only a positive balance, and the
/// others a high balance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RedundancyBudget {
    full_size: u8,
    full_repairs: u8,
    policy: RedundancyPolicy,
    /// Balance in fractions of a byte, with [`Self::price`] of them in a byte. Integers make the
    /// income exact.
    balance: i64,
}

impl RedundancyBudget {
    pub(crate) fn new(full_size: u8, full_repairs: u8, policy: RedundancyPolicy) -> Self {
        assert!(
            (1..=BATCH_PACKETS_MAX).contains(&usize::from(full_size)),
            "a batch has 1 to {BATCH_PACKETS_MAX} source packets, not {full_size}"
        );
        assert!(
            (1..=BUDGETED_REPAIRS_MAX).contains(&usize::from(full_repairs)),
            "a batch has 1 to {BUDGETED_REPAIRS_MAX} repair packets, not {full_repairs}"
        );
        let mut budget = Self { full_size, full_repairs, policy, balance: 0 };
        budget.balance = budget.reserve();
        budget
    }

    pub(crate) fn set_reserve(&mut self, bytes: Bytes) {
        let before = self.reserve();
        if let RedundancyPolicy::TokenBucket { reserve, .. } = &mut self.policy {
            *reserve = bytes;
        }
        // A larger reserve adds the difference to the balance: new flows are protected from the
        // start.
        let added = (self.reserve() - before).max(0);
        self.balance = (self.balance + added).min(2 * self.reserve());
    }

    /// Adds the income from a source packet of `bytes` bytes, up to twice the reserve.
    pub(crate) fn deposit(&mut self, bytes: u16) {
        self.deposit_share(bytes.into(), (self.full_repairs, self.full_size));
    }

    /// Adds the income from `bytes` bytes of source packets in batches with `repairs` repair
    /// packets for `size` source packets, up to twice the reserve.
    pub(crate) fn deposit_share(&mut self, bytes: u32, (repairs, size): (u8, u8)) {
        if let RedundancyPolicy::TokenBucket { percent, .. } = self.policy {
            let full = i64::from(bytes) * i64::from(repairs) * i64::from(percent);
            let income = full * i64::from(self.full_size) / i64::from(size.max(1));
            // Income beyond twice the reserve is forfeited.
            self.balance = (self.balance + income).min(2 * self.reserve());
        }
    }

    /// True if the balance is above what first repair packets need: half of the reserve. Then delay
    /// and coverage have priority over cost.
    pub(super) fn has_surplus(&self) -> bool {
        self.balance >= self.reserve() / 2
    }

    /// True if the income from a batch of `size` packets of equal length covers one repair packet.
    pub(super) fn pays_for_itself(&self, size: usize) -> bool {
        size * usize::from(self.full_repairs) >= usize::from(self.full_size)
    }

    /// Returns the number of repair packets of a batch, and charges their bytes. `longest` is the
    /// length of each.
    pub(crate) fn allocate_repairs(&mut self, size: usize, longest: u16) -> u8 {
        self.allocate_at_most(self.wanted(size), size, longest)
    }

    /// Returns the number of repair packets of a batch, at most `wanted_repairs`, and charges their
    /// bytes. `longest` is the length of each.
    pub(crate) fn allocate_at_most(&mut self, wanted_repairs: u8, size: usize, longest: u16) -> u8 {
        if self.policy == RedundancyPolicy::PerBatch {
            return if size > 1 { wanted_repairs } else { 0 };
        }
        let cost = i64::from(longest) * self.price();
        let mut repairs = 0;
        while repairs < wanted_repairs && self.balance >= self.needed(repairs, size) {
            self.balance -= cost;
            repairs += 1;
        }
        repairs
    }

    /// Returns `ceil(r * size / k)`, at least 1 and at most r: the number with `PerBatch`.
    fn wanted(&self, size: usize) -> u8 {
        let scaled = (size * usize::from(self.full_repairs)).div_ceil(usize::from(self.full_size));
        u8::try_from(scaled).map_or(self.full_repairs, |scaled| scaled.clamp(1, self.full_repairs))
    }

    /// Returns the least balance at which a batch that has `repairs` repair packets gets another
    /// one.
    fn needed(&self, repairs: u8, size: usize) -> i64 {
        let half = self.reserve() / 2;
        match (repairs, size) {
            (0, 2..) => 0,
            (0, _) => half,
            // The larger the batch, the likelier is a straggler in it.
            (_, size) => 2 * half - half * i64_of(size) / i64::from(self.full_size),
        }
    }

    fn reserve(&self) -> i64 {
        match self.policy {
            RedundancyPolicy::PerBatch => 0,
            RedundancyPolicy::TokenBucket { reserve, .. } => i64::try_from(reserve.count())
                .unwrap_or(i64::MAX)
                .saturating_mul(self.price())
                .min(i64::MAX / 4),
        }
    }

    /// Returns the number of balance units that one repair byte costs.
    fn price(&self) -> i64 {
        i64::from(self.full_size) * 100
    }
}

fn i64_of(size: usize) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: RedundancyPolicy =
        RedundancyPolicy::TokenBucket { percent: 100, reserve: Bytes::new(4_000) };

    /// Returns an empty budget for 2 repair packets on 8 source packets.
    fn empty_budget() -> RedundancyBudget {
        RedundancyBudget { balance: 0, ..RedundancyBudget::new(8, 2, BUDGET) }
    }

    #[test]
    #[should_panic(expected = "a batch has 1 to 8 repair packets, not 9")]
    fn more_repair_packets_than_the_coder_makes_are_refused() {
        let most = u8::try_from(BUDGETED_REPAIRS_MAX).expect("few");
        let _ = RedundancyBudget::new(10, most, RedundancyPolicy::PerBatch);
        let _ = RedundancyBudget::new(10, most + 1, RedundancyPolicy::PerBatch);
    }

    #[test]
    fn without_a_budget_repairs_scale_with_the_batch() {
        let mut budget = RedundancyBudget::new(8, 2, RedundancyPolicy::PerBatch);
        let bought: [u8; 9] = core::array::from_fn(|size| budget.allocate_repairs(size, 1_000));
        assert_eq!(bought, [0, 0, 1, 1, 1, 2, 2, 2, 2]);
    }

    #[test]
    fn a_batch_larger_than_full_gets_no_more_than_a_full_one() {
        assert_eq!(RedundancyBudget::new(8, 2, RedundancyPolicy::PerBatch).allocate_repairs(20, 1_000), 2);
    }

    #[test]
    fn first_repairs_are_bought_before_anything_else() {
        let mut budget = empty_budget();
        assert_eq!(budget.allocate_repairs(1, 1_000), 0);
        assert_eq!(budget.allocate_repairs(8, 1_000), 1);
        assert_eq!(budget.allocate_repairs(8, 1_000), 0, "in debt");
    }

    #[test]
    fn a_full_purse_repeats_single_packets_and_gives_further_repairs() {
        let mut budget = RedundancyBudget::new(8, 2, BUDGET);
        assert!(budget.has_surplus());
        assert_eq!((budget.allocate_repairs(8, 1_000), budget.allocate_repairs(1, 1_000)), (2, 1));
        assert!(!budget.has_surplus());
    }

    #[test]
    fn further_repairs_go_to_large_batches_first() {
        let mut budget = RedundancyBudget::new(8, 2, BUDGET);
        budget.balance = 3_500 * budget.price();
        assert_eq!(budget.allocate_repairs(5, 1_000), 1);
        budget.balance = 3_500 * budget.price();
        assert_eq!(budget.allocate_repairs(8, 1_000), 2);
    }

    #[test]
    fn full_batches_of_equal_packets_cost_what_they_pay_in() {
        let mut budget = empty_budget();
        budget.balance = budget.reserve();
        for _ in 0..1_000 {
            for _ in 0..8 {
                budget.deposit(1_001);
            }
            assert_eq!(budget.allocate_repairs(8, 1_001), 2);
        }
        assert_eq!(budget.balance, budget.reserve());
    }

    #[test]
    fn what_is_not_spent_is_not_saved_beyond_two_reserves() {
        let mut budget = empty_budget();
        for _ in 0..1_000 {
            budget.deposit(1_000);
        }
        assert_eq!(budget.balance, 2 * budget.reserve());
    }

    #[test]
    fn batches_without_redundancy_cost_nothing_and_earn_nothing() {
        let mut budget = empty_budget();
        budget.deposit_share(60_000, (0, 8));
        assert_eq!((budget.allocate_at_most(0, 8, 1_000), budget.balance), (0, 0));
        (0..8).for_each(|_| budget.deposit_share(1_000, (4, 8)));
        assert_eq!(budget.allocate_at_most(4, 8, 1_000), 3, "a low balance buys fewer than four");
    }

    #[test]
    fn batches_of_any_size_cost_what_they_pay_in() {
        for (repairs, size) in [(1_u8, 2_u8), (1, 3), (2, 4), (3, 5), (4, 8)] {
            let mut budget = RedundancyBudget::new(8, 2, BUDGET);
            for _ in 0..1_000 {
                (0..size).for_each(|_| budget.deposit_share(1_001, (repairs, size)));
                let bought = budget.allocate_at_most(repairs, size.into(), 1_001);
                assert_eq!(bought, repairs, "{repairs} for {size}");
            }
        }
    }
}
