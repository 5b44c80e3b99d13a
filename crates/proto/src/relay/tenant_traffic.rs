//! Bytes that a relay charges to tenants: those that it sends for their flows, and those that
//! helpers return for them.
//!
//! A batch's repair packets are charged to its flows in proportion to their bytes in the batch, and
//! a helper's packet to the flows whose losses it repairs. So a tenant pays for its own flows'
//! share of the batches that it has in common with others.

use alloc::vec::Vec;

/// Bytes that a relay charges to the flows of one tenant, since its start. They are those of sealed
/// packets and of their repair packets, without headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TenantTraffic {
    /// Bytes sent for the flows, to other relays and to agents.
    pub sent: u64,
    /// Bytes that helpers returned to repair losses of the flows.
    pub returned: u64,
}

impl TenantTraffic {
    /// Adds other bytes of the same tenant, such as those of another half of the relay. Sums stop
    /// at the largest number.
    pub const fn add(&mut self, other: Self) {
        self.sent = self.sent.saturating_add(other.sent);
        self.returned = self.returned.saturating_add(other.returned);
    }

    /// Returns the bytes that were charged since earlier counts; zero if those are larger.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self {
            sent: self.sent.saturating_sub(earlier.sent),
            returned: self.returned.saturating_sub(earlier.returned),
        }
    }
}

/// Traffic in one half of a relay, by the numbers of the tenants' accounts.
#[derive(Debug, Default)]
pub(super) struct TrafficAccounts(Vec<TenantTraffic>);

impl TrafficAccounts {
    /// Returns the traffic of an account.
    pub(super) fn get(&self, account: u32) -> TenantTraffic {
        self.0.get(account as usize).copied().unwrap_or_default()
    }

    /// Returns the traffic of an account, and begins the account if it is new.
    pub(super) fn account_mut(&mut self, account: u32) -> &mut TenantTraffic {
        let index = account as usize;
        if self.0.len() <= index {
            self.0.resize(index + 1, TenantTraffic::default());
        }
        &mut self.0[index]
    }
}

/// Distribution of bytes in proportion to weights.
///
/// A share is the difference of two rounded sums. So the shares add up to the bytes exactly, and
/// each differs by less than one byte from its exact value.
#[derive(Clone, Copy, Debug)]
pub(super) struct ByteShares {
    bytes: u64,
    weight_sum: u64,
    weight_before: u64,
    assigned: u64,
}

impl ByteShares {
    /// Begins the distribution of bytes. `weight_sum` is the sum of all weights.
    pub(super) const fn new(bytes: u64, weight_sum: u64) -> Self {
        Self { bytes, weight_sum, weight_before: 0, assigned: 0 }
    }

    /// Returns the share of the next weight.
    pub(super) fn next_share(&mut self, weight: u64) -> u64 {
        self.weight_before += weight;
        let due = (self.bytes * self.weight_before).checked_div(self.weight_sum).unwrap_or(0);
        let share = due - self.assigned;
        self.assigned = due;
        share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares<const N: usize>(bytes: u64, weights: [u64; N]) -> [u64; N] {
        let mut shares = ByteShares::new(bytes, weights.iter().sum());
        weights.map(|weight| shares.next_share(weight))
    }

    #[test]
    fn shares_are_in_proportion_and_add_up() {
        assert_eq!(shares(1_000, [100, 300]), [250, 750]);
        // The rounded sums are 3 of 3.3, 6 of 6.7, and 10.
        assert_eq!(shares(10, [1, 1, 1]), [3, 3, 4]);
        // 2 of 2.5, and 5.
        assert_eq!(shares(5, [7, 7]), [2, 3]);
        assert_eq!(shares(7, [0, 5, 0]), [0, 7, 0]);
        assert_eq!(shares(0, [1, 2]), [0, 0]);
        assert_eq!(shares(0, [0, 0]), [0, 0]);
    }

    #[test]
    fn no_byte_is_lost_and_no_share_is_off_by_a_byte() {
        for bytes in 0..200 {
            let weights = [1, bytes % 7, 1_472, 60, bytes * 3];
            let sum: u64 = weights.iter().sum();
            let parts = shares(bytes, weights);
            assert_eq!(parts.iter().sum::<u64>(), bytes);
            for (part, weight) in parts.into_iter().zip(weights) {
                let difference = (part * sum).abs_diff(bytes * weight);
                assert!(difference < sum, "{part} of {bytes}, with {weight} of {sum}");
            }
        }
    }

    #[test]
    fn accounts_begin_when_they_are_used() {
        let mut accounts = TrafficAccounts::default();
        accounts.account_mut(2).sent += 5;
        accounts.account_mut(0).returned += 7;
        let sums = [0, 1, 2, 3].map(|account| accounts.get(account));
        assert_eq!(sums.map(|one| (one.sent, one.returned)), [(0, 7), (0, 0), (5, 0), (0, 0)]);
        let mut both = sums[0];
        both.add(sums[2]);
        assert_eq!(both, TenantTraffic { sent: 5, returned: 7 });
    }

    #[test]
    fn sums_and_differences_stop_at_the_ends_of_the_range() {
        let mut traffic = TenantTraffic { sent: u64::MAX - 1, returned: 1 };
        let earlier = TenantTraffic { sent: 2, returned: 3 };
        traffic.add(earlier);
        assert_eq!(traffic, TenantTraffic { sent: u64::MAX, returned: 4 });
        assert_eq!(traffic.since(earlier), TenantTraffic { sent: u64::MAX - 2, returned: 1 });
        assert_eq!(earlier.since(traffic), TenantTraffic::default());
    }
}
