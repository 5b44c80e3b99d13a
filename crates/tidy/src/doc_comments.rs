//! Doc comments of Rust sources.

/// Consecutive lines of documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DocComment {
    /// First line, counted from one.
    pub(crate) line: usize,
    /// Markdown, without the comment's marks.
    pub(crate) text: String,
}

/// The doc comments of a source, in order.
pub(crate) fn doc_comments(source: &str) -> Vec<DocComment> {
    let mut comments: Vec<DocComment> = Vec::new();
    let mut is_open = false;
    for (index, line) in source.lines().enumerate() {
        let Some(text) = documentation(line) else {
            is_open = false;
            continue;
        };
        match comments.last_mut().filter(|_| is_open) {
            Some(comment) => {
                comment.text.push('\n');
                comment.text.push_str(text);
            }
            None => comments.push(DocComment { line: index + 1, text: text.to_owned() }),
        }
        is_open = true;
    }
    comments
}

fn documentation(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let text = line
        .strip_prefix("//!")
        .or_else(|| line.strip_prefix("///").filter(|rest| !rest.starts_with('/')))?;
    Some(text.strip_prefix(' ').unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_in_a_row_are_one_comment() {
        let source =
            "//! A crate.\n//!\n//! More.\n\n    /// A function.\nfn f() {}\n//// No documentation.\n";
        let found: Vec<_> =
            doc_comments(source).into_iter().map(|comment| (comment.line, comment.text)).collect();
        assert_eq!(found, [(1, "A crate.\n\nMore.".to_owned()), (5, "A function.".to_owned())]);
    }
}
