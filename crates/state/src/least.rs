//! Minimum over a sliding period.

use byway_units::{Duration, Time};

use crate::slots::Slots;

/// Slots of the period: a value counts for nine tenths of it at least.
const SLOTS: usize = 10;

/// Least value of a recent period, in constant space (the base delay of RFC 6817, section 2.3).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Least<T> {
    /// Least value of each slot; `None` where none arrived.
    slots: Slots<Option<T>, SLOTS>,
}

impl<T: Copy + Ord> Least<T> {
    /// Creates a minimum over `period`, which is at least ten nanoseconds.
    pub(crate) const fn new(period: Duration) -> Self {
        Self { slots: Slots::new(None, Duration::from_nanos(period.as_nanos() / SLOTS as u64)) }
    }

    /// Adds a value.
    pub(crate) fn add(&mut self, value: T, now: Time) {
        let slot = self.slots.slot(now);
        *slot = Some(slot.map_or(value, |least| least.min(value)));
    }

    /// Returns the least value of the period before `now`.
    pub(crate) fn least(&self, now: Time) -> Option<T> {
        self.slots.recent(now).flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_values::at;

    #[test]
    fn the_least_value_counts_for_its_period_only() {
        let mut least = Least::new(Duration::from_secs(10));
        assert_eq!(least.least(at(0)), None);
        least.add(3, at(500));
        least.add(4, at(600));
        least.add(5, at(2_500));
        assert_eq!(least.least(at(9_900)), Some(3));
        assert_eq!(least.least(at(10_000)), Some(5));
        assert_eq!(least.least(at(12_500)), None);
    }
}
