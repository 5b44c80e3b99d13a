//! Stand-ins for the primitives in a fuzzing build. They offer no protection.
//!
//! Protocol logic needs three properties of primitives, which the stand-ins have at a few
//! nanoseconds a call:
//! - Both sides of a handshake agree on a key.
//! - A changed bit changes the tag.
//! - A ciphertext differs from its plaintext.

use alloc::boxed::Box;

use snow::types::Hash;

use crate::limits::{KEY_BYTES, TAG_BYTES};
use crate::packets::Suite;
use crate::seal::aead::{ForgeryError, Nonce, PacketKey};

/// Odd multipliers with about as many ones as zeros: multiplication spreads a bit over the bits
/// above it.
const MULTIPLIERS: [u64; 4] =
    [0x9E37_79B9_7F4A_7C15, 0xC2B2_AE3D_27D4_EB4F, 0xFF51_AFD7_ED55_8CCD, 0xC4CE_B9FE_1A85_EC53];

/// Bytes absorbed in one step. Large, because a fuzzer counts and reports each step.
const BLOCK_BYTES: usize = 32;

/// Four words that depend on every byte absorbed so far.
#[derive(Clone, Copy)]
struct Hasher([u64; 4]);

impl Default for Hasher {
    fn default() -> Self {
        Self(MULTIPLIERS)
    }
}

impl Hasher {
    /// Absorbs bytes. Unlike a true hash, the result also depends on their division into calls.
    fn update(&mut self, bytes: &[u8]) {
        let (blocks, rest) = bytes.as_chunks::<BLOCK_BYTES>();
        for block in blocks {
            self.absorb(words(block));
        }
        let mut last = [0; BLOCK_BYTES];
        last[..rest.len()].copy_from_slice(rest);
        // The length in the last byte distinguishes trailing zeros from their absence. That byte is
        // free, because `rest` is shorter than a block.
        last[BLOCK_BYTES - 1] = 1 + u8::try_from(rest.len()).expect("a rest is shorter than a block");
        self.absorb(words(&last));
    }

    fn absorb(&mut self, [a, b, c, d]: [u64; 4]) {
        let absorbed =
            |index: usize, word: u64| (self.0[index].rotate_left(23) ^ word).wrapping_mul(MULTIPLIERS[index]);
        self.0 = [absorbed(0, a), absorbed(1, b), absorbed(2, c), absorbed(3, d)];
    }

    /// Returns the output. A change of any word of the state changes at least three of its words.
    fn finish(self) -> [u8; 32] {
        let [a, b, c, d] = self.0;
        let sum = a ^ b.rotate_left(17) ^ c.rotate_left(31) ^ d.rotate_left(47);
        let mixed = |word: u64| (word.rotate_left(5) ^ sum ^ sum >> 32).wrapping_mul(MULTIPLIERS[0]);
        bytes([mixed(a), mixed(b), mixed(c), mixed(d)])
    }
}

fn words(block: &[u8; BLOCK_BYTES]) -> [u64; 4] {
    let (words, _) = block.as_chunks::<8>();
    core::array::from_fn(|index| u64::from_le_bytes(words[index]))
}

fn bytes(words: [u64; 4]) -> [u8; BLOCK_BYTES] {
    let mut bytes = [0; BLOCK_BYTES];
    for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// Replaces BLAKE2s in Noise.
#[derive(Default)]
pub(in crate::seal) struct NoiseHash(Hasher);

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
        *self = Self::default();
    }

    fn input(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn result(&mut self, hash: &mut [u8]) {
        hash[..32].copy_from_slice(&core::mem::take(&mut self.0).finish());
    }

    /// One pass, instead of two over padded keys, which took half of the time of a fuzzer's
    /// handshakes.
    fn hmac(&mut self, key: &[u8], bytes: &[u8], out: &mut [u8]) {
        out[..32].copy_from_slice(&keyed_hash(key, &[bytes]));
    }
}

