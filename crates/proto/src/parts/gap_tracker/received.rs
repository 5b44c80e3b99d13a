//! Window of received sequence numbers.

use alloc::boxed::Box;

use super::ArrivalOrder;
use crate::limits::{FIRST_NUMBERS, NUMBER_WINDOW, NUMBER_WINDOW_WORDS as WORDS};

/// Bit set of a flow's received sequence numbers, within a window below the highest.
#[derive(Clone, Debug)]
pub(super) struct ReceivedWindow {
    /// First sequence number of the flow. While `bits` is `None`, all from it to `end` are
    /// received.
    first: u64,
    /// One more than the highest received; 0 before the first.
    end: u64,
    /// One bit for each sequence number of the window, at its index modulo the window. `None` until
    /// the first gap.
    bits: Option<Box<[u64; WORDS]>>,
    /// True if the flow begins at 0: then a first packet with a low sequence number shows that
    /// those before it are missing.
    begins_at_zero: bool,
}

impl ReceivedWindow {
    pub(super) const fn new() -> Self {
        Self { first: 0, end: 0, bits: None, begins_at_zero: false }
    }

    /// Creates a window in which all sequence numbers up to this one count as received.
    pub(super) const fn up_to(highest: u64) -> Self {
        Self { first: 0, end: highest.saturating_add(1), bits: None, begins_at_zero: false }
    }

    /// True if this sequence number is in or above the window, and not received.
    pub(super) fn is_new(&self, number: u64) -> bool {
        if self.end == 0 || number >= self.end {
            return number < u64::MAX;
        }
        if number < self.oldest() {
            return false;
        }
        match &self.bits {
            None => number < self.first,
            Some(bits) => {
                let (word, bit) = bit_position(number);
                bits[word] & bit == 0
            }
        }
    }

    /// Creates the window of a flow that begins at 0: packets before the first to arrive are
    /// missing.
    pub(super) fn from_zero() -> Self {
        Self { begins_at_zero: true, ..Self::new() }
    }

    pub(super) const fn end(&self) -> u64 {
        self.end
    }

    pub(super) const fn highest(&self) -> Option<u64> {
        self.end.checked_sub(1)
    }

    /// Returns the lowest sequence number of the window; lower ones are not remembered.
    pub(super) const fn oldest(&self) -> u64 {
        self.end.saturating_sub(NUMBER_WINDOW)
    }

    /// Marks a sequence number as received, and returns its order relative to the others.
    pub(super) fn insert(&mut self, number: u64) -> ArrivalOrder {
        if self.end == 0 && number < u64::MAX {
            return self.begin(number);
        }
        // No flow sends so many packets; and there would be no number after it.
        if number < self.oldest() || number == u64::MAX {
            return ArrivalOrder::TooOld;
        }
        if number < self.end {
            return if self.fill(number) { ArrivalOrder::Filling } else { ArrivalOrder::Duplicate };
        }
        let is_next = number == self.end;
        if !is_next {
            self.skip_to(number);
        }
        if let Some(bits) = &mut self.bits {
            set(bits, number);
        }
        self.end = number + 1;
        if is_next { ArrivalOrder::Next } else { ArrivalOrder::Ahead }
    }

    /// Marks the first sequence number of the flow as received, and lower ones as missing if the
    /// flow begins at 0.
    fn begin(&mut self, number: u64) -> ArrivalOrder {
        let reveals_gap = self.begins_at_zero && (1..FIRST_NUMBERS).contains(&number);
        if reveals_gap {
            self.skip_to(number);
            set(self.bits_from_now_on(), number);
        } else {
            self.first = number;
        }
        self.end = number + 1;
        if reveals_gap { ArrivalOrder::Ahead } else { ArrivalOrder::Next }
    }

    /// Marks a sequence number below the highest as received; returns false if it was before.
    fn fill(&mut self, number: u64) -> bool {
        if self.bits.is_none() && number >= self.first {
            return false;
        }
        set(self.bits_from_now_on(), number)
    }

    /// Marks the sequence numbers from the end to before `number` as not received.
    fn skip_to(&mut self, number: u64) {
        let end = self.end;
        let bits = self.bits_from_now_on();
        if number - end >= NUMBER_WINDOW {
            bits.fill(0);
        } else {
            clear(bits, end, number);
        }
    }

    fn bits_from_now_on(&mut self) -> &mut [u64; WORDS] {
        let (oldest, first) = (self.oldest(), self.first);
        self.bits.get_or_insert_with(|| {
            let mut bits = Box::new([u64::MAX; WORDS]);
            clear(&mut bits, oldest, first);
            bits
        })
    }
}

