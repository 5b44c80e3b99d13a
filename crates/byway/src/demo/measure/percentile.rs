//! Percentiles of measured values.

/// Returns the smallest of `values` that at least a share `share` of them do not exceed (nearest
/// rank); `None` without values.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rank: a share of a count")]
pub(crate) fn percentile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_occur() {
        let values: Vec<_> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(
            [0.0, 0.05, 0.5, 0.99, 1.0].map(|share| percentile(&values, share)),
            [1.0, 5.0, 50.0, 99.0, 100.0].map(Some)
        );
        assert_eq!(percentile(&[7.0], 0.95), Some(7.0));
        assert_eq!(percentile(&[], 0.5), None);
    }
}
