//! Result of a handshake: a key for each direction.

use core::fmt;

use zeroize::{Zeroize, Zeroizing};

use super::aead::Provider;
use super::digest::DigestKey;
use super::epoch_keys::EpochKeys;
use super::primitives;
use crate::limits::KEY_BYTES;
use crate::packets::Suite;

/// Packet keys of one epoch, from the view of one side. Wiped when dropped.
#[derive(Clone)]
pub struct SplitKeys {
    send: [u8; KEY_BYTES],
    receive: [u8; KEY_BYTES],
}

impl SplitKeys {
    pub(super) const fn new(send: [u8; KEY_BYTES], receive: [u8; KEY_BYTES]) -> Self {
        Self { send, receive }
    }

    /// Returns the key for packets that this side sends.
    #[must_use]
    pub const fn send(&self) -> &[u8; KEY_BYTES] {
        &self.send
    }

    /// Returns the key for packets that this side receives.
    #[must_use]
    pub const fn receive(&self) -> &[u8; KEY_BYTES] {
        &self.receive
    }

    /// Prepares both packet keys for sealing and opening with this provider's ciphers.
    #[must_use]
    pub fn epoch_keys(&self, provider: &dyn Provider, suite: Suite) -> EpochKeys {
        EpochKeys::new(provider.key(suite, &self.send), provider.key(suite, &self.receive))
    }

    /// Derives the key of the digests in cross-stream repairs that this side sends. The peer
    /// verifies other receivers' answers by them.
    #[must_use]
    pub fn send_digests(&self) -> DigestKey {
        digest_key(&self.send)
    }

    /// Derives the key of the digests in cross-stream repairs that this side receives. This side
    /// verifies receivers' answers by them.
    #[must_use]
    pub fn receive_digests(&self) -> DigestKey {
        digest_key(&self.receive)
    }
}

fn digest_key(packet_key: &[u8; KEY_BYTES]) -> DigestKey {
    DigestKey::from_derived(&Zeroizing::new(primitives::keyed_hash(packet_key, &[b"byway digest"])))
}

impl fmt::Debug for SplitKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SplitKeys(..)")
    }
}

impl Drop for SplitKeys {
    fn drop(&mut self) {
        self.send.zeroize();
        self.receive.zeroize();
    }
}
