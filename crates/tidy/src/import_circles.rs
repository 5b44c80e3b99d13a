//! Files of a crate import one another in one direction: whoever reads one need not have read all.
//!
//! A module and its children may know each other. A circle of more files is counted, for each
//! crate, so that it does not grow.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};
use syn::{Ident, ItemMod, ItemUse, UseTree, Visibility};

use crate::ratchet::{self, Exception, Limit, Measure};
use crate::{Finding, SourceFile, package};

/// Files of a circle that is not counted.
const SMALL: usize = 3;

const FILES: Limit =
    Limit { unit: "circle-files", max: 0, remedy: "have what several files need in a file below them" };

/// The crates with too many files in circles of imports, and the exceptions that no longer fit.
#[must_use]
pub fn findings(files: &[SourceFile], exceptions: &[Exception]) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, Vec<&SourceFile>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.extension() == "rs") {
        if let Some(folder) = package::folder(&file.path) {
            crates.entry(folder).or_default().push(file);
        }
    }
    let measures: Vec<_> = crates
        .iter()
        .map(|(folder, files)| Measure {
            name: (*folder).to_owned(),
            path: (*folder).to_owned(),
            line: 1,
            size: count_files_in_circles(folder, files),
        })
        .collect();
    ratchet::findings(&measures, FILES, exceptions)
}

/// Re-exports of re-exports that are followed.
const RE_EXPORTS_MAX: usize = 4;

/// Names from the crate's root, or from a module, to something.
type Path = Vec<String>;

/// Names of the modules from the crate's root to one of them.
type ModulePath = Path;

type Modules = BTreeMap<ModulePath, Uses>;

fn count_files_in_circles(folder: &str, files: &[&SourceFile]) -> usize {
    let modules: Modules =
        files.iter().filter_map(|file| Some((module_path(folder, &file.path)?, Uses::of(file)))).collect();
    let imports: BTreeMap<_, _> =
        modules.keys().map(|module| (module, imports_of(module, &modules))).collect();
    let reached: BTreeMap<_, _> = modules.keys().map(|module| (module, reach(module, &imports))).collect();
    let circle_of =
        |module: &ModulePath| reached[module].iter().filter(|other| reached[*other].contains(module)).count();
    modules.keys().filter(|module| circle_of(module) > SMALL).count()
}

/// Module path of a file below `src`, tests aside.
fn module_path(folder: &str, path: &str) -> Option<ModulePath> {
    let path = path.strip_prefix(folder)?.strip_prefix("/src/")?.strip_suffix(".rs")?;
    let mut parts: ModulePath = path.split('/').map(str::to_owned).collect();
    if parts.last().is_some_and(|last| matches!(last.as_str(), "mod" | "lib" | "main")) {
        parts.pop();
    }
    (!parts.iter().any(|part| part == "tests")).then_some(parts)
}

fn imports_of<'a>(module: &ModulePath, modules: &'a Modules) -> BTreeSet<&'a ModulePath> {
    let paths = modules[module].paths.iter();
    let imported = paths.filter_map(|path| resolve(module, path, modules, RE_EXPORTS_MAX));
    imported.filter(|imported| *imported != module).collect()
}

/// The module that defines what `path` names in a module, behind so many re-exports.
fn resolve<'a>(
    module: &ModulePath,
    path: &[String],
    modules: &'a Modules,
    re_exports: usize,
) -> Option<&'a ModulePath> {
    let absolute = absolute(module, path);
    let (length, (found, uses)) = (0..=absolute.len())
        .rev()
        .find_map(|length| Some((length, modules.get_key_value(&absolute[..length])?)))?;
    let exported = absolute.get(length).and_then(|name| uses.re_exports.get(name));
    match exported {
        Some(path) if re_exports > 0 => resolve(found, path, modules, re_exports - 1).or(Some(found)),
        _ => Some(found),
    }
}

/// The path from the crate's root. A path without `crate`, `self` or `super` is relative, or of
/// another crate, which then is the module itself.
fn absolute(module: &ModulePath, path: &[String]) -> ModulePath {
    let mut absolute =
        if path.first().is_some_and(|first| first == "crate") { Vec::new() } else { module.clone() };
    for part in path {
        match part.as_str() {
            "crate" | "self" => {}
            "super" => {
                absolute.pop();
            }
            _ => absolute.push(part.clone()),
        }
    }
    absolute
}

