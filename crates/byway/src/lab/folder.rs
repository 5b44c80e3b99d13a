//! Where the files of a run are.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::exit::{Cause, Failure};
use crate::scratch::Scratch;

/// The folder of a run's files.
#[derive(Debug)]
pub(super) enum Folder {
    /// Gone when dropped.
    Passing(Scratch),
    /// Where somebody wants to look at it.
    Kept(PathBuf),
}

impl Folder {
    /// A new one; `keep` says where it is to stay.
    pub(super) fn new(keep: Option<&Path>) -> anyhow::Result<Self> {
        match keep {
            None => Scratch::new().map(Self::Passing),
            Some(folder) => empty(folder).map(Self::Kept),
        }
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Passing(scratch) => scratch.path(),
            Self::Kept(folder) => folder,
        }
    }
}

/// Makes a folder, or takes one in which there is nothing; its whole path.
pub(super) fn empty(folder: &Path) -> anyhow::Result<PathBuf> {
    let about = || folder.display().to_string();
    fs::create_dir_all(folder).with_context(about)?;
    if fs::read_dir(folder).with_context(about)?.next().is_some() {
        let message = format!("{} is not empty: name a folder that is, or a new one", folder.display());
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
        let kept = parent.path().join("a/b");
        let path = Folder::new(Some(&kept)).expect("it is new").path().to_owned();
        fs::write(path.join("log"), "said").expect("room on the disk");
        let said = Folder::new(Some(&kept)).expect_err("something is there").to_string();
        assert!(said.contains("is not empty"), "{said}");
    }
}
