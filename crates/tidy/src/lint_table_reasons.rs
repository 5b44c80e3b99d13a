//! Whoever switches a lint off in a manifest says why.

use crate::{Finding, SourceFile};

/// The lints at level "allow" in manifests, the workspace's or a crate's, without a comment behind
/// or above.
#[must_use]
pub fn findings(files: &[SourceFile]) -> Vec<Finding> {
    let manifests = files.iter().filter(|file| file.path.rsplit('/').next() == Some("Cargo.toml"));
    manifests.flat_map(of_manifest).collect()
}

fn of_manifest(manifest: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let (mut is_lint_table, mut line_above) = (false, "");
    for (index, line) in manifest.text.lines().map(str::trim).enumerate() {
        if let Some(table) = line.strip_prefix('[') {
            is_lint_table = table.starts_with("workspace.lints") || table.starts_with("lints");
        }
        if is_lint_table && is_bare_allow(line) && !is_comment(line_above) {
            let lint = line.split('=').next().unwrap_or_default().trim();
            let problem = format!("{lint} is switched off without a reason");
            let remedy = "say why in a comment behind it or above";
            findings.push(Finding::new(&manifest.path, index + 1, problem, remedy));
        }
        line_above = line;
    }
    findings
}

/// True if `line` sets the level "allow" and says nothing behind it.
fn is_bare_allow(line: &str) -> bool {
    let allow = ["\"allow\"", "'allow'"].iter().find_map(|level| line.split_once(level));
    allow.is_some_and(|(before, after)| {
        let comment = after.find('#').map_or("", |start| &after[start..]);
        !before.contains('#') && !is_comment(comment)
    })
}

fn is_comment(text: &str) -> bool {
    text.strip_prefix('#').is_some_and(|words| !words.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::NONE;

    const NO_LINES: [usize; 0] = [];

    fn lines(text: &str) -> Vec<usize> {
        let found = findings(&[SourceFile::new("Cargo.toml", text)]);
        found.into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_comment_behind_or_above_is_enough() {
        let text =
            "[workspace.lints.clippy]\npedantic = \"warn\"\na = \"allow\" # why\n# Why.\nb = \"allow\"\n";
        assert_eq!(lines(text), NO_LINES);
    }

    #[test]
    fn a_missing_comment_is_found() {
        let text = "[workspace.lints.clippy]\na = \"allow\"\nb = { level = \"allow\", priority = 1 } #\n# c = \"allow\"\n";
        assert_eq!(lines(text), [2, 3]);
        assert_eq!(lines("[lints.rust]\na = 'allow'\n"), [2]);
    }

    #[test]
    fn other_tables_are_not_about_lints() {
        assert_eq!(lines("[lints]\nworkspace = true\n[package.metadata]\na = \"allow\"\n"), NO_LINES);
        assert_eq!(findings(&[SourceFile::new("deny.toml", "[lints]\na = \"allow\"\n")]), NONE);
    }
}
