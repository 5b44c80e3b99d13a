//! Types, functions and modules that a source defines.

use syn::visit::{self, Visit};
use syn::{
    Attribute, Ident, ImplItemFn, ItemEnum, ItemFn, ItemImpl, ItemMod, ItemStruct, ItemTrait, ItemType,
    ItemUnion, TraitItemFn, Type,
};

use crate::{Finding, SourceFile};

/// Kind of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A structure; its number of fields.
    Struct(usize),
    /// An enumeration, a union or a trait.
    OtherType,
    /// Another name of a type.
    Alias,
    /// A function or method; tests are [`Kind::Test`].
    Function,
    /// A test, whose name is a sentence.
    Test,
    /// A module.
    Module,
    /// An `impl` block of a type, without a trait.
    Impl,
}

/// A definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    /// Its line, counted from one.
    pub(crate) line: usize,
}

/// The definitions of a Rust file, those inside others included.
///
/// # Errors
/// If the file is not valid Rust.
pub(crate) fn items(file: &SourceFile) -> Result<Vec<Item>, Finding> {
    let syntax = syn::parse_file(&file.text).map_err(|error| {
        let line = error.span().start().line;
        Finding::new(&file.path, line, error.to_string(), "make it valid Rust")
    })?;
    let mut items = Items(Vec::new());
    items.visit_file(&syntax);
    Ok(items.0)
}

/// The definitions of all Rust files, with the findings of those that are not valid Rust.
pub(crate) fn items_of_all(files: &[SourceFile]) -> (Vec<(&SourceFile, Item)>, Vec<Finding>) {
    let (mut all, mut findings) = (Vec::new(), Vec::new());
    for file in files.iter().filter(|file| file.extension() == "rs") {
        match items(file) {
            Ok(items) => all.extend(items.into_iter().map(|item| (file, item))),
            Err(finding) => findings.push(finding),
        }
    }
    (all, findings)
}

/// Collects the definitions of one file.
struct Items(Vec<Item>);

impl Items {
    fn add(&mut self, kind: Kind, ident: &Ident) {
        self.0.push(Item { kind, name: ident.to_string(), line: ident.span().start().line });
    }

    fn add_function(&mut self, attributes: &[Attribute], ident: &Ident) {
        let is_test = attributes
            .iter()
            .any(|attribute| attribute.path().segments.last().is_some_and(|last| last.ident == "test"));
        self.add(if is_test { Kind::Test } else { Kind::Function }, ident);
    }
}

impl<'ast> Visit<'ast> for Items {
    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        self.add(Kind::Struct(item.fields.len()), &item.ident);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast ItemEnum) {
        self.add(Kind::OtherType, &item.ident);
        visit::visit_item_enum(self, item);
    }

    fn visit_item_union(&mut self, item: &'ast ItemUnion) {
        self.add(Kind::OtherType, &item.ident);
        visit::visit_item_union(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        self.add(Kind::OtherType, &item.ident);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &'ast ItemType) {
        self.add(Kind::Alias, &item.ident);
        visit::visit_item_type(self, item);
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.add_function(&item.attrs, &item.sig.ident);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.add_function(&item.attrs, &item.sig.ident);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        self.add_function(&item.attrs, &item.sig.ident);
        visit::visit_trait_item_fn(self, item);
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        self.add(Kind::Module, &item.ident);
        visit::visit_item_mod(self, item);
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        if let (None, Type::Path(path)) = (&item.trait_, &*item.self_ty)
            && let Some(last) = path.path.segments.last()
        {
            self.add(Kind::Impl, &last.ident);
        }
        visit::visit_item_impl(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_found_wherever_they_are() {
        let text = "struct A { a: u8, b: u8 }\nenum B {}\ntrait C { fn c(); }\ntype D = A;\n\
                    mod m {\n impl super::A { fn f() { struct Inner(u8); } }\n #[test]\n fn t() {}\n}\nimpl C for A { fn c() {} }";
        let found = items(&SourceFile::new("a.rs", text)).expect("the text is Rust");
        let found: Vec<_> = found.iter().map(|item| (item.kind, item.name.as_str(), item.line)).collect();
        let expected = [
            (Kind::Struct(2), "A", 1),
            (Kind::OtherType, "B", 2),
            (Kind::OtherType, "C", 3),
            (Kind::Function, "c", 3),
            (Kind::Alias, "D", 4),
            (Kind::Module, "m", 5),
            (Kind::Impl, "A", 6),
            (Kind::Function, "f", 6),
            (Kind::Struct(1), "Inner", 6),
            (Kind::Test, "t", 8),
            (Kind::Function, "c", 10),
        ];
        assert_eq!(found, expected);
    }
}
