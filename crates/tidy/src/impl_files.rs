//! A type's methods are in few files: a reader finds its whole surface.

use std::collections::{BTreeMap, BTreeSet};

use crate::items::{Kind, items_of_all};
use crate::ratchet::{self, Exception, Limit, Measure};
use crate::{Finding, SourceFile, package};

const FILES: Limit =
    Limit { unit: "impl-files", max: 5, remedy: "move state and methods to a type of their own" };

/// The types whose methods are in too many files, and the exceptions that no longer fit.
#[must_use]
pub fn findings(files: &[SourceFile], exceptions: &[Exception]) -> Vec<Finding> {
    let (items, mut findings) = items_of_all(files);
    let mut types: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for (file, item) in items.iter().filter(|(_, item)| item.kind == Kind::Impl) {
        if let Some(folder) = package::folder(&file.path) {
            types.entry((folder, &item.name)).or_default().insert(&file.path);
        }
    }
    let measures: Vec<_> = types
        .into_iter()
        .map(|((folder, name), paths)| Measure {
            name: format!("{folder}::{name}"),
            path: folder.to_owned(),
            line: 1,
            size: paths.len(),
        })
        .collect();
    findings.extend(ratchet::findings(&measures, FILES, exceptions));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::NONE;

    fn spread(files: usize) -> Vec<SourceFile> {
        let file = |index| {
            SourceFile::new(format!("crates/a/src/f{index}.rs"), "impl A {}\nimpl A {}\nimpl C for A {}")
        };
        (0..files).map(file).collect()
    }

    #[test]
    fn a_type_in_many_files_is_found_unless_excepted() {
        assert_eq!(findings(&spread(5), &[]), NONE);
        assert_eq!(findings(&spread(6), &[]).len(), 1);
        let exceptions = ratchet::parse("6 impl-files crates/a::A").expect("the list is well formed");
        assert_eq!(findings(&spread(6), &exceptions), NONE);
    }
}
