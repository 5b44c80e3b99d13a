//! 64-bit numbers whose low 32 bits are sent in packets.

use core::fmt;

macro_rules! counted {
    ($(#[$doc:meta])+ $name:ident, $word:literal) => {
        $(#[$doc])+
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u64);

        impl $name {
            /// The first number: 0.
            pub const FIRST: Self = Self(0);

            /// Wraps this number.
            #[inline]
            #[must_use]
            pub const fn new(number: u64) -> Self {
                Self(number)
            }

            /// Returns the whole 64-bit number.
            #[inline]
            #[must_use]
            pub const fn number(self) -> u64 {
                self.0
            }

            /// Returns the low 32 bits, which packets include.
            #[inline]
            #[must_use]
            #[allow(clippy::cast_possible_truncation, reason = "the low bits are what is asked for")]
            pub const fn low(self) -> u32 {
                self.0 as u32
            }

            /// Returns the next number.
            ///
            /// # Panics
            /// After 2^64 numbers, which no flow or session reaches.
            #[inline]
            #[must_use]
            pub const fn next(self) -> Self {
                match self.0.checked_add(1) {
                    Some(number) => Self(number),
                    None => panic!(concat!("the last ", $word, " is used up")),
                }
            }

            /// Returns the number higher by `count`, at most the highest number.
            #[inline]
            #[must_use]
            pub const fn plus(self, count: u64) -> Self {
                Self(self.0.saturating_add(count))
            }

            /// Returns the distance from `earlier` to this number; `None` if this number is lower.
            #[inline]
            #[must_use]
            pub const fn since(self, earlier: Self) -> Option<u64> {
                self.0.checked_sub(earlier.0)
            }

            /// Completes a truncated number: returns the number with these low 32 bits that is
            /// nearest to `reference`. Of two equally near ones, it returns the lower.
            #[inline]
            #[must_use]
            pub const fn nearest(low: u32, reference: Self) -> Self {
                Self(nearest(low, reference.0))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($word, " {}"), self.0)
            }
        }
    };
}

counted! {
    /// Sequence number of a source packet within its flow. It starts at 0, grows by one, and
    /// continues across epochs.
    SequenceNumber, "sequence number"
}
counted! {
    /// Counter of a message packet or envelope within its session's epoch. It starts at 0 and never
    /// repeats.
    Counter, "counter"
}

/// Returns the number with the low 32 bits `low` that is nearest to `reference`.
#[inline]
const fn nearest(low: u32, reference: u64) -> u64 {
    const PERIOD: u64 = 1 << 32;
    #[allow(clippy::cast_possible_truncation, reason = "the low bits are what is asked for")]
    let ahead = low.wrapping_sub(reference as u32).cast_signed() as i64;
    match reference.checked_add_signed(ahead) {
        Some(number) => number,
        // Outside the range of numbers, the nearest existing one is one period further in.
        None if ahead < 0 => reference.wrapping_add_signed(ahead).wrapping_add(PERIOD),
        None => reference.wrapping_add_signed(ahead).wrapping_sub(PERIOD),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the nearest of all numbers with these low bits around the reference; of two, the
    /// lower.
    fn nearest_by_search(low: u32, reference: u64) -> u64 {
        let periods =
            (reference >> 32).saturating_sub(1)..=(reference >> 32).saturating_add(1).min(0xFFFF_FFFF);
        let candidates = periods.map(|period| period << 32 | u64::from(low));
        candidates.min_by_key(|candidate| candidate.abs_diff(reference)).expect("there are some")
    }

    #[test]
    fn the_nearest_number_is_found_at_every_edge() {
        let edges = [0, 1, 0x7FFF_FFFF, 0x8000_0000, 0x8000_0001, 0xFFFF_FFFE, 0xFFFF_FFFF];
        let highs = [0, 1, 2, 0x7FFF_FFFF, 0xFFFF_FFFE, 0xFFFF_FFFF];
        for (high, base) in highs.into_iter().flat_map(|high| edges.map(|base| (high, base))) {
            let reference = high << 32 | base;
            for low in edges {
                let low = u32::try_from(low).expect("edges have 32 bits");
                let found = SequenceNumber::nearest(low, SequenceNumber::new(reference));
                assert_eq!(found.number(), nearest_by_search(low, reference), "{low:#x} near {reference:#x}");
                assert_eq!(found.low(), low);
            }
        }
    }

    #[test]
    fn numbers_just_behind_and_ahead_are_recovered() {
        let reference = 5 << 32;
        for number in [reference - 0x8000_0000, reference - 1, reference, reference + 0x7FFF_FFFF] {
            let number = Counter::new(number);
            assert_eq!(Counter::nearest(number.low(), Counter::new(reference)), number);
        }
    }

    #[test]
    fn distances_are_counted_forwards_and_end_at_the_last_number() {
        let number = SequenceNumber::new((1 << 32) - 1);
        assert_eq!(number.plus(2), SequenceNumber::new((1 << 32) + 1));
        assert_eq!(number.plus(2).since(number), Some(2));
        assert_eq!((number.since(number), number.since(number.plus(1))), (Some(0), None));
        assert_eq!(SequenceNumber::new(u64::MAX - 1).plus(2), SequenceNumber::new(u64::MAX));
    }

    #[test]
    #[should_panic(expected = "used up")]
    fn the_last_counter_has_no_successor() {
        let _ = Counter::new(u64::MAX).next();
    }
}
