//! Which numbers have arrived.

use alloc::boxed::Box;

use super::Arrival;
use crate::limits::{FIRST_NUMBERS, NUMBER_WINDOW, NUMBER_WINDOW_WORDS as WORDS};

/// The numbers that have arrived, within a window below the highest.
#[derive(Clone, Debug)]
pub(super) struct Received {
    /// While there are no bits: all from here on have arrived.
    first: u64,
    /// One more than the highest; 0 if none has arrived.
    end: u64,
    /// One bit for each number of the window, at its place modulo the window; from the first gap on.
    bits: Option<Box<[u64; WORDS]>>,
    /// Whether the numbers are known to begin at 0, so that a first one not far from it passed others over.
    begins_at_zero: bool,
}

impl Received {
    pub(super) const fn new() -> Self {
        Self { first: 0, end: 0, bits: None, begins_at_zero: false }
    }

    /// All numbers up to this one have arrived, as far as anybody knows.
    pub(super) const fn up_to(highest: u64) -> Self {
        Self { first: 0, end: highest.saturating_add(1), bits: None, begins_at_zero: false }
    }

    /// Whether this number would be new.
    pub(super) fn lacks(&self, number: u64) -> bool {
        if self.end == 0 || number >= self.end {
            return number < u64::MAX;
        }
        if number < self.oldest() {
            return false;
        }
        match &self.bits {
            None => number < self.first,
            Some(bits) => {
                let (word, bit) = place(number);
                bits[word] & bit == 0
            }
        }
    }

    /// None has arrived, and the first is 0.
    pub(super) fn from_zero() -> Self {
        Self { begins_at_zero: true, ..Self::new() }
    }

    pub(super) const fn end(&self) -> u64 {
        self.end
    }

    pub(super) const fn highest(&self) -> Option<u64> {
        self.end.checked_sub(1)
    }

    /// The lowest number of the window.
    pub(super) const fn oldest(&self) -> u64 {
        self.end.saturating_sub(NUMBER_WINDOW)
    }

    /// A number has arrived.
    pub(super) fn note(&mut self, number: u64) -> Arrival {
        if self.end == 0 && number < u64::MAX {
            return self.begin(number);
        }
        // No flow sends so many packets; and there would be no number after it.
        if number < self.oldest() || number == u64::MAX {
            return Arrival::TooOld;
        }
        if number < self.end {
            return if self.fill(number) { Arrival::Filling } else { Arrival::Duplicate };
        }
        let is_next = number == self.end;
        if !is_next {
            self.skip_to(number);
        }
        if let Some(bits) = &mut self.bits {
            set(bits, number);
        }
        self.end = number + 1;
        if is_next { Arrival::Next } else { Arrival::Ahead }
    }

    /// The first number has arrived.
    fn begin(&mut self, number: u64) -> Arrival {
        let passes_over = self.begins_at_zero && (1..FIRST_NUMBERS).contains(&number);
        if passes_over {
            self.skip_to(number);
            set(self.bits_from_now_on(), number);
        } else {
            self.first = number;
        }
        self.end = number + 1;
        if passes_over { Arrival::Ahead } else { Arrival::Next }
    }

    /// Notes a number below the highest; whether it is new.
    fn fill(&mut self, number: u64) -> bool {
        if self.bits.is_none() && number >= self.first {
            return false;
        }
        set(self.bits_from_now_on(), number)
    }

    /// None of the numbers from the end to before `number` have arrived.
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

/// The word of a number, and its bit there.
#[allow(clippy::cast_possible_truncation, reason = "a place within the window")]
const fn place(number: u64) -> (usize, u64) {
    ((number % NUMBER_WINDOW / 64) as usize, 1 << (number % 64))
}

/// Sets the bit of a number; whether it was not set.
fn set(bits: &mut [u64; WORDS], number: u64) -> bool {
    let (word, bit) = place(number);
    let was_set = bits[word] & bit != 0;
    bits[word] |= bit;
    !was_set
}

/// Clears the bits of the numbers from `first` to before `end`, fewer than a window, a word at a time.
fn clear(bits: &mut [u64; WORDS], first: u64, end: u64) {
    let mut number = first;
    while number < end {
        let next = (number / 64 + 1) * 64;
        let (word, bit) = place(number);
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

    /// The naive way: a set of all numbers.
    #[derive(Default)]
    struct Naive {
        numbers: BTreeSet<u64>,
    }

    impl Naive {
        fn note(&mut self, number: u64) -> Arrival {
            let end = self.numbers.last().map_or(number, |highest| highest + 1);
            if number + NUMBER_WINDOW < end {
                return Arrival::TooOld;
            }
            if !self.numbers.insert(number) {
                return Arrival::Duplicate;
            }
            match number.cmp(&end) {
                core::cmp::Ordering::Less => Arrival::Filling,
                core::cmp::Ordering::Equal => Arrival::Next,
                core::cmp::Ordering::Greater => Arrival::Ahead,
            }
        }
    }

    fn note_all(numbers: impl IntoIterator<Item = u64>) -> Vec<Arrival> {
        let mut received = Received::new();
        numbers.into_iter().map(|number| received.note(number)).collect()
    }

    #[test]
    fn in_order_nothing_is_allocated_and_duplicates_are_seen() {
        let mut received = Received::new();
        assert!((7..20_000).all(|number| received.note(number) == Arrival::Next));
        assert_eq!(received.note(19_999), Arrival::Duplicate);
        assert_eq!(received.note(20_000 - NUMBER_WINDOW), Arrival::Duplicate);
        assert_eq!(received.note(19_999 - NUMBER_WINDOW), Arrival::TooOld);
        assert!(received.bits.is_none());
    }

    #[test]
    fn what_was_sent_before_the_first_packet_is_new() {
        assert_eq!(
            note_all([5, 3, 5, 3]),
            [Arrival::Next, Arrival::Filling, Arrival::Duplicate, Arrival::Duplicate]
        );
    }

    #[test]
    fn a_leap_of_more_than_a_window_forgets_everything() {
        let leap = 10 + 2 * NUMBER_WINDOW;
        let arrivals = note_all([0, 1, leap, leap - NUMBER_WINDOW + 1, leap - NUMBER_WINDOW, 1]);
        let expected = [
            Arrival::Next,
            Arrival::Next,
            Arrival::Ahead,
            Arrival::Filling,
            Arrival::TooOld,
            Arrival::TooOld,
        ];
        assert_eq!(arrivals, expected);
    }

    #[test]
    fn the_last_number_of_all_is_refused() {
        assert_eq!(
            note_all([u64::MAX, 0, u64::MAX - 1, u64::MAX]),
            [Arrival::TooOld, Arrival::Next, Arrival::Ahead, Arrival::TooOld]
        );
    }

    proptest! {
        #[test]
        fn the_window_does_as_a_set_of_all_numbers(
            start in 0_u64..20_000,
            steps in proptest::collection::vec((0_u8..10, 0_u64..9_000), 0..400),
        ) {
            let (mut received, mut naive, mut highest) = (Received::new(), Naive::default(), start);
            for (kind, by) in steps {
                let number = match kind {
                    0..6 => highest + 1,
                    6 => highest + by % 200,
                    7 => highest.saturating_sub(by % 200),
                    8 => highest.saturating_sub(by),
                    _ => highest + by / 8,
                };
                prop_assert_eq!(received.note(number), naive.note(number), "{}", number);
                highest = highest.max(number);
            }
        }
    }
}
