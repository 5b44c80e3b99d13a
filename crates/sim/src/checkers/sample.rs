//! Sample of values, and its quantiles. Each quantile is a value that occurred.

use alloc::vec::Vec;

/// Sample of values in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample<T>(Vec<T>);

impl<T: Copy + Ord> Sample<T> {
    /// Creates a sample and sorts the values.
    #[must_use]
    pub fn new(mut values: Vec<T>) -> Self {
        values.sort_unstable();
        Self(values)
    }

    /// Returns the values, in ascending order.
    #[must_use]
    pub fn values(&self) -> &[T] {
        &self.0
    }

    /// Returns the quantile: the smallest value that at least `parts` of `whole` of the values do
    /// not exceed. It is the nearest rank, without interpolation: `quantile(999, 1_000)` is the
    /// 99.9th percentile. `None` if there are no values.
    ///
    /// # Panics
    /// If `parts` exceeds `whole`, or `whole` is zero.
    #[must_use]
    pub fn quantile(&self, parts: u32, whole: u32) -> Option<T> {
        assert!(parts <= whole && whole > 0, "{parts} of {whole} is no share");
        // 32 bits by the length of a vector: the product fits in 128 bits, and the quotient is at
        // most the length.
        let rank = (self.0.len() as u128 * u128::from(parts)).div_ceil(u128::from(whole)).max(1);
        self.0.get(usize::try_from(rank - 1).ok()?).copied()
    }

    /// Returns the median: for an even number of values, the lower of the two in the middle.
    #[must_use]
    pub fn median(&self) -> Option<T> {
        self.quantile(1, 2)
    }

    /// Returns the 99th percentile.
    #[must_use]
    pub fn p99(&self) -> Option<T> {
        self.quantile(99, 100)
    }

    /// Returns the largest value.
    #[must_use]
    pub fn max(&self) -> Option<T> {
        self.0.last().copied()
    }
}

impl<T: Copy + Ord> FromIterator<T> for Sample<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self::new(values.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quantiles_are_values_at_the_nearest_rank() {
        // The usual textbook example of the nearest-rank method.
        let sample = Sample::new(alloc::vec![50, 15, 20, 40, 35]);
        let found = [5, 30, 40, 50, 100].map(|percent| sample.quantile(percent, 100));
        assert_eq!(found, [Some(15), Some(20), Some(20), Some(35), Some(50)]);
    }

    #[test]
    fn a_hundred_values_have_exact_percentiles() {
        let sample: Sample<u32> = (1..=100).collect();
        for percent in 1..=100 {
            assert_eq!(sample.quantile(percent, 100), Some(percent));
        }
        assert_eq!((sample.median(), sample.p99(), sample.max()), (Some(50), Some(99), Some(100)));
        assert_eq!(sample.quantile(0, 1), Some(1));
    }

    #[test]
    fn nothing_has_no_quantiles() {
        let sample = Sample::<u32>::new(Vec::new());
        assert_eq!((sample.median(), sample.p99(), sample.max()), (None, None, None));
    }

    proptest! {
        #[test]
        fn enough_values_are_not_above_a_quantile_and_no_smaller_value_would_do(
            values in prop::collection::vec(0_u32..50, 1..60),
            parts in 1_u32..=1_000,
        ) {
            let quantile = Sample::new(values.clone()).quantile(parts, 1_000).expect("there are values");
            let count = |below: &dyn Fn(u32) -> bool| values.iter().filter(|&&value| below(value)).count();
            let needed = |count: usize| count * 1_000 >= values.len() * parts as usize;
            prop_assert!(needed(count(&|value| value <= quantile)));
            prop_assert!(!needed(count(&|value| value < quantile)));
        }
    }
}
