//! Temporary folders that are removed even if the program is killed.
//!
//! Each folder contains a mark file, which its process locks. The kernel releases the lock when the
//! process ends. The next run removes folders with unlocked marks.

#![allow(clippy::disallowed_methods, reason = "folders are what it is about")]

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use nix::libc::{O_NOFOLLOW, O_NONBLOCK};
use tempfile::TempDir;

/// Prefix of the names of runs' temporary folders.
const PREFIX: &str = "byway-run-";

/// File that marks a folder as a run's. Other programs may use a name with the same prefix.
const MARK: &str = ".byway-run-scratch";

/// Temporary folder for the files of one run, removed on drop.
#[derive(Debug)]
pub(crate) struct RunTempDir {
    folder: TempDir,
    /// Lock on the folder's mark file, released only after the folder's removal.
    _lock: File,
}

impl RunTempDir {
    /// Creates a run's folder in the system's temporary folder. Removes the folders of runs that
    /// were killed.
    pub(crate) fn new() -> anyhow::Result<Self> {
        Self::within(&std::env::temp_dir())
    }

    fn within(parent: &Path) -> anyhow::Result<Self> {
        remove_abandoned(parent);
        let advice =
            || format!("cannot create a temporary folder in {} (TMPDIR names another)", parent.display());
        loop {
            let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent).with_context(advice)?;
            let mark = File::create(folder.path().join(MARK));
            let lock = mark.and_then(|file| file.lock().map(|()| file));
            // Another run that starts at the same time may have removed the folder as abandoned.
            if folder.path().is_dir() {
                return Ok(Self { folder, _lock: lock.with_context(advice)? });
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Creates a folder inside the run's one, for one part of the run, removed on drop.
    pub(crate) fn folder(&self) -> anyhow::Result<TempDir> {
        tempfile::tempdir_in(self.path())
            .with_context(|| format!("cannot create a folder in {}", self.path().display()))
    }
}

/// Removes the folders of runs that have ended. Unreadable folders belong to other users, and stay.
fn remove_abandoned(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX)
            && entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_ours {
            continue;
        }
        // The lock is held until the folder is removed: see `RunTempDir::within`.
        if let Ok(mark) = open_mark(&entry.path())
            && mark.try_lock().is_ok()
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Opens the mark file of a folder. Fails if it is no plain file, because opening a pipe would
/// block.
fn open_mark(folder: &Path) -> io::Result<File> {
    let flags = O_NOFOLLOW | O_NONBLOCK;
    let mark = OpenOptions::new().read(true).custom_flags(flags).open(folder.join(MARK))?;
    if mark.metadata()?.is_file() { Ok(mark) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_the_living_stay_and_those_of_the_dead_go() {
        let parent = tempfile::tempdir().expect("a folder");
        let living = RunTempDir::within(parent.path()).expect("a folder");
        let dead = parent.path().join("byway-run-dead");
        let stranger = parent.path().join("byway-run-results");
        for folder in [&dead, &stranger] {
            fs::create_dir_all(folder.join("inner")).expect("a folder");
        }
        File::create(dead.join(MARK)).expect("a file");
        let newest = RunTempDir::within(parent.path()).expect("a folder");
        assert!(living.path().is_dir() && newest.path().is_dir() && stranger.is_dir());
        assert!(!dead.exists());
        drop((living, newest));
        assert_eq!(fs::read_dir(parent.path()).expect("it is there").count(), 1, "the stranger's");
    }

    #[test]
    fn a_mark_that_is_a_pipe_or_a_link_is_left_alone_and_waited_for_by_nobody() {
        let parent = tempfile::tempdir().expect("a folder");
        let [pipe, link] = ["byway-run-pipe", "byway-run-link"].map(|name| parent.path().join(name));
        for folder in [&pipe, &link] {
            fs::create_dir(folder).expect("a folder");
        }
        let mode = nix::sys::stat::Mode::S_IRWXU;
        nix::unistd::mkfifo(&pipe.join(MARK), mode).expect("a pipe");
        let target = parent.path().join("target");
        File::create(&target).expect("a file");
        std::os::unix::fs::symlink(&target, link.join(MARK)).expect("a link");
        drop(RunTempDir::within(parent.path()).expect("a folder"));
        assert!(pipe.is_dir() && link.is_dir() && target.is_file());
    }

    #[test]
    fn where_no_folder_can_be_the_error_names_the_place_and_the_remedy() {
        let error = RunTempDir::within(Path::new("/nowhere/at/all")).expect_err("no such folder");
        let message = format!("{error:#}");
        assert!(message.contains("/nowhere/at/all") && message.contains("TMPDIR"), "{message}");
    }
}
