//! The root holds what a visitor looks for, and nothing else.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use crate::{Finding, listing};

const FILES: [&str; 14] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
    "Makefile",
    "Cargo.toml",
    "Cargo.lock",
    "clippy.toml",
    "deny.toml",
    "rustfmt.toml",
    "typos.toml",
];

const HIDDEN_FILES: [&str; 1] = [".gitignore"];

/// With a slash behind each, as [`entries`] writes folders.
const FOLDERS: [&str; 8] =
    [".ci/", "crates/", "docs/", "scripts/", "experiments/", "fuzz/", "packaging/", "web/"];

/// Entries of the root that Git does not ignore, folders with a slash behind.
///
/// # Errors
/// If the root cannot be read.
pub fn entries(root: &Path) -> io::Result<BTreeSet<String>> {
    Ok(listing::files(root)?.iter().map(|path| first_part(path)).collect())
}

/// `docs/` of `docs/relay.md`; `Makefile` of `Makefile`.
fn first_part(path: &str) -> String {
    path.split_inclusive('/').next().unwrap_or_default().to_owned()
}

/// The entries that do not belong in the root.
#[must_use]
pub fn findings(entries: &BTreeSet<String>) -> Vec<Finding> {
    let allowed = || FILES.iter().chain(&HIDDEN_FILES).chain(&FOLDERS);
    let strays = entries.iter().filter(|entry| !allowed().any(|name| name == entry));
    let remedy = "move it into a folder, have Git ignore it, or list it in crates/tidy/src/root_entries.rs";
    strays.map(|entry| Finding::new(entry, 1, "a stray entry in the root", remedy)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::NONE;

    #[test]
    fn a_stray_entry_is_found() {
        let entries = ["Makefile", "docs/", "notes.txt", "tmp/", "web"].map(str::to_owned).into();
        let paths: Vec<_> = findings(&entries).into_iter().map(|finding| finding.path).collect();
        assert_eq!(paths, ["notes.txt", "tmp/", "web"]);
    }

    #[test]
    fn absent_entries_are_no_matter() {
        assert_eq!(findings(&BTreeSet::new()), NONE);
    }

    #[test]
    fn entries_are_the_first_parts_of_paths() {
        assert_eq!(first_part("docs/relay.md"), "docs/");
        assert_eq!(first_part("Makefile"), "Makefile");
    }

    #[test]
    fn without_git_the_folder_itself_is_read() {
        let names = entries(Path::new(env!("CARGO_MANIFEST_DIR"))).expect("the crate's folder is readable");
        assert!(names.contains("Cargo.toml") && names.contains("src/"));
    }
}
