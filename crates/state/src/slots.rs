//! Values of a sliding period.

use byway_units::{Duration, Time};

/// Values of a sliding period in constant space: the slot that is being filled, and those before
/// it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slots<T, const COUNT: usize> {
    values: [T; COUNT],
    /// Value of a slot that nothing was added to.
    empty: T,
    /// Time of each slot, not zero.
    length: Duration,
    /// Number of the newest slot, counted from the start of time.
    newest: u64,
}

impl<T: Copy, const COUNT: usize> Slots<T, COUNT> {
    pub(crate) const fn new(empty: T, length: Duration) -> Self {
        Self { values: [empty; COUNT], empty, length, newest: 0 }
    }

    /// Returns the slot of this time. If the clock went backwards, it is the newest one.
    pub(crate) fn slot(&mut self, now: Time) -> &mut T {
        let number = self.number(now);
        for passed in 0..(number - self.newest).min(COUNT as u64) {
            self.values[index::<COUNT>(number - passed)] = self.empty;
        }
        self.newest = number;
        &mut self.values[index::<COUNT>(number)]
    }

    /// Returns the values of the slot of this time and of those before it, oldest first.
    pub(crate) fn recent(&self, now: Time) -> impl Iterator<Item = T> {
        let oldest = self.number(now).saturating_sub(COUNT as u64 - 1);
        (oldest..=self.newest).map(move |number| self.values[index::<COUNT>(number)])
    }

    /// Returns the part of the slot of this time that has passed.
    pub(crate) fn elapsed(&self, now: Time) -> Duration {
        let begun_at = Time::from_nanos(self.number(now).saturating_mul(self.length.as_nanos()));
        now.saturating_since(begun_at).min(self.length)
    }

    fn number(&self, now: Time) -> u64 {
        (now.as_nanos() / self.length.as_nanos()).max(self.newest)
    }
}

fn index<const COUNT: usize>(number: u64) -> usize {
    usize::try_from(number % COUNT as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::test_values::{at, millis};

    fn sums() -> Slots<u64, 4> {
        Slots::new(0, millis(10))
    }

    fn recent(slots: &Slots<u64, 4>, now: Time) -> Vec<u64> {
        slots.recent(now).collect()
    }

    #[test]
    fn values_are_in_their_slots_until_they_are_too_old() {
        let mut slots = sums();
        for (now, value) in [(100, 1), (109, 2), (120, 4)] {
            *slots.slot(at(now)) += value;
        }
        assert_eq!(recent(&slots, at(120)), [0, 3, 0, 4]);
        assert_eq!(recent(&slots, at(149)), [0, 4]);
        assert_eq!(recent(&slots, at(160)), [0; 0]);
        assert_eq!(recent(&slots, Time::MAX), [0; 0]);
        assert_eq!([at(120), at(127), at(149)].map(|now| slots.elapsed(now)), [0, 7, 9].map(millis));
    }

    #[test]
    fn there_is_nothing_before_the_start_of_time() {
        let mut slots = sums();
        *slots.slot(at(0)) += 1;
        *slots.slot(at(10)) += 2;
        assert_eq!(recent(&slots, at(10)), [1, 2]);
    }

    #[test]
    fn a_clock_that_goes_backwards_adds_to_the_newest_slot() {
        let mut slots = sums();
        *slots.slot(at(50_000)) += 1;
        *slots.slot(at(0)) += 2;
        assert_eq!(recent(&slots, at(0)), [0, 0, 0, 3]);
        assert_eq!(slots.elapsed(at(0)), Duration::ZERO);
        *slots.slot(Time::MAX) += 4;
        assert_eq!(recent(&slots, Time::MAX), [0, 0, 0, 4]);
    }

    proptest! {
        #[test]
        fn slots_have_what_a_list_of_all_values_has(
            steps in prop::collection::vec((0_u64..30, 0_u64..100), 1..80),
        ) {
            let (mut slots, mut all, mut now) = (sums(), Vec::new(), 0);
            for (wait, value) in steps {
                now += wait;
                *slots.slot(at(now)) += value;
                all.push((now / 10, value));
                let of_slot = |number: u64| -> u64 {
                    all.iter().filter(|(slot, _)| *slot == number).map(|(_, value)| value).sum()
                };
                let current = now / 10;
                let expected: Vec<u64> = (current.saturating_sub(3)..=current).map(of_slot).collect();
                prop_assert_eq!(recent(&slots, at(now)), expected);
            }
        }
    }
}
