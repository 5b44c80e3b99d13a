//! Exceptions to the limits of length, which only tighten.
//!
//! An exception states the exact present size. Growth fails, and so does a size that is lower than stated: the
//! gain is written down at once and cannot be lost again.

use crate::Finding;

/// Where the exceptions are written down.
pub const PATH: &str = "crates/tidy/ratchet.txt";

/// The length of one file or function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measure {
    /// `path` for a file, `path::function` for a function.
    pub name: String,
    /// The file, from the repository's root.
    pub path: String,
    /// Where it begins, counted from one.
    pub line: usize,
    /// How long it is.
    pub lines: usize,
}

/// One line of the list of exceptions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exception {
    /// As in [`Measure::name`].
    pub name: String,
    /// The line of the list that says so.
    pub line: usize,
    /// The size it may and must have.
    pub lines: usize,
}

impl Exception {
    /// Whether this is about a function rather than a file.
    #[must_use]
    pub fn is_function(&self) -> bool {
        self.name.contains("::")
    }
}

/// Reads the list of exceptions: `lines name` each, blank lines and `#` comments aside.
///
/// # Errors
/// The lines that are not of this form.
pub fn parse(list: &str) -> Result<Vec<Exception>, Vec<Finding>> {
    let (mut exceptions, mut findings) = (Vec::new(), Vec::new());
    for (index, content) in list.lines().enumerate() {
        let content = content.trim();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        match parse_line(index + 1, content) {
            Some(exception) => exceptions.push(exception),
            None => findings.push(unreadable(index + 1)),
        }
    }
    if findings.is_empty() { Ok(exceptions) } else { Err(findings) }
}

fn parse_line(line: usize, content: &str) -> Option<Exception> {
    let (lines, name) = content.split_once(' ')?;
    Some(Exception { name: name.trim().to_owned(), line, lines: lines.parse().ok()? })
}

fn unreadable(line: usize) -> Finding {
    Finding::new(PATH, line, "not an exception", "write `lines path` or `lines path::function`")
}

/// Compares `measures` with `lines_max` and with the exceptions among them.
///
/// Where several measures share a name (two implementations of one trait), the longest stands for all.
#[must_use]
pub fn findings(measures: &[Measure], lines_max: usize, exceptions: &[Exception]) -> Vec<Finding> {
    let too_long = measures
        .iter()
        .filter(|measure| measure.lines > lines_max && !is_excepted(measure, exceptions))
        .map(|measure| too_long(measure, lines_max));
    let loose = exceptions.iter().filter_map(|exception| loose(exception, measures, lines_max));
    too_long.chain(loose).collect()
}

fn is_excepted(measure: &Measure, exceptions: &[Exception]) -> bool {
    exceptions.iter().any(|exception| exception.name == measure.name)
}

fn too_long(measure: &Measure, lines_max: usize) -> Finding {
    Finding::new(
        &measure.path,
        measure.line,
        format!("{} has {} lines, {lines_max} are allowed", measure.name, measure.lines),
        "split it where its subject changes",
    )
}

fn loose(exception: &Exception, measures: &[Measure], lines_max: usize) -> Option<Finding> {
    let longest =
        measures.iter().filter(|measure| measure.name == exception.name).max_by_key(|measure| measure.lines);
    let Some(measure) = longest else {
        let problem = format!("{} does not exist", exception.name);
        return Some(Finding::new(PATH, exception.line, problem, "remove the entry"));
    };
    let problem = format!("{} has {} lines", measure.name, measure.lines);
    let expected = exception.lines;
    if measure.lines <= lines_max {
        let problem = format!("{problem}, within the {lines_max} allowed");
        Some(Finding::new(PATH, exception.line, problem, "remove the entry"))
    } else if measure.lines < expected {
        let remedy = format!("lower the entry from {expected} to {}", measure.lines);
        Some(Finding::new(PATH, exception.line, problem, remedy))
    } else if measure.lines > expected {
        let problem = format!("{problem}, its exception ends at {expected}");
        Some(Finding::new(&measure.path, measure.line, problem, "split it rather than raise the entry"))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::NONE;

    fn measure(name: &str, lines: usize) -> Measure {
        Measure { name: name.to_owned(), path: name.to_owned(), line: 1, lines }
    }

    const NO_PROBLEMS: [&str; 0] = [];

    fn problems(list: &str, lines: usize) -> Vec<String> {
        let exceptions = parse(list).expect("the list is well formed");
        findings(&[measure("a.rs", lines)], 10, &exceptions).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_limit_holds_without_an_exception() {
        assert_eq!(problems("", 10), NO_PROBLEMS);
        assert_eq!(
            problems("", 11),
            ["a.rs:1: a.rs has 11 lines, 10 are allowed: split it where its subject changes"]
        );
    }

    #[test]
    fn an_exception_holds_at_its_exact_size() {
        assert_eq!(problems("# why\n\n20 a.rs\n", 20), NO_PROBLEMS);
    }

    #[test]
    fn an_exception_that_grew_fails() {
        let expected =
            "a.rs:1: a.rs has 21 lines, its exception ends at 20: split it rather than raise the entry";
        assert_eq!(problems("20 a.rs", 21), [expected]);
    }

    #[test]
    fn an_exception_that_shrank_fails() {
        let expected = "crates/tidy/ratchet.txt:1: a.rs has 19 lines: lower the entry from 20 to 19";
        assert_eq!(problems("20 a.rs", 19), [expected]);
        let expected =
            "crates/tidy/ratchet.txt:1: a.rs has 10 lines, within the 10 allowed: remove the entry";
        assert_eq!(problems("20 a.rs", 10), [expected]);
    }

    #[test]
    fn an_exception_that_vanished_fails() {
        let expected = "crates/tidy/ratchet.txt:2: b.rs::f does not exist: remove the entry";
        assert_eq!(problems("\n20 b.rs::f", 1), [expected]);
    }

    #[test]
    fn the_longest_of_one_name_counts() {
        let exceptions = parse("20 a.rs").expect("the list is well formed");
        assert_eq!(findings(&[measure("a.rs", 5), measure("a.rs", 20)], 10, &exceptions), NONE);
    }

    #[test]
    fn an_unreadable_line_fails() {
        let expected =
            "crates/tidy/ratchet.txt:2: not an exception: write `lines path` or `lines path::function`";
        let findings = parse("20 a.rs\nb.rs 20\n").expect_err("the second line is the wrong way round");
        assert_eq!(findings.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
    }
}
