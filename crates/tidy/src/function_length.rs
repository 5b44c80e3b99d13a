//! Functions fit on a screen, test functions included.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{
    Block, Ident, ImplItemFn, ItemFn, ItemImpl, ItemMod, ItemTrait, Macro, Signature, TraitItemFn, Type,
};

use crate::ratchet::{self, Exception, Limit, Measure};
use crate::{Finding, SourceFile};

/// Lines from `fn` to the closing brace: what a screen shows at once.
const LINES: Limit = Limit { unit: "lines", max: 70, remedy: "split it where its subject changes" };

/// The functions that are too long, and the exceptions that no longer fit.
#[must_use]
pub fn findings(files: &[SourceFile], exceptions: &[Exception]) -> Vec<Finding> {
    let (mut measures, mut findings) = (Vec::new(), Vec::new());
    for file in files.iter().filter(|file| file.extension() == "rs") {
        match measure(file) {
            Ok(functions) => measures.extend(functions),
            Err(finding) => findings.push(finding),
        }
    }
    let is_function = |exception: &&Exception| exception.name.contains("::");
    let exceptions: Vec<_> = exceptions.iter().filter(is_function).cloned().collect();
    findings.extend(ratchet::findings(&measures, LINES, &exceptions));
    findings
}

fn measure(file: &SourceFile) -> Result<Vec<Measure>, Finding> {
    let syntax = syn::parse_file(&file.text).map_err(|error| {
        let line = error.span().start().line;
        Finding::new(&file.path, line, error.to_string(), "make it valid Rust")
    })?;
    let mut functions = Functions { path: &file.path, scopes: Vec::new(), measures: Vec::new() };
    functions.visit_file(&syntax);
    Ok(functions.measures)
}

/// Collects the functions of one file.
struct Functions<'a> {
    path: &'a str,
    /// The modules, types and functions around the present place, outermost first.
    scopes: Vec<String>,
    measures: Vec<Measure>,
}

impl Functions<'_> {
    fn within(&mut self, scope: &impl ToString, visit: impl FnOnce(&mut Self)) {
        self.scopes.push(scope.to_string());
        visit(self);
        self.scopes.pop();
    }

    fn add(&mut self, signature: &Signature, body: &Block) {
        let line = signature.fn_token.span.start().line;
        let end = body.brace_token.span.close().end().line;
        self.push(&signature.ident, line, end);
    }

    fn push(&mut self, ident: &Ident, line: usize, end: usize) {
        let parts = [self.path].into_iter().chain(self.scopes.iter().map(String::as_str));
        let name = parts.fold(String::new(), |name, part| name + part + "::");
        self.measures.push(Measure {
            name: format!("{name}{ident}"),
            path: self.path.to_owned(),
            line,
            size: end - line + 1,
        });
    }

    /// Adds the functions written inside a macro, where there are tokens but no syntax.
    fn add_from_tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        for (index, token) in tokens.iter().enumerate() {
            if let Some((ident, body)) = function(&tokens[index..]) {
                let line = token.span().start().line;
                self.push(ident, line, body.span_close().end().line);
            }
            if let TokenTree::Group(group) = token {
                self.add_from_tokens(group.stream());
            }
        }
    }
}

/// The name and body of the function that begins at the first of `tokens`.
fn function(tokens: &[TokenTree]) -> Option<(&Ident, &Group)> {
    let ident = match tokens {
        [TokenTree::Ident(keyword), TokenTree::Ident(ident), ..] if keyword == "fn" => ident,
        // Inside `macro_rules!`, `fn $name`.
        [TokenTree::Ident(keyword), TokenTree::Punct(_), TokenTree::Ident(ident), ..] if keyword == "fn" => {
            ident
        }
        _ => return None,
    };
    tokens
        .iter()
        .take_while(|token| !matches!(token, TokenTree::Punct(mark) if mark.as_char() == ';'))
        .find_map(|token| match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some((ident, group)),
            _ => None,
        })
}

fn type_name(of: &Type) -> String {
    match of {
        Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
        Type::Reference(reference) => Some(type_name(&reference.elem)),
        _ => None,
    }
    .unwrap_or_else(|| "impl".to_owned())
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.add(&item.sig, &item.block);
        self.within(&item.sig.ident, |this| visit::visit_item_fn(this, item));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.add(&item.sig, &item.block);
        self.within(&item.sig.ident, |this| visit::visit_impl_item_fn(this, item));
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        if let Some(body) = &item.default {
            self.add(&item.sig, body);
        }
        self.within(&item.sig.ident, |this| visit::visit_trait_item_fn(this, item));
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        self.within(&type_name(&item.self_ty), |this| visit::visit_item_impl(this, item));
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        self.within(&item.ident, |this| visit::visit_item_trait(this, item));
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        self.within(&item.ident, |this| visit::visit_item_mod(this, item));
    }

    fn visit_macro(&mut self, item: &'ast Macro) {
        self.add_from_tokens(item.tokens.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::NONE;

    fn names(text: &str) -> Vec<(String, usize)> {
        let measures = measure(&SourceFile::new("a.rs", text)).expect("the text is Rust");
        measures.into_iter().map(|measure| (measure.name, measure.size)).collect()
    }

    /// A function of `lines` lines.
    fn function_of(lines: usize) -> SourceFile {
        let body = "    step();\n".repeat(lines - 2);
        SourceFile::new("a.rs", format!("/// Long.\n#[test]\nfn long() {{\n{body}}}\n"))
    }

    #[test]
    fn a_long_function_is_found() {
        assert_eq!(findings(&[function_of(70)], &[]), NONE);
        let found = findings(&[function_of(71)], &[]);
        assert_eq!(
            found.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["a.rs:3: a.rs::long has 71 lines, 70 are allowed: split it where its subject changes"]
        );
    }

    #[test]
    fn an_exception_excuses_one_function() {
        let exceptions =
            ratchet::parse("71 lines a.rs::long\n900 lines b.rs").expect("the list is well formed");
        assert_eq!(findings(&[function_of(71)], &exceptions), NONE);
        assert_eq!(findings(&[function_of(72)], &exceptions).len(), 1);
    }

    #[test]
    fn methods_and_inner_functions_are_named_by_their_surroundings() {
        let text = "mod m { impl fmt::Display for &Rate { fn fmt(&self) {\n fn inner() {}\n } } }\n\
                    trait Link { fn send(&self); fn poll(&self) {\n} }";
        let expected = [("a.rs::m::Rate::fmt", 3), ("a.rs::m::Rate::fmt::inner", 1), ("a.rs::Link::poll", 2)];
        assert_eq!(names(text), expected.map(|(name, lines)| (name.to_owned(), lines)));
    }

    #[test]
    fn functions_inside_macros_are_measured() {
        let text = "proptest! {\n #[test]\n fn any(x in 0..9, f: fn(u8)) {\n step();\n }\n}\n\
                    macro_rules! m { ($n:ident) => { fn $n() {\n} fn declared(); } }";
        let expected = [("a.rs::any", 3), ("a.rs::n", 2)];
        assert_eq!(names(text), expected.map(|(name, lines)| (name.to_owned(), lines)));
    }

    #[test]
    fn a_file_that_is_not_rust_is_found() {
        let found = findings(&[SourceFile::new("a.rs", "\nfn")], &[]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].remedy, "make it valid Rust");
    }
}
