//! Folder of a lab run's files: temporary, or kept for the user.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::exit::{Cause, Failure};
use crate::temp_dir::RunTempDir;

/// Folder of a lab run's files.
#[derive(Debug)]
pub(super) enum Folder {
    /// Temporary folder, deleted when this is dropped.
    Temporary(RunTempDir),
    /// Folder that the user named, and that is not deleted.
    Persistent(PathBuf),
}

impl Folder {
    /// Makes the folder: a temporary one, or the one that the option `--keep` names.
    pub(super) fn new(keep: Option<&Path>) -> anyhow::Result<Self> {
        match keep {
            None => RunTempDir::new().map(Self::Temporary),
            Some(folder) => empty(folder).map(Self::Persistent),
        }
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Temporary(scratch) => scratch.path(),
            Self::Persistent(folder) => folder,
        }
    }
}

/// Makes a folder, or accepts an empty one, and returns its absolute path.
pub(super) fn empty(folder: &Path) -> anyhow::Result<PathBuf> {
    let about = || folder.display().to_string();
    fs::create_dir_all(folder).with_context(about)?;
    if fs::read_dir(folder).with_context(about)?.next().is_some() {
        let message = format!("folder {} not empty: name an empty or a new one", folder.display());
        return Err(Failure::new(Cause::Settings, message).into());
    }
    folder.canonicalize().with_context(about)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_mixed_with_nothing() {
        let parent = tempfile::tempdir().expect("a folder");
        let named = parent.path().join("a/b");
        let path = Folder::new(Some(&named)).expect("it is new").path().to_owned();
        fs::write(path.join("log"), "said").expect("space on the disk");
        let message = Folder::new(Some(&named)).expect_err("something is there").to_string();
        assert!(message.contains("not empty"), "{message}");
    }
}
