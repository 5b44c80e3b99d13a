//! Exceptions to limits of size, which only tighten.
//!
//! An exception states the exact present size. Growth fails, and so does a size that is lower than
//! stated: the gain is written down at once and cannot be lost again.

use crate::Finding;

/// Path of the list of exceptions.
pub const PATH: &str = "crates/tidy/ratchet.txt";

/// Upper limit of one kind of size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Counted things, as the list of exceptions names them: a plural of one word.
    pub unit: &'static str,
    /// Largest size without an exception.
    pub max: usize,
    /// Remedy for a larger one.
    pub remedy: &'static str,
}

/// Size of one file, function or type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measure {
    /// `path` for a file, `path::item` for an item, `crate` for a whole crate.
    pub name: String,
    /// The file, from the repository's root.
    pub path: String,
    /// Line of its beginning, counted from one.
    pub line: usize,
    /// Number of things in it.
    pub size: usize,
}

/// One line of the list of exceptions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exception {
    /// As in [`Limit::unit`].
    pub unit: String,
    /// As in [`Measure::name`].
    pub name: String,
    /// Line of the list, counted from one.
    pub line: usize,
    /// The size it may and must have.
    pub size: usize,
}

/// Reads the list of exceptions: `size unit name` each, blank lines and `#` comments aside.
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
    let (size, rest) = content.split_once(' ')?;
    let (unit, name) = rest.split_once(' ')?;
    let size = size.parse().ok()?;
    Some(Exception { unit: unit.to_owned(), name: name.trim().to_owned(), line, size })
}

fn unreadable(line: usize) -> Finding {
    Finding::new(PATH, line, "not an exception", "write `size unit name`, as in `80 lines path::function`")
}

/// Compares `measures` with `limit` and with the exceptions of its unit.
///
/// Where several measures share a name (two implementations of one trait), the largest stands for
/// all.
#[must_use]
pub fn findings(measures: &[Measure], limit: Limit, exceptions: &[Exception]) -> Vec<Finding> {
    let exceptions = || exceptions.iter().filter(|exception| exception.unit == limit.unit);
    let is_excepted = |measure: &Measure| exceptions().any(|exception| exception.name == measure.name);
    let too_large = measures
        .iter()
        .filter(|measure| measure.size > limit.max && !is_excepted(measure))
        .map(|measure| too_large(measure, limit));
    let loose = exceptions().filter_map(|exception| loose(exception, measures, limit));
    too_large.chain(loose).collect()
}

fn too_large(measure: &Measure, limit: Limit) -> Finding {
    let Limit { unit, max, remedy } = limit;
    let problem = format!("{} has {} {unit}, {max} are allowed", measure.name, measure.size);
    Finding::new(&measure.path, measure.line, problem, remedy)
}

fn loose(exception: &Exception, measures: &[Measure], limit: Limit) -> Option<Finding> {
    let Limit { unit, max, remedy } = limit;
    let same_name = measures.iter().filter(|measure| measure.name == exception.name);
    let Some(measure) = same_name.max_by_key(|measure| measure.size) else {
        let problem = format!("{} does not exist", exception.name);
        return Some(Finding::new(PATH, exception.line, problem, "remove the entry"));
    };
    let problem = format!("{} has {} {unit}", measure.name, measure.size);
    let expected = exception.size;
    if measure.size <= max {
        let problem = format!("{problem}, within the {max} allowed");
        Some(Finding::new(PATH, exception.line, problem, "remove the entry"))
    } else if measure.size < expected {
        let remedy = format!("lower the entry from {expected} to {}", measure.size);
        Some(Finding::new(PATH, exception.line, problem, remedy))
    } else if measure.size > expected {
        let problem = format!("{problem}, its exception ends at {expected}");
        Some(Finding::new(
            &measure.path,
            measure.line,
            problem,
            format!("{remedy}, rather than raise the entry"),
        ))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::NONE;

    const LINES: Limit = Limit { unit: "lines", max: 10, remedy: "split it" };

    fn measure(name: &str, size: usize) -> Measure {
        Measure { name: name.to_owned(), path: name.to_owned(), line: 1, size }
    }

    const NO_PROBLEMS: [&str; 0] = [];

    fn problems(list: &str, lines: usize) -> Vec<String> {
        let exceptions = parse(list).expect("the list is well formed");
        findings(&[measure("a.rs", lines)], LINES, &exceptions).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_limit_holds_without_an_exception() {
        assert_eq!(problems("", 10), NO_PROBLEMS);
        assert_eq!(problems("", 11), ["a.rs:1: a.rs has 11 lines, 10 are allowed: split it"]);
    }

    #[test]
    fn an_exception_holds_at_its_exact_size() {
        assert_eq!(problems("# why\n\n20 lines a.rs\n9 fields a.rs\n", 20), NO_PROBLEMS);
    }

    #[test]
    fn an_exception_that_grew_fails() {
        let expected =
            "a.rs:1: a.rs has 21 lines, its exception ends at 20: split it, rather than raise the entry";
        assert_eq!(problems("20 lines a.rs", 21), [expected]);
    }

    #[test]
    fn an_exception_that_shrank_fails() {
        let expected = "crates/tidy/ratchet.txt:1: a.rs has 19 lines: lower the entry from 20 to 19";
        assert_eq!(problems("20 lines a.rs", 19), [expected]);
        let expected =
            "crates/tidy/ratchet.txt:1: a.rs has 10 lines, within the 10 allowed: remove the entry";
        assert_eq!(problems("20 lines a.rs", 10), [expected]);
    }

    #[test]
    fn an_exception_that_vanished_fails() {
        let expected = "crates/tidy/ratchet.txt:2: b.rs::f does not exist: remove the entry";
        assert_eq!(problems("\n20 lines b.rs::f", 1), [expected]);
    }

    #[test]
    fn the_longest_of_one_name_counts() {
        let exceptions = parse("20 lines a.rs").expect("the list is well formed");
        assert_eq!(findings(&[measure("a.rs", 5), measure("a.rs", 20)], LINES, &exceptions), NONE);
    }

    #[test]
    fn an_unreadable_line_fails() {
        let expected = "crates/tidy/ratchet.txt:2: not an exception: \
                        write `size unit name`, as in `80 lines path::function`";
        let findings = parse("20 lines a.rs\nb.rs 20\n").expect_err("the second line is the wrong way round");
        assert_eq!(findings.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
    }
}
