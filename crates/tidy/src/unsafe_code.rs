//! Unsafe code stays where it is expected and reviewed.

use crate::attributes::{LintAttribute, lint_attributes};
use crate::{Finding, SourceFile};

/// The files outside the coder's engines that may hold unsafe code, and why.
const UNSAFE_FILES: [(&str, &str); 6] = [
    ("crates/bench/src/contenders/isa_l.rs", "a library in C is called"),
    ("crates/bench/src/contenders/read_loop.rs", "vector loads measure the bound that memory sets"),
    ("crates/bench/src/sockets/bare.rs", "system calls without a library are what is compared with"),
    ("crates/client-c/tests/misuse.rs", "a C interface is called as C calls it"),
    (
        "crates/net/src/marked_datagrams.rs",
        "datagrams with a DSCP, which no library sends and receives in batches",
    ),
    ("crates/net/src/socket_options.rs", "socket options that no library has a safe call for"),
];

/// The places that lift the workspace's ban on unsafe code without standing in the table.
#[must_use]
pub fn findings(files: &[SourceFile]) -> Vec<Finding> {
    let sources = files.iter().filter(|file| file.extension() == "rs");
    sources
        .filter(|file| !may_be_unsafe(&file.path))
        .flat_map(|file| match lint_attributes(file) {
            Ok(attributes) => of_file(file, &attributes),
            Err(finding) => vec![finding],
        })
        .collect()
}

/// The engines are the coder's processor-specific kernels, and a C interface follows pointers: both
/// are unsafe by nature.
fn may_be_unsafe(path: &str) -> bool {
    let is_engine = path == "crates/code/src/engines.rs" || path.starts_with("crates/code/src/engines/");
    let is_c_interface = path.starts_with("crates/client-c/src/");
    is_engine || is_c_interface || UNSAFE_FILES.iter().any(|(named, _)| *named == path)
}

fn of_file(file: &SourceFile, attributes: &[LintAttribute]) -> Vec<Finding> {
    let remedy = "write it safely, or argue for it in crates/tidy/src/unsafe_code.rs";
    attributes
        .iter()
        .filter(|attribute| lifts_the_ban(attribute))
        .map(|attribute| Finding::new(&file.path, attribute.line, "unsafe code is allowed here", remedy))
        .collect()
}

fn lifts_the_ban(attribute: &LintAttribute) -> bool {
    let is_lower = matches!(attribute.level.as_str(), "allow" | "expect" | "warn");
    is_lower && attribute.words.iter().any(|word| word == "unsafe_code")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        findings(&[SourceFile::new(path, text)]).len()
    }

    const LIFTED: &str = "#![allow(dead_code, unsafe_code, reason = \"a kernel\")]\n";

    #[test]
    fn engines_and_named_files_may_be_unsafe() {
        assert_eq!(count("crates/code/src/engines.rs", LIFTED), 0);
        assert_eq!(count("crates/code/src/engines/avx2.rs", LIFTED), 0);
        assert_eq!(count("crates/bench/src/contenders/isa_l.rs", LIFTED), 0);
        assert_eq!(count("crates/client-c/src/lib.rs", LIFTED), 0);
    }

    #[test]
    fn unsafe_code_elsewhere_is_found() {
        assert_eq!(count("crates/code/src/engines_too.rs", LIFTED), 1);
        assert_eq!(count("crates/client/src/lib.rs", LIFTED), 1);
        assert_eq!(count("crates/units/src/time.rs", "#[expect(unsafe_code)]\nfn f() {}"), 1);
        assert_eq!(count("crates/units/src/time.rs", "#![deny(unsafe_code)]"), 0);
    }

    #[test]
    fn every_exception_has_a_reason() {
        assert!(UNSAFE_FILES.iter().all(|(_, reason)| !reason.is_empty()));
    }
}
