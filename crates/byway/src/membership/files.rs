//! Files that nobody else may read, written so that there is always an old or a new one.

#![allow(clippy::disallowed_methods, reason = "keeps a node's and the controller's state in files")]

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::libc::{ELOOP, O_NOFOLLOW, O_NONBLOCK};
use rustix::process::geteuid;
use thiserror::Error;

/// No file that is read here is longer: the map of an agent with the most pairs has less than a megabyte.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// A file could not be read or written.
#[derive(Debug, Error)]
#[error("{doing} {} fails: {cause}; {}", path.display(), remedy(cause.kind()))]
pub(crate) struct FileError {
    doing: &'static str,
    path: PathBuf,
    cause: io::Error,
}

impl FileError {
    /// Something was done to a file, and failed.
    pub(crate) fn new(doing: &'static str, path: &Path, cause: io::Error) -> Self {
        Self { doing, path: path.to_owned(), cause }
    }

    /// Whether there is something already where nothing was to be.
    pub(super) fn is_taken(&self) -> bool {
        self.cause.kind() == ErrorKind::AlreadyExists
    }
}

/// What to do about an error.
pub(crate) const fn remedy(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            "the disk is full: free some space"
        }
        ErrorKind::ReadOnlyFilesystem => "the file system is read-only: mount it for writing",
        ErrorKind::PermissionDenied => "give the user that Byway runs as the right to it",
        ErrorKind::AlreadyExists | ErrorKind::NotADirectory | ErrorKind::IsADirectory => {
            "something else has the name: move that away, or name another folder in `state`"
        }
        ErrorKind::NotFound => "check `state`, the folder that it should be in",
        ErrorKind::InvalidData => "remove the file, or restore it from a backup",
        _ => "look at the disk and the folder",
    }
}

/// Makes a folder that is for its owner only, and those above it; one that exists is left as it is.
///
/// # Errors
/// If it cannot be made.
pub(crate) fn make_folder(path: &Path) -> Result<(), FileError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|cause| FileError::new("making the folder", path, cause))
}

/// Opens a file for reading and writing; a new one is for its owner only.
///
/// # Errors
/// If that is not allowed.
pub(crate) fn open_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// The text in a file; none if there is no file.
///
/// # Errors
/// If it cannot be read, is no text, or absurdly long.
pub(crate) fn read(path: &Path) -> Result<Option<String>, FileError> {
    if_there(path, File::open(path).and_then(text_of))
}

/// The text in a file that only this user or root can have written; none if there is no file.
///
/// # Errors
/// If it is another user's, a link or no plain file (a pipe would keep its reader waiting), or cannot be read.
pub(crate) fn read_own(path: &Path) -> Result<Option<String>, FileError> {
    let opened = OpenOptions::new().read(true).custom_flags(O_NOFOLLOW | O_NONBLOCK).open(path);
    let opened = opened.map_err(|error| match error.raw_os_error() {
        Some(ELOOP) => invalid("it is a symbolic link"),
        _ => error,
    });
    if_there(path, opened.and_then(own).and_then(text_of))
}

/// A file, if it is a plain one of this user or root.
fn own(file: File) -> io::Result<File> {
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(invalid("it is no plain file"));
    }
    let owner = metadata.uid();
    if is_trusted(owner) { Ok(file) } else { Err(invalid(&format!("it belongs to user {owner}"))) }
}

/// Whether what belongs to this user is taken at its word: it is the one that this process works for, or root.
fn is_trusted(user: u32) -> bool {
    user == 0 || user == geteuid().as_raw()
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why)
}

/// Why what is in a folder cannot be trusted: another user may put files there, or replace those that are there. `None` if it can be, or there is
/// no folder.
///
/// # Errors
/// If nothing is to be learned of it.
pub(crate) fn distrust(folder: &Path) -> Result<Option<String>, FileError> {
    let metadata = match fs::metadata(folder) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(FileError::new("reading", folder, cause)),
    };
    let (owner, mode, shown) = (metadata.uid(), metadata.permissions().mode(), folder.display());
    if !is_trusted(owner) {
        return Ok(Some(format!(
            "{shown} belongs to user {owner}, who may replace what is there: chown {} {shown}, if all that is in it is yours",
            geteuid().as_raw()
        )));
    }
    // With the sticky bit, as /tmp has it, each file stays its owner's, which is looked at.
    let is_open = mode & 0o022 != 0 && mode & 0o1000 == 0;
    Ok(is_open.then(|| {
        format!("{shown} may be written to by others than its owner, who may replace what is there: chmod go-w {shown}, if all that is in it is yours")
    }))
}

fn text_of(file: File) -> io::Result<String> {
    let mut text = String::new();
    let length = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    let is_whole = u64::try_from(length).is_ok_and(|length| length <= FILE_BYTES_MAX);
    if is_whole { Ok(text) } else { Err(invalid("the file is too long")) }
}

fn if_there(path: &Path, read: io::Result<String>) -> Result<Option<String>, FileError> {
    match read {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(FileError::new("reading", path, cause)),
    }
}

/// The length of a file in bytes, if it can be learned.
pub(crate) fn length(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|metadata| metadata.len())
}

/// Whether others than its owner may read a file or write to it.
///
/// # Errors
/// If nothing is to be learned of it.
pub(crate) fn is_open_to_others(path: &Path) -> Result<bool, FileError> {
    let metadata = fs::metadata(path).map_err(|cause| FileError::new("reading", path, cause))?;
    Ok(metadata.permissions().mode() & 0o077 != 0)
}

