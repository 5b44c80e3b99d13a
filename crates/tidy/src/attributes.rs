//! The attributes of Rust sources that set the level of lints.
//!
//! They are read from tokens rather than from syntax, so that those inside macros are seen too, and
//! those in comments and strings are not.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use crate::{Finding, SourceFile};

/// One `level(lints, reason = "...")`, on its own or inside `cfg_attr`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LintAttribute {
    /// `allow`, `expect`, `warn`, `deny` or `forbid`.
    pub(crate) level: String,
    /// The line of the level, counted from one.
    pub(crate) line: usize,
    /// The words between the parentheses: lints and their groups.
    pub(crate) words: Vec<String>,
    /// True if a reason is given.
    pub(crate) has_reason: bool,
}

/// The attributes of one file that set the level of lints, in their order.
///
/// # Errors
/// If the file is not made of Rust tokens.
pub(crate) fn lint_attributes(file: &SourceFile) -> Result<Vec<LintAttribute>, Finding> {
    let tokens: TokenStream = file.text.parse().map_err(|error: proc_macro2::LexError| {
        let line = error.span().start().line;
        Finding::new(&file.path, line, error.to_string(), "make it valid Rust")
    })?;
    let mut attributes = Vec::new();
    collect(tokens, &mut attributes);
    Ok(attributes)
}

fn collect(tokens: TokenStream, attributes: &mut Vec<LintAttribute>) {
    let tokens: Vec<_> = tokens.into_iter().collect();
    for (index, token) in tokens.iter().enumerate() {
        if let Some(body) = attribute(&tokens[index..]) {
            collect_levels(body, attributes);
        }
        if let TokenTree::Group(group) = token {
            collect(group.stream(), attributes);
        }
    }
}

/// Content of the brackets of the attribute that begins at the first of `tokens`.
fn attribute(tokens: &[TokenTree]) -> Option<&Group> {
    let group = match tokens {
        [TokenTree::Punct(hash), TokenTree::Group(group), ..] if hash.as_char() == '#' => group,
        [TokenTree::Punct(hash), TokenTree::Punct(bang), TokenTree::Group(group), ..]
            if hash.as_char() == '#' && bang.as_char() == '!' =>
        {
            group
        }
        _ => return None,
    };
    (group.delimiter() == Delimiter::Bracket).then_some(group)
}

fn collect_levels(body: &Group, attributes: &mut Vec<LintAttribute>) {
    let tokens: Vec<_> = body.stream().into_iter().collect();
    for pair in tokens.windows(2) {
        let [TokenTree::Ident(word), TokenTree::Group(arguments)] = pair else {
            continue;
        };
        match word.to_string().as_str() {
            "cfg_attr" => collect_levels(arguments, attributes),
            level @ ("allow" | "expect" | "warn" | "deny" | "forbid") => attributes.push(LintAttribute {
                level: level.to_owned(),
                line: word.span().start().line,
                words: words(arguments),
                has_reason: has_reason(arguments),
            }),
            _ => {}
        }
    }
}

fn words(arguments: &Group) -> Vec<String> {
    let tokens = arguments.stream().into_iter();
    tokens
        .filter_map(|token| match token {
            TokenTree::Ident(word) => Some(word.to_string()),
            _ => None,
        })
        .collect()
}

/// True if `reason = ...` stands among the arguments and is more than empty quotes.
fn has_reason(arguments: &Group) -> bool {
    let tokens: Vec<_> = arguments.stream().into_iter().collect();
    tokens.windows(3).any(|three| match three {
        [TokenTree::Ident(word), TokenTree::Punct(equals), reason] => {
            word == "reason" && equals.as_char() == '=' && reason.to_string() != "\"\""
        }
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_LEVELS: [(String, usize, bool); 0] = [];

    fn levels(text: &str) -> Vec<(String, usize, bool)> {
        let attributes = lint_attributes(&SourceFile::new("a.rs", text)).expect("the text is made of tokens");
        attributes
            .into_iter()
            .map(|attribute| (attribute.level, attribute.line, attribute.has_reason))
            .collect()
    }

    #[test]
    fn levels_are_found_with_their_reasons() {
        let text =
            "#![allow(dead_code, reason = \"\")]\n#[expect(\n unused,\n reason = \"why\"\n)]\nfn f() {}\n";
        assert_eq!(levels(text), [("allow".to_owned(), 1, false), ("expect".to_owned(), 2, true)]);
    }

    #[test]
    fn levels_inside_conditions_functions_and_macros_are_found() {
        let text = "macro_rules! m { () => { #[allow(unused)] fn f() {} } }\n\
                    fn g() { #[cfg_attr(test, warn(unused))] let x = 0; }";
        assert_eq!(levels(text), [("allow".to_owned(), 1, false), ("warn".to_owned(), 2, false)]);
    }

    #[test]
    fn comments_strings_and_calls_are_no_attributes() {
        assert_eq!(
            levels("// #[allow(unused)]\nconst A: &str = \"#[allow(unused)]\";\nfn f() { expect(A) }"),
            NO_LEVELS
        );
    }

    #[test]
    fn a_file_without_rust_tokens_is_found() {
        let finding = lint_attributes(&SourceFile::new("a.rs", "fn f( {")).expect_err("a bracket is open");
        assert_eq!(finding.remedy, "make it valid Rust");
    }
}
