//! Links between the repository's documents and files lead somewhere.

use std::collections::BTreeSet;

use crate::markdown::{anchors, prose, without_code_spans};
use crate::{Finding, SourceFile};

/// The relative links in Markdown documents that point at no file, or at no heading of one.
///
/// `paths` are all files and folders there are; a link that begins with `/` starts at the root.
#[must_use]
pub fn findings(files: &[SourceFile], paths: &BTreeSet<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for document in files.iter().filter(|file| file.extension() == "md") {
        for (line, text) in prose(&document.text) {
            let text = without_code_spans(text);
            let links = targets(&text).into_iter().filter(|target| is_relative(target));
            findings.extend(links.filter_map(|target| broken(document, line, target, files, paths)));
        }
    }
    findings
}

/// Targets of the links on one line: inline ones, reference definitions and HTML attributes.
fn targets(line: &str) -> Vec<&str> {
    let mut targets: Vec<_> =
        line.match_indices("](").map(|(index, mark)| inline_target(&line[index + mark.len()..])).collect();
    targets.extend(definition_target(line));
    for attribute in ["href=\"", "src=\""] {
        let values = line.split(attribute).skip(1);
        targets.extend(values.filter_map(|rest| rest.split('"').next()));
    }
    targets
}

/// The target that `rest`, the text behind `](`, begins with.
fn inline_target(rest: &str) -> &str {
    if let Some((target, _)) = rest.strip_prefix('<').and_then(|rest| rest.split_once('>')) {
        return target;
    }
    let mut depth = 0;
    let end = rest.find(|mark: char| {
        depth += i32::from(mark == '(') - i32::from(mark == ')');
        depth < 0 || mark.is_whitespace()
    });
    &rest[..end.unwrap_or(rest.len())]
}

/// The target of `[label]: target`; a footnote, `[^1]: words`, has none.
fn definition_target(line: &str) -> Option<&str> {
    let label_onwards = line.trim_start().strip_prefix('[')?;
    let (label, target) = label_onwards.split_once("]:")?;
    let target = target.split_whitespace().next()?;
    let is_link = !label.starts_with('^') && !label.contains(']');
    is_link.then_some(target.trim_start_matches('<').trim_end_matches('>'))
}

/// Neither `scheme:...` nor `//host/...`.
fn is_relative(target: &str) -> bool {
    let scheme = target.split_once(':').map_or("", |(scheme, _)| scheme);
    let has_scheme =
        !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    !has_scheme && !target.starts_with("//") && !target.is_empty()
}

fn broken(
    document: &SourceFile,
    line: usize,
    target: &str,
    files: &[SourceFile],
    paths: &BTreeSet<String>,
) -> Option<Finding> {
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let resolved = resolve(&document.path, path).filter(|path| paths.contains(path));
    let Some(resolved) = resolved else {
        let problem = format!("the link {target} points at nothing in the repository");
        return Some(Finding::new(&document.path, line, problem, "correct or remove the link"));
    };
    let destination = files.iter().find(|file| file.path == resolved)?;
    let is_checked = destination.extension() == "md" && !anchor.is_empty();
    (is_checked && !has_anchor(&destination.text, anchor)).then(|| {
        let problem = format!("{resolved} has no heading for #{anchor}");
        Finding::new(&document.path, line, problem, "name one of its headings")
    })
}

fn has_anchor(document: &str, anchor: &str) -> bool {
    let written_out = [format!("id=\"{anchor}\""), format!("name=\"{anchor}\"")];
    anchors(document).iter().any(|name| name == anchor)
        || written_out.iter().any(|html| document.contains(html))
}

/// The path from the root that `target`, in the document at `from`, means; `None` if it leaves the
/// repository.
fn resolve(from: &str, target: &str) -> Option<String> {
    if target.is_empty() {
        return Some(from.to_owned());
    }
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let base = if target.starts_with('/') { "" } else { folder };
    let mut parts = Vec::new();
    for part in base.split('/').chain(target.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GUIDE: &str = "# Guide\n## First steps\n<a id=\"deep\"></a>\n";

    const NO_PROBLEMS: [&str; 0] = [];

    fn problems(text: &str) -> Vec<String> {
        let files = [SourceFile::new("docs/a.md", text), SourceFile::new("docs/guide.md", GUIDE)];
        let paths = ["", "docs", "docs/a.md", "docs/guide.md", "docs/a (1).png", "Makefile"];
        let found = findings(&files, &paths.map(str::to_owned).into());
        found.into_iter().map(|finding| finding.problem).collect()
    }

    #[test]
    fn links_that_lead_somewhere_are_right() {
        let text = "# A\n[b](guide.md) ![c](../Makefile) [d](/docs/) [e](#a) [f](guide.md#first-steps \"Title\")\n\
                    [g](<a (1).png>) [h](https://example.org/x.md) [i](mailto:a@example.org) [j](guide.md#deep)\n\
                    [k]: guide.md\n[^1]: absent.md is a footnote\n<img src=\"../docs/guide.md\">\n";
        assert_eq!(problems(text), NO_PROBLEMS);
    }

    #[test]
    fn code_holds_no_links() {
        assert_eq!(problems("`[a](absent.md)`\n```\n[a](absent.md)\n```\n"), NO_PROBLEMS);
    }

    #[test]
    fn links_to_absent_files_are_found() {
        for text in ["[a](b(1).md)", "[a]: b(1).md", "<a href=\"b(1).md\">"] {
            assert_eq!(problems(text), ["the link b(1).md points at nothing in the repository"]);
        }
    }

    #[test]
    fn links_out_of_the_repository_are_found() {
        let expected = "the link ../../other/x.md points at nothing in the repository";
        assert_eq!(problems("[a](../../other/x.md)"), [expected]);
    }

    #[test]
    fn links_to_absent_headings_are_found() {
        assert_eq!(problems("[a](guide.md#last-steps)"), ["docs/guide.md has no heading for #last-steps"]);
        assert_eq!(problems("# A\n[a](#b)"), ["docs/a.md has no heading for #b"]);
    }
}
