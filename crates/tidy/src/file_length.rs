//! Files are short enough to be read in one sitting.

use crate::ratchet::{self, Exception, Limit, Measure};
use crate::{Finding, SourceFile};

/// Lines before the tests: longer files hold more than one subject.
const LINES: Limit = Limit { unit: "lines", max: 600, remedy: "split it where its subject changes" };

/// Lines with tests, without exceptions: no reviewer holds more than this in mind.
const LINES_WITH_TESTS_MAX: usize = 1_000;

/// The languages whose files people write by hand here.
const EXTENSIONS: [&str; 6] = ["rs", "ts", "svelte", "c", "py", "sh"];

/// The files that are too long, and the exceptions that no longer fit.
#[must_use]
pub fn findings(files: &[SourceFile], exceptions: &[Exception]) -> Vec<Finding> {
    let written = || files.iter().filter(|file| EXTENSIONS.contains(&file.extension()));
    let measures: Vec<_> = written().map(measure).collect();
    let is_file = |exception: &&Exception| !exception.name.contains("::");
    let exceptions: Vec<_> = exceptions.iter().filter(is_file).cloned().collect();
    let mut findings = ratchet::findings(&measures, LINES, &exceptions);
    findings.extend(written().filter_map(far_too_long));
    findings
}

fn measure(file: &SourceFile) -> Measure {
    Measure { name: file.path.clone(), path: file.path.clone(), line: 1, size: lines_before_tests(file) }
}

fn lines_before_tests(file: &SourceFile) -> usize {
    let lines: Vec<_> = file.text.lines().collect();
    let tests = (0..lines.len()).find(|&index| file.extension() == "rs" && begins_tests(&lines[index..]));
    tests.unwrap_or(lines.len())
}

/// True if a test module begins here; other attributes may stand between `cfg(test)` and the
/// module.
fn begins_tests(lines: &[&str]) -> bool {
    let Some((&"#[cfg(test)]", rest)) = lines.split_first() else {
        return false;
    };
    let item = rest.iter().find(|line| !line.starts_with("#["));
    item.is_some_and(|line| line.starts_with("mod tests"))
}

fn far_too_long(file: &SourceFile) -> Option<Finding> {
    let lines = file.text.lines().count();
    (lines > LINES_WITH_TESTS_MAX).then(|| {
        Finding::new(
            &file.path,
            1,
            format!("{lines} lines with tests, {LINES_WITH_TESTS_MAX} are allowed without exception"),
            "split it where its subject changes",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::NONE;

    fn file(path: &str, code_lines: usize, tests: &str) -> SourceFile {
        SourceFile::new(path, "x\n".repeat(code_lines) + tests)
    }

    #[test]
    fn a_long_file_is_found() {
        for path in ["a.rs", "web/a.svelte", "scripts/a.sh"] {
            assert_eq!(findings(&[file(path, 600, "")], &[]), NONE);
            assert_eq!(findings(&[file(path, 601, "")], &[]).len(), 1);
        }
        assert_eq!(findings(&[file("a.md", 601, "")], &[]), NONE);
    }

    #[test]
    fn tests_are_not_counted() {
        let tests = format!("#[cfg(test)]\n#[rustfmt::skip]\nmod tests {{\n{}}}\n", "x\n".repeat(300));
        assert_eq!(findings(&[file("a.rs", 600, &tests)], &[]), NONE);
        assert_eq!(findings(&[file("a.rs", 601, &tests)], &[]).len(), 1);
    }

    #[test]
    fn a_test_only_function_does_not_end_the_count() {
        let rest = format!("#[cfg(test)]\nfn f() {{}}\n{}", "x\n".repeat(300));
        assert_eq!(findings(&[file("a.rs", 400, &rest)], &[]).len(), 1);
    }

    #[test]
    fn nothing_excuses_a_file_of_more_than_a_thousand_lines() {
        let exceptions =
            ratchet::parse("1001 lines a.rs\n80 lines a.rs::f").expect("the list is well formed");
        let found = findings(&[file("a.rs", 1_001, "")], &exceptions);
        assert_eq!(
            found.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["a.rs:1: 1001 lines with tests, 1000 are allowed without exception: \
                 split it where its subject changes"]
        );
    }
}
