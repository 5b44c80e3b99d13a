//! Reassembly of long datagrams from their two fragments.

use alloc::vec::Vec;

use byway_wire::{Ecn, Fragment, SequenceNumber, TrafficClass};

use crate::limits::{DATAGRAM_BYTES_MAX, PENDING_FRAGMENTS_MAX};

/// Received fragment that waits for the datagram's other fragment.
#[derive(Debug)]
struct PendingFragment {
    /// Sequence number of the datagram's first fragment, whether that has arrived or not.
    first: SequenceNumber,
    is_first: bool,
    traffic_class: TrafficClass,
    bytes: Vec<u8>,
}

/// Buffer of a flow's fragments, which arrive in either order. If too many wait, the oldest is
/// dropped.
#[derive(Debug, Default)]
pub(super) struct Reassembler {
    pending: Vec<PendingFragment>,
    /// Buffer in which whole datagrams are assembled.
    spare: Vec<u8>,
}

impl Reassembler {
    /// Adds a fragment; returns the whole datagram if it completes one. The traffic class has the
    /// ECN mark if either fragment has it.
    pub(super) fn insert(
        &mut self,
        fragment: Fragment,
        sequence: SequenceNumber,
        traffic_class: TrafficClass,
        bytes: &[u8],
    ) -> Option<(TrafficClass, &[u8])> {
        let is_first = fragment == Fragment::First;
        let first = if is_first { sequence } else { SequenceNumber::new(sequence.number().checked_sub(1)?) };
        let other =
            self.pending.iter().position(|pending| pending.first == first && pending.is_first != is_first);
        let Some(other) = other else {
            self.store(first, is_first, traffic_class, bytes);
            return None;
        };
        let other = self.pending.remove(other);
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

    fn store(&mut self, first: SequenceNumber, is_first: bool, traffic_class: TrafficClass, bytes: &[u8]) {
        if self.pending.len() == PENDING_FRAGMENTS_MAX {
            self.pending.remove(0);
        }
        self.pending.push(PendingFragment { first, is_first, traffic_class, bytes: bytes.to_vec() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(number: u64) -> SequenceNumber {
        SequenceNumber::new(number)
    }

    #[test]
    fn fragments_are_joined_in_either_order() {
        let mut reassembler = Reassembler::default();
        assert_eq!(reassembler.insert(Fragment::First, number(4), TrafficClass::DEFAULT, b"one "), None);
        assert_eq!(reassembler.insert(Fragment::Second, number(9), TrafficClass::DEFAULT, b"four"), None);
        let whole = reassembler.insert(Fragment::Second, number(5), TrafficClass::DEFAULT, b"two");
        assert_eq!(whole, Some((TrafficClass::DEFAULT, &b"one two"[..])));
        let marked = TrafficClass::from(Ecn::CongestionExperienced);
        let whole = reassembler.insert(Fragment::First, number(8), marked, b"three ");
        assert_eq!(whole, Some((marked, &b"three four"[..])));
    }

    #[test]
    fn a_fragment_is_not_joined_with_a_neighbour_of_another_datagram() {
        let mut reassembler = Reassembler::default();
        assert_eq!(reassembler.insert(Fragment::Second, number(5), TrafficClass::DEFAULT, b"b"), None);
        assert_eq!(reassembler.insert(Fragment::First, number(6), TrafficClass::DEFAULT, b"c"), None);
        assert_eq!(
            reassembler.insert(Fragment::Second, number(0), TrafficClass::DEFAULT, b"nothing before"),
            None
        );
    }

    #[test]
    fn few_fragments_wait() {
        let mut reassembler = Reassembler::default();
        for index in 0..100 {
            assert_eq!(
                reassembler.insert(Fragment::First, number(index * 2), TrafficClass::DEFAULT, b"x"),
                None
            );
        }
        assert_eq!(reassembler.pending.len(), PENDING_FRAGMENTS_MAX);
        assert!(reassembler.insert(Fragment::Second, number(199), TrafficClass::DEFAULT, b"y").is_some());
    }
}
