//! Sentences are short enough to be read once.

use crate::doc_comments::doc_comments;
use crate::prose::{Paragraph, paragraphs, sentences};
use crate::{Finding, SourceFile};

/// Words of a sentence; authors aim at 25.
const WORDS_MAX: usize = 30;

/// The sentences of doc comments and documents that are too long.
#[must_use]
pub fn findings(files: &[SourceFile]) -> Vec<Finding> {
    files.iter().flat_map(of_file).collect()
}

fn of_file(file: &SourceFile) -> Vec<Finding> {
    let texts = match file.extension() {
        "md" => vec![(0, file.text.clone())],
        "rs" => {
            doc_comments(&file.text).into_iter().map(|comment| (comment.line - 1, comment.text)).collect()
        }
        _ => Vec::new(),
    };
    let of_text = |(offset, text): &(usize, String)| -> Vec<Finding> {
        paragraphs(text).iter().flat_map(|paragraph| of_paragraph(file, *offset, paragraph)).collect()
    };
    texts.iter().flat_map(of_text).collect()
}

fn of_paragraph(file: &SourceFile, offset: usize, paragraph: &Paragraph) -> Vec<Finding> {
    let too_long = |sentence: String| {
        let words = sentence.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count();
        let beginning = sentence.split_whitespace().take(5).collect::<Vec<_>>().join(" ");
        let problem = format!("the sentence \"{beginning} ...\" has {words} words, {WORDS_MAX} are allowed");
        (words > WORDS_MAX)
            .then(|| Finding::new(&file.path, offset + paragraph.line, problem, "say one thing at a time"))
    };
    sentences(&paragraph.text).into_iter().filter_map(too_long).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::NONE;

    fn sentence(words: usize) -> String {
        "One".to_owned() + &" word".repeat(words - 1) + "."
    }

    #[test]
    fn sentences_of_thirty_words_are_right() {
        let text = format!("{} {}", sentence(30), sentence(30));
        assert_eq!(findings(&[SourceFile::new("a.md", text.clone())]), NONE);
        assert_eq!(findings(&[SourceFile::new("a.rs", format!("/// {text}"))]), NONE);
    }

    #[test]
    fn longer_ones_are_found_with_their_line() {
        let text = format!("Short.\n\n{}\n", sentence(31));
        let found = findings(&[SourceFile::new("a.md", text)]);
        assert_eq!(found.iter().map(|finding| finding.line).collect::<Vec<_>>(), [3]);
        let text = format!("fn f() {{}}\n\n/// {}\nfn g() {{}}\n// {}\n", sentence(31), sentence(31));
        let found = findings(&[SourceFile::new("a.rs", text)]);
        assert_eq!(found.iter().map(|finding| finding.line).collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn code_blocks_hold_no_sentences() {
        assert_eq!(findings(&[SourceFile::new("a.md", format!("```\n{}\n```\n", sentence(40)))]), NONE);
    }
}
