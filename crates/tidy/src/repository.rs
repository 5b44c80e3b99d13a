//! The files of the repository, as the checks see them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::listing;

/// Extensions of the files that some check reads; of all others only the path is known.
const READ_EXTENSIONS: [&str; 8] = ["rs", "ts", "svelte", "c", "py", "sh", "md", "toml"];

/// A text file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// The path from the repository's root, with `/` between its parts.
    pub path: String,
    /// Content of the file.
    pub text: String,
}

impl SourceFile {
    /// The file `path` that says `text`.
    pub fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        Self { path: path.into(), text: text.into() }
    }

    /// Part behind the last dot of the path; empty without one.
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
    /// What Git ignores is left out.
    ///
    /// # Errors
    /// If a folder or a file cannot be read or a file is not UTF-8; the error names it.
    pub fn read() -> io::Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        Self::read_from(&root.canonicalize()?)
    }

    fn read_from(root: &Path) -> io::Result<Self> {
        let listing = listing::files(root)?;
        let read_by_checks = |path: &&String| READ_EXTENSIONS.contains(&extension(path));
        let files = listing.iter().filter(read_by_checks).map(|path| read(root, path));
        let files = files.collect::<io::Result<_>>()?;
        let folders =
            listing.iter().flat_map(|path| path.match_indices('/').map(|(end, _)| path[..end].to_owned()));
        let mut paths: BTreeSet<_> = folders.chain([String::new()]).collect();
        paths.extend(listing);
        Ok(Self { root: root.to_owned(), files, paths })
    }

    /// Content of the file at `path`; empty if there is no such file.
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

#[cfg(test)]
mod tests {
    use super::*;

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
