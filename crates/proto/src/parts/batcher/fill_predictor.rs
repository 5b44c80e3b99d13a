//! Prediction for the batcher: does a queue that could close early fill up if it stays open?

/// Learns whether queues fill up if they stay open after half of their waiting time, when their
/// income covers a repair packet.
///
/// With many flows they do, and a full batch repairs more losses at the same cost. With few flows
/// they do not, and waiting only delays their repair packets. One in [`SAMPLE_EVERY`] stays open in
/// any case, as a sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct FillPredictor {
    /// Number of recent samples that filled up, less those that did not, within bounds.
    score: i8,
    until_sample: u8,
}

/// One in eight queues stays open although it could close, as a sample. These add little to the
/// mean wait of packets.
const SAMPLE_EVERY: u8 = 8;

/// Bound on the score: after a change of traffic, this many samples suffice to learn it.
const SCORE_MAX: i8 = 8;

impl FillPredictor {
    pub(super) const fn new() -> Self {
        Self { score: 0, until_sample: SAMPLE_EVERY }
    }

    /// Decides on a queue that may close early: true closes it, false keeps it open until it is
    /// full or its deadline passes.
    pub(super) fn should_close(&mut self) -> bool {
        self.until_sample -= 1;
        if self.until_sample == 0 {
            self.until_sample = SAMPLE_EVERY;
            return false;
        }
        self.score < 0
    }

    /// Records whether a queue that stayed open reached the full size of a batch.
    pub(super) fn learn(&mut self, is_full: bool) {
        let step = if is_full { 1 } else { -1 };
        self.score = (self.score + step).clamp(-SCORE_MAX, SCORE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn predictor_after(samples: usize, is_full: bool) -> FillPredictor {
        let mut predictor = FillPredictor::new();
        (0..samples).for_each(|_| predictor.learn(is_full));
        predictor
    }

    #[test]
    fn queues_that_never_fill_close_early_but_for_one_in_eight() {
        let mut predictor = predictor_after(1, false);
        assert_eq!((0..80).filter(|_| predictor.should_close()).count(), 70);
    }

    #[test]
    fn queues_that_fill_are_left_alone() {
        let mut predictor = predictor_after(1, true);
        assert_eq!((0..80).filter(|_| predictor.should_close()).count(), 0);
    }

    #[test]
    fn what_was_learned_long_ago_is_soon_unlearned() {
        let mut predictor = predictor_after(1_000, true);
        (0..9).for_each(|_| predictor.learn(false));
        assert!(predictor.should_close());
    }
}
