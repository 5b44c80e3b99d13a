//! The repository's habits, executed as tests.
//!
//! Every module named after a rule holds one check: a pure function from texts to a list of [`Finding`]s, so
//! that a unit test can show that it fails on a small bad input. `tests/repository.rs` runs all of them on the
//! repository itself. A finding reads `path:line: what is wrong: remedy`.
//!
//! Rules that admit exceptions keep them in a table with a reason each, beside the check; the exceptions to
//! the limits of length are in `ratchet.txt`, beside this crate's manifest.
//!
//! # What this crate leaves to others
//! Whatever a compiler, Clippy, rustfmt, cargo-deny or a spelling checker sees by itself.
//!
//! Start with [`Repository`] and [`Finding`], then any check.

#![allow(clippy::disallowed_methods, reason = "the checks read the repository and ask Cargo about it")]

pub mod crate_graph;
pub mod crate_manifests;
pub mod file_length;
pub mod function_length;
pub mod fuzzing_build;
pub mod links;
pub mod lint_reasons;
pub mod lint_table_reasons;
pub mod no_std;
pub mod promises;
pub mod pure;
pub mod ratchet;
pub mod root_entries;
pub mod titles;
pub mod unsafe_code;

mod attributes;
mod finding;
mod listing;
mod markdown;
mod repository;

pub use finding::Finding;
pub use repository::{Repository, SourceFile};
