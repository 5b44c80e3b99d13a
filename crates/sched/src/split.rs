//! Two parties that share a link by weights (Figure 4 of the paper).

/// What two parties sent, and which of them goes next: the one that is behind its share. The second is owed what it was kept from, also from one
/// interval to the next; the first is not.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Split {
    weights: [u64; 2],
    /// In bytes, since the counts began anew (`L_R` and `L_D`); less than nothing is owed.
    sent: [i64; 2],
}

impl Split {
    pub(crate) const fn new(weights: [u64; 2]) -> Self {
        Self { weights, sent: [0; 2] }
    }

    /// Counts begin anew, with other weights (Figure 5): what is owed stays owed.
    pub(crate) fn begin(&mut self, weights: [u64; 2]) {
        *self = Self { weights, sent: [0, -self.debt()] };
    }

    /// Which goes next, where both wait.
    #[inline]
    pub(crate) fn next(&self) -> usize {
        let first = i128::from(self.sent[0]) * i128::from(self.weights[1]);
        let second = i128::from(self.sent[1]) * i128::from(self.weights[0]);
        usize::from(second <= first)
    }

    /// A party sent so many bytes; whether the other one waited, too.
    #[inline]
    pub(crate) fn note(&mut self, party: usize, bytes: u32, did_both_wait: bool) {
        if did_both_wait {
            self.sent[party] += i64::from(bytes);
        } else if party == 0 {
            self.sent = [0; 2];
        } else {
            self.sent = [0, -(self.debt() - i64::from(bytes)).max(0)];
        }
    }

    /// What the second is behind its share, in bytes, rounded up (δL): it has to be sent before more of the first, for its bound to hold.
    #[inline]
    fn debt(&self) -> i64 {
        let [first, second] = self.weights.map(i128::from);
        // Where the second has sent alone, which is usual of short queues, there is nothing to divide.
        let due = if self.sent[0] == 0 { 0 } else { (i128::from(self.sent[0]) * second + first - 1) / first };
        i64::try_from(due - i128::from(self.sent[1])).unwrap_or(i64::MAX).max(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of both, after so many packets of these lengths where both always wait.
    fn sent(weights: [u64; 2], lengths: [u32; 2], packets: u64) -> [u64; 2] {
        let (mut split, mut sent) = (Split::new(weights), [0; 2]);
        for packet in 0..packets {
            if packet % 1_000 == 0 {
                split.begin(weights);
            }
            let party = split.next();
            split.note(party, lengths[party], true);
            sent[party] += u64::from(lengths[party]);
        }
        sent
    }

    #[test]
    fn bytes_are_shared_by_weights_whatever_the_lengths() {
        for (weights, lengths) in [([2, 1], [1_500, 1_500]), ([2, 1], [1_500, 100]), ([5, 3], [40, 1_500])] {
            let [first, second] = sent(weights, lengths, 100_000);
            let [wanted, found] = [first * weights[1], second * weights[0]];
            assert!(wanted.abs_diff(found) <= wanted / 20, "{weights:?} {lengths:?}: {first} {second}");
        }
    }

    #[test]
    fn what_is_owed_outlives_an_interval_and_is_paid_by_what_is_sent_alone() {
        let mut split = Split::new([1, 1]);
        split.note(0, 1_500, true);
        split.begin([1, 1]);
        assert_eq!(split.debt(), 1_500);
        split.note(1, 1_000, false);
        assert_eq!((split.debt(), split.next()), (500, 1));
        split.note(0, 1_500, false);
        assert_eq!(split.debt(), 0, "who had nothing to send is owed nothing");
    }
}
