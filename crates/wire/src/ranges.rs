//! Ranges of sequence numbers, as in NACKs and similar messages.

use core::fmt;

use arrayvec::ArrayVec;

use crate::error::ParseError;
use crate::limits::{RANGE_LENGTH_MAX, RANGES_MAX};
use crate::low::SequenceNumber;
use crate::reader::Reader;
use crate::writer::Output;

const RANGE_BYTES: usize = 6;

/// Number of sequence numbers that the low 32 bits distinguish: the greatest distance of a range's
/// end from the first sequence number.
const SPAN: u64 = 1 << 32;

/// Range of 1 to [`RANGE_LENGTH_MAX`] consecutive sequence numbers in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceRange {
    first_low: u32,
    length: u16,
}

impl SequenceRange {
    /// Returns the low 32 bits of the first sequence number.
    #[must_use]
    pub const fn first_low(&self) -> u32 {
        self.first_low
    }

    /// Returns the number of sequence numbers in the range.
    #[must_use]
    pub const fn length(&self) -> u16 {
        self.length
    }

    /// Returns the low 32 bits of each sequence number in the range.
    pub fn numbers_low(&self) -> impl Iterator<Item = u32> + use<> {
        let first_low = self.first_low;
        (0..self.length).map(move |offset| first_low.wrapping_add(offset.into()))
    }

    fn from_bytes([f0, f1, f2, f3, l0, l1]: [u8; RANGE_BYTES]) -> Self {
        let first_low = u32::from_be_bytes([f0, f1, f2, f3]);
        Self { first_low, length: u16::from_be_bytes([l0, l1]) }
    }

    fn to_bytes(self) -> [u8; RANGE_BYTES] {
        let ([f0, f1, f2, f3], [l0, l1]) = (self.first_low.to_be_bytes(), self.length.to_be_bytes());
        [f0, f1, f2, f3, l0, l1]
    }
}

/// Up to [`RANGES_MAX`] rising ranges in wire form, from a [`RangeSet`] or a message.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Ranges<'a> {
    ranges: &'a [[u8; RANGE_BYTES]],
}

impl<'a> Ranges<'a> {
    /// Ranges of a message that names no packet.
    pub const EMPTY: Self = Self { ranges: &[] };

    pub(crate) fn parse(reader: &mut Reader<'a>) -> Result<Self, ParseError> {
        let count = reader.u8("number of ranges")?;
        if usize::from(count) > RANGES_MAX {
            return Err(reader.illegal("number of ranges", count, "0 to 32"));
        }
        let ranges = Self { ranges: reader.arrays("ranges", count.into())? };
        ranges.check(reader)?;
        Ok(ranges)
    }

    /// Checks that each length is legal, and that each range begins above the end of the previous
    /// one, counted from the first sequence number.
    fn check(&self, reader: &Reader<'_>) -> Result<(), ParseError> {
        let start = self.iter().next().map_or(0, |range| range.first_low);
        let mut end_before = 0;
        for (index, range) in self.iter().enumerate() {
            if range.length == 0 || range.length > RANGE_LENGTH_MAX {
                return Err(reader.illegal("length of a range", range.length, "1 to 8192"));
            }
            let offset = u64::from(range.first_low.wrapping_sub(start));
            let end = offset + u64::from(range.length);
            if offset < end_before || end > SPAN {
                let (thing, first_low) = (reader.thing(), range.first_low);
                return Err(ParseError::RangeOutOfOrder { thing, index, first_low });
            }
            end_before = end;
        }
        Ok(())
    }

    pub(crate) fn emit(&self, output: &mut Output<'_>) {
        output.count(self.ranges.len());
        output.bytes(self.ranges.as_flattened());
    }

