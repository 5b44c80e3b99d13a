//! Packet encryption by AWS-LC, a library in C and assembly: the fast provider for native programs.
//!
//! [`AwsLc`] gives the same bytes as `byway_wire`'s portable provider, sooner. On an x86-64 with
//! vector AES, for packets of 512 bytes, AES-256-GCM takes half of the portable one's time and
//! ChaCha20-Poly1305 a quarter.
//!
//! # What this crate leaves to others
//! Handshakes, cookies and signatures: `byway_wire` does them by itself.

use aws_lc_rs::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce as AwsNonce, UnboundKey};
use byway_wire::seal::{ForgeryError, KEY_BYTES, Nonce, PacketKey, Provider, Suite, TAG_BYTES};

/// [`Provider`] of packet ciphers that calls AWS-LC, which selects its code for the processor at
/// run time.
#[derive(Clone, Copy, Debug, Default)]
pub struct AwsLc;

impl Provider for AwsLc {
    fn key(&self, suite: Suite, key: &[u8; KEY_BYTES]) -> Box<dyn PacketKey> {
        let algorithm = match suite {
            Suite::Aes256Gcm => &AES_256_GCM,
            Suite::ChaCha20Poly1305 => &CHACHA20_POLY1305,
        };
        let key = UnboundKey::new(algorithm, key).expect("both suites have keys of 32 bytes");
        Box::new(Keyed(LessSafeKey::new(key)))
    }
}

/// "Less safe" because nonces come from the caller, as the packets have it.
struct Keyed(LessSafeKey);

impl PacketKey for Keyed {
    fn seal(&self, nonce: &Nonce, associated: &[u8], in_out: &mut [u8]) -> [u8; TAG_BYTES] {
        let sealed = self.0.seal_in_place_separate_tag(aws_nonce(nonce), Aad::from(associated), in_out);
        let tag = sealed.expect("packets are shorter than 64 GiB");
        tag.as_ref().try_into().expect("both suites have tags of 16 bytes")
    }

    fn open(
        &self,
        nonce: &Nonce,
        associated: &[u8],
        in_out: &mut [u8],
        tag: &[u8; TAG_BYTES],
    ) -> Result<(), ForgeryError> {
        let opened = self.0.open_in_place_separate_tag(aws_nonce(nonce), Aad::from(associated), tag, in_out);
        opened.map(|_| ()).map_err(|_| ForgeryError)
    }
}

fn aws_nonce(nonce: &Nonce) -> AwsNonce {
    AwsNonce::assume_unique_for_key(*nonce.bytes())
}
