//! The root holds what a visitor looks for, and nothing else.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use crate::Finding;

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

/// What the root holds and Git does not ignore, folders with a slash behind.
///
/// Without Git or outside a repository (a source archive), everything counts but Git's and Cargo's own folders.
///
/// # Errors
/// If the root cannot be read.
pub fn entries(root: &Path) -> io::Result<BTreeSet<String>> {
    known_to_git(root).map_or_else(|| present(root), Ok)
}

fn known_to_git(root: &Path) -> Option<BTreeSet<String>> {
    // Without this, Git answers for any repository that happens to surround the root.
    if !root.join(".git").exists() {
        return None;
    }
    let output = Command::new("git")
        .current_dir(root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let listing = String::from_utf8_lossy(&output.stdout);
    let names = listing.split_terminator('\0').map(first_part);
    // A file that is deleted but still in the index is gone all the same.
    Some(names.filter(|name| root.join(name).symlink_metadata().is_ok()).collect())
}

/// `docs/` of `docs/relay.md`; `Makefile` of `Makefile`.
fn first_part(path: &str) -> String {
    path.split_inclusive('/').next().unwrap_or_default().to_owned()
}

fn present(root: &Path) -> io::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        let slash = if entry.file_type()?.is_dir() { "/" } else { "" };
        names.insert(entry.file_name().to_string_lossy().into_owned() + slash);
    }
    names.retain(|name| !["target/", ".git/"].contains(&name.as_str()));
    Ok(names)
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
