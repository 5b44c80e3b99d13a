//! Every document has one title, and begins with it.

use crate::markdown::{heading, prose};
use crate::{Finding, SourceFile};

/// The Markdown documents without a title, with a late one, or with several.
#[must_use]
pub fn findings(files: &[SourceFile]) -> Vec<Finding> {
    let documents = files.iter().filter(|file| file.extension() == "md");
    documents.flat_map(of_document).collect()
}

fn of_document(document: &SourceFile) -> Vec<Finding> {
    let surplus = prose(&document.text)
        .into_iter()
        .filter(|(_, line)| is_title(line))
        .skip(1)
        .map(|(line, _)| Finding::new(&document.path, line, "a second title", "make it a section, `##`"));
    begins_otherwise(document).into_iter().chain(surplus).collect()
}

fn begins_otherwise(document: &SourceFile) -> Option<Finding> {
    let mut lines = document.text.lines().enumerate();
    let first = lines.find(|(_, line)| !line.trim().is_empty());
    let (index, line) = first.unwrap_or_default();
    let problem = "the document does not begin with its title";
    (!is_title(line)).then(|| Finding::new(&document.path, index + 1, problem, "begin with `# Title`"))
}

fn is_title(line: &str) -> bool {
    heading(line).is_some_and(|(level, _)| level == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::NONE;

    const NO_LINES: [usize; 0] = [];

    fn lines(text: &str) -> Vec<usize> {
        let found = findings(&[SourceFile::new("docs/a.md", text)]);
        found.into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn one_title_on_top_is_right() {
        assert_eq!(lines("\n# Title\n\n## Section\n\n```\n# comment\n```\n"), NO_LINES);
    }

    #[test]
    fn a_second_title_is_found() {
        assert_eq!(lines("# Title\n\n# Another\n"), [3]);
    }

    #[test]
    fn a_late_or_missing_title_is_found() {
        assert_eq!(lines("\nWords first.\n# Title\n"), [2]);
        assert_eq!(lines("## Section\n"), [1]);
        assert_eq!(lines(""), [1]);
    }

    #[test]
    fn only_documents_are_looked_at() {
        assert_eq!(findings(&[SourceFile::new("a.rs", "")]), NONE);
    }
}
