//! Authenticated encryption of packets, behind a trait.

use alloc::boxed::Box;

use byway_units::FlowId;
use thiserror::Error;

use crate::limits::{KEY_BYTES, TAG_BYTES};
use crate::low::{Counter, SequenceNumber};
use crate::packets::Suite;

/// Nonce of a packet: a number that is used only once with a key.
///
/// The first two bytes distinguish source packets (0) from packets with a counter (1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Nonce([u8; 12]);

impl Nonce {
    /// Nonce of zeros, for keys that seal only once.
    pub(super) const ZERO: Self = Self([0; 12]);

    /// Returns the nonce of a source packet: `0[2] ‖ flow[2] ‖ sequence number[8]`.
    #[must_use]
    pub const fn of_source_packet(flow: FlowId, sequence: SequenceNumber) -> Self {
        Self::new(0, flow.number(), sequence.number())
    }

    /// Returns the nonce of a message packet or an envelope: `1[2] ‖ 0[2] ‖ counter[8]`.
    #[must_use]
    pub const fn of_counter(counter: Counter) -> Self {
        Self::new(1, 0, counter.number())
    }

    /// Returns the nonce of message `number` under one key of a Noise handshake, as Noise section
    /// 12 defines it.
    pub(super) const fn of_noise(suite: Suite, number: u64) -> Self {
        let number = match suite {
            Suite::Aes256Gcm => number,
            Suite::ChaCha20Poly1305 => number.swap_bytes(),
        };
        Self::new(0, 0, number)
    }

    /// Composes `kind[2] ‖ flow[2] ‖ number[8]` in registers. Bytes written one by one would stall
    /// the cipher, which reads them as words.
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

    /// Returns the nonce as bytes, for ciphers.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; 12] {
        &self.0
    }

    #[cfg(test)]
    pub(super) const fn from_bytes(bytes: [u8; 12]) -> Self {
        Self(bytes)
    }
}

/// Error of a packet whose tag does not match key, nonce, associated data and ciphertext.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("invalid tag: the packet is damaged, forged, or of another epoch; drop it and count it")]
pub struct ForgeryError;

/// Implementation of the ciphers. All implementations return the same bytes.
pub trait Provider {
    /// Prepares `key` for use. The returned value wipes it when dropped.
    fn key(&self, suite: Suite, key: &[u8; KEY_BYTES]) -> Box<dyn PacketKey>;
}

/// Key of a cipher that seals and opens packets in place.
pub trait PacketKey: Send + Sync {
    /// Encrypts `in_out` in place, and returns the tag over the ciphertext and the associated data.
    ///
    /// The caller never uses a nonce twice.
    fn seal(&self, nonce: &Nonce, associated: &[u8], in_out: &mut [u8]) -> [u8; TAG_BYTES];

    /// Decrypts `in_out` in place.
    ///
    /// # Errors
    /// If the tag is invalid. The bytes in `in_out` are then garbage, and must not be used.
    fn open(
        &self,
        nonce: &Nonce,
        associated: &[u8],
        in_out: &mut [u8],
        tag: &[u8; TAG_BYTES],
    ) -> Result<(), ForgeryError>;
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
