//! Values by recent sequence number.

use alloc::vec;
use alloc::vec::Vec;
use core::num::NonZero;
use core::ops::RangeInclusive;

/// Returns the full sequence number that ends in `low` and is nearest to `near`.
///
/// It is for packets with the low 32 of 64 bits: `near` is the highest sequence number known so
/// far.
#[must_use]
pub const fn widen(low: u32, near: u64) -> u64 {
    const SPAN: u64 = 1 << 32;
    let same_epoch = near - near % SPAN + low as u64;
    // There are no sequence numbers below 0, nor above the maximum.
    if same_epoch > near && same_epoch - near > SPAN / 2 && same_epoch >= SPAN {
        same_epoch - SPAN
    } else if near > same_epoch && near - same_epoch >= SPAN / 2 && same_epoch <= u64::MAX - SPAN {
        same_epoch + SPAN
    } else {
        same_epoch
    }
}

/// Values by sequence number, for the most recent sequence numbers.
///
/// A sequence number is recent while it is less than `reach` below the highest one that was ever
/// inserted. The first insertion allocates memory. The ring then doubles as the sequence numbers in
/// use require, up to `reach`. If values lose their use earlier, [`SequenceRing::insert_over`]
/// limits its size.
#[derive(Clone, Debug)]
pub struct SequenceRing<T> {
    /// A power of two of slots, or none; sequence number n is in slot n modulo their number.
    slots: Vec<Option<Slot<T>>>,
    reach: u64,
    /// One more than the highest sequence number inserted.
    end: u64,
}

#[derive(Clone, Copy, Debug)]
struct Slot<T> {
    /// High bits of the sequence number in the slot, with the top bit set. It is never zero, so an
    /// empty slot takes no extra memory.
    tag: NonZero<u16>,
    value: T,
}

/// Slots of the first allocation: as many as a slow flow has packets in flight in a round-trip
/// time.
const SLOTS_MIN: usize = 1 << SLOT_BITS;

/// Bits of a sequence number that its slot always determines.
const SLOT_BITS: u32 = 3;

/// Bits of a sequence number that slot and tag determine together. A value may be found for a
/// sequence number that is 2^18 higher, if all that share its slot were skipped in between. Tags
/// are small, because there are many rings.
const KNOWN_BITS: u32 = 15 + SLOT_BITS;

/// Longest reach: a quarter of the sequence numbers that slot and tag distinguish.
const REACH_MAX: usize = 1 << (KNOWN_BITS - 2);

impl<T: Copy> SequenceRing<T> {
    /// Creates an empty ring; sequence numbers expire once they are `reach` below the highest.
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

    /// Returns the highest sequence number ever inserted; `None` before the first.
    #[must_use]
    pub const fn highest(&self) -> Option<u64> {
        self.end.checked_sub(1)
    }

    /// Stores `value` for this sequence number, in place of an earlier value. Returns false if the
    /// sequence number is `reach` or more below the highest.
    ///
    /// # Panics
    /// If the sequence number is `u64::MAX`, which no flow reaches.
    pub fn insert(&mut self, number: u64, value: T) -> bool {
        self.insert_over(number, value, |_| false)
    }

    /// Inserts like [`insert`](Self::insert), but may overwrite another sequence number in the slot
    /// if `is_spent` is true for its value. The ring would grow otherwise.
    ///
    /// # Panics
    /// If the sequence number is `u64::MAX`, which no flow reaches.
    pub fn insert_over(&mut self, number: u64, value: T, is_spent: impl Fn(T) -> bool) -> bool {
        if number < self.oldest() {
            return false;
        }
        assert!(number < u64::MAX, "no flow has sent so many packets");
        self.end = self.end.max(number + 1);
        self.free_slot(number, is_spent);
        let index = self.index(number);
        self.slots[index] = Some(Slot { tag: tag(number), value });
        true
    }

    /// Returns the value of this sequence number; `None` if it has none, or is not recent.
    #[must_use]
    pub fn get(&self, number: u64) -> Option<T> {
        let slot = self.slots.get(self.index(number))?.as_ref()?;
        (slot.tag == tag(number) && number >= self.oldest()).then_some(slot.value)
    }

