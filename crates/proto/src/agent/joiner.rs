//! The two pieces of a long datagram.

use alloc::vec::Vec;

use byway_wire::{Ecn, Piece, SequenceNumber, TrafficClass};

use crate::limits::{DATAGRAM_BYTES_MAX, PIECES_MAX};

/// A piece that waits for the other.
#[derive(Debug)]
struct Waiting {
    /// The number of the datagram's first piece.
    first: SequenceNumber,
    is_first: bool,
    traffic_class: TrafficClass,
    bytes: Vec<u8>,
}

/// Joins pieces, whichever comes first; the oldest gives way when too many wait.
#[derive(Debug, Default)]
pub(super) struct Joiner {
    waiting: Vec<Waiting>,
    /// A buffer to be used again.
    spare: Vec<u8>,
}

impl Joiner {
    /// Takes a piece; the whole datagram, if this completes one.
    pub(super) fn take(
        &mut self,
        piece: Piece,
        sequence: SequenceNumber,
        traffic_class: TrafficClass,
        bytes: &[u8],
    ) -> Option<(TrafficClass, &[u8])> {
        let is_first = piece == Piece::First;
        let first = if is_first { sequence } else { SequenceNumber::new(sequence.number().checked_sub(1)?) };
        let other =
            self.waiting.iter().position(|waiting| waiting.first == first && waiting.is_first != is_first);
        let Some(other) = other else {
            self.keep(first, is_first, traffic_class, bytes);
            return None;
        };
        let other = self.waiting.remove(other);
        let (head, tail) =
            if is_first { (bytes, other.bytes.as_slice()) } else { (other.bytes.as_slice(), bytes) };
        if head.len() + tail.len() > DATAGRAM_BYTES_MAX {
            return None;
        }
        self.spare.clear();
        self.spare.extend_from_slice(head);
        self.spare.extend_from_slice(tail);
        let is_marked = traffic_class.ecn() == Ecn::CongestionExperienced;
        let traffic_class = if is_marked { traffic_class } else { other.traffic_class };
        Some((traffic_class, &self.spare))
    }

    fn keep(&mut self, first: SequenceNumber, is_first: bool, traffic_class: TrafficClass, bytes: &[u8]) {
        if self.waiting.len() == PIECES_MAX {
            self.waiting.remove(0);
        }
        self.waiting.push(Waiting { first, is_first, traffic_class, bytes: bytes.to_vec() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(number: u64) -> SequenceNumber {
        SequenceNumber::new(number)
    }

    #[test]
    fn pieces_are_joined_in_either_order() {
        let mut joiner = Joiner::default();
        assert_eq!(joiner.take(Piece::First, number(4), TrafficClass::DEFAULT, b"one "), None);
        assert_eq!(joiner.take(Piece::Second, number(9), TrafficClass::DEFAULT, b"four"), None);
        let whole = joiner.take(Piece::Second, number(5), TrafficClass::DEFAULT, b"two");
        assert_eq!(whole, Some((TrafficClass::DEFAULT, &b"one two"[..])));
        let marked = TrafficClass::from(Ecn::CongestionExperienced);
        let whole = joiner.take(Piece::First, number(8), marked, b"three ");
        assert_eq!(whole, Some((marked, &b"three four"[..])));
    }

    #[test]
    fn a_piece_is_not_joined_with_a_neighbour_of_another_datagram() {
        let mut joiner = Joiner::default();
        assert_eq!(joiner.take(Piece::Second, number(5), TrafficClass::DEFAULT, b"b"), None);
        assert_eq!(joiner.take(Piece::First, number(6), TrafficClass::DEFAULT, b"c"), None);
        assert_eq!(joiner.take(Piece::Second, number(0), TrafficClass::DEFAULT, b"nothing before"), None);
    }

    #[test]
    fn few_pieces_wait() {
        let mut joiner = Joiner::default();
        for place in 0..100 {
            assert_eq!(joiner.take(Piece::First, number(place * 2), TrafficClass::DEFAULT, b"x"), None);
        }
        assert_eq!(joiner.waiting.len(), PIECES_MAX);
        assert!(joiner.take(Piece::Second, number(199), TrafficClass::DEFAULT, b"y").is_some());
    }
}
