//! What is known of recent sequence numbers.

use alloc::vec;
use alloc::vec::Vec;
use core::num::NonZero;
use core::ops::RangeInclusive;

/// The full sequence number that ends in `low` and is nearest to `near`.
///
/// For packets that carry 32 of 64 bits: `near` is the highest number known so far.
#[must_use]
pub const fn widen(low: u32, near: u64) -> u64 {
    const SPAN: u64 = 1 << 32;
    let same_epoch = near - near % SPAN + low as u64;
    // Nothing lies before the first number, nor after the last.
    if same_epoch > near && same_epoch - near > SPAN / 2 && same_epoch >= SPAN {
        same_epoch - SPAN
    } else if near > same_epoch && near - same_epoch >= SPAN / 2 && same_epoch <= u64::MAX - SPAN {
        same_epoch + SPAN
    } else {
        same_epoch
    }
}

/// Values by sequence number, for the most recent numbers.
///
/// A number is recent while it is less than `reach` below the highest one that was ever inserted. Nothing is
/// allocated before the first insertion; the ring then doubles as the numbers in use need it, up to `reach`. Where
/// values lose their worth before their numbers are old, [`SequenceRing::insert_over`] keeps it smaller.
#[derive(Clone, Debug)]
pub struct SequenceRing<T> {
    /// Empty, or a power of two of them; number n is in slot n modulo their count.
    slots: Vec<Option<Slot<T>>>,
    reach: u64,
    /// One more than the highest number inserted.
    end: u64,
}

#[derive(Clone, Copy, Debug)]
struct Slot<T> {
    /// Which of the numbers that share the slot: not zero, so that an empty slot needs no room of its own.
    tag: NonZero<u16>,
    value: T,
}

/// The first allocation: as many packets as fly in a slow flow's round trip.
const SLOTS_MIN: usize = 1 << SLOT_BITS;

/// The bits of a number that its slot always tells.
const SLOT_BITS: u32 = 3;

/// The bits of a number that slot and tag tell together. What is kept for a number may be found for one that is 2^18
/// higher, if all that share its slot were left out in between; tags are small as rings are many.
const KNOWN_BITS: u32 = 15 + SLOT_BITS;

/// Longest reach: a quarter of what slot and tag tell apart.
const REACH_MAX: usize = 1 << (KNOWN_BITS - 2);

impl<T: Copy> SequenceRing<T> {
    /// Nothing known; numbers are forgotten once they are `reach` below the highest.
    ///
    /// # Panics
    /// If `reach` is no power of two, below 8, or above 65,536.
    #[must_use]
    pub const fn new(reach: usize) -> Self {
        assert!(
            reach.is_power_of_two() && reach >= SLOTS_MIN && reach <= REACH_MAX,
            "the reach of a ring is a power of two from 8 to 65,536"
        );
        Self { slots: Vec::new(), reach: reach as u64, end: 0 }
    }

    /// The highest number ever inserted.
    #[must_use]
    pub const fn highest(&self) -> Option<u64> {
        self.end.checked_sub(1)
    }

    /// Keeps `value` for this number, instead of what was kept for it. Whether that was done: not if the number
    /// is too far below the highest.
    ///
    /// # Panics
    /// If the number is `u64::MAX`, which no flow reaches.
    pub fn insert(&mut self, number: u64, value: T) -> bool {
        self.insert_over(number, value, |_| false)
    }

    /// As [`insert`](Self::insert); and where another number is in the way, whose value is spent, that one is
    /// forgotten rather than that the ring grows.
    ///
    /// # Panics
    /// If the number is `u64::MAX`, which no flow reaches.
    pub fn insert_over(&mut self, number: u64, value: T, is_spent: impl Fn(T) -> bool) -> bool {
        if number < self.oldest() {
            return false;
        }
        assert!(number < u64::MAX, "no flow has sent so many packets");
        self.end = self.end.max(number + 1);
        self.make_room(number, is_spent);
        let index = self.index(number);
        self.slots[index] = Some(Slot { tag: tag(number), value });
        true
    }

    /// What is kept for this number.
    #[must_use]
    pub fn get(&self, number: u64) -> Option<T> {
        let slot = self.slots.get(self.index(number))?.as_ref()?;
        (slot.tag == tag(number) && number >= self.oldest()).then_some(slot.value)
    }

