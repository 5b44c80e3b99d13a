//! Histogram of flows by the bytes that they sent in an interval.

/// Histogram of flows by the bytes that each sent in an interval: number of flows, and their bytes,
/// in each bin. Each power of two has eight bins of equal width, so a bin is at most an eighth of
/// its lower bound wide.
#[derive(Debug)]
pub(crate) struct FlowRateHistogram {
    /// Bytes of all flows in each bin.
    bytes: [u64; BINS],
    flows: [u64; BINS],
}

impl FromIterator<u32> for FlowRateHistogram {
    fn from_iter<I: IntoIterator<Item = u32>>(flows: I) -> Self {
        let mut histogram = Self::empty();
        flows.into_iter().for_each(|bytes| histogram.add(bytes));
        histogram
    }
}

impl FlowRateHistogram {
    /// Creates a histogram without flows.
    pub(crate) const fn empty() -> Self {
        Self { bytes: [0; BINS], flows: [0; BINS] }
    }

    /// Adds a flow that sent these bytes.
    pub(crate) fn add(&mut self, bytes: u32) {
        self.bytes[bin(bytes)] += u64::from(bytes);
        self.flows[bin(bytes)] += 1;
    }

    /// Returns the bytes of a flow that takes as much as it can get: a third of all bytes belong to
    /// flows with less. Zero without flows.
    ///
    /// The mean over all flows says little if most are acknowledgments or calls, or if a few are
    /// elephants. Weighted by bytes, small flows hardly count, and a third does not depend on the
    /// size of elephants. The median would exceed TCP's rate over a path longer than most.
    pub(crate) fn typical(&self) -> u64 {
        let third = self.bytes() / 3;
        let mut below = 0;
        let typical = self.bytes.iter().position(|bytes| {
            below += bytes;
            below > third
        });
        typical.map_or(0, bin_midpoint)
    }

    /// Returns the bytes of all flows together.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.iter().sum()
    }

    /// Returns the weighted number of flows: each counts as one from `whole` bytes on, and for
    /// proportionally less below. `whole` is not zero.
    pub(crate) fn weighted_count(&self, whole: u64) -> u64 {
        let bins = self.bytes.iter().zip(&self.flows).enumerate();
        let milli = bins.map(|(bin, (bytes, flows))| {
            if bin_midpoint(bin) < whole { bytes.saturating_mul(1_000) / whole } else { flows * 1_000 }
        });
        (milli.sum::<u64>() + 500) / 1_000
    }

    /// Returns the max-min fair share: the limit for each flow, in bytes, at which all flows
    /// together send `capacity` bytes. `None` if all send less without a limit.
    pub(crate) fn fair_share(&self, capacity: u64) -> Option<u64> {
        let (mut below, mut above) = (0_u64, self.flows.iter().sum::<u64>());
        for (bin, flows) in self.flows.into_iter().enumerate().filter(|(_, flows)| *flows > 0) {
            if below.saturating_add(bin_midpoint(bin).saturating_mul(above)) > capacity {
                return Some((capacity - below) / above);
            }
            // Uses bin midpoints, as above. So a share is never less than the bytes of flows in
            // lower bins.
            (below, above) = (below.saturating_add(bin_midpoint(bin).saturating_mul(flows)), above - flows);
        }
        None
    }
}

/// Number of bins: eight for each power of two.
const BINS: usize = 30 * 8;

/// Returns the bin of a flow with `count` bytes.
const fn bin(count: u32) -> usize {
    if count < 8 {
        return count as usize;
    }
    let power = count.ilog2() as usize;
    (power - 2) * 8 + (count >> (power - 3) & 7) as usize
}

/// Returns the midpoint of a bin, in bytes.
const fn bin_midpoint(bin: usize) -> u64 {
    if bin < 8 {
        return bin as u64;
    }
    let (power, eighth) = (bin / 8 + 2, bin as u64 % 8);
    ((8 + eighth) * 2 + 1) << (power - 3) >> 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(of: &[(usize, u32)]) -> FlowRateHistogram {
        of.iter().flat_map(|(flows, bytes)| core::iter::repeat_n(*bytes, *flows)).collect()
    }

    #[test]
    fn those_who_carry_little_hardly_count() {
        let found = histogram(&[(100, 30_000), (100, 1_000), (1, 900_000), (50, 0)]).typical();
        assert!((27_000..33_000).contains(&found), "{found}");
        assert_eq!(histogram(&[(50, 0)]).typical(), 0);
    }

    #[test]
    fn flows_weigh_by_what_they_carry_up_to_a_whole_one() {
        let histogram = histogram(&[(10, 50_000), (10, 20_000), (200, 100), (50, 0)]);
        assert_eq!(histogram.weighted_count(40_000), 10 + 5 + 1);
        assert_eq!(histogram.weighted_count(100), 220);
    }

    #[test]
    fn who_carries_less_than_a_fair_share_leaves_the_rest_to_others() {
        let histogram = histogram(&[(100, 1_000), (10, 50_000)]);
        // The small flows have 100,000 bytes and leave 200,000 for ten flows.
        let share = histogram.fair_share(300_000).expect("more came");
        assert!((19_000..21_000).contains(&share), "{share}");
        assert_eq!(histogram.fair_share(700_000), None);
        for capacity in (10_000..600_000).step_by(500) {
            let share = histogram.fair_share(capacity).expect("more came");
            let sent = 100 * share.min(1_000) + 10 * share.min(50_000);
            assert!(sent.abs_diff(capacity) <= capacity / 8, "{share} of {capacity}");
        }
        assert!((800..1_000).contains(&histogram.fair_share(100_000).expect("more came")));
    }

    #[test]
    fn a_count_is_within_an_eighth_of_the_middle_of_its_bin() {
        for count in (0..2_000).chain([65_535, 1 << 20, u32::MAX]) {
            let middle = bin_midpoint(bin(count));
            assert!(middle.abs_diff(u64::from(count)) <= u64::from(count) / 8, "{count} {middle}");
        }
    }
}
