//! The AEADs of both suites, in Rust.

use alloc::boxed::Box;

use aes_gcm::AesGcm;
use aes_gcm::aead::consts::{U12, U16};
use aes_gcm::aead::{AeadInOut, KeyInit};
use aes_gcm::aes::Aes256Enc;
use chacha20poly1305::ChaCha20Poly1305;

use crate::limits::{KEY_BYTES, TAG_BYTES};
use crate::packets::Suite;
use crate::seal::aead::{ForgeryError, Nonce, PacketKey};

/// AES-256-GCM without block decryption. GCM only encrypts blocks, so half of the round keys are
/// not needed.
type Aes256Gcm = AesGcm<Aes256Enc, U12>;

/// Prepares a key of the suite for use.
pub(in crate::seal) fn packet_key(suite: Suite, key: &[u8; KEY_BYTES]) -> Box<dyn PacketKey> {
    match suite {
        Suite::Aes256Gcm => Box::new(SuiteKey(Aes256Gcm::new(key.into()))),
        Suite::ChaCha20Poly1305 => Box::new(SuiteKey(ChaCha20Poly1305::new(key.into()))),
    }
}

struct SuiteKey<C>(C);

impl<C> PacketKey for SuiteKey<C>
where
    C: AeadInOut<NonceSize = U12, TagSize = U16> + Send + Sync,
{
    fn seal(&self, nonce: &Nonce, associated: &[u8], in_out: &mut [u8]) -> [u8; TAG_BYTES] {
        let sealed = self.0.encrypt_inout_detached(nonce.bytes().into(), associated, in_out.into());
        sealed.expect("packets are shorter than 64 GiB").into()
    }

    fn open(
        &self,
        nonce: &Nonce,
        associated: &[u8],
        in_out: &mut [u8],
        tag: &[u8; TAG_BYTES],
    ) -> Result<(), ForgeryError> {
        let opened =
            self.0.decrypt_inout_detached(nonce.bytes().into(), associated, in_out.into(), tag.into());
        opened.map_err(|_| ForgeryError)
    }
}
