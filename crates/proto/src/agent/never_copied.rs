//! Which packets of a flow no relay has.

use byway_wire::{SequenceNumber, Uncopied};

/// What the sender of a flow has said of its latest packets: those that it copied to no relay are asked of none, and
/// nothing waits for them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NeverCopied {
    highest: u64,
    /// Bit i: `highest - i`.
    bits: u64,
}

/// How far back is remembered: by then packets were asked for.
const REACH: u64 = u64::BITS as u64;

impl NeverCopied {
    /// A packet says so of those before it.
    pub(super) fn note(&mut self, sequence: SequenceNumber, uncopied: Uncopied) {
        let number = sequence.number();
        if number > self.highest {
            self.bits = shifted(self.bits, number - self.highest);
            self.highest = number;
        }
        // Bit 0 stands for the packet before this one.
        self.bits |= shifted(uncopied.bits().into(), self.highest - number + 1);
    }

    /// Whether no relay has this packet, as far as is known.
    pub(super) const fn contains(self, number: u64) -> bool {
        number <= self.highest
            && self.highest - number < REACH
            && self.bits & (1 << (self.highest - number)) != 0
    }
}

/// Of numbers that are `by` older than before.
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
            let (mut never, mut naive, mut highest) = (NeverCopied::default(), BTreeSet::new(), 0);
            for (step, bits) in steps {
                let number = (highest + step).saturating_sub(4);
                highest = highest.max(number);
                let uncopied = Uncopied::from_bits(bits);
                never.note(SequenceNumber::new(number), uncopied);
                let said = (1..=u64::from(Uncopied::REACH)).filter(|back| uncopied.bits() & (1 << (back - 1)) != 0);
                naive.extend(said.filter_map(|back| number.checked_sub(back)));
                for asked in highest.saturating_sub(63)..highest + 3 {
                    prop_assert_eq!(never.contains(asked), naive.contains(&asked), "{} of {}", asked, highest);
                }
            }
        }
    }

    #[test]
    fn what_is_long_past_is_forgotten() {
        let mut never = NeverCopied::default();
        never.note(SequenceNumber::new(10), Uncopied::from_bits(1));
        assert!(never.contains(9));
        never.note(SequenceNumber::new(9 + 64), Uncopied::NONE);
        assert!(!never.contains(9));
        never.note(SequenceNumber::new(1 << 40), Uncopied::NONE);
        assert!(!(0..100).any(|number| never.contains(number)));
    }
}
