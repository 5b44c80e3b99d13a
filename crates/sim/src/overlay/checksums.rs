//! Checksums instead of ciphers in simulated worlds. No node there reads the packets of others, and
//! ciphers would take most of the time.

use alloc::boxed::Box;

use byway_wire::seal::{ForgeryError, KEY_BYTES, Nonce, PacketKey, Provider, Suite, TAG_BYTES};

use crate::hash::digest;

/// Seals packets by checksums under a key: a damaged packet, or one sealed under another key, does
/// not open. Nothing is secret.
#[derive(Clone, Copy, Debug)]
pub struct Checksums;

#[derive(Debug)]
struct Key(u64);

impl Provider for Checksums {
    fn key(&self, _suite: Suite, key: &[u8; KEY_BYTES]) -> Box<dyn PacketKey> {
        Box::new(Key(digest(0, key)))
    }
}

impl Key {
    fn tag(&self, nonce: &Nonce, associated: &[u8], bytes: &[u8]) -> [u8; TAG_BYTES] {
        let head = digest(self.0, nonce.bytes());
        let head = digest(head, associated);
        let body = digest(head, bytes);
        let mut tag = [0; TAG_BYTES];
        let (first, second) = tag.split_at_mut(TAG_BYTES / 2);
        first.copy_from_slice(&body.to_be_bytes());
        second.copy_from_slice(&(body ^ head).to_be_bytes());
        tag
    }
}

impl PacketKey for Key {
    fn seal(&self, nonce: &Nonce, associated: &[u8], in_out: &mut [u8]) -> [u8; TAG_BYTES] {
        self.tag(nonce, associated, in_out)
    }

    fn open(
        &self,
        nonce: &Nonce,
        associated: &[u8],
        in_out: &mut [u8],
        tag: &[u8; TAG_BYTES],
    ) -> Result<(), ForgeryError> {
        if self.tag(nonce, associated, in_out) == *tag { Ok(()) } else { Err(ForgeryError) }
    }
}

#[cfg(test)]
mod tests {
    use byway_wire::Counter;

    use super::*;

    #[test]
    fn what_is_damaged_or_of_another_key_does_not_open() {
        let [key, other] = [1, 2].map(|byte| Checksums.key(Suite::Aes256Gcm, &[byte; KEY_BYTES]));
        let nonce = |number| Nonce::of_counter(Counter::new(number));
        let mut bytes = *b"sealed";
        let tag = key.seal(&nonce(1), b"head", &mut bytes);
        assert_eq!(key.open(&nonce(1), b"head", &mut bytes, &tag), Ok(()));
        assert_eq!(key.open(&nonce(2), b"head", &mut bytes, &tag), Err(ForgeryError));
        assert_eq!(key.open(&nonce(1), b"hemd", &mut bytes, &tag), Err(ForgeryError));
        assert_eq!(other.open(&nonce(1), b"head", &mut bytes, &tag), Err(ForgeryError));
        bytes[0] ^= 1;
        assert_eq!(key.open(&nonce(1), b"head", &mut bytes, &tag), Err(ForgeryError));
    }
}
