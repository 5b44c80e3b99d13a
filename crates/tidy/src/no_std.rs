//! Pure crates do without the standard library, and with it without the operating system.

use crate::pure::PureCrate;
use crate::{Finding, SourceFile};

/// The crates among `pure_crates` whose root lacks `#![no_std]`.
#[must_use]
pub fn findings(files: &[SourceFile], pure_crates: &[PureCrate]) -> Vec<Finding> {
    pure_crates
        .iter()
        .map(|pure| format!("{}/src/lib.rs", pure.folder))
        .filter(|path| !files.iter().any(|file| file.path == *path && is_no_std(file)))
        .map(|path| {
            Finding::new(path, 1, "a pure crate without `#![no_std]`", "add it below the crate's doc")
        })
        .collect()
}

fn is_no_std(file: &SourceFile) -> bool {
    let syntax = syn::parse_file(&file.text);
    syntax.is_ok_and(|syntax| syntax.attrs.iter().any(|attribute| attribute.path().is_ident("no_std")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pure::Features;

    const UNITS: PureCrate = PureCrate {
        name: "byway-units",
        folder: "crates/units",
        may_depend_on: &[],
        features: Features::All,
    };

    fn count(text: &str) -> usize {
        findings(&[SourceFile::new("crates/units/src/lib.rs", text)], &[UNITS]).len()
    }

    #[test]
    fn the_attribute_is_enough() {
        assert_eq!(count("//! Units.\n#![no_std]\n"), 0);
    }

    #[test]
    fn a_missing_or_conditional_attribute_is_found() {
        assert_eq!(count("//! `#![no_std]`\n"), 1);
        assert_eq!(count("#![cfg_attr(not(test), no_std)]\n"), 1);
        assert_eq!(findings(&[], &[UNITS]).len(), 1);
    }
}
