//! Paragraphs and sentences of Markdown.

use crate::markdown;

/// Text of a paragraph, list item, heading or cell of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Paragraph {
    /// First line, counted from one.
    pub(crate) line: usize,
    /// Its text, on one line.
    pub(crate) text: String,
}

/// Splits Markdown into paragraphs; code blocks are none.
pub(crate) fn paragraphs(document: &str) -> Vec<Paragraph> {
    let mut paragraphs: Vec<Paragraph> = Vec::new();
    let mut continues_at = None;
    for (line, content) in markdown::prose(document) {
        let content = content.trim();
        let cells: Vec<_> =
            if content.starts_with('|') { content.split('|').collect() } else { vec![content] };
        for cell in &cells {
            let item = item_text(cell.trim());
            let text = item.unwrap_or_else(|| cell.trim());
            if text.is_empty() {
                continue;
            }
            match paragraphs.last_mut() {
                Some(last) if continues_at == Some(line) && item.is_none() && cells.len() == 1 => {
                    last.text.push(' ');
                    last.text.push_str(text);
                }
                _ => paragraphs.push(Paragraph { line, text: text.to_owned() }),
            }
        }
        let is_heading = content.starts_with('#');
        continues_at = (cells.len() == 1 && !content.is_empty() && !is_heading).then_some(line + 1);
    }
    paragraphs
}

/// Text behind the mark of a list item, quote or heading, if `line` begins with one.
fn item_text(line: &str) -> Option<&str> {
    let digits = line.len() - line.trim_start_matches(|letter: char| letter.is_ascii_digit()).len();
    let marks = line.len() - line.trim_start_matches('#').len();
    let rest = match line.chars().next()? {
        '-' | '*' | '+' | '>' => &line[1..],
        '#' => &line[marks..],
        _ if digits > 0 => line[digits..].strip_prefix('.')?,
        _ => return None,
    };
    rest.strip_prefix(' ').map(str::trim)
}

/// Splits a paragraph into sentences; a code span counts as one word, and a link as its text.
pub(crate) fn sentences(paragraph: &str) -> Vec<String> {
    let text = markdown::with_code_spans_as(&without_targets(paragraph), "X");
    let mut sentences = Vec::new();
    let mut sentence: Vec<&str> = Vec::new();
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        sentence.push(word);
        let next_begins =
            words.peek().is_none_or(|next| next.starts_with(|letter: char| !letter.is_lowercase()));
        if next_begins && word.trim_end_matches([')', '"', '*', '_']).ends_with(['.', '!', '?']) {
            sentences.push(sentence.join(" "));
            sentence.clear();
        }
    }
    if !sentence.is_empty() {
        sentences.push(sentence.join(" "));
    }
    sentences
}

/// `[text](target)` becomes `[text]`.
fn without_targets(text: &str) -> String {
    let mut parts = text.split("](");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |so_far, part| so_far + "]" + part.split_once(')').map_or("", |(_, after)| after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(document: &str) -> Vec<(usize, String)> {
        paragraphs(document).into_iter().map(|paragraph| (paragraph.line, paragraph.text)).collect()
    }

    #[test]
    fn paragraphs_items_headings_and_cells_stand_alone() {
        let document =
            "# Title\nOne\ntwo.\n\n- item\n  goes on\n- next\n1. first\n\n| a | b |\n```sh\ncode\n```\nEnd";
        let expected = [
            (1, "Title"),
            (2, "One two."),
            (5, "item goes on"),
            (7, "next"),
            (8, "first"),
            (10, "a"),
            (10, "b"),
            (14, "End"),
        ];
        assert_eq!(texts(document), expected.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn sentences_end_before_a_capital() {
        let text = "It costs 3.5 ms, e.g. once. See [the page](docs/a.md). `x` follows (twice.) End";
        let expected = ["It costs 3.5 ms, e.g. once.", "See [the page].", "X follows (twice.)", "End"];
        assert_eq!(sentences(text), expected);
    }
}
