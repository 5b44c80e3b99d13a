//! Payload pattern: bytes that encode their stream and position.

use super::segment::Ports;
use super::sequence::SequenceNumber;
use crate::random::mix;

/// Writes the payload that begins at this sequence number between these ports.
///
/// Each byte depends on the ports and on its own sequence number, not on the segmentation of the
/// stream.
pub(crate) fn fill(payload: &mut [u8], ports: Ports, sequence: SequenceNumber) {
    let mut words = Words::new(ports, sequence);
    let (head, rest) = payload.split_at_mut(words.head_bytes().min(payload.len()));
    let first = words.next_word();
    head.copy_from_slice(&first[8 - words.first_bytes..][..head.len()]);
    let mut chunks = rest.chunks_exact_mut(8);
    for chunk in &mut chunks {
        chunk.copy_from_slice(&words.next_word());
    }
    let tail = chunks.into_remainder();
    tail.copy_from_slice(&words.next_word()[..tail.len()]);
}

/// True if this is the payload that begins at this sequence number between these ports.
pub(crate) fn matches(payload: &[u8], ports: Ports, sequence: SequenceNumber) -> bool {
    let mut words = Words::new(ports, sequence);
    let (head, rest) = payload.split_at(words.head_bytes().min(payload.len()));
    let first = words.next_word();
    let mut chunks = rest.chunks_exact(8);
    let is_right = chunks.by_ref().fold(true, |is_right, chunk| is_right & (*chunk == words.next_word()));
    let tail = chunks.remainder();
    *head == first[8 - words.first_bytes..][..head.len()]
        && is_right
        && *tail == words.next_word()[..tail.len()]
}

/// Iterator over the payload pattern in words of eight bytes, each at a sequence number that is a
/// multiple of eight.
struct Words {
    key: u64,
    next: u32,
    /// Number of the first word's bytes that belong to the payload.
    first_bytes: usize,
}

impl Words {
    fn new(ports: Ports, sequence: SequenceNumber) -> Self {
        let key = mix(u64::from(ports.source) << 16 | u64::from(ports.destination));
        let number = sequence.number();
        Self { key, next: number & !7, first_bytes: 8 - (number & 7) as usize }
    }

    const fn head_bytes(&self) -> usize {
        self.first_bytes
    }

    const fn next_word(&mut self) -> [u8; 8] {
        let word = mix(self.key ^ self.next as u64);
        self.next = self.next.wrapping_add(8);
        word.to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec;

    use proptest::prelude::*;

    use super::*;

    const PORTS: Ports = Ports { source: 80, destination: 4_000 };

    proptest! {
        #[test]
        fn a_byte_does_not_depend_on_how_the_stream_is_cut(
            start in any::<u32>(), length in 0_usize..100, cut in 0_usize..100,
        ) {
            let mut whole = vec![0; length];
            fill(&mut whole, PORTS, SequenceNumber::new(start));
            let cut = cut.min(length);
            let behind = start.wrapping_add(u32::try_from(cut).unwrap());
            prop_assert!(matches(&whole[..cut], PORTS, SequenceNumber::new(start)));
            prop_assert!(matches(&whole[cut..], PORTS, SequenceNumber::new(behind)));
        }

        #[test]
        fn bytes_of_another_place_or_stream_do_not_match(start in any::<u32>(), shift in 1_u32..1_000) {
            let mut payload = [0; 64];
            fill(&mut payload, PORTS, SequenceNumber::new(start));
            prop_assert!(!matches(&payload, PORTS, SequenceNumber::new(start.wrapping_add(shift))));
            prop_assert!(!matches(&payload, PORTS.reversed(), SequenceNumber::new(start)));
        }
    }
}
