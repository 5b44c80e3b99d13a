//! The repository's habits, executed as tests.
//!
//! Every module named after a rule holds one check: a pure function from texts to a list of
//! [`Finding`]s. A unit test shows that it fails on a small bad input, and `tests/repository.rs`
//! runs it on the repository. A finding reads `path:line: what is wrong: remedy`.
//!
//! Rules that admit exceptions keep them in a table with a reason each, beside the check; the
//! exceptions to limits of size are in `ratchet.txt`, beside this crate's manifest.
//!
//! # Modules
//! | module | subject |
//! |---|---|
//! | [`file_length`], [`function_length`], [`struct_fields`] | sizes of files, functions and structures |
//! | [`impl_files`], [`import_circles`] | files of one type's methods; files that import one another |
//! | [`ratchet`] | exceptions to limits of size, which only tighten |
//! | [`doc_openings`], [`sentence_length`], [`prose_width`] | prose of comments and documents |
//! | [`names`], [`type_names`] | words in names; types that share a name |
//! | [`module_tours`] | modules that the documentation of a crate's root names |
//! | [`titles`], [`links`], [`promises`] | headings, links and named tests in documents |
//! | [`crate_graph`], [`crate_manifests`], [`pure`], [`no_std`] | dependencies and manifests of crates |
//! | [`unsafe_code`], [`fuzzing_build`] | files that may have unsafe code, or code for fuzzing |
//! | [`lint_reasons`], [`lint_table_reasons`] | reasons of silenced lints |
//! | [`root_entries`] | files and folders of the root |
//! | `repository`, `listing`, `package` | files and crates that the checks read |
//! | `markdown`, `prose`, `doc_comments` | parts of documents and comments |
//! | `items`, `attributes` | definitions and attributes of Rust sources |
//! | `finding` | results of checks |
//!
//! # What this crate leaves to others
//! Whatever a compiler, Clippy, rustfmt, cargo-deny or a spelling checker sees by itself.
//!
//! Start with [`Repository`] and [`Finding`], then any check.

#![allow(clippy::disallowed_methods, reason = "the checks read the repository and ask Cargo about it")]

pub mod crate_graph;
pub mod crate_manifests;
pub mod doc_openings;
pub mod file_length;
pub mod function_length;
pub mod fuzzing_build;
pub mod impl_files;
pub mod import_circles;
pub mod links;
pub mod lint_reasons;
pub mod lint_table_reasons;
pub mod module_tours;
pub mod names;
pub mod no_std;
pub mod promises;
pub mod prose_width;
pub mod pure;
pub mod ratchet;
pub mod root_entries;
pub mod sentence_length;
pub mod struct_fields;
pub mod titles;
pub mod type_names;
pub mod unsafe_code;

mod attributes;
mod doc_comments;
mod finding;
mod items;
mod listing;
mod markdown;
mod package;
mod prose;
mod repository;

pub use finding::Finding;
pub use repository::{Repository, SourceFile};