fn reach<'a>(
    from: &'a ModulePath,
    imports: &BTreeMap<&'a ModulePath, BTreeSet<&'a ModulePath>>,
) -> BTreeSet<&'a ModulePath> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(module) = open.pop() {
        open.extend(imports[module].iter().filter(|next| reached.insert(**next)));
    }
    reached
}

/// Paths that a file names, its tests aside.
#[derive(Default)]
struct Uses {
    paths: Vec<Path>,
    /// Paths of what it offers under a name without defining it.
    re_exports: BTreeMap<String, Path>,
}

impl Uses {
    fn of(file: &SourceFile) -> Self {
        let mut uses = Self::default();
        // `function_length` reports a file that is not valid Rust.
        if let Ok(syntax) = syn::parse_file(&file.text) {
            uses.visit_file(&syntax);
        }
        uses
    }

    fn add(&mut self, name: Option<&Ident>, path: Path, is_private: bool) {
        match name.filter(|_| !is_private) {
            Some(name) => {
                self.re_exports.insert(name.to_string(), path);
            }
            None => self.paths.push(path),
        }
    }

    fn add_tree(&mut self, tree: &UseTree, mut so_far: Path, is_private: bool) {
        match tree {
            UseTree::Path(path) => {
                so_far.push(path.ident.to_string());
                self.add_tree(&path.tree, so_far, is_private);
            }
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.add_tree(tree, so_far.clone(), is_private));
            }
            UseTree::Name(name) => {
                so_far.push(name.ident.to_string());
                self.add(Some(&name.ident), so_far, is_private);
            }
            UseTree::Rename(name) => {
                so_far.push(name.ident.to_string());
                self.add(Some(&name.rename), so_far, is_private);
            }
            UseTree::Glob(_) => self.add(None, so_far, is_private),
        }
    }
}

impl<'ast> Visit<'ast> for Uses {
    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        let is_private = matches!(item.vis, Visibility::Inherited);
        self.add_tree(&item.tree, Vec::new(), is_private);
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if item.ident != "tests" {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<_> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if parts.len() > 1 && matches!(parts[0].as_str(), "crate" | "super" | "self") {
            self.paths.push(parts);
        }
        visit::visit_path(self, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circle(texts: &[(&str, &str)]) -> usize {
        let files: Vec<_> =
            texts.iter().map(|(path, text)| SourceFile::new(format!("crates/a/src/{path}"), *text)).collect();
        count_files_in_circles("crates/a", &files.iter().collect::<Vec<_>>())
    }

    #[test]
    fn a_circle_of_four_is_counted_however_it_is_written() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c; mod d;"),
            ("a.rs", "use crate::b::B;"),
            ("b/mod.rs", "use super::c::{self, C};"),
            ("c.rs", "fn f() { crate::d::g(); }"),
            ("d.rs", "use crate::a;"),
        ];
        assert_eq!(circle(&files), 4);
        assert_eq!(circle(&files[..4]), 0);
    }

    #[test]
    fn a_small_circle_is_none_and_tests_do_not_close_one() {
        let files = [
            ("lib.rs", "mod a; mod b; pub use a::A; pub use b::B; pub use c::C; pub use f::F;"),
            ("a.rs", "use crate::B;"),
            ("b.rs", "use crate::A;"),
            ("c.rs", "use crate::d::D;"),
            ("d.rs", "use crate::e::E;"),
            ("e.rs", "use crate::f::F;"),
            ("f.rs", "mod tests { use crate::c::C; }"),
            ("f/tests.rs", "use crate::c::C;"),
        ];
        assert_eq!(circle(&files), 0);
    }

    #[test]
    fn growth_is_found() {
        let files: Vec<_> = ["a", "b", "c", "d"]
            .iter()
            .zip(["b", "c", "d", "a"])
            .map(|(name, next)| {
                SourceFile::new(format!("crates/a/src/{name}.rs"), format!("use crate::{next};"))
            })
            .collect();
        let exceptions = |list| ratchet::parse(list).expect("the list is well formed");
        assert_eq!(findings(&files, &exceptions("4 circle-files crates/a")), crate::finding::NONE);
        assert_eq!(findings(&files, &exceptions("3 circle-files crates/a")).len(), 1);
    }
}