/// Replaces BLAKE2s-256 without a key.
pub(in crate::seal) fn hash(parts: &[&[u8]]) -> [u8; 32] {
    keyed_hash(b"no key", parts)
}

/// Replaces BLAKE2s-256 with a key.
pub(in crate::seal) fn keyed_hash(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Hasher::default();
    hasher.update(key);
    for part in parts {
        hasher.update(part);
    }
    hasher.finish()
}

/// Replaces BLAKE2s-128 with a key.
pub(in crate::seal) fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; 16] {
    let hash = keyed_hash(key, parts);
    *hash.first_chunk().expect("a hash is longer than a MAC")
}

/// Replaces X25519: multiplies each of four words by an odd constant.
///
/// Setting the lowest bits prevents an agreement of honest keys on zeros, like clamping.
pub(in crate::seal) fn public_key(secret: &[u8; KEY_BYTES]) -> [u8; KEY_BYTES] {
    let secret = words(secret);
    bytes(core::array::from_fn(|index| (secret[index] | 1).wrapping_mul(MULTIPLIERS[index])))
}

/// Returns the product of both secrets and the constant. None if the public key is zero.
pub(in crate::seal) fn shared_secret(
    secret: &[u8; KEY_BYTES],
    public: &[u8; KEY_BYTES],
) -> Option<[u8; KEY_BYTES]> {
    let (secret, public) = (words(secret), words(public));
    let shared: [u64; 4] = core::array::from_fn(|index| (secret[index] | 1).wrapping_mul(public[index]));
    (shared != [0; 4]).then(|| bytes(shared))
}

/// Replaces both AEADs: masks the bytes, and tags them with the hash of this module over suite,
/// key, nonce and bytes.
pub(in crate::seal) fn packet_key(suite: Suite, key: &[u8; KEY_BYTES]) -> Box<dyn PacketKey> {
    let mut hasher = Hasher::default();
    hasher.update(&[suite as u8]);
    hasher.update(key);
    Box::new(Key(hasher))
}

struct Key(Hasher);

impl Key {
    fn of_nonce(&self, nonce: &Nonce) -> Hasher {
        let mut hasher = self.0;
        hasher.update(nonce.bytes());
        hasher
    }
}

/// Encrypts, and decrypts its own output.
fn mask(hasher: &Hasher, in_out: &mut [u8]) {
    let mask = hasher.finish();
    for block in in_out.chunks_mut(BLOCK_BYTES) {
        if let Ok(block) = <&mut [u8; BLOCK_BYTES]>::try_from(&mut *block) {
            let masked = core::array::from_fn(|index| block[index] ^ mask[index]);
            *block = masked;
        } else {
            block.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
        }
    }
}

fn tag(mut hasher: Hasher, associated: &[u8], ciphertext: &[u8]) -> [u8; TAG_BYTES] {
    hasher.update(associated);
    hasher.update(ciphertext);
    let hash = hasher.finish();
    *hash.first_chunk().expect("a hash is longer than a tag")
}

impl PacketKey for Key {
    fn seal(&self, nonce: &Nonce, associated: &[u8], in_out: &mut [u8]) -> [u8; TAG_BYTES] {
        let hasher = self.of_nonce(nonce);
        mask(&hasher, in_out);
        tag(hasher, associated, in_out)
    }

    fn open(
        &self,
        nonce: &Nonce,
        associated: &[u8],
        in_out: &mut [u8],
        claimed: &[u8; TAG_BYTES],
    ) -> Result<(), ForgeryError> {
        let hasher = self.of_nonce(nonce);
        let true_tag = tag(hasher, associated, in_out);
        // The sum hides the true tag: a fuzzer observes compared values, and would copy the tag
        // from a comparison.
        let difference = true_tag.iter().zip(claimed).fold(0, |sum, (one, other)| sum | (one ^ other));
        if difference != 0 {
            return Err(ForgeryError);
        }
        mask(&hasher, in_out);
        Ok(())
    }
}
