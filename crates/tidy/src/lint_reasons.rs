//! Whoever silences a lint in a source says why.

use crate::attributes::{LintAttribute, lint_attributes};
use crate::{Finding, SourceFile};

/// The `allow` and `expect` attributes without a reason.
#[must_use]
pub fn findings(files: &[SourceFile]) -> Vec<Finding> {
    let sources = files.iter().filter(|file| file.extension() == "rs");
    sources
        .flat_map(|file| match lint_attributes(file) {
            Ok(attributes) => of_file(file, &attributes),
            Err(finding) => vec![finding],
        })
        .collect()
}

fn of_file(file: &SourceFile, attributes: &[LintAttribute]) -> Vec<Finding> {
    attributes
        .iter()
        .filter(|attribute| matches!(attribute.level.as_str(), "allow" | "expect") && !attribute.has_reason)
        .map(|attribute| {
            let problem = format!("{}({}) without a reason", attribute.level, attribute.words.join(" "));
            Finding::new(&file.path, attribute.line, problem, "add `reason = \"...\"`")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_FINDINGS: [&str; 0] = [];

    fn findings_in(text: &str) -> Vec<String> {
        let found = findings(&[SourceFile::new("a.rs", text)]);
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_reason_is_enough() {
        assert_eq!(findings_in("#[allow(unused, reason = \"kept for the borrow\")]\nfn f() {}"), NO_FINDINGS);
        assert_eq!(findings_in("#![deny(unused)]"), NO_FINDINGS);
    }

    #[test]
    fn a_missing_reason_is_found() {
        let expected = "a.rs:2: allow(clippy unwrap_used) without a reason: add `reason = \"...\"`";
        assert_eq!(findings_in("\n#[allow(clippy::unwrap_used)]\nfn f() {}"), [expected]);
        assert_eq!(findings_in("#![cfg_attr(test, expect(unused))]").len(), 1);
    }
}