    /// Returns the number of ranges.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.ranges.len()
    }

    /// True if there are no ranges.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns the ranges, in rising order from the first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = SequenceRange> + use<'a> {
        self.ranges.iter().copied().map(SequenceRange::from_bytes)
    }

    /// Returns the low 32 bits of every sequence number in the ranges: at most [`RANGES_MAX`] times
    /// [`RANGE_LENGTH_MAX`].
    pub fn numbers_low(&self) -> impl Iterator<Item = u32> + use<'a> {
        self.iter().flat_map(|range| range.numbers_low())
    }

    /// Returns the low 32 bits of the last sequence number; `None` if there are no ranges. The cost
    /// depends on the number of ranges only.
    #[must_use]
    pub fn last_low(&self) -> Option<u32> {
        let last = self.iter().last()?;
        Some(last.first_low().wrapping_add(u32::from(last.length()) - 1))
    }
}

impl fmt::Debug for Ranges<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Collects rising sequence numbers into ranges for one message.
///
/// ```
/// use byway_wire::{RangeSet, SequenceNumber};
///
/// let mut missing = RangeSet::new();
/// for number in [7, 8, 9, 12] {
///     assert!(missing.insert(SequenceNumber::new(number)));
/// }
/// let ranges = missing.ranges();
/// let ranges: Vec<_> = ranges.iter().map(|range| (range.first_low(), range.length())).collect();
/// assert_eq!(ranges, [(7, 3), (12, 1)]);
/// ```
#[derive(Clone, Debug, Default)]
pub struct RangeSet {
    ranges: ArrayVec<[u8; RANGE_BYTES], RANGES_MAX>,
    first: SequenceNumber,
    last: SequenceNumber,
}

impl RangeSet {
    /// Returns an empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `number`. Returns false if it would need more than [`RANGES_MAX`] ranges, or is 2^32 or
    /// more above the first one. Such a number begins the next message, in another set.
    ///
    /// # Panics
    /// If `number` is not above the one added before it.
    #[must_use = "what does not fit has to go into another message"]
    pub fn insert(&mut self, number: SequenceNumber) -> bool {
        let added = match self.ranges.last_mut() {
            None => {
                self.first = number;
                self.begin(number)
            }
            Some(range) => {
                assert!(number > self.last, "{number} comes behind {}", self.last);
                if number.number() - self.first.number() >= SPAN {
                    false
                } else if number.number() - self.last.number() == 1 && extend(range) {
                    true
                } else {
                    self.begin(number)
                }
            }
        };
        if added {
            self.last = number;
        }
        added
    }

    fn begin(&mut self, number: SequenceNumber) -> bool {
        self.ranges.try_push(SequenceRange { first_low: number.low(), length: 1 }.to_bytes()).is_ok()
    }

    /// True if the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns the ranges, for a message.
    #[must_use]
    pub fn ranges(&self) -> Ranges<'_> {
        Ranges { ranges: &self.ranges }
    }

    /// Removes all sequence numbers.
    pub fn clear(&mut self) {
        self.ranges.clear();
    }
}

