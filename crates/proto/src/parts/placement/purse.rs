//! What the repair packets towards one egress relay may cost.

use byway_units::Bytes;

use crate::limits::{BATCH_PACKETS_MAX, BOUGHT_REPAIRS_MAX};

/// How many repair packets batches get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spending {
    /// `ceil(r * size / k)` for every batch, nothing for a single packet: small batches cost up to `k / r`
    /// times as much as full ones, per packet.
    Scaled,
    /// At most that many, within a budget that source packets pay into and repair packets are paid from.
    Budget {
        /// What source packets pay in, in per cent of the `r / k` of their bytes that a full batch costs.
        percent: u16,
        /// What is kept for first repair packets: repeated single packets and further repair packets are bought
        /// only from the upper half of it. Up to twice as much is saved, which bounds by how much the budget
        /// may be exceeded for a while.
        ///
        /// 125 ms of the income of all flows at their registered rates bridge the time from one round of video
        /// frames to the next; half of that leaves many more packets of video with key frames
        /// unaffordable.
        reserve: Bytes,
    },
}

/// Repair bytes that may be spent.
///
/// Batches differ in worth. A first repair packet makes a whole batch repairable; a second guards against one
/// cooperating receiver that does not answer; repeating a packet that stayed alone saves just that packet. So
/// the first is bought whenever there is anything in the purse, the others only from plenty.
#[derive(Clone, Copy, Debug)]
pub(super) struct Purse {
    full_size: u8,
    full_repairs: u8,
    spending: Spending,
    /// In parts of a byte, of which [`Self::price`] make one: integers, so income is exact.
    balance: i64,
}

impl Purse {
    pub(super) fn new(full_size: u8, full_repairs: u8, spending: Spending) -> Self {
        assert!(
            (1..=BATCH_PACKETS_MAX).contains(&usize::from(full_size)),
            "a batch has 1 to {BATCH_PACKETS_MAX} source packets, not {full_size}"
        );
        assert!(
            (1..=BOUGHT_REPAIRS_MAX).contains(&usize::from(full_repairs)),
            "a batch has 1 to {BOUGHT_REPAIRS_MAX} repair packets, not {full_repairs}"
        );
        let mut purse = Self { full_size, full_repairs, spending, balance: 0 };
        purse.balance = purse.reserve();
        purse
    }

    pub(super) fn set_reserve(&mut self, bytes: Bytes) {
        let before = self.reserve();
        if let Spending::Budget { reserve, .. } = &mut self.spending {
            *reserve = bytes;
        }
        // Who makes the reserve larger brings the difference: flows that begin are protected from the start.
        let brought = (self.reserve() - before).max(0);
        self.balance = (self.balance + brought).min(2 * self.reserve());
    }

    /// A source packet pays in.
    pub(super) fn earn(&mut self, bytes: u16) {
        if let Spending::Budget { percent, .. } = self.spending {
            let income = i64::from(bytes) * i64::from(self.full_repairs) * i64::from(percent);
            // What is not spent within about a reserve's worth is not owed later.
            self.balance = (self.balance + income).min(2 * self.reserve());
        }
    }

    /// Whether there is more than first repair packets need: then delay and coverage count, else economy.
    pub(super) fn is_rich(&self) -> bool {
        self.balance >= self.reserve() / 2
    }

    /// Whether a batch of `size` equal packets earns what its first repair packet costs.
    pub(super) fn pays_for_itself(&self, size: usize) -> bool {
        size * usize::from(self.full_repairs) >= usize::from(self.full_size)
    }

    /// How many repair packets a batch gets, which are paid for at once.
    pub(super) fn buy(&mut self, size: usize, longest: u16) -> u8 {
        let wanted = self.wanted(size);
        if self.spending == Spending::Scaled {
            return if size > 1 { wanted } else { 0 };
        }
        let cost = i64::from(longest) * self.price();
        let mut repairs = 0;
        while repairs < wanted && self.balance >= self.needed(repairs, size) {
            self.balance -= cost;
            repairs += 1;
        }
        repairs
    }

