//! Every crate says what it is for, belongs to the workspace, and takes its lints from there.

use std::collections::BTreeSet;

use crate::pure::{IMPURE_CRATES, PURE_CRATES};
use crate::{Finding, SourceFile};

/// Missing properties of the workspace's crates: a description, membership in the workspace, its
/// lints, a crate doc.
#[must_use]
pub fn findings(files: &[SourceFile]) -> Vec<Finding> {
    let members = members(text(files, "Cargo.toml").unwrap_or_default());
    folders(files).into_iter().flat_map(|folder| of_crate(files, &members, &folder)).collect()
}

fn text<'a>(files: &'a [SourceFile], path: &str) -> Option<&'a str> {
    let file = files.iter().find(|file| file.path == path);
    file.map(|file| file.text.as_str())
}

/// The workspace's crate outside `crates/`: it lies with the fuzzers, whose own workspace needs a
/// nightly compiler.
const FUZZ_TARGETS: &str = "fuzz/targets";

/// The folders directly under `crates/`, and [`FUZZ_TARGETS`].
fn folders(files: &[SourceFile]) -> BTreeSet<String> {
    let inside = files.iter().filter_map(|file| file.path.strip_prefix("crates/"));
    let under_crates =
        inside.filter_map(|path| path.split_once('/')).map(|(name, _)| format!("crates/{name}"));
    let fuzz_targets = files.iter().filter(|file| file.path.starts_with(FUZZ_TARGETS));
    under_crates.chain(fuzz_targets.map(|_| FUZZ_TARGETS.to_owned())).collect()
}

fn of_crate(files: &[SourceFile], members: &[String], folder: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let manifest = format!("{folder}/Cargo.toml");
    if !text(files, &manifest).is_some_and(has_description) {
        let remedy = "add `description = \"...\"` to its [package]";
        findings.push(Finding::new(&manifest, 1, "the crate has no description", remedy));
    }
    if !text(files, &manifest).is_some_and(has_workspace_lints) {
        let remedy = "add `workspace = true` under [lints]";
        findings.push(Finding::new(&manifest, 1, "the crate escapes the workspace's lints", remedy));
    }
    if !is_judged(folder) {
        let problem = format!("{folder} is neither on the list of pure crates nor on that of impure ones");
        findings.push(Finding::new("crates/tidy/src/pure.rs", 1, problem, "add it to one of them"));
    }
    if !members.iter().any(|member| member == folder) {
        let problem = format!("{folder} is not a member of the workspace");
        findings.push(Finding::new("Cargo.toml", 1, problem, "add it to `members`"));
    }
    findings.extend(undocumented(files, folder));
    findings
}

fn is_judged(folder: &str) -> bool {
    let pure = PURE_CRATES.iter().map(|pure| pure.folder);
    pure.chain(IMPURE_CRATES.iter().map(|impure| impure.folder)).any(|listed| listed == folder)
}

fn has_description(manifest: &str) -> bool {
    table(manifest, "[package]")
        .filter_map(|line| line.split_once('='))
        .any(|(key, value)| key.trim() == "description" && !value.trim().trim_matches('"').is_empty())
}

fn has_workspace_lints(manifest: &str) -> bool {
    table(manifest, "[lints]").any(|line| line.replace(' ', "") == "workspace=true")
}

/// The lines of the table under `header`.
fn table<'a>(manifest: &'a str, header: &'a str) -> impl Iterator<Item = &'a str> {
    let lines = manifest.lines().map(str::trim);
    let inside = lines.skip_while(move |line| *line != header).skip(1);
    inside.take_while(|line| !line.starts_with('['))
}