    /// What is kept for this number, to be changed in place.
    pub fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let (index, oldest) = (self.index(number), self.oldest());
        let slot = self.slots.get_mut(index)?.as_mut()?;
        (slot.tag == tag(number) && number >= oldest).then_some(&mut slot.value)
    }

    /// Forgets this number; what was kept for it.
    pub fn remove(&mut self, number: u64) -> Option<T> {
        let value = self.get(number)?;
        let index = self.index(number);
        self.slots[index] = None;
        Some(value)
    }

    /// The numbers within `range` for which something is kept, in order, with their values.
    pub fn range(&self, range: RangeInclusive<u64>) -> impl Iterator<Item = (u64, T)> {
        let first = (*range.start()).max(self.oldest());
        let end = if self.slots.is_empty() { 0 } else { range.end().saturating_add(1).min(self.end) };
        (first..end).filter_map(|number| self.get(number).map(|value| (number, value)))
    }

    /// Whether something can be kept for this number without another allocation, or with the first one.
    pub fn has_place(&self, number: u64, is_spent: impl Fn(T) -> bool) -> bool {
        self.slots.is_empty() || self.taken_by(number).is_none_or(is_spent)
    }

    /// How many values it has memory for.
    #[inline]
    #[must_use]
    pub const fn slots(&self) -> usize {
        self.slots.len()
    }

    /// How much memory that is, in bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        (self.slots.len() * size_of::<Option<Slot<T>>>()) as u64
    }

    /// Forgets all numbers, and gives the memory back.
    pub fn clear(&mut self) {
        self.slots = Vec::new();
    }

    /// The lowest number that is not too old.
    const fn oldest(&self) -> u64 {
        self.end.saturating_sub(self.reach)
    }

    #[allow(clippy::cast_possible_truncation, reason = "only the low bits count")]
    const fn index(&self, number: u64) -> usize {
        number as usize & self.slots.len().wrapping_sub(1)
    }

    /// Sees to it that the slot of `number` holds no other recent number whose value is worth something.
    fn make_room(&mut self, number: u64, is_spent: impl Fn(T) -> bool) {
        while self.slots.is_empty() || self.taken_by(number).is_some_and(|value| !is_spent(value)) {
            self.double();
        }
    }

    /// What is kept for another recent number in the slot of this one. At the full reach, no two share a slot.
    fn taken_by(&self, number: u64) -> Option<T> {
        let index = self.index(number);
        let slot = self.slots[index].as_ref().filter(|slot| slot.tag != tag(number))?;
        (self.number_in(index, slot.tag) >= self.oldest()).then_some(slot.value)
    }

    /// The number of a slot's value: of those that it may be, the highest that was inserted.
    const fn number_in(&self, index: usize, tag: NonZero<u16>) -> u64 {
        let highest = self.end - 1;
        let known = ((index as u64) % (1 << SLOT_BITS)) | (((tag.get() & !TAGGED) as u64) << SLOT_BITS);
        highest.saturating_sub(highest.wrapping_sub(known) % (1 << KNOWN_BITS))
    }

    #[cold]
    fn double(&mut self) {
        let count = (2 * self.slots.len()).max(SLOTS_MIN);
        let old = core::mem::replace(&mut self.slots, vec![None; count]);
        for (place, slot) in old.into_iter().enumerate() {
            if let Some(slot) = slot {
                let index = self.index(self.number_in(place, slot.tag));
                self.slots[index] = Some(slot);
            }
        }
    }
}

/// The bit of a tag that is always set.
const TAGGED: u16 = 1 << 15;

