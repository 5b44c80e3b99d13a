//! Doc comments name their subject first: a noun phrase, or what a function does.
//!
//! A few sentences are best begun with a question word (*Whether*, above all); many make a reader
//! guess what a name stands for.

use std::collections::BTreeMap;

use crate::doc_comments::doc_comments;
use crate::{Finding, SourceFile, package};

/// Words that begin a question.
const QUESTION_WORDS: [&str; 7] = ["What", "Who", "How", "Where", "When", "Whether", "Which"];

/// Share of a crate's doc comments that may begin with one, in percent: quinn has 5.9.
const SHARE_MAX: usize = 6;

/// Offending comments that a finding names.
const NAMED: usize = 40;

/// The crates in which too many doc comments begin with a question word.
#[must_use]
pub fn findings(files: &[SourceFile]) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, Openings> = BTreeMap::new();
    for file in files.iter().filter(|file| file.extension() == "rs") {
        if let Some(folder) = package::folder(&file.path) {
            crates.entry(folder).or_default().add(file);
        }
    }
    crates.iter().filter_map(|(folder, openings)| openings.finding(folder)).collect()
}

/// Beginnings of the doc comments of one crate.
#[derive(Default)]
struct Openings {
    all: usize,
    /// `path:line` of those that begin with a question word.
    questions: Vec<String>,
}

impl Openings {
    fn add(&mut self, file: &SourceFile) {
        for comment in doc_comments(&file.text) {
            self.all += 1;
            let word =
                comment.text.split(|letter: char| !letter.is_alphanumeric()).next().unwrap_or_default();
            if QUESTION_WORDS.contains(&word) {
                self.questions.push(format!("{}:{}", file.path, comment.line));
            }
        }
    }

    fn finding(&self, folder: &str) -> Option<Finding> {
        let (count, all) = (self.questions.len(), self.all);
        let named = self.questions.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
        let problem = format!(
            "{count} of {all} doc comments begin with a question word, {SHARE_MAX} % are allowed: {named}"
        );
        (count * 100 > all * SHARE_MAX)
            .then(|| Finding::new(folder, 1, problem, "begin with a noun phrase or a verb: Returns, Sends"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::NONE;

    fn findings_in(questions: usize, others: usize) -> Vec<Finding> {
        let text =
            "/// What it is.\nstruct A;\n".repeat(questions) + &"/// A type.\nstruct B;\n".repeat(others);
        findings(&[SourceFile::new("crates/a/src/lib.rs", text)])
    }

    #[test]
    fn few_questions_are_right() {
        assert_eq!(findings_in(6, 94), NONE);
    }

    #[test]
    fn many_questions_are_found_in_their_crate() {
        let found = findings_in(7, 93);
        assert_eq!((found.len(), found[0].path.as_str()), (1, "crates/a"));
        assert!(found[0].problem.starts_with("7 of 100 doc comments"), "{}", found[0].problem);
    }

    #[test]
    fn words_that_only_begin_alike_are_no_questions() {
        let text = "/// However it ends.\nstruct A;\n".repeat(10);
        assert_eq!(findings(&[SourceFile::new("crates/a/src/lib.rs", text)]), NONE);
    }
}