    /// Returns the value of this sequence number, for changes in place.
    pub fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let (index, oldest) = (self.index(number), self.oldest());
        let slot = self.slots.get_mut(index)?.as_mut()?;
        (slot.tag == tag(number) && number >= oldest).then_some(&mut slot.value)
    }

    /// Removes this sequence number, and returns its value; `None` if it had none.
    pub fn remove(&mut self, number: u64) -> Option<T> {
        let value = self.get(number)?;
        let index = self.index(number);
        self.slots[index] = None;
        Some(value)
    }

    /// Returns the sequence numbers within `range` that have values, in order, with their values.
    pub fn range(&self, range: RangeInclusive<u64>) -> impl Iterator<Item = (u64, T)> {
        let first = (*range.start()).max(self.oldest());
        let end = if self.slots.is_empty() { 0 } else { range.end().saturating_add(1).min(self.end) };
        (first..end).filter_map(|number| self.get(number).map(|value| (number, value)))
    }

    /// True if an insertion of this sequence number does not make the ring grow, beyond its first
    /// allocation. Values for which `is_spent` is true may be overwritten.
    pub fn has_slot(&self, number: u64, is_spent: impl Fn(T) -> bool) -> bool {
        self.slots.is_empty() || self.occupant(number).is_none_or(is_spent)
    }

    /// Returns the number of slots: that of the values that fit without growth, at most.
    #[inline]
    #[must_use]
    pub const fn slots(&self) -> usize {
        self.slots.len()
    }

    /// Returns the size of its memory, in bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        (self.slots.len() * size_of::<Option<Slot<T>>>()) as u64
    }

    /// Removes all values, and frees the memory. The highest sequence number stays known.
    pub fn clear(&mut self) {
        self.slots = Vec::new();
    }

    /// Returns the lowest sequence number that may have a value.
    const fn oldest(&self) -> u64 {
        self.end.saturating_sub(self.reach)
    }

    #[allow(clippy::cast_possible_truncation, reason = "only the low bits count")]
    const fn index(&self, number: u64) -> usize {
        number as usize & self.slots.len().wrapping_sub(1)
    }

    /// Grows the ring until the slot of `number` is free, or its value belongs to an old sequence
    /// number or is spent.
    fn free_slot(&mut self, number: u64, is_spent: impl Fn(T) -> bool) {
        while self.slots.is_empty() || self.occupant(number).is_some_and(|value| !is_spent(value)) {
            self.double();
        }
    }

    /// Returns the value of another recent sequence number in the slot of this one; `None` if the
    /// slot is free. At the full reach, no two recent ones share a slot.
    fn occupant(&self, number: u64) -> Option<T> {
        let index = self.index(number);
        let slot = self.slots[index].as_ref().filter(|slot| slot.tag != tag(number))?;
        (self.number_in(index, slot.tag) >= self.oldest()).then_some(slot.value)
    }

    /// Returns the sequence number of a slot's value: the highest candidate up to the
    /// highest one inserted.
    const fn number_in(&self, index: usize, tag: NonZero<u16>) -> u64 {
        let highest = self.end - 1;
        let known = ((index as u64) % (1 << SLOT_BITS)) | (((tag.get() & !TAGGED) as u64) << SLOT_BITS);
        highest.saturating_sub(highest.wrapping_sub(known) % (1 << KNOWN_BITS))
    }

    #[cold]
    fn double(&mut self) {
        let count = (2 * self.slots.len()).max(SLOTS_MIN);
        let old = core::mem::replace(&mut self.slots, vec![None; count]);
        for (old_index, slot) in old.into_iter().enumerate() {
            if let Some(slot) = slot {
                let index = self.index(self.number_in(old_index, slot.tag));
                self.slots[index] = Some(slot);
            }
        }
    }
}

/// Bit of a tag that is always set.
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
            // A value is useful as long as no more than a hundred were inserted after it.
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

    /// Sequence numbers that rise, with steps back and rare leaps.
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
