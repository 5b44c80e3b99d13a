//! Checker of a byte budget: within any window of a fixed length, at most so many bytes.

use alloc::collections::VecDeque;

use byway_units::{Bytes, Duration, Time};
use thiserror::Error;

/// Counter of the bytes spent in the last `window`: the half-open span that ends with, and
/// includes, the latest instant.
#[derive(Clone, Debug)]
pub struct SlidingBytes {
    window: Duration,
    recent: VecDeque<(Time, Bytes)>,
    sum: Bytes,
    peak: Bytes,
}

impl SlidingBytes {
    /// Creates an empty window of this length.
    #[must_use]
    pub const fn new(window: Duration) -> Self {
        Self { window, recent: VecDeque::new(), sum: Bytes::ZERO, peak: Bytes::ZERO }
    }

    /// Counts bytes at an instant, which is not before that of the last call. Returns the sum of
    /// the window.
    pub fn add(&mut self, bytes: Bytes, now: Time) -> Bytes {
        self.recent.push_back((now, bytes));
        self.sum += bytes;
        let sum = self.sum(now);
        self.peak = self.peak.max(sum);
        sum
    }

    /// Returns the sum of the window at an instant, which is not before that of the last call.
    pub fn sum(&mut self, now: Time) -> Bytes {
        while let Some(&(time, bytes)) = self.recent.front()
            && now - time >= self.window
        {
            self.recent.pop_front();
            self.sum -= bytes;
        }
        self.sum
    }

    /// Returns the largest sum that the window ever had.
    #[must_use]
    pub const fn peak(&self) -> Bytes {
        self.peak
    }
}

/// Violation of a [`ByteBudget`]: a window in which more bytes were spent than allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{spent} were spent in the {window} until {now}, the budget is {bytes_max}")]
pub struct BudgetExceeded {
    /// End of the window that exceeds the budget.
    pub now: Time,
    /// Length of the budget's windows.
    pub window: Duration,
    /// Bytes spent in the window.
    pub spent: Bytes,
    /// Most bytes that the budget allows in a window.
    pub bytes_max: Bytes,
}

/// Byte budget of every window of a fixed length, and the bytes spent of it.
#[derive(Clone, Debug)]
pub struct ByteBudget {
    bytes_max: Bytes,
    spent: SlidingBytes,
}

impl ByteBudget {
    /// Creates a budget of at most `bytes_max` within any `window`.
    #[must_use]
    pub const fn new(bytes_max: Bytes, window: Duration) -> Self {
        Self { bytes_max, spent: SlidingBytes::new(window) }
    }

    /// Spends bytes at an instant, which is not before that of the last call.
    ///
    /// # Errors
    /// If the window that ends now exceeds the budget.
    pub fn spend(&mut self, bytes: Bytes, now: Time) -> Result<(), BudgetExceeded> {
        let (spent, bytes_max) = (self.spent.add(bytes, now), self.bytes_max);
        if spent > bytes_max {
            return Err(BudgetExceeded { now, window: self.spent.window, spent, bytes_max });
        }
        Ok(())
    }

    /// Returns the most bytes that were spent in any window until now.
    #[must_use]
    pub const fn peak(&self) -> Bytes {
        self.spent.peak()
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_leaves_the_window_may_be_spent_again() {
        let mut budget = ByteBudget::new(Bytes::new(100), Duration::from_nanos(10));
        let mut spend = |bytes, nanos| budget.spend(Bytes::new(bytes), Time::from_nanos(nanos)).is_ok();
        assert!(spend(60, 0) && spend(40, 9));
        assert!(!spend(1, 9));
        assert!(spend(59, 10), "the first 60 bytes were spent 10 ns ago");
        assert!(!spend(1, 18));
        assert_eq!(budget.peak(), Bytes::new(101));
    }

    #[test]
    fn the_error_says_when_and_how_much() {
        let mut budget = ByteBudget::new(Bytes::new(1_000), Duration::from_secs(10));
        let error = budget.spend(Bytes::new(1_001), Time::START).expect_err("a byte too many");
        assert_eq!(
            error.to_string(),
            "1.001 kB were spent in the 10 s until 0.000000000, the budget is 1 kB"
        );
    }

    proptest! {
        #[test]
        fn the_sliding_sum_is_the_sum_over_the_window(
            steps in prop::collection::vec((0_u64..8, 0_u64..100), 1..40),
            window in 1_u64..20,
        ) {
            let mut sliding = SlidingBytes::new(Duration::from_nanos(window));
            let (mut now, mut all, mut peak) = (0, Vec::new(), 0);
            for (gap, bytes) in steps {
                now += gap;
                all.push((now, bytes));
                let naive: u64 = all.iter().filter(|(time, _)| time + window > now).map(|(_, bytes)| bytes).sum();
                prop_assert_eq!(sliding.add(Bytes::new(bytes), Time::from_nanos(now)), Bytes::new(naive));
                peak = peak.max(naive);
            }
            prop_assert_eq!(sliding.peak(), Bytes::new(peak));
        }
    }
}
