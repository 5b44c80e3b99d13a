//! Stand-ins for the primitives in a fuzzing build. They protect nothing.
//!
//! Protocol logic needs three properties of primitives, and these have them at a few nanoseconds a call:
//! both sides of a handshake agree, a changed bit changes the tag, and a ciphertext differs from its plaintext.

use alloc::boxed::Box;

use snow::types::Hash;

use crate::limits::{KEY_BYTES, TAG_BYTES};
use crate::packets::Suite;
use crate::seal::aead::{Forged, Nonce, PacketKey};

/// Odd multipliers with about as many ones as zeros: multiplication spreads a bit over the bits above it.
const MULTIPLIERS: [u64; 4] =
    [0x9E37_79B9_7F4A_7C15, 0xC2B2_AE3D_27D4_EB4F, 0xFF51_AFD7_ED55_8CCD, 0xC4CE_B9FE_1A85_EC53];

/// Bytes that one step absorbs: few steps, because a fuzzer counts and reports each.
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
    /// Absorbs bytes. Unlike a true hash, it also depends on how they are divided into calls.
    fn update(&mut self, bytes: &[u8]) {
        let (blocks, rest) = bytes.as_chunks::<BLOCK_BYTES>();
        for block in blocks {
            self.absorb(words(block));
        }
        let mut last = [0; BLOCK_BYTES];
        last[..rest.len()].copy_from_slice(rest);
        // Keeps zeros apart from nothing; the place is free, as a full block would not be a rest.
        last[BLOCK_BYTES - 1] = 1 + u8::try_from(rest.len()).expect("a rest is shorter than a block");
        self.absorb(words(&last));
    }

    fn absorb(&mut self, [a, b, c, d]: [u64; 4]) {
        let absorbed =
            |place: usize, word: u64| (self.0[place].rotate_left(23) ^ word).wrapping_mul(MULTIPLIERS[place]);
        self.0 = [absorbed(0, a), absorbed(1, b), absorbed(2, c), absorbed(3, d)];
    }

    /// The output: a change of any word of the state changes at least three of its words.
    fn finish(self) -> [u8; 32] {
        let [a, b, c, d] = self.0;
        let sum = a ^ b.rotate_left(17) ^ c.rotate_left(31) ^ d.rotate_left(47);
        let mixed = |word: u64| (word.rotate_left(5) ^ sum ^ sum >> 32).wrapping_mul(MULTIPLIERS[0]);
        bytes([mixed(a), mixed(b), mixed(c), mixed(d)])
    }
}

fn words(block: &[u8; BLOCK_BYTES]) -> [u64; 4] {
    let (words, _) = block.as_chunks::<8>();
    core::array::from_fn(|place| u64::from_le_bytes(words[place]))
}

fn bytes(words: [u64; 4]) -> [u8; BLOCK_BYTES] {
    let mut bytes = [0; BLOCK_BYTES];
    for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// In the place of BLAKE2s as Noise uses it.
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

    /// One pass instead of two over padded keys: half of a fuzzer's handshakes went into those.
    fn hmac(&mut self, key: &[u8], bytes: &[u8], out: &mut [u8]) {
        out[..32].copy_from_slice(&keyed_hash(key, &[bytes]));
    }
}

/// In the place of BLAKE2s-256 without a key.
pub(in crate::seal) fn hash(parts: &[&[u8]]) -> [u8; 32] {
    keyed_hash(b"no key", parts)
}

/// In the place of BLAKE2s-256 with a key.
pub(in crate::seal) fn keyed_hash(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Hasher::default();
    hasher.update(key);
    for part in parts {
        hasher.update(part);
    }
    hasher.finish()
}

/// In the place of BLAKE2s-128 with a key.
pub(in crate::seal) fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; 16] {
    let hash = keyed_hash(key, parts);
    *hash.first_chunk().expect("a hash is longer than a MAC")
}

/// In the place of X25519: four words, each times an odd constant.
///
/// Setting the lowest bits keeps honest keys from agreeing on zeros, as clamping does.
pub(in crate::seal) fn public_key(secret: &[u8; KEY_BYTES]) -> [u8; KEY_BYTES] {
    let secret = words(secret);
    bytes(core::array::from_fn(|place| (secret[place] | 1).wrapping_mul(MULTIPLIERS[place])))
}

/// The product of both secrets and the constant. None if the public key is zero.
pub(in crate::seal) fn shared_secret(
    secret: &[u8; KEY_BYTES],
    public: &[u8; KEY_BYTES],
) -> Option<[u8; KEY_BYTES]> {
    let (secret, public) = (words(secret), words(public));
    let shared: [u64; 4] = core::array::from_fn(|place| (secret[place] | 1).wrapping_mul(public[place]));
    (shared != [0; 4]).then(|| bytes(shared))
}

/// In the place of both AEADs.
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

/// Encrypts, and decrypts what it has encrypted.
fn mask(hasher: &Hasher, in_out: &mut [u8]) {
    let mask = hasher.finish();
    for block in in_out.chunks_mut(BLOCK_BYTES) {
        if let Ok(block) = <&mut [u8; BLOCK_BYTES]>::try_from(&mut *block) {
            let masked = core::array::from_fn(|place| block[place] ^ mask[place]);
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
    ) -> Result<(), Forged> {
        let hasher = self.of_nonce(nonce);
        let true_tag = tag(hasher, associated, in_out);
        // One sum, not a comparison of tags: a fuzzer sees what is compared, and would copy the true tag.
        let difference = true_tag.iter().zip(claimed).fold(0, |sum, (one, other)| sum | (one ^ other));
        if difference != 0 {
            return Err(Forged);
        }
        mask(&hasher, in_out);
        Ok(())
    }
}
