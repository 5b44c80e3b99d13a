//! Crates, as far as paths show them.

/// Folder of the crate that the file at `path` belongs to, from the repository's root.
pub(crate) fn folder(path: &str) -> Option<&str> {
    let depth =
        if path.starts_with("crates/") || path.starts_with("fuzz/targets/") { 2 } else { return None };
    path.match_indices('/').nth(depth - 1).map(|(end, _)| &path[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_crates_have_a_folder() {
        assert_eq!(folder("crates/proto/src/lib.rs"), Some("crates/proto"));
        assert_eq!(folder("fuzz/targets/src/lib.rs"), Some("fuzz/targets"));
    }

    #[test]
    fn other_files_have_none() {
        for path in ["README.md", "docs/wire.md", "crates/README.md", "fuzz/fuzz_targets/a.rs"] {
            assert_eq!(folder(path), None);
        }
    }
}