/// Returns the index of a sequence number's word in the window, and a mask of its bit.
#[allow(clippy::cast_possible_truncation, reason = "a place within the window")]
const fn bit_position(number: u64) -> (usize, u64) {
    ((number % NUMBER_WINDOW / 64) as usize, 1 << (number % 64))
}

/// Sets the bit of a sequence number; returns true if it was not set.
fn set(bits: &mut [u64; WORDS], number: u64) -> bool {
    let (word, bit) = bit_position(number);
    let was_set = bits[word] & bit != 0;
    bits[word] |= bit;
    !was_set
}

/// Clears the bits of the sequence numbers from `first` to before `end`, fewer than a window, a
/// word at a time.
fn clear(bits: &mut [u64; WORDS], first: u64, end: u64) {
    let mut number = first;
    while number < end {
        let next = (number / 64 + 1) * 64;
        let (word, bit) = bit_position(number);
        let mut mask = !(bit - 1);
        if next > end {
            mask &= (1 << (end % 64)) - 1;
        }
        bits[word] &= !mask;
        number = next;
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::collections::BTreeSet;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    /// A reference window: a set of all sequence numbers.
    #[derive(Default)]
    struct NaiveWindow {
        numbers: BTreeSet<u64>,
    }

    impl NaiveWindow {
        fn note(&mut self, number: u64) -> ArrivalOrder {
            let end = self.numbers.last().map_or(number, |highest| highest + 1);
            if number + NUMBER_WINDOW < end {
                return ArrivalOrder::TooOld;
            }
            if !self.numbers.insert(number) {
                return ArrivalOrder::Duplicate;
            }
            match number.cmp(&end) {
                core::cmp::Ordering::Less => ArrivalOrder::Filling,
                core::cmp::Ordering::Equal => ArrivalOrder::Next,
                core::cmp::Ordering::Greater => ArrivalOrder::Ahead,
            }
        }
    }

    fn note_all(numbers: impl IntoIterator<Item = u64>) -> Vec<ArrivalOrder> {
        let mut received = ReceivedWindow::new();
        numbers.into_iter().map(|number| received.insert(number)).collect()
    }

    #[test]
    fn in_order_nothing_is_allocated_and_duplicates_are_seen() {
        let mut received = ReceivedWindow::new();
        assert!((7..20_000).all(|number| received.insert(number) == ArrivalOrder::Next));
        assert_eq!(received.insert(19_999), ArrivalOrder::Duplicate);
        assert_eq!(received.insert(20_000 - NUMBER_WINDOW), ArrivalOrder::Duplicate);
        assert_eq!(received.insert(19_999 - NUMBER_WINDOW), ArrivalOrder::TooOld);
        assert!(received.bits.is_none());
    }

    #[test]
    fn what_was_sent_before_the_first_packet_is_new() {
        assert_eq!(
            note_all([5, 3, 5, 3]),
            [ArrivalOrder::Next, ArrivalOrder::Filling, ArrivalOrder::Duplicate, ArrivalOrder::Duplicate]
        );
    }

    #[test]
    fn a_leap_of_more_than_a_window_forgets_everything() {
        let leap = 10 + 2 * NUMBER_WINDOW;
        let arrivals = note_all([0, 1, leap, leap - NUMBER_WINDOW + 1, leap - NUMBER_WINDOW, 1]);
        let expected = [
            ArrivalOrder::Next,
            ArrivalOrder::Next,
            ArrivalOrder::Ahead,
            ArrivalOrder::Filling,
            ArrivalOrder::TooOld,
            ArrivalOrder::TooOld,
        ];
        assert_eq!(arrivals, expected);
    }

    #[test]
    fn the_last_number_of_all_is_refused() {
        assert_eq!(
            note_all([u64::MAX, 0, u64::MAX - 1, u64::MAX]),
            [ArrivalOrder::TooOld, ArrivalOrder::Next, ArrivalOrder::Ahead, ArrivalOrder::TooOld]
        );
    }

    proptest! {
        #[test]
        fn the_window_does_as_a_set_of_all_numbers(
            start in 0_u64..20_000,
            steps in proptest::collection::vec((0_u8..10, 0_u64..9_000), 0..400),
        ) {
            let (mut received, mut naive, mut highest) = (ReceivedWindow::new(), NaiveWindow::default(), start);
            for (kind, by) in steps {
                let number = match kind {
                    0..6 => highest + 1,
                    6 => highest + by % 200,
                    7 => highest.saturating_sub(by % 200),
                    8 => highest.saturating_sub(by),
                    _ => highest + by / 8,
                };
                prop_assert_eq!(received.insert(number), naive.note(number), "{}", number);
                highest = highest.max(number);
            }
        }
    }
}
