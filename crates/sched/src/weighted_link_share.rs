//! Division of a link between two parties by weights (Figure 4 of the paper).

/// Division of a link's bytes between two parties by their weights: the party that has sent less
/// than its share sends next. A debt to the second party remains from one interval to the next. The
/// first party has no such claim.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WeightedShare {
    weights: [u64; 2],
    /// Bytes that each party has sent since the last restart (`L_R` and `L_D`); a negative value is
    /// a debt to the second party.
    sent: [i64; 2],
}

impl WeightedShare {
    pub(crate) const fn new(weights: [u64; 2]) -> Self {
        Self { weights, sent: [0; 2] }
    }

    /// Begins new counts with these weights (Figure 5); a debt to the second party remains.
    pub(crate) fn restart(&mut self, weights: [u64; 2]) {
        *self = Self { weights, sent: [0, -self.debt()] };
    }

    /// Changes the weights. Each party keeps what it is owed, up to `claim_max` bytes.
    ///
    /// The first one's claim grows with the ratio of the weights. Without a bound, it could
    /// starve the second one after a change.
    pub(crate) fn set_weights(&mut self, weights: [u64; 2], claim_max: u64) {
        let claim_max = i64::try_from(claim_max).unwrap_or(i64::MAX);
        let sent = match self.debt() {
            0 => [-self.credit().min(claim_max), 0],
            debt => [0, -debt.min(claim_max)],
        };
        *self = Self { weights, sent };
    }

    /// Returns the index of the party to send next if both are backlogged: 0 for the first, 1 for
    /// the second.
    #[inline]
    pub(crate) fn next(&self) -> usize {
        let first = i128::from(self.sent[0]) * i128::from(self.weights[1]);
        let second = i128::from(self.sent[1]) * i128::from(self.weights[0]);
        usize::from(second <= first)
    }

    /// Records that a party sent bytes. `are_both_backlogged` is true if the other party had
    /// packets to send, too.
    #[inline]
    pub(crate) fn record(&mut self, party: usize, bytes: u32, are_both_backlogged: bool) {
        if are_both_backlogged {
            self.sent[party] += i64::from(bytes);
        } else if party == 0 {
            self.sent = [0; 2];
        } else {
            self.sent = [0, -(self.debt() - i64::from(bytes)).max(0)];
        }
    }

    /// Returns the number of bytes by which the second party is behind its share, rounded up (δL).
    /// To meet the delay bound, it has to send them before the first party sends more.
    #[inline]
    fn debt(&self) -> i64 {
        let [first, second] = self.weights.map(i128::from);
        // If the second party has sent alone, as is usual with short queues, there is nothing to
        // divide.
        let due = if self.sent[0] == 0 { 0 } else { (i128::from(self.sent[0]) * second + first - 1) / first };
        i64::try_from(due - i128::from(self.sent[1])).unwrap_or(i64::MAX).max(0)
    }

    /// Returns the number of bytes by which the first party is behind its share, rounded down.
    fn credit(&self) -> i64 {
        let [first, second] = self.weights.map(i128::from);
        let due = i128::from(self.sent[1]) * first / second;
        i64::try_from(due - i128::from(self.sent[0])).unwrap_or(i64::MAX).max(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the bytes of both parties after `packets` packets of these lengths, with both always
    /// backlogged.
    fn bytes_sent(weights: [u64; 2], lengths: [u32; 2], packets: u64) -> [u64; 2] {
        let (mut split, mut sent) = (WeightedShare::new(weights), [0; 2]);
        for packet in 0..packets {
            if packet % 1_000 == 0 {
                split.restart(weights);
            }
            let party = split.next();
            split.record(party, lengths[party], true);
            sent[party] += u64::from(lengths[party]);
        }
        sent
    }

    #[test]
    fn bytes_are_shared_by_weights_whatever_the_lengths() {
        for (weights, lengths) in [([2, 1], [1_500, 1_500]), ([2, 1], [1_500, 100]), ([5, 3], [40, 1_500])] {
            let [first, second] = bytes_sent(weights, lengths, 100_000);
            let [wanted, found] = [first * weights[1], second * weights[0]];
            assert!(wanted.abs_diff(found) <= wanted / 20, "{weights:?} {lengths:?}: {first} {second}");
        }
    }

    #[test]
    fn what_is_owed_outlives_an_interval_and_is_paid_by_what_is_sent_alone() {
        let mut split = WeightedShare::new([1, 1]);
        split.record(0, 1_500, true);
        split.restart([1, 1]);
        assert_eq!(split.debt(), 1_500);
        split.record(1, 1_000, false);
        assert_eq!((split.debt(), split.next()), (500, 1));
        split.record(0, 1_500, false);
        assert_eq!(split.debt(), 0, "who had nothing to send is owed nothing");
    }

    #[test]
    fn a_change_of_weights_leaves_either_party_what_it_is_owed_within_bounds() {
        let mut split = WeightedShare::new([3, 1]);
        split.record(1, 1_500, true);
        split.set_weights([1, 1], 10_000);
        // Three times 1,500 bytes were due to the first: three packets, and the fourth is a draw.
        assert_eq!((split.debt(), split.credit()), (0, 4_500));
        for _ in 0..3 {
            assert_eq!(split.next(), 0);
            split.record(0, 1_500, true);
        }
        assert_eq!((split.credit(), split.next()), (0, 1));
        split.record(0, 3_000, true);
        split.set_weights([2, 1], 1_000);
        assert_eq!((split.debt(), split.credit()), (1_000, 0), "3,000 bytes, of which 1,000 count");
        let mut split = WeightedShare::new([1_000_000, 1]);
        split.record(1, 1_500, true);
        split.set_weights([1, 1], 31_250);
        assert_eq!(split.credit(), 31_250, "not 1.5 GB");
    }

    #[test]
    fn weights_that_change_often_share_as_those_that_stay() {
        let (mut split, mut sent) = (WeightedShare::new([2, 1]), [0; 2]);
        for packet in 0..30_000 {
            if packet % 4 == 0 {
                split.set_weights([2, 1], 31_250);
            }
            let party = split.next();
            split.record(party, 1_500, true);
            sent[party] += 1;
        }
        assert_eq!(sent, [20_000, 10_000]);
    }
}
