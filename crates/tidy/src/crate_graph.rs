//! Dependencies of pure crates point at pure crates and at a few named external ones.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::Command;

use crate::Finding;
use crate::pure::{EXTERNAL_CRATES, Features, PURE_CRATES, PureCrate};

/// Output of `cargo tree` for the normal dependencies of `subject`, on all targets and with the
/// features that are judged, each line led by its depth.
///
/// # Errors
/// If Cargo does not answer; the finding carries its complaint.
pub fn tree(root: &Path, subject: &PureCrate) -> Result<String, Finding> {
    let options = "tree --locked --offline --edges normal --target all --prefix depth";
    let features = match subject.features {
        Features::All => "--all-features",
        Features::None => "--no-default-features",
    };
    let cargo = env::var_os("CARGO").unwrap_or_else(|| OsString::from(env!("CARGO")));
    let output = Command::new(cargo)
        .current_dir(root)
        .args(options.split(' '))
        .args([features, "--package", subject.name])
        .output()
        .map_err(|error| silent(&error.to_string()))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(silent(&String::from_utf8_lossy(&output.stderr)))
    }
}

fn silent(complaint: &str) -> Finding {
    let remedy = "bring Cargo.lock up to date and the packages here with `cargo fetch`, then repeat";
    Finding::new("Cargo.lock", 1, format!("cargo tree fails: {}", complaint.trim()), remedy)
}

/// The dependencies in `tree`, the answer of [`tree`](tree()), that `subject` must not have.
#[must_use]
pub fn findings(subject: &PureCrate, tree: &str) -> Vec<Finding> {
    let mut problems: Vec<_> =
        dependencies(tree).filter_map(|(depth, name)| problem(subject, depth, name)).collect();
    problems.sort();
    problems.dedup();
    let manifest = format!("{}/Cargo.toml", subject.folder);
    let remedy = "remove the dependency, or argue for it in crates/tidy/src/pure.rs";
    problems.into_iter().map(|problem| Finding::new(&manifest, 1, problem, remedy)).collect()
}

/// Depth and name of each dependency; the crate itself, at depth zero, is left out.
fn dependencies(tree: &str) -> impl Iterator<Item = (u32, &str)> {
    tree.lines().filter_map(|line| {
        let package = line.trim_start_matches(|digit: char| digit.is_ascii_digit());
        let depth = line[..line.len() - package.len()].parse().ok()?;
        let name = package.split(' ').next()?;
        (depth > 0).then_some((depth, name))
    })
}

fn problem(subject: &PureCrate, depth: u32, name: &str) -> Option<String> {
    let is_byway = name == "byway" || name.starts_with("byway-");
    let is_pure = PURE_CRATES.iter().any(|pure| pure.name == name);
    let is_direct = depth == 1;
    let dependent = subject.name;
    if !is_byway {
        let is_allowed = EXTERNAL_CRATES.iter().any(|external| external.name == name);
        (!is_allowed)
            .then(|| format!("{dependent} pulls in {name}, which is not on the list of external crates"))
    } else if !is_pure {
        Some(format!("{dependent} is pure and pulls in {name}, which is not"))
    } else if is_direct && !subject.may_depend_on.contains(&name) {
        Some(format!("{dependent} may not depend on {name}"))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUBJECT: PureCrate = PureCrate {
        name: "byway-wire",
        folder: "crates/wire",
        may_depend_on: &["byway-code"],
        features: Features::All,
    };

    const NO_PROBLEMS: [&str; 0] = [];

    fn problems(tree: &str) -> Vec<String> {
        let found = findings(&SUBJECT, tree);
        found.into_iter().map(|finding| finding.problem).collect()
    }

    #[test]
    fn pure_crates_and_listed_external_ones_are_right() {
        let tree = "0byway-wire v0.1.0 (crates/wire)\n1byway-code v0.1.0 (crates/code)\n\
                    2byway-units v0.1.0 (crates/units)\n1thiserror v2.0.21\n2thiserror-impl v2.0.21 (proc-macro)\n";
        assert_eq!(problems(tree), NO_PROBLEMS);
    }

    #[test]
    fn an_unlisted_external_crate_is_found_once() {
        let tree = "0byway-wire v0.1.0\n1byway-code v0.1.0\n2tokio v1.0.0\n1tokio v1.0.0 (*)\n";
        let expected = "byway-wire pulls in tokio, which is not on the list of external crates";
        assert_eq!(problems(tree), [expected]);
    }

    #[test]
    fn an_impure_crate_is_found_at_any_depth() {
        let tree = "0byway-wire v0.1.0\n1byway-code v0.1.0\n2byway-net v0.1.0\n";
        assert_eq!(problems(tree), ["byway-wire is pure and pulls in byway-net, which is not"]);
    }

    #[test]
    fn a_direct_dependency_outside_the_table_is_found() {
        let tree = "0byway-wire v0.1.0\n1byway-units v0.1.0\n";
        assert_eq!(problems(tree), ["byway-wire may not depend on byway-units"]);
    }

    #[test]
    fn a_tree_that_cannot_be_had_is_a_finding() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let absent = PureCrate { name: "byway-absent", ..SUBJECT };
        let finding = tree(root, &absent).expect_err("the test's crate does not exist");
        assert!(finding.problem.starts_with("cargo tree fails: ") && finding.remedy.contains("cargo fetch"));
    }
}