    /// `ceil(r * size / k)`, at least 1.
    fn wanted(&self, size: usize) -> u8 {
        let scaled = (size * usize::from(self.full_repairs)).div_ceil(usize::from(self.full_size));
        u8::try_from(scaled).map_or(self.full_repairs, |scaled| scaled.clamp(1, self.full_repairs))
    }

    /// What has to be in the purse before a batch that has `repairs` repair packets gets another.
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
        match self.spending {
            Spending::Scaled => 0,
            Spending::Budget { reserve, .. } => i64::try_from(reserve.count())
                .unwrap_or(i64::MAX)
                .saturating_mul(self.price())
                .min(i64::MAX / 4),
        }
    }

    /// How many parts of the balance one repair byte costs.
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

    const BUDGET: Spending = Spending::Budget { percent: 100, reserve: Bytes::new(4_000) };

    /// A purse for 2 repair packets on 8 that holds nothing.
    fn empty_purse() -> Purse {
        Purse { balance: 0, ..Purse::new(8, 2, BUDGET) }
    }

    #[test]
    #[should_panic(expected = "a batch has 1 to 8 repair packets, not 9")]
    fn more_repair_packets_than_the_coder_makes_are_refused() {
        let most = u8::try_from(BOUGHT_REPAIRS_MAX).expect("few");
        let _ = Purse::new(10, most, Spending::Scaled);
        let _ = Purse::new(10, most + 1, Spending::Scaled);
    }

    #[test]
    fn without_a_budget_repairs_scale_with_the_batch() {
        let mut purse = Purse::new(8, 2, Spending::Scaled);
        let bought: [u8; 9] = core::array::from_fn(|size| purse.buy(size, 1_000));
        assert_eq!(bought, [0, 0, 1, 1, 1, 2, 2, 2, 2]);
    }

    #[test]
    fn a_batch_larger_than_full_gets_no_more_than_a_full_one() {
        assert_eq!(Purse::new(8, 2, Spending::Scaled).buy(20, 1_000), 2);
    }

    #[test]
    fn first_repairs_are_bought_before_anything_else() {
        let mut purse = empty_purse();
        assert_eq!(purse.buy(1, 1_000), 0);
        assert_eq!(purse.buy(8, 1_000), 1);
        assert_eq!(purse.buy(8, 1_000), 0, "in debt");
    }

    #[test]
    fn a_full_purse_repeats_single_packets_and_gives_further_repairs() {
        let mut purse = Purse::new(8, 2, BUDGET);
        assert!(purse.is_rich());
        assert_eq!((purse.buy(8, 1_000), purse.buy(1, 1_000)), (2, 1));
        assert!(!purse.is_rich());
    }

    #[test]
    fn further_repairs_go_to_large_batches_first() {
        let mut purse = Purse::new(8, 2, BUDGET);
        purse.balance = 3_500 * purse.price();
        assert_eq!(purse.buy(5, 1_000), 1);
        purse.balance = 3_500 * purse.price();
        assert_eq!(purse.buy(8, 1_000), 2);
    }

    #[test]
    fn full_batches_of_equal_packets_cost_what_they_pay_in() {
        let mut purse = empty_purse();
        purse.balance = purse.reserve();
        for _ in 0..1_000 {
            for _ in 0..8 {
                purse.earn(1_001);
            }
            assert_eq!(purse.buy(8, 1_001), 2);
        }
        assert_eq!(purse.balance, purse.reserve());
    }

    #[test]
    fn what_is_not_spent_is_not_saved_beyond_two_reserves() {
        let mut purse = empty_purse();
        for _ in 0..1_000 {
            purse.earn(1_000);
        }
        assert_eq!(purse.balance, 2 * purse.reserve());
    }
}
