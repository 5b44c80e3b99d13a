//! Positions in a stream, and their 32-bit sequence numbers on the wire.

use core::fmt;
use core::ops::{Add, Sub};

use byway_units::Bytes;

/// A sequence number on the wire, which wraps around (RFC 9293, 3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SequenceNumber(u32);

impl SequenceNumber {
    /// Creates the sequence number with this value.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Returns the value of the sequence number.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Returns the sequence number of `position` in the stream whose SYN has this one.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "the wire has the lower 32 bits")]
    pub const fn of(self, position: Position) -> Self {
        Self(self.0.wrapping_add(position.0 as u32))
    }

    /// Returns the position of `number` in the stream whose SYN has this one: of the possible
    /// positions, the nearest to `near`. `None` if that is before the SYN.
    #[must_use]
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        reason = "a difference of two sequence numbers is a signed number of 32 bits"
    )]
    pub const fn position(self, number: Self, near: Position) -> Option<Position> {
        let distance = number.0.wrapping_sub(self.of(near).0) as i32;
        match near.0.checked_add_signed(distance as i64) {
            Some(position) => Some(Position(position)),
            None => None,
        }
    }
}

/// Position in the stream of one direction: the SYN is at 0, the first byte at 1, and the FIN after
/// the last byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(u64);

impl Position {
    /// Position of the SYN.
    pub const SYN: Self = Self(0);
    /// Position of the first byte.
    pub const FIRST: Self = Self(1);

    /// Returns the distance from `earlier`, or zero if that is later.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Bytes {
        Bytes::new(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Bytes> for Position {
    type Output = Self;

    fn add(self, bytes: Bytes) -> Self {
        Self(self.0 + bytes.count())
    }
}

impl Sub for Position {
    type Output = Bytes;

    fn sub(self, earlier: Self) -> Bytes {
        Bytes::new(self.0 - earlier.0)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "position {}", self.0)
    }
}

/// Half-open range of positions in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First position of the range.
    pub start: Position,
    /// Position after the range's last.
    pub end: Position,
}

impl Extent {
    /// Returns the length of the range; zero if it ends before it starts.
    #[must_use]
    pub const fn bytes(self) -> Bytes {
        self.end.saturating_since(self.start)
    }

    /// True if the range is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.bytes().is_zero()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_position_survives_the_wire_when_something_near_is_known(
            initial in any::<u32>(), position in 0_u64..1 << 40, ahead in -(1_i64 << 30)..1 << 30,
        ) {
            let (initial, position) = (SequenceNumber::new(initial), Position(position));
            let near = Position(position.0.saturating_add_signed(ahead));
            prop_assert_eq!(initial.position(initial.of(position), near), Some(position));
        }
    }

    #[test]
    fn there_is_nothing_before_the_syn() {
        let initial = SequenceNumber::new(5);
        assert_eq!(initial.position(SequenceNumber::new(4), Position::FIRST), None);
        assert_eq!(initial.position(SequenceNumber::new(5), Position::FIRST), Some(Position::SYN));
    }
}
