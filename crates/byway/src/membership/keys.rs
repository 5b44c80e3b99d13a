//! A node's key, in a file of its own.

use std::fmt;
use std::path::{Path, PathBuf};

use byway_wire::seal::{HexError, PublicKey, StaticSecret};
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use thiserror::Error;
use zeroize::Zeroizing;

use super::files::{self, FileError};
use super::random;

/// Why there is no key.
#[derive(Debug, Error)]
pub(crate) enum KeyFileError {
    /// The file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// There is no file where one was named.
    #[error("there is no key in {}: make one with `byway keygen {}`", .0.display(), .0.display())]
    Missing(PathBuf),
    /// There is one where a new one was to be.
    #[error(
        "{} exists, and may be the key of a node: name another file, or remove this one first if no node uses its key any more",
        .0.display()
    )]
    Exists(PathBuf),
    /// Others can read it.
    #[error(
        "others than its owner may read or change the key in {}: run `chmod 600 {}`, and make a new key if it may have been read",
        .0.display(), .0.display()
    )]
    OpenToOthers(PathBuf),
    /// What is in it is no key.
    #[error("{}: {cause}", path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        cause: HexError,
    },
}

/// A node's long-term key: an X25519 secret. Never shown.
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
    /// A new key.
    pub(crate) fn generate() -> Self {
        Self::from_bytes(random::bytes())
    }

    fn from_bytes(bytes: [u8; 32]) -> Self {
        Self { bytes: Zeroizing::new(bytes), secret: StaticSecret::from_bytes(bytes) }
    }

    /// The key in a file: 64 hexadecimal digits.
    ///
    /// # Errors
    /// If there is no file, others may read it, or no key is in it.
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

    /// The key in a file, which is made with a new one if there is none.
    ///
    /// # Errors
    /// As [`NodeKey::load`], or if it cannot be written.
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
    /// If there is one already, or it cannot be written.
    pub(crate) fn save(&self, path: &Path) -> Result<(), KeyFileError> {
        files::create(path, &self.to_text()).map_err(|error| {
            if error.is_taken() { KeyFileError::Exists(path.to_owned()) } else { error.into() }
        })
    }

    /// The key as it stands in a file.
    pub(crate) fn to_text(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(65));
        HEXLOWER.encode_append(self.bytes.as_ref(), &mut text);
        text.push('\n');
        text
    }

    /// The secret, for sessions.
    pub(crate) fn secret(&self) -> StaticSecret {
        self.secret.clone()
    }

    /// The public key.
    pub(crate) const fn public_key(&self) -> PublicKey {
        self.secret.public_key()
    }

    /// The secret's bytes, for other agreements than those of sessions.
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
        let taken = key.save(&path).expect_err("there is one").to_string();
        assert!(taken.contains("name another file, or remove this one"), "{taken}");
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
