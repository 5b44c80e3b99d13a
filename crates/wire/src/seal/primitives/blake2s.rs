//! BLAKE2s (RFC 7693) over parts in separate buffers.

use blake2::digest::{FixedOutput, KeyInit, OutputSizeUser, Update};
use blake2::{Blake2s256, Blake2sMac, Blake2sMac256, digest::consts::U16};
use snow::types::Hash;

/// BLAKE2s-256 as hash function of the Noise handshake.
#[derive(Default)]
pub(in crate::seal) struct NoiseHash(Blake2s256);

impl Hash for NoiseHash {
    fn name(&self) -> &'static str {
        "BLAKE2s"
    }

    fn block_len(&self) -> usize {
        64
    }

    fn hash_len(&self) -> usize {
        32
    }

    fn reset(&mut self) {
        self.0 = Blake2s256::default();
    }

    fn input(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn result(&mut self, hash: &mut [u8]) {
        let hasher = core::mem::take(&mut self.0);
        hash[..32].copy_from_slice(&hasher.finalize_fixed());
    }
}

/// Computes BLAKE2s-256 without a key over the parts.
pub(in crate::seal) fn hash(parts: &[&[u8]]) -> [u8; 32] {
    output(<Blake2s256 as Default>::default(), parts)
}

/// Computes BLAKE2s-256 under a key of at most 32 bytes over the parts.
pub(in crate::seal) fn keyed_hash(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    output(with_key::<Blake2sMac256>(key), parts)
}

/// Computes BLAKE2s-128 under a key of at most 32 bytes over the parts.
pub(in crate::seal) fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; 16] {
    output(with_key::<Blake2sMac<U16>>(key), parts)
}

fn with_key<H: KeyInit>(key: &[u8]) -> H {
    H::new_from_slice(key).expect("keys have at most 32 bytes")
}

fn output<H, const BYTES: usize>(mut hasher: H, parts: &[&[u8]]) -> [u8; BYTES]
where
    H: Update + FixedOutput,
    blake2::digest::array::Array<u8, <H as OutputSizeUser>::OutputSize>: Into<[u8; BYTES]>,
{
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize_fixed().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seal::hex::vector;

    /// RFC 7693, appendix B.
    #[test]
    fn the_hash_is_that_of_the_rfc() {
        let expected = vector("508c5e8c327c14e2e1a72ba34eeb452f37458b209ed63a294d999b4c86675982");
        assert_eq!(hash(&[b"abc"]).as_slice(), expected);
        assert_eq!(hash(&[b"a", b"", b"bc"]).as_slice(), expected, "parts are read as one");
    }

    /// The first and the second of the keyed vectors that the authors of BLAKE2 publish.
    #[test]
    fn the_keyed_hash_is_that_of_the_authors() {
        let key: [u8; 32] = core::array::from_fn(|index| u8::try_from(index).expect("less than 32"));
        let expected = [
            "48a8997da407876b3d79c0d92325ad3b89cbb754d86ab71aee047ad345fd2c49",
            "40d15fee7c328830166ac3f918650f807e7e01e177258cdc0a39b11f598066f1",
        ];
        assert_eq!(keyed_hash(&key, &[]).as_slice(), vector(expected[0]));
        assert_eq!(keyed_hash(&key, &[&[0]]).as_slice(), vector(expected[1]));
    }

    #[test]
    fn a_shorter_mac_is_another_function() {
        assert_ne!(mac(&[7; 32], &[b"abc"]), keyed_hash(&[7; 32], &[b"abc"])[..16]);
        assert_ne!(mac(&[7; 32], &[b"abc"]), mac(&[7; 16], &[b"abc"]));
    }
}
