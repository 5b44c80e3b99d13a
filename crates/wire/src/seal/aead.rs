//! Authenticated encryption of packets, behind a trait.

use alloc::boxed::Box;

use byway_units::FlowId;
use thiserror::Error;

use crate::limits::{KEY_BYTES, TAG_BYTES};
use crate::low::{Counter, SequenceNumber};
use crate::packets::Suite;

/// What is never used twice with one key.
///
/// The first two bytes keep source packets apart from what is counted: 0 for the former, 1 for the latter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Nonce([u8; 12]);

impl Nonce {
    /// For keys that seal only once.
    pub(super) const ZERO: Self = Self([0; 12]);

    /// The nonce of a source packet: `0[2] ‖ flow[2] ‖ sequence number[8]`.
    #[must_use]
    pub const fn of_source_packet(flow: FlowId, sequence: SequenceNumber) -> Self {
        Self::new(0, flow.number(), sequence.number())
    }

    /// The nonce of a message packet or an envelope: `1[2] ‖ 0[2] ‖ counter[8]`.
    #[must_use]
    pub const fn of_counter(counter: Counter) -> Self {
        Self::new(1, 0, counter.number())
    }

    /// The nonce of message `number` under one key of a Noise handshake, as Noise section 12 has it.
    pub(super) const fn of_noise(suite: Suite, number: u64) -> Self {
        let number = match suite {
            Suite::Aes256Gcm => number,
            Suite::ChaCha20Poly1305 => number.swap_bytes(),
        };
        Self::new(0, 0, number)
    }

    /// `kind[2] ‖ flow[2] ‖ number[8]`, put together in registers: bytes written one by one are not there yet when a
    /// cipher reads them as words, and the processor waits.
    #[inline]
    const fn new(kind: u16, flow: u16, number: u64) -> Self {
        let head = (kind as u64) << 48 | (flow as u64) << 32 | number >> 32;
        let [.., i, j, k, l] = number.to_be_bytes();
        let mut nonce = [0; 12];
        let (start, end) = nonce.split_at_mut(8);
        start.copy_from_slice(&head.to_be_bytes());
        end.copy_from_slice(&[i, j, k, l]);
        Self(nonce)
    }

    /// The nonce as the ciphers take it.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; 12] {
        &self.0
    }

    #[cfg(test)]
    pub(super) const fn from_bytes(bytes: [u8; 12]) -> Self {
        Self(bytes)
    }
}

/// A tag that does not belong to key, nonce, associated data and ciphertext.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the packet's tag is wrong: it is damaged, forged, or of another epoch; drop it and count it")]
pub struct Forged;

/// An implementation of the ciphers. All implementations give the same bytes.
pub trait Provider {
    /// Prepares `key` for use; it is wiped when the result is dropped.
    fn key(&self, suite: Suite, key: &[u8; KEY_BYTES]) -> Box<dyn PacketKey>;
}

/// A key that seals and opens packets in place.
pub trait PacketKey: Send + Sync {
    /// Replaces the plaintext in `in_out` by its ciphertext, and gives the tag over it and the associated data.
    ///
    /// The caller never uses a nonce twice.
    fn seal(&self, nonce: &Nonce, associated: &[u8], in_out: &mut [u8]) -> [u8; TAG_BYTES];

    /// Replaces the ciphertext in `in_out` by its plaintext.
    ///
    /// # Errors
    /// If the tag is not right. What `in_out` then holds is garbage, to be looked at by nobody.
    fn open(
        &self,
        nonce: &Nonce,
        associated: &[u8],
        in_out: &mut [u8],
        tag: &[u8; TAG_BYTES],
    ) -> Result<(), Forged>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonces_of_source_packets_and_of_counters_never_meet() {
        let source = Nonce::of_source_packet(FlowId::new(0x0102), SequenceNumber::new(0x0304_0506_0708_090A));
        assert_eq!(source.bytes(), &[0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        let counter = Nonce::of_counter(Counter::new(0x0304_0506_0708_090A));
        assert_eq!(counter.bytes(), &[0, 1, 0, 0, 3, 4, 5, 6, 7, 8, 9, 10]);
    }

    #[test]
    fn nonces_of_noise_follow_the_suite() {
        assert_eq!(Nonce::of_noise(Suite::Aes256Gcm, 1).bytes()[11], 1);
        assert_eq!(Nonce::of_noise(Suite::ChaCha20Poly1305, 1).bytes()[4], 1);
    }
}
