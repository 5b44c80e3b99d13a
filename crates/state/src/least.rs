//! Minimum over a sliding period.

use byway_units::{Duration, Time};

/// Parts of the period: a value counts for the period, and for one part more at most.
const PARTS: usize = 10;

/// Least value of a recent period, in constant space (the base delay of RFC 6817, section 2.3).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Least<T> {
    /// Least value of each part; `None` where none arrived.
    parts: [Option<T>; PARTS],
    part: Duration,
    /// Number of the newest part, counted from the start of time.
    newest: u64,
}

impl<T: Copy + PartialOrd> Least<T> {
    /// Creates a minimum over `period`, which is at least ten nanoseconds.
    pub(crate) const fn new(period: Duration) -> Self {
        Self { parts: [None; PARTS], part: Duration::from_nanos(period.as_nanos() / PARTS as u64), newest: 0 }
    }

    /// Adds a value. A clock that goes backwards adds to the newest part.
    pub(crate) fn add(&mut self, value: T, now: Time) {
        let number = (now.as_nanos() / self.part.as_nanos()).max(self.newest);
        let skipped = (number - self.newest).min(PARTS as u64);
        for passed in 0..skipped {
            self.parts[index(number - passed)] = None;
        }
        self.newest = number;
        let part = &mut self.parts[index(number)];
        if part.is_none_or(|least| value < least) {
            *part = Some(value);
        }
    }

    /// Returns the least value of the period before `now`.
    pub(crate) fn least(&self, now: Time) -> Option<T> {
        let number = (now.as_nanos() / self.part.as_nanos()).max(self.newest);
        let expired = number - self.newest;
        let mut least = None;
        for age in 0..(PARTS as u64).saturating_sub(expired) {
            // Parts before the start of time are empty.
            let Some(part) = self.newest.checked_sub(age) else { break };
            let value = self.parts[index(part)];
            if least.is_none() || value.is_some_and(|value| least.is_some_and(|least| value < least)) {
                least = value.or(least);
            }
        }
        least
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number % PARTS as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn at(millis: u64) -> Time {
        Time::START + Duration::from_millis(millis)
    }

    #[test]
    fn the_least_value_counts_for_its_period_only() {
        let mut least = Least::new(Duration::from_secs(10));
        assert_eq!(least.least(at(0)), None);
        least.add(3, at(500));
        least.add(5, at(2_500));
        assert_eq!(least.least(at(9_900)), Some(3));
        assert_eq!(least.least(at(10_000)), Some(5));
        assert_eq!(least.least(at(12_500)), None);
        assert_eq!(least.least(Time::MAX), None);
    }

    #[test]
    fn a_clock_that_goes_backwards_adds_to_the_newest_part() {
        let mut least = Least::new(Duration::from_secs(10));
        least.add(3, at(50_000));
        least.add(1, at(0));
        assert_eq!(least.least(at(50_000)), Some(1));
        assert_eq!(least.least(at(0)), Some(1));
        least.add(7, Time::MAX);
        assert_eq!(least.least(Time::MAX), Some(7));
    }

    proptest! {
        #[test]
        fn parts_keep_what_a_list_of_all_values_has(
            steps in prop::collection::vec((0_u64..3_000, 0_u32..100), 1..60),
        ) {
            let (mut least, mut all, mut now) = (Least::new(Duration::from_secs(10)), Vec::new(), 0);
            for (wait, value) in steps {
                now += wait;
                least.add(value, at(now));
                all.push((now / 1_000, value));
                let recent = all.iter().filter(|(second, _)| second + 10 > now / 1_000);
                prop_assert_eq!(least.least(at(now)), recent.map(|(_, value)| *value).min());
            }
        }
    }
}
