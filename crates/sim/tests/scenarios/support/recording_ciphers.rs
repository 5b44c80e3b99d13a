//! Ciphers that record their use: everything that a node could ever know.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use byway_wire::seal::{ForgeryError, Nonce, PacketKey, PortableProvider, Provider, Suite, TAG_BYTES};

/// Record of a node's ciphers.
#[derive(Clone, Debug, Default)]
pub(crate) struct CipherLog {
    pub(crate) keys: BTreeSet<[u8; 32]>,
    /// Opened contents, with the data authenticated along with them.
    pub(crate) opened: Vec<Vec<u8>>,
}

/// The portable ciphers, with a recorder.
#[derive(Debug, Default)]
pub(crate) struct RecordingProvider {
    log: Arc<Mutex<CipherLog>>,
}

struct RecordingKey {
    key: Box<dyn PacketKey>,
    log: Arc<Mutex<CipherLog>>,
}

impl RecordingProvider {
    /// Creates ciphers with a static lifetime.
    pub(crate) fn forever() -> &'static Self {
        Box::leak(Box::default())
    }

    pub(crate) fn log(&self) -> CipherLog {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Provider for RecordingProvider {
    fn key(&self, suite: Suite, key: &[u8; 32]) -> Box<dyn PacketKey> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).keys.insert(*key);
        Box::new(RecordingKey { key: PortableProvider.key(suite, key), log: Arc::clone(&self.log) })
    }
}

impl PacketKey for RecordingKey {
    fn seal(&self, nonce: &Nonce, associated: &[u8], in_out: &mut [u8]) -> [u8; TAG_BYTES] {
        self.key.seal(nonce, associated, in_out)
    }

    fn open(
        &self,
        nonce: &Nonce,
        associated: &[u8],
        in_out: &mut [u8],
        tag: &[u8; TAG_BYTES],
    ) -> Result<(), ForgeryError> {
        self.key.open(nonce, associated, in_out, tag)?;
        let mut seen = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        seen.opened.push(associated.to_vec());
        seen.opened.push(in_out.to_vec());
        Ok(())
    }
}
