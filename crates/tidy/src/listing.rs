//! Files of the repository: those that Git does not ignore.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

/// Folders that tools fill: nobody writes or reviews what is in them.
const GENERATED_FOLDERS: [&str; 2] = ["target", "node_modules"];

/// The paths of all files, from the root.
///
/// Without Git or outside a repository (a source archive), everything counts but generated folders
/// and hidden ones other than `.ci`.
///
/// # Errors
/// If a folder cannot be read; the error names it.
pub(crate) fn files(root: &Path) -> io::Result<BTreeSet<String>> {
    if let Some(files) = known_to_git(root) {
        return Ok(files);
    }
    let mut files = BTreeSet::new();
    walk(root, "", &mut files)?;
    Ok(files)
}

fn known_to_git(root: &Path) -> Option<BTreeSet<String>> {
    // Without this, Git answers for any repository that happens to surround the root.
    if !root.join(".git").exists() {
        return None;
    }
    // A checkout that belongs to somebody else, as in a container, is still the one being tested.
    let listing = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let output = Command::new("git")
        .current_dir(root)
        .args(["-c", "safe.directory=*"])
        .args(listing)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let listing = String::from_utf8_lossy(&output.stdout);
    let paths = listing.split_terminator('\0').map(str::to_owned);
    // A file that is deleted but still in the index is gone all the same.
    Some(paths.filter(|path| root.join(path).symlink_metadata().is_ok()).collect())
}

/// Adds every file below `folder`; symbolic links are not followed, so that the walk ends.
fn walk(root: &Path, folder: &str, files: &mut BTreeSet<String>) -> io::Result<()> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{folder}: {error}"));
    for entry in fs::read_dir(root.join(folder)).map_err(named)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        if !entry.file_type()?.is_dir() {
            files.insert(path);
        } else if !is_left_out(&name) {
            walk(root, &path, files)?;
        }
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
    fn a_folder_without_git_is_walked() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert_eq!(known_to_git(folder), None);
        let files = files(folder).expect("the crate is readable");
        assert!(files.contains("src/listing.rs") && files.contains("Cargo.toml"));
    }
}
