//! The files of the repository, as the checks see them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Extensions of the files that some check reads; of all others only the path is known.
const READ_EXTENSIONS: [&str; 8] = ["rs", "ts", "svelte", "c", "py", "sh", "md", "toml"];

/// Folders that tools fill: nobody writes or reviews what is in them.
const GENERATED_FOLDERS: [&str; 2] = ["target", "node_modules"];

/// A text file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// The path from the repository's root, with `/` between its parts.
    pub path: String,
    /// What the file says.
    pub text: String,
}

impl SourceFile {
    /// The file `path` that says `text`.
    pub fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self { path: path.into(), text: text.into() }
    }

    /// What follows the last dot of the path; empty without one.
    pub(crate) fn extension(&self) -> &str {
        extension(&self.path)
    }
}

/// A snapshot of the repository.
#[derive(Clone, Debug)]
pub struct Repository {
    /// The root folder.
    pub root: PathBuf,
    /// The files that checks read, by path.
    pub files: Vec<SourceFile>,
    /// The paths of all files and folders; the root is the empty path.
    pub paths: BTreeSet<String>,
}

impl Repository {
    /// Reads the repository this crate belongs to.
    ///
    /// Generated folders and hidden ones other than `.ci` are left out.
    ///
    /// # Errors
    /// If a folder or a file cannot be read or a file is not UTF-8; the error names it.
    pub fn read() -> io::Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        Self::read_from(&root.canonicalize()?)
    }

    fn read_from(root: &Path) -> io::Result<Self> {
        let mut paths = BTreeSet::from([String::new()]);
        walk(root, "", &mut paths)?;
        let files = paths
            .iter()
            .filter(|path| READ_EXTENSIONS.contains(&extension(path)) && root.join(path).is_file())
            .map(|path| read(root, path))
            .collect::<io::Result<_>>()?;
        Ok(Self { root: root.to_owned(), files, paths })
    }

    /// What the file at `path` says; empty if there is no such file.
    #[must_use]
    pub fn text(&self, path: &str) -> &str {
        let file = self.files.iter().find(|file| file.path == path);
        file.map_or("", |file| &file.text)
    }
}

fn extension(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(_, extension)| extension)
}

fn read(root: &Path, path: &str) -> io::Result<SourceFile> {
    let text = fs::read_to_string(root.join(path)).map_err(|error| named(path, &error))?;
    Ok(SourceFile::new(path, text))
}

fn named(path: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{path}: {error}"))
}

/// Adds everything below `folder`; symbolic links are not followed, so that the walk ends.
fn walk(root: &Path, folder: &str, paths: &mut BTreeSet<String>) -> io::Result<()> {
    let entries = fs::read_dir(root.join(folder)).map_err(|error| named(folder, &error))?;
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_folder = entry.file_type()?.is_dir();
        if is_folder && is_left_out(&name) {
            continue;
        }
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        if is_folder {
            walk(root, &path, paths)?;
        }
        paths.insert(path);
    }
    Ok(())
}

fn is_left_out(folder_name: &str) -> bool {
    let is_hidden = folder_name.starts_with('.') && folder_name != ".ci";
    is_hidden || GENERATED_FOLDERS.contains(&folder_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_and_hidden_folders_are_left_out() {
        assert!(is_left_out("target") && is_left_out("node_modules") && is_left_out(".git"));
        assert!(!is_left_out(".ci") && !is_left_out("docs"));
    }

    #[test]
    fn the_repository_holds_this_file() {
        let repository = Repository::read().expect("the repository is readable");
        let path = "crates/tidy/src/repository.rs";
        assert!(repository.paths.contains(path) && repository.paths.contains("crates/tidy"));
        assert!(repository.text(path).contains("fn the_repository_holds_this_file"));
        assert_eq!(repository.text("crates/tidy/src/absent.rs"), "");
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let error =
            read(Path::new(env!("CARGO_MANIFEST_DIR")), "absent.md").expect_err("there is no such file");
        assert!(error.to_string().starts_with("absent.md: "));
    }
}
