//! Long-term key of a node, in a file of its own.

use std::fmt;
use std::path::{Path, PathBuf};

use byway_wire::seal::{HexError, PublicKey, StaticSecret};
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use thiserror::Error;
use zeroize::Zeroizing;

use super::files::{self, FileError};
use super::random;

/// Reason why a node's key could not be loaded or created.
#[derive(Debug, Error)]
pub(crate) enum KeyFileError {
    /// The key file is not readable or writable.
    #[error(transparent)]
    File(#[from] FileError),
    /// The key file does not exist.
    #[error("key file {} not found: create a key with `byway keygen {}`", .0.display(), .0.display())]
    Missing(PathBuf),
    /// The file for a new key exists already.
    #[error(
        "{} already exists, and may be the key of a node: name another file, or remove this one first \
        if no node uses its key any more",
        .0.display()
    )]
    Exists(PathBuf),
    /// Users other than the owner can access the key file.
    #[error(
        "key file {} accessible to users other than its owner: run `chmod 600 {}`, and create a new \
        key if it may have been read",
        .0.display(), .0.display()
    )]
    OpenToOthers(PathBuf),
    /// The file's content is no key.
    #[error("{}: {cause}", path.display())]
    NoKey {
        /// Path of the key file.
        path: PathBuf,
        /// Reason why the content is no key.
        cause: HexError,
    },
}

/// Long-term key of a node: an X25519 secret, never printed.
#[derive(Clone)]
pub(crate) struct NodeKey {
    bytes: Zeroizing<[u8; 32]>,
    secret: StaticSecret,
}

impl fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeKey(of {})", self.public_key())
    }
}

impl NodeKey {
    /// Generates a new key from random bytes.
    pub(crate) fn generate() -> Self {
        Self::from_bytes(random::bytes())
    }

    fn from_bytes(bytes: [u8; 32]) -> Self {
        Self { bytes: Zeroizing::new(bytes), secret: StaticSecret::from_bytes(bytes) }
    }

    /// Loads a node's key from its file: 64 hexadecimal digits.
    ///
    /// # Errors
    /// If the file does not exist, other users may access it, or it contains no key.
    pub(crate) fn load(path: &Path) -> Result<Self, KeyFileError> {
        let text = files::read(path)?.ok_or_else(|| KeyFileError::Missing(path.to_owned()))?;
        let text = Zeroizing::new(text);
        if files::is_open_to_others(path)? {
            return Err(KeyFileError::OpenToOthers(path.to_owned()));
        }
        let digits = text.trim_end();
        let secret: StaticSecret =
            digits.parse().map_err(|cause| KeyFileError::NoKey { path: path.to_owned(), cause })?;
        let mut bytes = Zeroizing::new([0; 32]);
        HEXLOWER_PERMISSIVE
            .decode_mut(digits.as_bytes(), bytes.as_mut())
            .expect("what was read as a key has 64 hexadecimal digits");
        Ok(Self { bytes, secret })
    }

    /// Loads a node's key from its file, or generates a key and creates the file.
    ///
    /// # Errors
    /// As [`NodeKey::load`], or if the file cannot be written.
    pub(crate) fn load_or_create(path: &Path) -> Result<Self, KeyFileError> {
        match Self::load(path) {
            Err(KeyFileError::Missing(_)) => {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                folder.map_or(Ok(()), files::make_folder)?;
                let key = Self::generate();
                key.save(path)?;
                Ok(key)
            }
            loaded => loaded,
        }
    }

    /// Writes the key into a new file.
    ///
    /// # Errors
    /// If the file exists, or cannot be written.
    pub(crate) fn save(&self, path: &Path) -> Result<(), KeyFileError> {
        files::create(path, &self.to_text()).map_err(|error| {
            if error.is_already_there() { KeyFileError::Exists(path.to_owned()) } else { error.into() }
        })
    }

    /// Returns the key as the text of its file: hexadecimal digits and a line break.
    pub(crate) fn to_text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(65));
        HEXLOWER.encode_append(self.bytes.as_ref(), &mut text);
        text.push('\n');
        text
    }

    /// Returns the secret key, for the handshakes of sessions.
    pub(crate) fn secret(&self) -> StaticSecret {
        self.secret.clone()
    }

    /// Returns the public key that belongs to the secret key.
    pub(crate) const fn public_key(&self) -> PublicKey {
        self.secret.public_key()
    }

    /// Returns the secret key's bytes, for other key agreements than those of sessions.
    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_read_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("state").join("key");
        let made = NodeKey::load_or_create(&path).expect("a new key");
        let read = NodeKey::load_or_create(&path).expect("the same key");
        assert_eq!(made.public_key(), read.public_key());
        assert_eq!(made.bytes(), read.bytes());
        assert_ne!(made.public_key(), NodeKey::generate().public_key());
    }

    #[test]
    fn keys_are_refused_with_a_remedy() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        let key = NodeKey::generate();
        key.save(&path).expect("a new file");
        let refusal = key.save(&path).expect_err("there is one").to_string();
        assert!(refusal.contains("name another file, or remove this one"), "{refusal}");
        files::remove(&path).expect("it is ours");
        let error = |path: &Path| NodeKey::load(path).expect_err("no good key").to_string();
        assert!(error(&path).contains("byway keygen"), "{}", error(&path));
        files::create(&path, "abc\n").expect("a file");
        assert!(error(&path).contains("3 digits instead of 64"), "{}", error(&path));
        let readable = std::fs::Permissions::from_mode(0o640);
        std::fs::set_permissions(&path, readable).expect("other rights");
        assert!(error(&path).contains("chmod 600"), "{}", error(&path));
    }
}