/// The quoted words of the workspace's `members = [...]`.
fn members(manifest: &str) -> Vec<String> {
    let (_, list) = manifest.split_once("\nmembers").unwrap_or_default();
    let list = list.split(']').next().unwrap_or_default();
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

fn undocumented(files: &[SourceFile], folder: &str) -> Vec<Finding> {
    let candidates = ["lib.rs", "main.rs"].map(|name| format!("{folder}/src/{name}"));
    let mut roots = candidates.iter().filter_map(|path| Some((path, text(files, path)?))).peekable();
    if roots.peek().is_none() {
        let problem = "the crate has neither src/lib.rs nor src/main.rs";
        let remedy = "add one that begins with `//! What it is for`";
        return vec![Finding::new(&candidates[0], 1, problem, remedy)];
    }
    roots
        .filter(|(_, text)| !text.trim_start().starts_with("//!"))
        .map(|(path, _)| {
            let problem = "the crate does not say what it is for";
            Finding::new(path, 1, problem, "begin with `//! What it is for`")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "[workspace]\nmembers = [\n    \"crates/code\", # first\n    \"crates/units\",\n]\n";
    const MANIFEST: &str =
        "[package]\nname = \"byway-a\"\ndescription = \"A\"\n\n[lints]\nworkspace = true\n";

    const LINTS: &str = "\n[lints]\nworkspace = true\n";

    const NO_FINDINGS: [&str; 0] = [];

    fn findings_in(crate_files: &[(&str, &str)]) -> Vec<String> {
        let mut files = vec![SourceFile::new("Cargo.toml", ROOT)];
        files.extend(crate_files.iter().map(|(path, text)| SourceFile::new(*path, *text)));
        findings(&files).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_described_member_with_a_doc_is_right() {
        let files = [
            ("crates/code/Cargo.toml", MANIFEST),
            ("crates/code/src/lib.rs", "//! A.\n"),
            ("crates/x.md", ""),
        ];
        assert_eq!(findings_in(&files), NO_FINDINGS);
    }

    #[test]
    fn a_missing_description_is_found() {
        for manifest in ["[package]\n[other]\ndescription = \"A\"\n", "[package]\ndescription = \"\"\n", ""] {
            let manifest = format!("{manifest}{LINTS}");
            let files =
                [("crates/code/Cargo.toml", manifest.as_str()), ("crates/code/src/main.rs", "//! A.\n")];
            let expected = "crates/code/Cargo.toml:1: the crate has no description: add `description = \"...\"` to its [package]";
            assert_eq!(findings_in(&files), [expected]);
        }
    }

    #[test]
    fn a_crate_with_lints_of_its_own_is_found() {
        let manifest = "[package]\ndescription = \"A\"\n[lints.rust]\nunsafe_code = \"allow\"\n";
        let files = [("crates/code/Cargo.toml", manifest), ("crates/code/src/main.rs", "//! A.\n")];
        let expected = "crates/code/Cargo.toml:1: the crate escapes the workspace's lints: add `workspace = true` under [lints]";
        assert_eq!(findings_in(&files), [expected]);
    }

    #[test]
    fn a_crate_outside_the_workspace_is_found() {
        let files = [("crates/tidy/Cargo.toml", MANIFEST), ("crates/tidy/src/lib.rs", "//! C.\n")];
        let expected = "Cargo.toml:1: crates/tidy is not a member of the workspace: add it to `members`";
        assert_eq!(findings_in(&files), [expected]);
    }

    #[test]
    fn the_fuzz_targets_are_a_crate_like_others() {
        let files = [("fuzz/targets/Cargo.toml", MANIFEST), ("fuzz/targets/src/lib.rs", "//! C.\n")];
        let expected = "Cargo.toml:1: fuzz/targets is not a member of the workspace: add it to `members`";
        assert_eq!(findings_in(&files), [expected]);
        assert_eq!(findings_in(&[("fuzz/Cargo.toml", ""), ("fuzz/fuzz_targets/a.rs", "")]), NO_FINDINGS);
    }

    #[test]
    fn a_crate_on_neither_list_is_found() {
        let files = [("crates/new/Cargo.toml", MANIFEST), ("crates/new/src/lib.rs", "//! New.\n")];
        let found = findings_in(&files);
        assert!(
            found.iter().any(|finding| finding.contains("neither on the list of pure crates")),
            "{found:?}"
        );
    }

    #[test]
    fn a_missing_crate_doc_is_found() {
        let files =
            [("crates/code/Cargo.toml", MANIFEST), ("crates/code/src/lib.rs", "#![no_std]\n//! A.\n")];
        let expected = "crates/code/src/lib.rs:1: the crate does not say what it is for: begin with `//! What it is for`";
        assert_eq!(findings_in(&files), [expected]);
        assert_eq!(findings_in(&files[..1]).len(), 1);
    }
}
