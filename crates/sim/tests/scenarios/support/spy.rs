//! Ciphers that remember what was done with them: what a node could ever know.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use byway_wire::seal::{Forged, Nonce, PacketKey, Portable, Provider, Suite, TAG_BYTES};

/// What went through a node's ciphers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) keys: BTreeSet<[u8; 32]>,
    /// What was opened, with what was authenticated along with it.
    pub(crate) opened: Vec<Vec<u8>>,
}

/// The portable ciphers, watched.
#[derive(Debug, Default)]
pub(crate) struct Spy {
    seen: Arc<Mutex<Seen>>,
}

struct SpiedKey {
    key: Box<dyn PacketKey>,
    seen: Arc<Mutex<Seen>>,
}

impl Spy {
    /// One that lasts as long as the tests.
    pub(crate) fn forever() -> &'static Self {
        Box::leak(Box::default())
    }

    pub(crate) fn seen(&self) -> Seen {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Provider for Spy {
    fn key(&self, suite: Suite, key: &[u8; 32]) -> Box<dyn PacketKey> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).keys.insert(*key);
        Box::new(SpiedKey { key: Portable.key(suite, key), seen: Arc::clone(&self.seen) })
    }
}

impl PacketKey for SpiedKey {
    fn seal(&self, nonce: &Nonce, associated: &[u8], in_out: &mut [u8]) -> [u8; TAG_BYTES] {
        self.key.seal(nonce, associated, in_out)
    }

    fn open(
        &self,
        nonce: &Nonce,
        associated: &[u8],
        in_out: &mut [u8],
        tag: &[u8; TAG_BYTES],
    ) -> Result<(), Forged> {
        self.key.open(nonce, associated, in_out, tag)?;
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.opened.push(associated.to_vec());
        seen.opened.push(in_out.to_vec());
        Ok(())
    }
}