#[allow(clippy::cast_possible_truncation, reason = "only the low bits count")]
const fn tag(number: u64) -> NonZero<u16> {
    match NonZero::new((number >> SLOT_BITS) as u16 | TAGGED) {
        Some(tag) => tag,
        None => unreachable!(),
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::collections::BTreeMap;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_nearest_number_is_meant() {
        assert_eq!(widen(5, 0), 5);
        assert_eq!(widen(u32::MAX, 0), u64::from(u32::MAX), "there is nothing before the beginning");
        assert_eq!(widen(u32::MAX, 1 << 32), (1 << 32) - 1);
        assert_eq!(widen(0, (1 << 32) - 1), 1 << 32);
        assert_eq!(widen(0, u64::MAX), u64::MAX - u64::from(u32::MAX), "there is nothing after the end");
        for near in [1 << 33, (1 << 33) + (1 << 31), (1 << 33) + 17] {
            let low = |number: u64| u32::try_from(number & 0xFFFF_FFFF).expect("masked");
            for number in [near + (1 << 31), near - (1 << 31) + 1, near] {
                assert_eq!(widen(low(number), near), number, "as near ahead as behind: ahead");
            }
        }
    }

    #[test]
    fn an_idle_ring_holds_no_memory() {
        let mut ring = SequenceRing::new(64);
        assert_eq!((ring.slots.capacity(), ring.get(0_u64), ring.highest()), (0, None::<u8>, None));
        ring.insert(3, 1);
        ring.clear();
        assert_eq!((ring.slots.capacity(), ring.get(3), ring.highest()), (0, None, Some(3)));
        assert_eq!(ring.range(0..=u64::MAX).count(), 0);
    }

    #[test]
    fn a_ring_of_few_numbers_stays_small() {
        let mut ring = SequenceRing::new(REACH_MAX);
        for number in 0..100_000_u64 {
            ring.insert(number, number);
            ring.remove(number.wrapping_sub(5));
        }
        assert_eq!(ring.slots.len(), SLOTS_MIN);
    }

    #[test]
    fn a_ring_never_outgrows_its_reach() {
        let mut ring = SequenceRing::new(64);
        (0..1_000_u64).for_each(|number| assert!(ring.insert(number, number)));
        assert_eq!(ring.slots.len(), 64);
        assert_eq!((ring.get(935), ring.get(936)), (None, Some(936)));
        assert!(!ring.insert(935, 0));
    }

    #[test]
    fn what_is_spent_gives_way_before_the_ring_grows() {
        let mut ring = SequenceRing::new(REACH_MAX);
        for number in 0..100_000_u64 {
            // Worth something as long as no more than a hundred came after.
            ring.insert_over(number, number, |value| value + 100 < number);
            assert_eq!(ring.get(number.saturating_sub(100)), Some(number.saturating_sub(100)));
        }
        assert_eq!(ring.slots.len(), 128);
    }

    #[test]
    fn numbers_a_slot_and_its_tag_apart_are_told_apart_by_age() {
        let mut ring = SequenceRing::new(8);
        let far = 1_u64 << KNOWN_BITS;
        for number in [5, far - 1, far, far + 4, far + 5, 3 * far, 3 * far + 5] {
            assert!(ring.insert(number, number));
            assert_eq!(ring.get(number), Some(number));
        }
        assert_eq!((ring.get(far + 5), ring.get(5), ring.slots.len()), (None, None, SLOTS_MIN));
    }

    #[test]
    fn values_change_in_place() {
        let mut ring = SequenceRing::new(8);
        ring.insert(7, 1);
        *ring.get_mut(7).expect("it is there") += 1;
        assert_eq!((ring.get(7), ring.get_mut(8)), (Some(2), None));
    }

    #[test]
    fn a_slot_is_no_larger_than_number_and_value() {
        assert_eq!(size_of::<Option<Slot<[u16; 3]>>>(), 8);
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Insert(u64),
        Remove(u64),
    }

    /// Numbers that rise, with steps back and rare leaps.
    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            6 => (0_u64..4).prop_map(|ahead| (0, ahead)),
            3 => (1_u64..80).prop_map(|back| (1, back)),
            2 => (1_u64..80).prop_map(|back| (2, back)),
            1 => (0_u64..300).prop_map(|leap| (0, leap)),
        ];
        proptest::collection::vec(step, 0..300).prop_map(|steps| {
            let mut highest = 0_u64;
            let to_step = |(kind, by)| match kind {
                0 => {
                    highest += by;
                    Step::Insert(highest)
                }
                1 => Step::Insert(highest.saturating_sub(by)),
                _ => Step::Remove(highest.saturating_sub(by)),
            };
            steps.into_iter().map(to_step).collect()
        })
    }

    proptest! {
        #[test]
        fn a_ring_does_as_a_map_that_forgets_what_is_old(steps in steps(), low in 0_u64..400, width in 0_u64..90) {
            let (mut ring, mut map, mut end) = (SequenceRing::new(64), BTreeMap::new(), 0_u64);
            for (value, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Insert(number) => {
                        let is_recent = number + 64 >= end;
                        prop_assert_eq!(ring.insert(number, value), is_recent);
                        if is_recent {
                            end = end.max(number + 1);
                            map.insert(number, value);
                            map.retain(|number, _| number + 64 >= end);
                        }
                    }
                    Step::Remove(number) => prop_assert_eq!(ring.remove(number), map.remove(&number)),
                }
                prop_assert!(ring.slots.len() <= 64);
                prop_assert_eq!(ring.highest(), end.checked_sub(1));
            }
            prop_assert!((0..=end).all(|number| ring.get(number) == map.get(&number).copied()));
            let within: Vec<_> = map.range(low..=low + width).map(|(number, value)| (*number, *value)).collect();
            prop_assert_eq!(ring.range(low..=low + width).collect::<Vec<_>>(), within);
        }

        #[test]
        fn widening_finds_the_number_within_half_the_range(near in 1_u64 << 32..1 << 60, off in 0_u64..1 << 31) {
            for number in [near + off, near - off] {
                prop_assert_eq!(widen(u32::try_from(number & 0xFFFF_FFFF).expect("masked"), near), number);
            }
        }
    }
}
