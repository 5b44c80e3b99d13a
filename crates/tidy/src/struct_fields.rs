//! A structure has few fields; one with many holds several subjects.

use crate::items::{Kind, items_of_all};
use crate::ratchet::{self, Exception, Limit, Measure};
use crate::{Finding, SourceFile};

const FIELDS: Limit =
    Limit { unit: "fields", max: 15, remedy: "move those of one subject to a type of their own" };

/// The structures with too many fields, and the exceptions that no longer fit.
#[must_use]
pub fn findings(files: &[SourceFile], exceptions: &[Exception]) -> Vec<Finding> {
    let (items, mut findings) = items_of_all(files);
    let measures: Vec<_> = items
        .iter()
        .filter_map(|(file, item)| {
            let Kind::Struct(size) = item.kind else { return None };
            let name = format!("{}::{}", file.path, item.name);
            Some(Measure { name, path: file.path.clone(), line: item.line, size })
        })
        .collect();
    findings.extend(ratchet::findings(&measures, FIELDS, exceptions));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::NONE;

    fn structure(fields: usize) -> [SourceFile; 1] {
        [SourceFile::new("a.rs", format!("struct A({});", "u8,".repeat(fields)))]
    }

    #[test]
    fn a_structure_with_many_fields_is_found_unless_excepted() {
        assert_eq!(findings(&structure(15), &[]), NONE);
        assert_eq!(findings(&structure(16), &[]).len(), 1);
        let exceptions = ratchet::parse("16 fields a.rs::A").expect("the list is well formed");
        assert_eq!(findings(&structure(16), &exceptions), NONE);
    }
}
