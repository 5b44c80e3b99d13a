//! The documentation of a crate's root names every module: a reader finds the right file from
//! there.

use crate::doc_comments::doc_comments;
use crate::items::{Kind, items};
use crate::{Finding, SourceFile};

/// Modules that are crates in size, and have a tour of their own.
const ROOTS: [&str; 3] = [
    "crates/proto/src/agent/mod.rs",
    "crates/proto/src/relay/mod.rs",
    "crates/proto/src/relay/egress/mod.rs",
];

/// The modules that the documentation of their root does not name.
#[must_use]
pub fn findings(files: &[SourceFile]) -> Vec<Finding> {
    files.iter().filter(|file| is_root(&file.path)).flat_map(of_root).collect()
}

fn is_root(path: &str) -> bool {
    let is_crate = path.starts_with("crates/") || path.starts_with("fuzz/targets/");
    let is_crate_root = path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs");
    is_crate && is_crate_root || ROOTS.contains(&path)
}

fn of_root(file: &SourceFile) -> Vec<Finding> {
    let items = match items(file) {
        Ok(items) => items,
        Err(finding) => return vec![finding],
    };
    let comments = doc_comments(&file.text);
    let tour = comments.first().filter(|comment| comment.line == 1).map_or("", |comment| &comment.text);
    let modules = items.iter().filter(|item| item.kind == Kind::Module && item.name != "tests");
    modules
        .filter(|module| !tour.contains(&format!("`{}`", module.name)))
        .map(|module| {
            let problem = format!("the tour of modules at the top does not name `{}`", module.name);
            Finding::new(&file.path, module.line, problem, "say there what it is for")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        findings(&[SourceFile::new(path, text)]).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_module_that_no_tour_names_is_found() {
        let text = "//! A crate.\n//!\n//! | [`a`] | a thing |\n\nmod a;\nmod b;\n#[cfg(test)]\nmod tests;\n";
        assert_eq!(lines("crates/x/src/lib.rs", text), [6]);
        assert_eq!(lines("crates/x/src/other.rs", text), [0; 0]);
        assert_eq!(lines("crates/proto/src/agent/mod.rs", text), [6]);
    }

    #[test]
    fn without_a_tour_all_are_found() {
        assert_eq!(lines("crates/x/src/main.rs", "mod a;\n/// `a`\nmod b;\n"), [1, 3]);
    }
}