/// Where a text is written before it takes its place: no other file's name.
fn temporary(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

/// Puts a text into a file for its owner only. Whatever happens meanwhile, the file has the old text or the new one.
///
/// # Errors
/// If the disk does not take it: the old one stays.
pub(crate) fn replace(path: &Path, text: &str) -> Result<(), FileError> {
    let temporary = temporary(path);
    let written = write_new(&temporary, text)
        .and_then(|()| fs::rename(&temporary, path))
        .and_then(|()| sync_folder_of(path));
    written.map_err(|cause| FileError::new("writing", path, cause))
}

/// Puts a text into a file for its owner only, which must not exist yet.
///
/// # Errors
/// If it does, or the disk does not take it.
pub(crate) fn create(path: &Path, text: &str) -> Result<(), FileError> {
    if path.symlink_metadata().is_ok() {
        return Err(FileError::new("writing", path, ErrorKind::AlreadyExists.into()));
    }
    let temporary = temporary(path);
    // A link, unlike a rename, takes nobody's place, should the file have come meanwhile.
    let linked = write_new(&temporary, text).and_then(|()| fs::hard_link(&temporary, path));
    let removed = fs::remove_file(&temporary);
    let written = linked.and(removed).and_then(|()| sync_folder_of(path));
    written.map_err(|cause| FileError::new("writing", path, cause))
}

/// Removes a file, if there is one.
///
/// # Errors
/// If it stays.
pub(crate) fn remove(path: &Path) -> Result<(), FileError> {
    match fs::remove_file(path) {
        Err(cause) if cause.kind() != ErrorKind::NotFound => Err(FileError::new("removing", path, cause)),
        _ => Ok(()),
    }
}

/// Writes a new file down to the disk, in the place of what an earlier attempt may have left.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn sync_folder_of(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_for_their_owner_only_and_replaced_as_a_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("below").join("file");
        make_folder(path.parent().expect("it has one")).expect("a new folder");
        assert_eq!(read(&path).expect("no file is no error"), None);
        replace(&path, "old").expect("a new file");
        // What a process leaves that is killed while it writes.
        fs::write(temporary(&path), "half").expect("another file");
        replace(&path, "new").expect("a file again");
        assert_eq!(read(&path).expect("a text").as_deref(), Some("new"));
        assert!(!is_open_to_others(&path).expect("a file"));
        assert!(!temporary(&path).exists());
        remove(&path).expect("removed");
        remove(&path).expect("nothing to remove is no error");
    }

    #[test]
    fn what_another_user_may_have_put_there_is_not_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        assert_eq!(read_own(&path("none")).expect("no file is no error"), None);
        replace(&path("plain"), "text").expect("a new file");
        assert_eq!(read_own(&path("plain")).expect("it is ours").as_deref(), Some("text"));
        std::os::unix::fs::symlink(path("plain"), path("link")).expect("a link");
        let made = std::process::Command::new("mkfifo").arg(path("pipe")).status().expect("there is mkfifo");
        assert!(made.success());
        for (name, why) in [("link", "symbolic link"), ("pipe", "no plain file")] {
            let said = read_own(&path(name)).expect_err("it is none").to_string();
            assert!(said.contains(name) && said.contains(why) && said.contains("remove the file"), "{said}");
        }
        // Only root gives files away.
        if std::os::unix::fs::chown(path("plain"), Some(65_534), None).is_ok() {
            let said = read_own(&path("plain")).expect_err("it is another's").to_string();
            assert!(said.contains("belongs to user 65534"), "{said}");
        }
    }

    #[test]
    fn a_folder_is_trusted_if_nobody_else_replaces_what_is_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path();
        assert_eq!(distrust(&path.join("none")).expect("no folder is no error"), None);
        for (mode, is_trusted) in
            [(0o700, true), (0o755, true), (0o1777, true), (0o770, false), (0o707, false)]
        {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
            let why = distrust(path).expect("it is there");
            assert_eq!(why.is_none(), is_trusted, "{mode:o}: {why:?}");
            assert!(why.is_none_or(|why| why.contains("chmod go-w")));
        }
        fs::set_permissions(path, fs::Permissions::from_mode(0o1777)).expect("it is ours");
        if std::os::unix::fs::chown(path, Some(65_534), None).is_ok() {
            let why = distrust(path).expect("it is there").expect("it is another's");
            assert!(why.contains("belongs to user 65534") && why.contains("chown"), "{why}");
        }
    }

    #[test]
    fn a_new_file_takes_nobodys_place() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["key", "key.new"] {
            let path = folder.path().join(name);
            create(&path, "first").expect("a new file");
            let error = create(&path, "second").expect_err("there is one");
            assert!(error.to_string().starts_with("writing "), "{error}");
            assert_eq!(read(&path).expect("a text").as_deref(), Some("first"));
        }
        assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 2, "nothing else stays");
    }

    #[test]
    fn errors_name_file_and_remedy() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("nowhere").join("file");
        let error = replace(&path, "text").expect_err("no folder").to_string();
        assert!(
            error.contains("nowhere/file") && error.ends_with("the folder that it should be in"),
            "{error}"
        );
        let file = folder.path().join("file");
        replace(&file, "text").expect("a new file");
        let error = make_folder(&file).expect_err("a file is there").to_string();
        assert!(error.contains("something else has the name"), "{error}");
    }
}
