//! How bytes are spread over flows.

/// How many flows carried about how much in an interval, to an eighth.
#[derive(Debug)]
pub(crate) struct Spread {
    /// Of all flows of a bin together.
    bytes: [u64; BINS],
    flows: [u64; BINS],
}

impl FromIterator<u32> for Spread {
    fn from_iter<I: IntoIterator<Item = u32>>(carried: I) -> Self {
        let mut spread = Self::nothing();
        carried.into_iter().for_each(|carried| spread.add(carried));
        spread
    }
}

impl Spread {
    /// Of no flows.
    pub(crate) const fn nothing() -> Self {
        Self { bytes: [0; BINS], flows: [0; BINS] }
    }

    /// A flow carried so many bytes.
    pub(crate) fn add(&mut self, carried: u32) {
        self.bytes[bin(carried)] += u64::from(carried);
        self.flows[bin(carried)] += 1;
    }

    /// Returns what a flow gets, in bytes, that takes what it can: a third of all bytes are of flows that carried less. Nothing if none did.
    ///
    /// The mean of all flows says little where most are acknowledgments or calls, or few are elephants. Weighted by bytes, the former hardly
    /// count; and a third does not care how large the latter are. Half would be more than TCP gets over a longer path than most.
    pub(crate) fn typical(&self) -> u64 {
        let third = self.bytes() / 3;
        let mut below = 0;
        let typical = self.bytes.iter().position(|bytes| {
            below += bytes;
            below > third
        });
        typical.map_or(0, middle)
    }

    /// What all carried together, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.iter().sum()
    }

    /// Returns the number of flows, where one that carried less than `whole` bytes, which is not zero, counts for as much less.
    pub(crate) fn weight(&self, whole: u64) -> u64 {
        let bins = self.bytes.iter().zip(&self.flows).enumerate();
        let milli =
            bins.map(
                |(bin, (bytes, flows))| {
                    if middle(bin) < whole { bytes.saturating_mul(1_000) / whole } else { flows * 1_000 }
                },
            );
        (milli.sum::<u64>() + 500) / 1_000
    }

    /// What each flow may carry at most, in bytes, so that all together carry this much: the max-min fair share. `None` if they carried less.
    pub(crate) fn fair_share(&self, capacity: u64) -> Option<u64> {
        let (mut below, mut above) = (0_u64, self.flows.iter().sum::<u64>());
        for (bin, flows) in self.flows.into_iter().enumerate().filter(|(_, flows)| *flows > 0) {
            if below.saturating_add(middle(bin).saturating_mul(above)) > capacity {
                return Some((capacity - below) / above);
            }
            // By the middle, as above, so that a share is never less than what flows of the bins before carried.
            (below, above) = (below.saturating_add(middle(bin).saturating_mul(flows)), above - flows);
        }
        None
    }
}

/// Eight for each power of two.
const BINS: usize = 30 * 8;

/// Where a count belongs.
const fn bin(count: u32) -> usize {
    if count < 8 {
        return count as usize;
    }
    let power = count.ilog2() as usize;
    (power - 2) * 8 + (count >> (power - 3) & 7) as usize
}

/// The middle of the counts of a bin.
const fn middle(bin: usize) -> u64 {
    if bin < 8 {
        return bin as u64;
    }
    let (power, eighth) = (bin / 8 + 2, bin as u64 % 8);
    ((8 + eighth) * 2 + 1) << (power - 3) >> 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(of: &[(usize, u32)]) -> Spread {
        of.iter().flat_map(|(flows, bytes)| core::iter::repeat_n(*bytes, *flows)).collect()
    }

    #[test]
    fn those_who_carry_little_hardly_count() {
        let found = spread(&[(100, 30_000), (100, 1_000), (1, 900_000), (50, 0)]).typical();
        assert!((27_000..33_000).contains(&found), "{found}");
        assert_eq!(spread(&[(50, 0)]).typical(), 0);
    }

    #[test]
    fn flows_weigh_by_what_they_carry_up_to_a_whole_one() {
        let spread = spread(&[(10, 50_000), (10, 20_000), (200, 100), (50, 0)]);
        assert_eq!(spread.weight(40_000), 10 + 5 + 1);
        assert_eq!(spread.weight(100), 220);
    }

    #[test]
    fn who_carries_less_than_a_fair_share_leaves_the_rest_to_others() {
        let spread = spread(&[(100, 1_000), (10, 50_000)]);
        // 100,000 of the small ones leave 200,000 for ten.
        let share = spread.fair_share(300_000).expect("more came");
        assert!((19_000..21_000).contains(&share), "{share}");
        assert_eq!(spread.fair_share(700_000), None);
        for capacity in (10_000..600_000).step_by(500) {
            let share = spread.fair_share(capacity).expect("more came");
            let carried = 100 * share.min(1_000) + 10 * share.min(50_000);
            assert!(carried.abs_diff(capacity) <= capacity / 8, "{share} of {capacity}");
        }
        assert!((800..1_000).contains(&spread.fair_share(100_000).expect("more came")));
    }

    #[test]
    fn a_count_is_within_an_eighth_of_the_middle_of_its_bin() {
        for count in (0..2_000).chain([65_535, 1 << 20, u32::MAX]) {
            let middle = middle(bin(count));
            assert!(middle.abs_diff(u64::from(count)) <= u64::from(count) / 8, "{count} {middle}");
        }
    }
}