/// Extends the range by one sequence number; returns false if it has the greatest length.
fn extend(bytes: &mut [u8; RANGE_BYTES]) -> bool {
    let mut range = SequenceRange::from_bytes(*bytes);
    let can_grow = range.length < RANGE_LENGTH_MAX;
    if can_grow {
        range.length += 1;
        *bytes = range.to_bytes();
    }
    can_grow
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;

    const ILLEGAL_LENGTH: &str = "test: length of a range is 8193, allowed is 1 to 8192";

    fn parse(bytes: &[u8]) -> Result<Ranges<'_>, ParseError> {
        Ranges::parse(&mut Reader::new("test", bytes))
    }

    /// Encodes these ranges and parses the result.
    fn parse_pairs(pairs: &[(u32, u16)]) -> Result<Vec<(u32, u16)>, ParseError> {
        let ranges = pairs.iter().map(|&(first_low, length)| SequenceRange { first_low, length }.to_bytes());
        let count = u8::try_from(pairs.len()).expect("tests have few ranges");
        let bytes: Vec<_> = [count].into_iter().chain(ranges.flatten()).collect();
        parse(&bytes).map(|ranges| self::pairs(&ranges))
    }

    fn pairs(ranges: &Ranges<'_>) -> Vec<(u32, u16)> {
        ranges.iter().map(|range| (range.first_low, range.length)).collect()
    }

    fn is_out_of_order(pairs: &[(u32, u16)]) -> bool {
        matches!(parse_pairs(pairs), Err(ParseError::RangeOutOfOrder { .. }))
    }

    #[test]
    fn rising_ranges_are_legal_also_across_the_wrap() {
        for legal in [
            &[][..],
            &[(0, 1)],
            &[(5, 2), (7, 1), (100, 8_192)],
            &[(u32::MAX - 1, 2), (0, 1)],
            &[(u32::MAX, 4), (3, 1)],
            &[(10, 1), (9, 1)],
        ] {
            assert_eq!(parse_pairs(legal), Ok(legal.to_vec()));
        }
    }

    #[test]
    fn falling_and_overlapping_ranges_are_refused() {
        assert!(is_out_of_order(&[(5, 2), (6, 1)]));
        assert!(is_out_of_order(&[(5, 2), (5, 2)]));
        assert!(is_out_of_order(&[(5, 1), (9, 1), (7, 1)]));
        assert!(is_out_of_order(&[(u32::MAX, 4), (2, 1)]));
        assert!(is_out_of_order(&[(10, 1), (9, 2)]));
    }

    #[test]
    fn counts_and_lengths_out_of_bounds_are_refused() {
        let error_text = |result: Result<_, ParseError>| std::format!("{}", result.expect_err("illegal"));
        assert_eq!(error_text(parse_pairs(&[(5, 8_193)])), ILLEGAL_LENGTH);
        assert_eq!(error_text(parse_pairs(&[(5, 0)])), ILLEGAL_LENGTH.replace("8193", "0"));
        let many: Vec<_> = (0..33).map(|number| (2 * number, 1)).collect();
        assert_eq!(error_text(parse_pairs(&many)), "test: number of ranges is 33, allowed is 0 to 32");
        assert_eq!(parse_pairs(&many[..32]), Ok(many[..32].to_vec()));
        assert!(matches!(parse(&[1, 0, 0, 0, 0, 0]), Err(ParseError::TooShort { needed: 6, left: 5, .. })));
    }

    fn set_of(numbers: impl IntoIterator<Item = u64>) -> (RangeSet, usize) {
        let mut set = RangeSet::new();
        let fitting = numbers.into_iter().take_while(|number| set.insert(SequenceNumber::new(*number)));
        let count = fitting.count();
        (set, count)
    }

    #[test]
    fn neighbours_share_a_range() {
        let (set, _) = set_of([(1 << 32) - 2, (1 << 32) - 1, 1 << 32, (1 << 32) + 2]);
        assert_eq!(pairs(&set.ranges()), [(u32::MAX - 1, 3), (2, 1)]);
        assert!(set.ranges().numbers_low().eq([u32::MAX - 1, u32::MAX, 0, 2]));
    }

    #[test]
    fn a_range_that_is_full_is_followed_by_another() {
        let (set, _) = set_of(0..8_194);
        assert_eq!(pairs(&set.ranges()), [(0, 8_192), (8_192, 2)]);
    }

    #[test]
    fn a_set_refuses_the_thirty_third_range_and_takes_neighbours_still() {
        let (mut set, count) = set_of((0..50).map(|number| 2 * number));
        assert_eq!((count, set.ranges().len()), (32, 32));
        assert!(set.insert(SequenceNumber::new(63)) && !set.insert(SequenceNumber::new(65)));
        set.clear();
        assert!(set.is_empty() && set.insert(SequenceNumber::new(3)));
    }

    #[test]
    fn a_set_refuses_numbers_that_repeat_modulo_two_to_the_32() {
        assert_eq!(set_of([5, 4 + (1 << 32)]).1, 2);
        assert_eq!(set_of([5, 5 + (1 << 32)]).1, 1);
    }

    #[test]
    #[should_panic(expected = "sequence number 4 comes behind sequence number 4")]
    fn numbers_that_do_not_rise_are_a_broken_invariant() {
        set_of([4, 4]);
    }
}
