//! Digests of packets in cross-stream repairs. The receiver of a digest verifies a packet by it
//! before it uses the packet.

use core::hash::Hasher;

use siphasher::sip::SipHasher13;
use zeroize::Zeroize;

use crate::ids::Alias;
use crate::messages::Digest;

/// Length of a `SipHash` key, in bytes.
const DIGEST_KEY_BYTES: usize = 16;

/// Key of the digests in one direction of a session, wiped when dropped.
#[derive(Clone)]
pub struct DigestKey([u8; DIGEST_KEY_BYTES]);

impl DigestKey {
    /// Creates a key from the first half of the `derived` bytes.
    pub(super) fn from_derived(derived: &[u8; 32]) -> Self {
        let (key, _) = derived.split_first_chunk().expect("32 bytes have a first half");
        Self(*key)
    }

    /// Computes the first bytes of SipHash-1-3 over
    /// `alias ‖ sequence number (low 32 bits) ‖ coded bytes`, in the byte order of the paper's
    /// vectors.
    #[must_use]
    pub fn digest(&self, alias: Alias, sequence_low: u32, coded: &[u8]) -> Digest {
        let mut hasher = SipHasher13::new_with_key(&self.0);
        hasher.write(&alias.number().to_be_bytes());
        hasher.write(&sequence_low.to_be_bytes());
        hasher.write(coded);
        let [a, b, c, d, ..] = hasher.finish().to_le_bytes();
        [a, b, c, d]
    }
}

impl Drop for DigestKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Key and bytes of appendix A of the paper on `SipHash`, whose hash has more rounds. The
    /// expected hash is from `docs/wire-crypto-vectors.py`, which implements both.
    #[test]
    fn the_digest_begins_the_hash() {
        let mut derived = [0xFF; 32];
        for (byte, value) in derived.iter_mut().zip(0..16) {
            *byte = value;
        }
        let key = DigestKey::from_derived(&derived);
        let alias = Alias::new(0x0001).expect("1 is not 0");
        let digest = key.digest(alias, 0x0203_0405, &[6, 7, 8, 9, 10, 11, 12, 13, 14]);
        assert_eq!(digest, [0x56, 0x99, 0x51, 0x2A], "the hash is d320d86d2a519956, lowest byte first");
    }
}
