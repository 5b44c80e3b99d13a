//! Private files, readable by their owner only and written atomically.

#![allow(clippy::disallowed_methods, reason = "keeps a node's and the controller's state in files")]

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::libc::{ELOOP, O_NOFOLLOW, O_NONBLOCK};
use rustix::process::geteuid;
use thiserror::Error;

/// Longest file that is read here, in bytes. The map of an agent with the most pairs has less than
/// a megabyte.
const FILE_BYTES_MAX: u64 = 8 << 20;

/// Error of an operation on a file, with the remedy.
#[derive(Debug, Error)]
#[error("cannot {doing} {}: {cause}; {}", path.display(), remedy(cause.kind()))]
pub(crate) struct FileError {
    doing: &'static str,
    path: PathBuf,
    cause: io::Error,
}

impl FileError {
    /// Creates the error of an operation on a file.
    pub(crate) fn new(doing: &'static str, path: &Path, cause: io::Error) -> Self {
        Self { doing, path: path.to_owned(), cause }
    }

    /// True if the operation failed because the file exists already.
    pub(super) fn is_already_there(&self) -> bool {
        self.cause.kind() == ErrorKind::AlreadyExists
    }
}

/// Returns the remedy for an error of the file system.
pub(crate) const fn remedy(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            "disk full: free some space"
        }
        ErrorKind::ReadOnlyFilesystem => "read-only file system: mount it for writing",
        ErrorKind::PermissionDenied => "give the user of the Byway process access to it",
        ErrorKind::AlreadyExists | ErrorKind::NotADirectory | ErrorKind::IsADirectory => {
            "another file or folder has this name: move it away, or set another folder in `state`"
        }
        ErrorKind::NotFound => "check `state`, its folder",
        ErrorKind::InvalidData => "remove the file, or restore it from a backup",
        _ => "check the disk and the folder",
    }
}

/// Creates a folder and its missing parents, accessible to their owner only. An existing folder
/// stays as it is.
///
/// # Errors
/// If a folder cannot be created.
pub(crate) fn make_folder(path: &Path) -> Result<(), FileError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|cause| FileError::new("create the folder", path, cause))
}

/// Opens a file for reading and writing. A new file is accessible to its owner only.
///
/// # Errors
/// If the system refuses.
pub(crate) fn open_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// Reads the text of a file; `None` if it does not exist.
///
/// # Errors
/// If the file is not readable, is no text, or is longer than [`FILE_BYTES_MAX`].
pub(crate) fn read(path: &Path) -> Result<Option<String>, FileError> {
    if_exists(path, File::open(path).and_then(text_of))
}

/// Reads the text of a file that only this user or root can have written; `None` if it does not
/// exist.
///
/// # Errors
/// If it belongs to another user, is a link or no plain file (a pipe would block its reader), or is
/// not readable.
pub(crate) fn read_own(path: &Path) -> Result<Option<String>, FileError> {
    let opened = OpenOptions::new().read(true).custom_flags(O_NOFOLLOW | O_NONBLOCK).open(path);
    let opened = opened.map_err(|error| match error.raw_os_error() {
        Some(ELOOP) => invalid("is a symbolic link"),
        _ => error,
    });
    if_exists(path, opened.and_then(own).and_then(text_of))
}

/// Returns the file if it is a plain one that belongs to this user or root; fails otherwise.
fn own(file: File) -> io::Result<File> {
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(invalid("not a regular file"));
    }
    let owner = metadata.uid();
    if is_trusted(owner) { Ok(file) } else { Err(invalid(&format!("belongs to user {owner}"))) }
}

/// True if files of this user are trusted: the process's own user, or root.
fn is_trusted(user: u32) -> bool {
    user == 0 || user == geteuid().as_raw()
}

fn invalid(why: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, why)
}

/// Returns the reason why a folder's files are not trusted: another user may add or replace them.
/// `None` if the folder is safe, or does not exist.
///
/// # Errors
/// If the folder's metadata is not readable.
pub(crate) fn untrusted_reason(folder: &Path) -> Result<Option<String>, FileError> {
    let metadata = match fs::metadata(folder) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(FileError::new("read", folder, cause)),
    };
    let (owner, mode, shown) = (metadata.uid(), metadata.permissions().mode(), folder.display());
    if !is_trusted(owner) {
        return Ok(Some(format!(
            "folder {shown} belongs to user {owner}, who can replace its contents: run chown {} \
             {shown}, if all files in it are yours",
            geteuid().as_raw()
        )));
    }
    // With the sticky bit, as on /tmp, files stay their owners', and the owner is checked.
    let is_open = mode & 0o022 != 0 && mode & 0o1000 == 0;
    Ok(is_open.then(|| {
        format!(
            "folder {shown} is writable for users other than its owner, who can replace its contents: \
             run chmod go-w {shown}, if all files in it are yours"
        )
    }))
}

