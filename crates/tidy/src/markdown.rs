//! As much of Markdown as the checks of documents need.

/// The lines outside fenced code blocks, with their numbers.
pub(crate) fn prose(text: &str) -> Vec<(usize, &str)> {
    let mut fence: Option<Fence> = None;
    let mut prose = Vec::new();
    for (index, line) in text.lines().enumerate() {
        match &fence {
            Some(open) if open.is_closed_by(line) => fence = None,
            Some(_) => {}
            None => {
                fence = Fence::opened_by(line);
                if fence.is_none() {
                    prose.push((index + 1, line));
                }
            }
        }
    }
    prose
}

/// The opening line of a code block.
struct Fence {
    mark: char,
    length: usize,
}

impl Fence {
    fn opened_by(line: &str) -> Option<Self> {
        let line = line.trim_start();
        let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
        let info = line.trim_start_matches(mark);
        let length = line.len() - info.len();
        // Backticks further on make the line a code span within a sentence.
        (length >= 3 && !info.contains('`')).then_some(Self { mark, length })
    }

    fn is_closed_by(&self, line: &str) -> bool {
        let line = line.trim();
        line.len() >= self.length && line.chars().all(|mark| mark == self.mark)
    }
}

/// The level and the text of the heading on this line, if it is one.
pub(crate) fn heading(line: &str) -> Option<(usize, &str)> {
    let unindented = line.trim_start_matches(' ');
    let text = unindented.trim_start_matches('#');
    let (indentation, level) = (line.len() - unindented.len(), unindented.len() - text.len());
    let is_heading =
        indentation <= 3 && (1..=6).contains(&level) && (text.is_empty() || text.starts_with(' '));
    is_heading.then(|| (level, text.trim_end().trim_end_matches('#').trim()))
}

/// The line without what stands between backticks.
pub(crate) fn without_code_spans(line: &str) -> String {
    with_code_spans_as(line, "")
}

/// The line with `word` instead of each code span.
pub(crate) fn with_code_spans_as(line: &str, word: &str) -> String {
    let mut kept = String::new();
    let mut rest = line;
    while let Some(start) = rest.find('`') {
        let (before, marked) = rest.split_at(start);
        let after = marked.trim_start_matches('`');
        let length = marked.len() - after.len();
        kept.push_str(before);
        let end = end_of_span(after, length);
        kept.push_str(end.map_or("", |_| word));
        rest = end.map_or(after, |end| &after[end..]);
    }
    kept + rest
}

/// End of the code span that `length` backticks opened ends in `text`: behind the next run of as
/// many.
fn end_of_span(text: &str, length: usize) -> Option<usize> {
    let mut from = 0;
    while let Some(start) = text[from..].find('`') {
        let run = &text[from + start..];
        let run_length = run.len() - run.trim_start_matches('`').len();
        from += start + run_length;
        if run_length == length {
            return Some(from);
        }
    }
    None
}

/// The names by which links reach the headings of `document`, as code forges make them.
pub(crate) fn anchors(document: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    let mut slugs: Vec<String> = Vec::new();
    for (_, text) in prose(document).into_iter().filter_map(|(_, line)| heading(line)) {
        let slug = slug(text);
        let same = slugs.iter().filter(|earlier| **earlier == slug).count();
        anchors.push(if same == 0 { slug.clone() } else { format!("{slug}-{same}") });
        slugs.push(slug);
    }
    anchors
}

fn slug(heading: &str) -> String {
    without_link_targets(heading)
        .to_lowercase()
        .chars()
        .filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'))
        .map(|letter| if letter == ' ' { '-' } else { letter })
        .collect()
}

/// `[text](target)` becomes `[text`: its brackets do not reach the anchor anyway.
fn without_link_targets(heading: &str) -> String {
    let mut parts = heading.split("](");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |kept, part| kept + part.split_once(')').map_or("", |(_, after)| after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fenced_code_is_not_prose() {
        let text = "a\n```sh\n# no heading\n```\nb\n~~~~\n```\n~~~\n~~~~\n```not` a fence\n";
        let lines: Vec<_> = prose(text).into_iter().map(|(number, _)| number).collect();
        assert_eq!(lines, [1, 5, 10]);
    }

    #[test]
    fn headings_have_a_level_and_a_text() {
        assert_eq!(heading("# Byway"), Some((1, "Byway")));
        assert_eq!(heading("  ### Life of a packet ##"), Some((3, "Life of a packet")));
        assert_eq!(heading("#hashtag"), None);
        assert_eq!(heading("    # code"), None);
        assert_eq!(heading("prose"), None);
    }

    #[test]
    fn code_spans_are_cut_out() {
        assert_eq!(without_code_spans("a `b` c"), "a  c");
        assert_eq!(without_code_spans("a ``b ` c`` d"), "a  d");
        assert_eq!(without_code_spans("a ` b"), "a  b");
    }

    #[test]
    fn anchors_are_lower_case_and_unique() {
        let text = "# The `Time` type, and more\n## Life & [death](x.md) of _a_\n## Why\n## Why\n";
        let expected = ["the-time-type-and-more", "life--death-of-_a_", "why", "why-1"];
        assert_eq!(anchors(text), expected);
    }
}
