//! Comments and documents are wrapped, so that they can be read beside code and compared.

use crate::{Finding, SourceFile, markdown};

/// Columns of a line of prose.
const COLUMNS_MAX: usize = 100;

/// The lines of comments and documents that are too wide.
#[must_use]
pub fn findings(files: &[SourceFile]) -> Vec<Finding> {
    files.iter().flat_map(of_file).collect()
}

fn of_file(file: &SourceFile) -> Vec<Finding> {
    let prose: Vec<(usize, &str)> = match file.extension() {
        "md" => markdown::prose(&file.text).into_iter().filter(|(_, line)| !is_table(line)).collect(),
        "rs" => comments(&file.text),
        _ => Vec::new(),
    };
    let too_wide = |(line, text): (usize, &str)| {
        let columns = text.chars().count();
        let problem = format!("{columns} columns of prose, {COLUMNS_MAX} are allowed");
        (columns > COLUMNS_MAX && can_be_broken(text))
            .then(|| Finding::new(&file.path, line, problem, "wrap the paragraph"))
    };
    prose.into_iter().filter_map(too_wide).collect()
}

fn comments(source: &str) -> Vec<(usize, &str)> {
    let lines = source.lines().enumerate().map(|(index, line)| (index + 1, line));
    let is_prose = |(_, line): &(usize, &str)| {
        let line = line.trim_start();
        line.starts_with("//") && !is_table(line.trim_start_matches(['/', '!']))
    };
    lines.filter(is_prose).collect()
}

fn is_table(line: &str) -> bool {
    line.trim_start().starts_with('|')
}

/// True if the line has a space before the limit, behind which it could end.
fn can_be_broken(text: &str) -> bool {
    let words = text.trim_start().trim_start_matches(['/', '!', '-', '*', '>']).trim_start();
    let indentation = text.chars().count() - words.chars().count();
    let first_word = words.split(' ').next().unwrap_or_default();
    indentation + first_word.chars().count() < COLUMNS_MAX && words.contains(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        findings(&[SourceFile::new(path, text)]).into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn wide_prose_is_found() {
        let wide = "words ".repeat(20);
        assert_eq!(lines("a.md", &format!("short\n{wide}\n")), [2]);
        assert_eq!(lines("a.rs", &format!("fn f() {{}}\n    // {wide}\n/// {wide}\n")), [2, 3]);
    }

    #[test]
    fn tables_code_and_addresses_may_be_wide() {
        let (wide, address) = ("words ".repeat(20), "https://example.com/".to_owned() + &"a".repeat(90));
        assert_eq!(lines("a.md", &format!("| {wide} |\n```\n{wide}\n```\n{address}\n- {address}\n")), [0; 0]);
        assert_eq!(
            lines("a.rs", &format!("let text = \"{wide}\";\n/// | {wide} |\n/// {address}\n")),
            [0; 0]
        );
    }
}
