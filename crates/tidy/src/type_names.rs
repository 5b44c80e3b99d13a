//! A type's name says which one it is: few types of a crate share one.

use std::collections::BTreeMap;

use crate::items::{Item, Kind, items_of_all};
use crate::{Finding, SourceFile, package};

/// Types of one crate that may have the same name: one beside a naive one, or beside one of tests.
const SAME_NAME_MAX: usize = 2;

/// The names that too many types of a crate share.
#[must_use]
pub fn findings(files: &[SourceFile]) -> Vec<Finding> {
    let (items, mut findings) = items_of_all(files);
    let mut names: BTreeMap<(&str, &str), Vec<(&SourceFile, &Item)>> = BTreeMap::new();
    for (file, item) in &items {
        let is_type = matches!(item.kind, Kind::Struct(_) | Kind::OtherType);
        if let Some(folder) = package::folder(&file.path).filter(|_| is_type) {
            names.entry((folder, &item.name)).or_default().push((file, item));
        }
    }
    let shared = names.into_iter().filter(|(_, types)| types.len() > SAME_NAME_MAX);
    findings.extend(shared.map(|((folder, name), types)| {
        let paths = types.iter().map(|(file, item)| format!("{}:{}", file.path, item.line));
        let problem =
            format!("{} types are named {name}: {}", types.len(), paths.collect::<Vec<_>>().join(", "));
        Finding::new(folder, 1, problem, format!("make it specific; {SAME_NAME_MAX} may share a name"))
    }));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::NONE;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile::new(path, text)
    }

    #[test]
    fn two_types_may_share_a_name() {
        let files = [file("crates/a/src/a.rs", "struct Path;"), file("crates/a/src/b.rs", "enum Path {}")];
        assert_eq!(findings(&files), NONE);
    }

    #[test]
    fn a_third_is_found_in_one_crate_only() {
        let (a, b) = (file("crates/a/src/a.rs", "struct Path;"), file("crates/a/src/b.rs", "enum Path {}"));
        let other_crate = file("crates/b/src/a.rs", "struct Path;");
        assert_eq!(findings(&[a.clone(), b.clone(), other_crate]), NONE);
        let found = findings(&[a, b, file("crates/a/tests/c.rs", "trait Path {}")]);
        assert_eq!((found.len(), found[0].path.as_str()), (1, "crates/a"));
    }
}