fn text_of(file: File) -> io::Result<String> {
    let mut text = String::new();
    let length = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    let is_whole = u64::try_from(length).is_ok_and(|length| length <= FILE_BYTES_MAX);
    if is_whole { Ok(text) } else { Err(invalid("the file is too long")) }
}

fn if_exists(path: &Path, read: io::Result<String>) -> Result<Option<String>, FileError> {
    match read {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(FileError::new("read", path, cause)),
    }
}

/// Returns the length of a file in bytes; `None` if its metadata is not readable.
pub(crate) fn length(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|metadata| metadata.len())
}

/// True if users other than the owner may read or write a file.
///
/// # Errors
/// If the file's metadata is not readable.
pub(crate) fn is_open_to_others(path: &Path) -> Result<bool, FileError> {
    let metadata = fs::metadata(path).map_err(|cause| FileError::new("read", path, cause))?;
    Ok(metadata.permissions().mode() & 0o077 != 0)
}

/// Returns the path of the temporary file that is written first and then renamed to `path`.
fn temporary(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

/// Writes a text into a file that only its owner can access. At any time, the file has the old text
/// or the new one.
///
/// # Errors
/// If the disk fails. The old text then stays.
pub(crate) fn replace(path: &Path, text: &str) -> Result<(), FileError> {
    let temporary = temporary(path);
    let written = write_new(&temporary, text)
        .and_then(|()| fs::rename(&temporary, path))
        .and_then(|()| sync_folder_of(path));
    written.map_err(|cause| FileError::new("write", path, cause))
}

/// Writes a text into a new file that only its owner can access.
///
/// # Errors
/// If the file exists, or the disk fails.
pub(crate) fn create(path: &Path, text: &str) -> Result<(), FileError> {
    if path.symlink_metadata().is_ok() {
        return Err(FileError::new("write", path, ErrorKind::AlreadyExists.into()));
    }
    let temporary = temporary(path);
    // Unlike a rename, a link replaces no file that was created meanwhile.
    let linked = write_new(&temporary, text).and_then(|()| fs::hard_link(&temporary, path));
    let removed = fs::remove_file(&temporary);
    let written = linked.and(removed).and_then(|()| sync_folder_of(path));
    written.map_err(|cause| FileError::new("write", path, cause))
}

/// Removes a file, if it exists.
///
/// # Errors
/// If it cannot be removed.
pub(crate) fn remove(path: &Path) -> Result<(), FileError> {
    match fs::remove_file(path) {
        Err(cause) if cause.kind() != ErrorKind::NotFound => Err(FileError::new("remove", path, cause)),
        _ => Ok(()),
    }
}

/// Writes a text into a new file, and waits until it is on the disk. Replaces the remains of an
/// earlier attempt.
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
        // The remains of a process that was killed while it wrote.
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
        for (name, why) in [("link", "symbolic link"), ("pipe", "not a regular file")] {
            let message = read_own(&path(name)).expect_err("it is none").to_string();
            assert!(
                message.contains(name) && message.contains(why) && message.contains("remove the file"),
                "{message}"
            );
        }
        // Only root changes owners.
        if std::os::unix::fs::chown(path("plain"), Some(65_534), None).is_ok() {
            let message = read_own(&path("plain")).expect_err("it is another's").to_string();
            assert!(message.contains("belongs to user 65534"), "{message}");
        }
    }

    #[test]
    fn a_folder_is_trusted_if_nobody_else_replaces_what_is_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path();
        assert_eq!(untrusted_reason(&path.join("none")).expect("no folder is no error"), None);
        for (mode, is_trusted) in
            [(0o700, true), (0o755, true), (0o1777, true), (0o770, false), (0o707, false)]
        {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
            let why = untrusted_reason(path).expect("it is there");
            assert_eq!(why.is_none(), is_trusted, "{mode:o}: {why:?}");
            assert!(why.is_none_or(|why| why.contains("chmod go-w")));
        }
        fs::set_permissions(path, fs::Permissions::from_mode(0o1777)).expect("it is ours");
        if std::os::unix::fs::chown(path, Some(65_534), None).is_ok() {
            let why = untrusted_reason(path).expect("it is there").expect("it is another's");
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
            assert!(error.to_string().starts_with("cannot write "), "{error}");
            assert_eq!(read(&path).expect("a text").as_deref(), Some("first"));
        }
        assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 2, "nothing else stays");
    }

    #[test]
    fn errors_name_file_and_remedy() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("nowhere").join("file");
        let error = replace(&path, "text").expect_err("no folder").to_string();
        assert!(error.contains("nowhere/file") && error.ends_with("check `state`, its folder"), "{error}");
        let file = folder.path().join("file");
        replace(&file, "text").expect("a new file");
        let error = make_folder(&file).expect_err("a file is there").to_string();
        assert!(error.contains("another file or folder has this name"), "{error}");
    }
}
