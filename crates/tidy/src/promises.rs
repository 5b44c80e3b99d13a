//! Tests that the page of promises names are there.

use crate::markdown::{heading, prose};
use crate::{Finding, SourceFile};

/// The page.
pub const PAGE: &str = "docs/promises.md";

/// Rows of the page that name no file or no function of it, and promises without a test.
#[must_use]
pub fn findings(files: &[SourceFile]) -> Vec<Finding> {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else {
        return vec![Finding::new(PAGE, 1, "there is no page of promises", "write it")];
    };
    let mut findings = Vec::new();
    let mut promise: Option<(usize, usize)> = None;
    for (line, text) in prose(&page.text) {
        if heading(text).is_some_and(|(level, _)| level == 2) {
            findings.extend(unshown(promise));
            promise = Some((line, 0));
        } else if is_row(text) {
            findings.extend(missing(line, text, files));
            promise = promise.map(|(line, tests)| (line, tests + 1));
        }
    }
    findings.extend(unshown(promise));
    findings
}

fn unshown(promise: Option<(usize, usize)>) -> Option<Finding> {
    let (line, _) = promise.filter(|(_, tests)| *tests == 0)?;
    Some(Finding::new(PAGE, line, "the promise has no test", "name one below it"))
}

/// True of a row of a table that is neither its head nor the line below that.
fn is_row(line: &str) -> bool {
    line.starts_with('|') && !line.starts_with("|---") && !line.ends_with("| file | test |")
}

fn missing(line: usize, row: &str, files: &[SourceFile]) -> Option<Finding> {
    let cells: Vec<_> = row.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`')).collect();
    let [_, path, test] = cells[..] else {
        return Some(Finding::new(PAGE, line, "the row has not three cells", "covers, file, test"));
    };
    let Some(file) = files.iter().find(|file| file.path == path) else {
        return Some(Finding::new(PAGE, line, format!("there is no file {path}"), "name the test's file"));
    };
    let function = format!("fn {test}()");
    (!file.text.contains(&function))
        .then(|| Finding::new(PAGE, line, format!("{path} has no `{function}`"), "name a test of that file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "# Promises\n\n## INV-1\n\n| covers | file | test |\n|---|---|---|\n";

    fn lines(rows: &str) -> Vec<usize> {
        let page = SourceFile::new(PAGE, format!("{HEAD}{rows}"));
        let tests = SourceFile::new("a/tests/b.rs", "#[test]\nfn it_holds() {}\n");
        findings(&[page, tests]).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_test_that_is_there_is_right() {
        assert_eq!(lines("| all | `a/tests/b.rs` | `it_holds` |\n"), [0; 0]);
    }

    #[test]
    fn a_missing_test_file_or_cell_is_found() {
        assert_eq!(lines("| all | `a/tests/b.rs` | `it_hold` |\n"), [7]);
        assert_eq!(lines("| all | `a/tests/c.rs` | `it_holds` |\n"), [7]);
        assert_eq!(lines("| `a/tests/b.rs` | `it_holds` |\n"), [7]);
    }

    #[test]
    fn a_promise_without_a_test_is_found() {
        assert_eq!(lines(""), [3]);
        assert_eq!(lines("| all | `a/tests/b.rs` | `it_holds` |\n\n## INV-2\n"), [9]);
    }
}
