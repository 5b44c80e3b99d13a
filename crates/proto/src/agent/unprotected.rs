//! Unprotected packets of a received flow: those that no relay has.

use byway_wire::{SequenceNumber, UnprotectedMask};

/// Latest packets of a flow that the sender copied to no relay. The receiver sends no NACK for
/// them, and in-order delivery does not wait for them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UnprotectedSet {
    highest: u64,
    /// Bit i is set if the packet `highest - i` is unprotected.
    bits: u64,
}

/// Number of latest packets that the set remembers; NACKs for older ones were sent by then.
const REACH: u64 = u64::BITS as u64;

impl UnprotectedSet {
    /// Adds the unprotected packets that a packet's mask names: bit 0 is for the packet before it.
    pub(super) fn note(&mut self, sequence: SequenceNumber, unprotected: UnprotectedMask) {
        let number = sequence.number();
        if number > self.highest {
            self.bits = shifted(self.bits, number - self.highest);
            self.highest = number;
        }
        // Bit 0 represents the packet before this one.
        self.bits |= shifted(unprotected.bits().into(), self.highest - number + 1);
    }

    /// Returns true if no relay has this packet, as far as the received masks show.
    pub(super) const fn contains(self, number: u64) -> bool {
        number <= self.highest
            && self.highest - number < REACH
            && self.bits & (1 << (self.highest - number)) != 0
    }
}

/// Returns a mask after `by` newer packets: its bits move up, and those beyond the reach are lost.
const fn shifted(bits: u64, by: u64) -> u64 {
    if by < REACH { bits << by } else { 0 }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_known_is_what_a_set_of_all_that_was_said_holds(
            steps in proptest::collection::vec((0_u64..12, any::<u8>()), 1..100),
        ) {
            let (mut set, mut naive, mut highest) = (UnprotectedSet::default(), BTreeSet::new(), 0);
            for (step, bits) in steps {
                let number = (highest + step).saturating_sub(4);
                highest = highest.max(number);
                let mask = UnprotectedMask::from_bits(bits);
                set.note(SequenceNumber::new(number), mask);
                let offsets = (1..=u64::from(UnprotectedMask::REACH)).filter(|back| mask.bits() & (1 << (back - 1)) != 0);
                naive.extend(offsets.filter_map(|back| number.checked_sub(back)));
                for queried in highest.saturating_sub(63)..highest + 3 {
                    prop_assert_eq!(set.contains(queried), naive.contains(&queried), "{} of {}", queried, highest);
                }
            }
        }
    }

    #[test]
    fn what_is_long_past_is_forgotten() {
        let mut set = UnprotectedSet::default();
        set.note(SequenceNumber::new(10), UnprotectedMask::from_bits(1));
        assert!(set.contains(9));
        set.note(SequenceNumber::new(9 + 64), UnprotectedMask::NONE);
        assert!(!set.contains(9));
        set.note(SequenceNumber::new(1 << 40), UnprotectedMask::NONE);
        assert!(!(0..100).any(|number| set.contains(number)));
    }
}
