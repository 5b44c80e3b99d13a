//! Whether waiting longer pays.

/// Learns whether queues that pay for themselves halfway fill up if left alone.
///
/// With many flows they do, and a full batch bears more losses at the same cost. With few they do not, and
/// waiting only delays their repair packets. One in [`SAMPLE_EVERY`] is left alone in any case, to keep learning.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// How many more of the latest ones filled up than did not, within bounds.
    score: i8,
    until_sample: u8,
}

/// One in eight queues waits to the end although it could close: what their wait adds to the mean is small.
const SAMPLE_EVERY: u8 = 8;

/// How much past counts: traffic that changes is known anew after this many samples.
const SCORE_MAX: i8 = 8;

impl Patience {
    pub(super) const fn new() -> Self {
        Self { score: 0, until_sample: SAMPLE_EVERY }
    }

    /// Whether a queue that may close early should.
    pub(super) fn is_over(&mut self) -> bool {
        self.until_sample -= 1;
        if self.until_sample == 0 {
            self.until_sample = SAMPLE_EVERY;
            return false;
        }
        self.score < 0
    }

    /// A queue that was left alone closed, full or not.
    pub(super) fn learn(&mut self, is_full: bool) {
        let step = if is_full { 1 } else { -1 };
        self.score = (self.score + step).clamp(-SCORE_MAX, SCORE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patience_after(samples: usize, is_full: bool) -> Patience {
        let mut patience = Patience::new();
        (0..samples).for_each(|_| patience.learn(is_full));
        patience
    }

    #[test]
    fn queues_that_never_fill_close_early_but_for_one_in_eight() {
        let mut patience = patience_after(1, false);
        assert_eq!((0..80).filter(|_| patience.is_over()).count(), 70);
    }

    #[test]
    fn queues_that_fill_are_left_alone() {
        let mut patience = patience_after(1, true);
        assert_eq!((0..80).filter(|_| patience.is_over()).count(), 0);
    }

    #[test]
    fn what_was_learned_long_ago_is_soon_unlearned() {
        let mut patience = patience_after(1_000, true);
        (0..9).for_each(|_| patience.learn(false));
        assert!(patience.is_over());
    }
}
